package lockapi_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// wantInvalid checks that err is an invalid_argument about the field.
func wantInvalid(t *testing.T, what string, err error, field string) {
	t.Helper()
	var e *lockapi.Error
	if !errors.As(err, &e) || e.Code != lockapi.CodeInvalidArgument || e.Field != field {
		t.Errorf("%.60q: %v, want an invalid_argument on %s", what, err, field)
	} else if e.Detail == "" || len(e.Detail) > 1000 {
		t.Errorf("%.60q: the detail has %d bytes", what, len(e.Detail))
	}
}

var (
	longestSegment = strings.Repeat("x", lockapi.MaxSegmentBytes)
	longestPath    = strings.Repeat("/"+longestSegment, 4) // 1024 bytes
	mostSegments   = strings.Repeat("/s", lockapi.MaxPathSegments)
)

func TestValidatePath(t *testing.T) {
	for _, good := range []string{
		"/a", "/db/migrate", "/...", "/.a", "/a b", "/é/日本", "/%2F", "/a%", "/\u00a0", "/\u2028", "/\u200e", "/\ufffd",
		"/" + longestSegment, longestPath, mostSegments, "/a\\b", "/<&>\"'",
	} {
		if err := lockapi.ValidatePath(good); err != nil {
			t.Errorf("%.60q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/", "a", "a/b", "//", "/a/", "//a", "/a//b", "/.", "/..", "/a/../b", "/a/./b",
		"/a\x00", "/a\n", "/\t", "/\x7f", "/\u0080", "/\u0085", "/\u009f",
		"/\xff", "/\xc3", "/\xed\xa0\x80", "/\xc0\xaf",
		"/" + longestSegment + "x", longestPath + "/x", longestPath[:1019] + "/" + "xxxxx", mostSegments + "/s",
	} {
		wantInvalid(t, bad, lockapi.ValidatePath(bad), "path")
	}
}

func TestUnescapePath(t *testing.T) {
	for escaped, want := range map[string]string{
		"/a": "/a", "/a%20b": "/a b", "/%61": "/a", "/a%2525": "/a%25", "/%252F": "/%2F", "/a+b": "/a+b", "/%c3%A9": "/é", "/é": "/é",
		"/a%3Ab": "/a:b", "/a;b,c=d": "/a;b,c=d", "/%2E%2E%2E": "/...",
		"/a%2Fb": "/a/b", "/a%2fb/c": "/a/b/c", "%2Fa": "/a",
	} {
		if got, err := lockapi.UnescapePath(escaped); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", escaped, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "/", "a", "/%2F", "/%2Fa", "/a%2F", "/a%2F%2Fb", "/a/%2Fb", "/a%2F%2E%2E%2Fb", "/%", "/%4", "/%zz", "/%u0041", "/%00", "/%0A", "/%C2%85", "/%FF", "/%C3", "/%2E%2E", "/%2e",
		"/a//b", "/a/", strings.Repeat("%41", 300), "/" + strings.Repeat("%41", 256),
	} {
		_, err := lockapi.UnescapePath(bad)
		wantInvalid(t, bad, err, "path")
	}
}

// Every accepted path is valid, survives encoding unchanged, and means the same
// to net/url. Every valid path can be sent.
func FuzzUnescapePath(f *testing.F) {
	for _, seed := range []string{"/a", "/a%20b", "/a%2Fb", "/%", "/../x", "/%C2%85", "/é%FF", longestPath, mostSegments, "//", "/a;b?c#d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		path, err := lockapi.UnescapePath(escaped)
		if err != nil {
			wantInvalid(t, escaped, err, "path")
			if lockapi.ValidatePath(escaped) == nil {
				again, err := lockapi.UnescapePath(lockapi.EscapePath(escaped))
				if err != nil || again != escaped {
					t.Errorf("the valid path %q does not survive escaping: %q, %v", escaped, again, err)
				}
			}
			return
		}
		if err := lockapi.ValidatePath(path); err != nil {
			t.Errorf("%q gives %q, which is invalid: %v", escaped, path, err)
		}
		if plain, err := url.PathUnescape(escaped); err != nil || plain != path {
			t.Errorf("%q gives %q, and %q, %v by net/url", escaped, path, plain, err)
		}
		sent := lockapi.EscapePath(path)
		if again, err := lockapi.UnescapePath(sent); err != nil || again != path {
			t.Errorf("%q is sent as %q and arrives as %q, %v", path, sent, again, err)
		}
		if u, err := url.Parse("http://x/v1/locks" + sent); err != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "/v1/locks"+path {
			t.Errorf("%q is sent as %q, which reads as %v, %v", path, sent, u, err)
		}
	})
}
