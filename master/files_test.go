package master

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
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

// TestHiddenContentHasNoLength: a caller that may not read a file gets the same
// refusal under a key, however long the content is.
func TestHiddenContentHasNoLength(t *testing.T) {
	securely(t, func(t *testing.T, m *Master, _ *node, _ *fakeCell) {
		must(t, second(m.PutRule(t.Context(), new(root(Operate)), &lockapi.PutRule{Path: "/p", AccessLists: lockapi.AccessLists{Write: []string{"user:w"}}})))
		s := sessionOfCaller(t, m, "user:w")
		write := func(w lockapi.WriteFile) error {
			w.Path = "/p/f"
			return second(m.WriteFile(t.Context(), new(using(by("user:w", WriteAt, "/p/f"), s)), &w))
		}
		for _, length := range []int{1, lockapi.MaxRememberedAnswer} {
			must(t, write(lockapi.WriteFile{Content: make([]byte, length)}))
			for _, w := range []lockapi.WriteFile{{IfAbsent: true}, {IfRevision: new(uint64(1))}} {
				w.Tell, w.Session, w.Key = true, s, fmt.Sprint(length, w.IfAbsent)
				for range 2 {
					if e := code(t, write(w), lockapi.CodePrecondition); e.Current != nil || !e.Concealed {
						t.Errorf("%d bytes: %+v", length, e)
					}
				}
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

// counted is a state's files, and counts how many were walked.
type counted struct {
	paths   []string // sorted
	visited int
}

func (c *counted) Files(prefix, after string) iter.Seq[*state.File] {
	return func(yield func(*state.File) bool) {
		i, there := slices.BinarySearch(c.paths, max(prefix, after))
		if there && c.paths[i] == after {
			i++
		}
		for ; i < len(c.paths) && strings.HasPrefix(c.paths[i], prefix); i++ {
			c.visited++
			if !yield(&state.File{Path: c.paths[i], Revision: 1}) {
				return
			}
		}
	}
}

// TestPagesLeapOverDirectories: files below a rolled-up directory are not
// walked, and no other file is left out, wherever a page ends.
func TestPagesLeapOverDirectories(t *testing.T) {
	files := &counted{}
	for i := range 1000 {
		files.paths = append(files.paths, fmt.Sprintf("/a/b/%03d", i), fmt.Sprintf("/a/\U0010ffff/%03d", i), fmt.Sprintf("/a/z/z/%03d", i))
	}
	files.paths = append(files.paths, "/a", "/a/b", "/a/b!", "/a/b0", "/a/z", "/a0", "/c/d")
	slices.Sort(files.paths)
	for _, c := range []struct {
		prefix string
		want   string
	}{
		{"/a/", "/a/b /a/b! /a/b/ /a/b0 /a/z /a/z/ /a/\U0010ffff/"},
		{"/a", "/a /a/ /a0"},
		{"/", "/a /a/ /a0 /c/"},
		{"", "/a /a/ /a0 /c/"},
		{"/a/b", "/a/b /a/b! /a/b/ /a/b0"},
		{"/a/b/99", "/a/b/990 /a/b/991 /a/b/992 /a/b/993 /a/b/994 /a/b/995 /a/b/996 /a/b/997 /a/b/998 /a/b/999"},
		{"/x", ""},
	} {
		for limit := 1; limit <= 12; limit++ {
			files.visited = 0
			var got []string
			for after := ""; ; {
				page := filePage{Prefix: c.prefix, After: after, Delimiter: true, Limit: limit}.of(files)
				one := page.Dirs
				for _, f := range page.Files {
					one = append(one, f.Path)
				}
				slices.Sort(one)
				if got = append(got, one...); len(one) > limit || page.Next == "" {
					break
				}
				after = page.Next
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("prefix %q, %d a page: %q, want %q", c.prefix, limit, got, c.want)
			}
			if most := 3*len(got) + 3; files.visited > most {
				t.Errorf("prefix %q, %d a page: %d files are visited for %d entries, want at most %d", c.prefix, limit, files.visited, len(got), most)
			}
		}
	}
	if page := (filePage{Prefix: "/a/", After: "/a/b/500", Delimiter: true, Limit: 2}).of(files); !slices.Equal(page.Dirs, []string{}) || len(page.Files) != 2 || page.Next != "/a/z" {
		t.Errorf("from within a directory: %+v", page)
	}
	if page := (filePage{Limit: lockapi.MaxListLimit}).of(files); len(page.Files) != lockapi.MaxListLimit {
		t.Errorf("without a delimiter: %d files", len(page.Files))
	}
}

// swap writes a file by compare-and-set. It returns the file's revision.
func swap(t *testing.T, m *Master, session, key string, revision uint64) (now uint64, done bool) {
	t.Helper()
	w, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/f", Content: []byte(key), Session: session, Key: key, IfRevision: &revision})
	e := new(lockapi.Error)
	switch {
	case err == nil:
		return w.Stat.Revision, true
	case errors.As(err, &e) && e.Current != nil:
		return e.Current.Revision, false
	}
	t.Error(err)
	return revision, false
}

// nobodysTurn fails the test if the office remembers any turn.
func nobodysTurn(t *testing.T, n *node) {
	t.Helper()
	synctest.Wait() // a timer that fires at this moment may not have run yet
	o := openOffice(t, n)
	o.turns.mu.Lock()
	defer o.turns.mu.Unlock()
	if len(o.turns.files) > 0 {
		t.Errorf("%d files have turns without a writer", len(o.turns.files))
	}
}

// TestTurns: callers that increment one file by compare-and-set need two tries
// for each increment. All make the same progress, however near to the master
// they are.
func TestTurns(t *testing.T) {
	for _, writers := range testrun.Rows(t, 1, []int{2, 3, 16}) {
		t.Run(fmt.Sprintf("writers=%d", writers), func(t *testing.T) {
			one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
				c.setDelay(time.Millisecond / 2)
				at := put(t, m, "/f", "x").Revision
				tries, wins := make([]int, writers), make([]int, writers)
				var wg sync.WaitGroup
				end := time.Now().Add(time.Second)
				for i := range writers {
					s := newSession(t, m, time.Minute)
					wg.Go(func() {
						at, won := at, false
						for time.Now().Before(end) {
							tries[i]++
							if at, won = swap(t, m, s, fmt.Sprint(tries[i]), at); won {
								wins[i]++
							}
							pass(time.Duration(i+1) * 10 * time.Microsecond)
						}
					})
				}
				wg.Wait()
				if least, most := slices.Min(wins), slices.Max(wins); most > least+8 || least < 1400/writers/2 {
					t.Errorf("increments: %v", wins)
				}
				for i := range writers {
					if tries[i] > 2*wins[i]+4 {
						t.Errorf("writer %d made %d tries for %d increments", i, tries[i], wins[i])
					}
				}
				pass(turnReturn)
				nobodysTurn(t, n)
			})
		})
	}
}

// TestTurnOfWhoLeft: a refused caller that does not return delays the others
// for turnReturn. A caller that is alone does not wait.
func TestTurnOfWhoLeft(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		const round = time.Millisecond
		c.setDelay(round)
		at := put(t, m, "/f", "x").Revision
		took := make([]time.Duration, 7)
		var wg sync.WaitGroup
		for i := range took {
			s := newSession(t, m, time.Minute)
			wg.Go(func() {
				pass(time.Duration(i) * 10 * time.Microsecond)
				began := time.Now()
				if _, won := swap(t, m, s, "k", at); won != (i == 0) {
					t.Errorf("call %d won: %v", i, won)
				}
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		for i, d := range took {
			if most := time.Duration((i+1)/2)*(2*round+turnReturn) + 2*round; d > most {
				t.Errorf("call %d took %v, more than %v", i, d, most)
			}
		}
		pass(turnReturn)
		nobodysTurn(t, n)
		alone := newSession(t, m, time.Minute)
		for key := range 3 {
			began := time.Now()
			swap(t, m, alone, fmt.Sprint(key), 1)
			if d := time.Since(began); d > 2*round {
				t.Errorf("a call of a lone caller took %v", d)
			}
			nobodysTurn(t, n)
		}
	})
}

// TestTurnComesToAll: no call waits longer than turnWait for its turn, however
// many there are, nor for an office that has ended.
func TestTurnComesToAll(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		at := put(t, m, "/f", "x").Revision
		sessions := make([]string, 100)
		for i := range sessions {
			sessions[i] = newSession(t, m, time.Minute)
		}
		const round = 50 * time.Millisecond
		c.setDelay(round)
		all := func(call func(session string)) {
			var wg sync.WaitGroup
			began := time.Now()
			for _, s := range sessions {
				wg.Go(func() { call(s) })
			}
			wg.Wait()
			if d := time.Since(began); d > turnWait+4*round {
				t.Errorf("a call took %v", d)
			}
		}
		all(func(s string) { swap(t, m, s, "1", at) })
		pass(turnReturn)
		nobodysTurn(t, n)
		time.AfterFunc(round/2, func() { c.depose(n.id) })
		all(func(s string) {
			if _, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/f", Session: s, Key: "2", IfRevision: &at}); err == nil {
				t.Error("it is done, in an office that has ended")
			}
		})
	})
}
