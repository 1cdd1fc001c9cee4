package master

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// put writes a file without a session.
func put(t *testing.T, m *Master, path, content string) lockapi.FileStat {
	t.Helper()
	w, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: path, Content: []byte(content)})
	must(t, err)
	return w.Stat
}

// TestReadsAreOfARevision: each read reports the revision of its state.
func TestReadsAreOfARevision(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		a := newSession(t, m, time.Minute)
		mustHold(t, m, "/a", want(a))
		at := put(t, m, "/f", "x").Revision
		for _, stale := range []bool{false, true} {
			var got uint64
			r := Read{Stale: stale, AsOf: &got}
			for name, read := range map[string]func() error{
				"session":     func() error { return second(m.GetSession(t.Context(), new(r), &lockapi.GetSession{Session: a})) },
				"no session":  func() error { return second(m.GetSession(t.Context(), new(r), &lockapi.GetSession{Session: "x"})) },
				"sessions":    func() error { return second(m.ListSessions(t.Context(), new(r), &lockapi.ListSessions{Limit: 1})) },
				"lock":        func() error { _, err := m.GetLock(t.Context(), new(r), &lockapi.GetLock{Path: "/a"}); return err },
				"locks":       func() error { _, err := m.ListLocks(t.Context(), new(r), &lockapi.ListLocks{Limit: 1}); return err },
				"file":        func() error { _, err := m.GetFile(t.Context(), new(r), &lockapi.GetFile{Path: "/f"}); return err },
				"no file":     func() error { _, err := m.GetFile(t.Context(), new(r), &lockapi.GetFile{Path: "/none"}); return err },
				"a lock's is": func() error { _, err := m.GetFile(t.Context(), new(r), &lockapi.GetFile{Path: "/a"}); return err },
				"members":     func() error { return second(m.ListMembers(t.Context(), new(r), &lockapi.ListMembers{})) },
				"files":       func() error { _, err := m.ListFiles(t.Context(), new(r), &lockapi.ListFiles{Limit: 1}); return err },
			} {
				got = 0
				if err := read(); got != at || err != nil && !errors.Is(err, lockapi.CodeNotFound) && !errors.Is(err, lockapi.CodeSessionNotFound) {
					t.Errorf("%s, stale %v: revision %d, want %d; %v", name, stale, got, at, err)
				}
			}
		}
	})
}

// TestReplayedRefusal: a failed condition gets the same answer again, without
// another check.
func TestReplayedRefusal(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		first := put(t, m, "/f", "x")
		w := lockapi.WriteFile{Path: "/f", Session: s, Key: "k", IfAbsent: true}
		_, err := m.WriteFile(t.Context(), &Caller{}, &w)
		e := new(lockapi.Error)
		if !errors.As(err, &e) || e.Code != lockapi.CodePrecondition || e.Replayed || e.Current == nil || e.Current.Revision != first.Revision {
			t.Fatalf("%+v", err)
		}
		must(t, second(m.DeleteFiles(t.Context(), &Caller{}, &lockapi.DeleteFiles{Path: "/f"})))
		_, err = m.WriteFile(t.Context(), &Caller{}, &w)
		if !errors.As(err, &e) || e.Code != lockapi.CodePrecondition || !e.Replayed || e.Current == nil || e.Current.Revision != first.Revision {
			t.Errorf("again: %+v", err)
		}
		other := w
		other.IfAbsent = false
		if _, err := m.WriteFile(t.Context(), &Caller{}, &other); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("another call: %v", err)
		}
		other = w
		other.Query = map[string]string{"session": s, "as": "json"}
		if _, err := m.WriteFile(t.Context(), &Caller{}, &other); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("another query: %v", err)
		}
	})
}

// TestRefusalsTellTheContent on request, as it was when the condition was
// checked, and the same again under the key.
func TestRefusalsTellTheContent(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		for _, content := range []string{"", "x", "\x00\xff"} {
			first := put(t, m, "/f", content)
			try := func(w lockapi.WriteFile) *lockapi.Error {
				w.Path, w.IfAbsent = "/f", true
				_, err := m.WriteFile(t.Context(), &Caller{}, &w)
				e, ok := err.(*lockapi.Error)
				if !ok || e.Code != lockapi.CodePrecondition || e.Current == nil {
					t.Fatalf("%q: %+v", content, err)
				}
				return e
			}
			if e := try(lockapi.WriteFile{}); e.Current.Bytes() != nil {
				t.Errorf("%q is returned without a request for it", content)
			}
			if e := try(lockapi.WriteFile{Tell: true}); string(e.Current.Bytes()) != content || e.Current.Bytes() == nil {
				t.Errorf("%q: returned is %q", content, e.Current.Bytes())
			}
			w := lockapi.WriteFile{Tell: true, Session: s, Key: "k" + content}
			try(w)
			put(t, m, "/f", "later")
			if e := try(w); string(e.Current.Bytes()) != content || e.Current.Revision != first.Revision || !e.Replayed {
				t.Errorf("%q: the replay returns %q at %d", content, e.Current.Bytes(), e.Current.Revision)
			}
			if _, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/f", IfAbsent: true, Session: s, Key: w.Key}); !errors.Is(err, lockapi.CodeConflict) {
				t.Errorf("the same call without the content: %v", err)
			}
		}
	})
}

// TestTooLongToTell: a refusal that can't be remembered is not given under a
// key.
func TestTooLongToTell(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		put(t, m, "/f", strings.Repeat("x", lockapi.MaxRememberedAnswer))
		w := lockapi.WriteFile{Path: "/f", IfAbsent: true, Tell: true}
		if _, err := m.WriteFile(t.Context(), &Caller{}, &w); !errors.Is(err, lockapi.CodePrecondition) {
			t.Errorf("without a key: %v", err)
		}
		w.Session, w.Key = s, "k"
		for range 2 {
			_, err := m.WriteFile(t.Context(), &Caller{}, &w)
			if e, ok := err.(*lockapi.Error); !ok || e.Code != lockapi.CodeInvalidArgument || e.Field != lockapi.HeaderIdempotencyKey {
				t.Errorf("under a key: %v", err)
			}
		}
	})
}

// TestPagesAreBounded for any contents, however JSON writes them.
func TestPagesAreBounded(t *testing.T) {
	one(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		for _, content := range []string{"x", "\x01", "\xff", `"`} {
			one := strings.Repeat(content, 32<<10)
			for i := range 64 {
				put(t, m, fmt.Sprintf("/f%d", i), one)
			}
			page, err := m.ListFiles(t.Context(), &Read{}, &lockapi.ListFiles{Content: true, Limit: 1000})
			must(t, err)
			raw, _ := json.Marshal(page)
			if last, _ := json.Marshal(page.Files[0]); len(raw) < lockapi.PageBytes/2 || len(raw) > lockapi.PageBytes+len(last) {
				t.Errorf("a page of %q has %d files and %d bytes", content, len(page.Files), len(raw))
			}
		}
	})
}
