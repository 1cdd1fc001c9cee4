package rights

import (
	"slices"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestOfTransaction: each part of a transaction has its right, and a release
// has none.
func TestOfTransaction(t *testing.T) {
	body := "x"
	write := &lockapi.WriteOperation{Path: "/w", Content: &body}
	for _, c := range []struct {
		name string
		of   lockapi.Transaction
		all  Right
		want []Ask
	}{
		{"without parts", lockapi.Transaction{}, Known, nil},
		{"a release only", lockapi.Transaction{Then: []lockapi.Operation{{Release: &lockapi.ReleaseOperation{Path: "/l"}}}}, Known, nil},
		{"without a session", lockapi.Transaction{If: []lockapi.Condition{{File: "/f"}}, Else: []lockapi.Operation{{Put: write}}}, KnownCaller,
			[]Ask{{Right: ReadAt, Path: "/f"}, {Right: WriteAt, Path: "/w"}}},
		{"of a session", lockapi.Transaction{Session: "s", If: []lockapi.Condition{{Session: "t"}, {Sequencer: "exclusive:1:/l"}},
			Then: []lockapi.Operation{{CreateSequential: write}, {Acquire: &lockapi.AcquireOperation{Path: "/l"}}}}, Known,
			[]Ask{{Right: Observe, Session: "t"}, {Right: ReadAt, Path: "/l"}, {Right: NameAt, Path: "/w0000000000000000"}, {Right: LockAt, Path: "/l"}}},
		{"an operation without a right", lockapi.Transaction{Then: []lockapi.Operation{{}}}, KnownCaller, []Ask{{Right: Undecided}}},
	} {
		if all, got := OfTransaction(&c.of, nil); all != c.all || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %+v; want %v, %+v", c.name, all, got, c.all, c.want)
		}
	}
}

// TestOfKeys: an operation by prefix needs a right at the directory that has
// all its paths.
func TestOfKeys(t *testing.T) {
	for prefix, directory := range map[string]string{"/": "/", "/a": "/", "/a/": "/a", "/a/b": "/a", "/a/b/c": "/a/b"} {
		got := OfKeys(&lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{{Verb: lockapi.KeyDeleteTree, Path: prefix}, {Verb: lockapi.KeyGetTree, Path: prefix}}}, nil)
		if want := []Ask{{Right: WriteBelow, Path: directory}, {Right: ReadBelow, Path: directory}}; !slices.Equal(got, want) {
			t.Errorf("%q: %+v; want %+v", prefix, got, want)
		}
	}
	got := OfKeys(&lockapi.ChangeKeys{Operations: []lockapi.KeyOperation{{Verb: lockapi.KeyLock, Path: "/k", Session: "s"}, {Verb: "unheard-of"}}}, nil)
	want := []Ask{{Right: LockAt, Path: "/k"}, {Right: WriteAt, Path: "/k"}, {Right: NoCaller, Session: "s", Uses: true}, {Right: Undecided}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}
