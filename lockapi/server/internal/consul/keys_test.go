package consul

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/lockapi"
)

// TestPathsOfKeys shows how keys that are no paths are written.
func TestPathsOfKeys(t *testing.T) {
	for key, want := range map[string]string{
		"a/b":          "/a/b",
		"service/über": "/service/über",
		"a/":           "/a/~",
		"/a":           "/~/a",
		"a//b":         "/a/~/b",
		"/":            "/~/~",
		"a/./..":       "/a/~2e/~2e.",
		"a/.git/...":   "/a/.git/...",
		"~":            "/~7e",
		"a~2e":         "/a~7e2e",
		"a\x00\n\x7f":  "/a~00~0a~7f",
		"\xff/\u0085":  "/~ff/~c2~85",
		"a b?c%2F":     "/a b?c%2F",
	} {
		path, err := pathOf(key)
		if err != nil || path != want {
			t.Errorf("the path of %q is %q, %v; want %q", key, path, err, want)
		}
		if back, ok := keyOf(path); !ok || back != key {
			t.Errorf("the key of %q is %q, %v; want %q", path, back, ok, key)
		}
	}
	for _, path := range []string{"/~", "/a~", "/~a", "/a~7", "/a~7E", "/a~61", "/~2f", "/~2e~2e", "/~~"} {
		if key, ok := keyOf(path); ok {
			t.Errorf("%q is the path of the key %q; want none", path, key)
		}
	}
	for _, key := range []string{strings.Repeat("a", lockapi.MaxSegmentBytes+1), strings.Repeat("a/", lockapi.MaxPathSegments), strings.Repeat("\x00", 100)} {
		if path, err := pathOf(key); err == nil {
			t.Errorf("the key %.20q… has the path %q; want an error", key, path)
		}
	}
}

var someKeys = rapid.Custom(func(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"", "/", ".", "..", "a", "b", "~", "~2e", "é", "\xc3", "\x00", "\xff"}), 1, 6).Draw(t, "parts"), "")
})

// TestKeysHavePaths: each key has one valid path, from which it follows, and a
// prefix of keys is one of paths.
func TestKeysHavePaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(someKeys).Draw(t, "keys")
		prefix := someKeys.Draw(t, "prefix")
		at, err := pathPrefix(prefix)
		if err != nil {
			t.Skip("no prefix")
		}
		for _, key := range keys {
			path, err := pathOf(key)
			if err != nil {
				t.Fatalf("%q: %v", key, err)
			}
			if back, ok := keyOf(path); ok != (key != "") || back != key {
				t.Fatalf("%q has the path %q, which has the key %q, %v", key, path, back, ok)
			}
			if strings.HasPrefix(key, prefix) != strings.HasPrefix(path, at) {
				t.Fatalf("key %q, prefix %q, but path %q, prefix %q", key, prefix, path, at)
			}
		}
	})
}

// TestPathsHaveKeys: a path has at most the key that has the path.
func TestPathsHaveKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "~", "2", "e", "7", "~2e", "~7e", "~ff", "é", "/x/"}), 1, 6).Draw(t, "parts"), "")
		if lockapi.ValidatePath(path) != nil {
			t.Skip("not a path")
		}
		key, ok := keyOf(path)
		if again, err := pathOf(key); ok && (err != nil || again != path) {
			t.Fatalf("%q has the key %q, which has the path %q, %v", path, key, again, err)
		}
	})
}

func TestRollUp(t *testing.T) {
	var all []keyed
	for _, name := range []string{"a/", "a/b", "a/b/c", "a/b/d", "a/c/d", "ab"} {
		all = append(all, keyed{name: name})
	}
	for _, test := range []struct {
		prefix, separator string
		want              []string
	}{
		{"a", "", []string{"a/", "a/b", "a/b/c", "a/b/d", "a/c/d", "ab"}},
		{"", "/", []string{"a/", "ab"}},
		{"a/", "/", []string{"a/", "a/b", "a/b/", "a/c/"}},
		{"a", "/c", []string{"a/", "a/b", "a/b/c", "a/b/d", "a/c", "ab"}},
	} {
		if got := rollUp(all[:], test.prefix, test.separator); test.prefix != "a/" && !slices.Equal(got, test.want) || test.prefix == "a/" && !slices.Equal(rollUp(all[:5], "a/", "/"), test.want) {
			t.Errorf("prefix %q, separator %q: %q, want %q", test.prefix, test.separator, got, test.want)
		}
	}
}

// TestReleasesAreNotHeldBack: calls that keep or free have room of their own in
// a caller's calls per second. A release is not sent twice, because the second
// answer would be false.
func TestReleasesAreNotHeldBack(t *testing.T) {
	for _, test := range []struct {
		endpoint, query string
		frees, repeats  bool
	}{
		{"/v1/kv/", "release=S", true, false},
		{"/v1/kv/", "acquire=S", false, false},
		{"/v1/session/renew/", "", true, true},
		{"/v1/session/destroy/", "", true, true},
	} {
		c, err := Parse(&Request{Method: "PUT", Endpoint: test.endpoint, Argument: "a", Query: test.query})
		if err != nil || c.Frees != test.frees || c.Repeats != test.repeats {
			t.Errorf("%s?%s: %+v %v", test.endpoint, test.query, c, err)
		}
	}
}
