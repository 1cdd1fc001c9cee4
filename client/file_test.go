package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// mustPut writes a file.
func mustPut(t *testing.T, w interface {
	Put(context.Context, string, []byte, ...WriteOption) (lockapi.FileStat, error)
}, path, content string, opts ...WriteOption) lockapi.FileStat {
	t.Helper()
	stat, err := w.Put(t.Context(), path, []byte(content), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return stat
}

func wantFile(t *testing.T, c *Client, path, content string) File {
	t.Helper()
	file, err := c.Get(t.Context(), path)
	if err != nil || string(file.Content) != content {
		t.Fatalf("%s is %q, %v, want %q", path, file.Content, err, content)
	}
	return file
}

// tries counts the requests to change a file that have arrived at the master.
func (f *fakeCell) tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files.tries
}

func TestFiles(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		_, err := c.Get(ctx, "/a")
		wantErr(t, err, ErrNotFound)
		first := mustPut(t, c, "/a", "one")
		if first.Revision != 1 || first.Generation != 1 || first.Size != 3 {
			t.Errorf("stat is %+v", first)
		}
		for _, content := range []string{"", "\xff\x00", "a \"b\"\n<é>", strings.Repeat("x", lockapi.MaxFileBytes)} {
			stat := mustPut(t, c, "/a", content)
			if got := wantFile(t, c, "/a", content); got.FileStat != stat || got.AsOf != stat.Revision {
				t.Errorf("read %+v at %d, written was %+v", got.FileStat, got.AsOf, stat)
			}
		}
		deleted, err := c.Delete(ctx, "/a")
		if again, err2 := c.Delete(ctx, "/a"); deleted != 6 || again != 0 || err != nil || err2 != nil {
			t.Errorf("deleted at %d, %v; again at %d, %v", deleted, err, again, err2)
		}
		_, err = c.Get(ctx, "/a")
		if refused, ok := errors.AsType[*lockapi.Error](err); !ok || refused.Code != ErrNotFound || refused.Revision != 6 {
			t.Errorf("reading a deleted file: %+v", err)
		}
	})
}

// A condition that does not hold gives the file's present stat, or none.
func TestFileConditions(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		_, err := c.Put(ctx, "/a", nil, IfRevision(7))
		if refused, ok := errors.AsType[*lockapi.Error](err); !errors.Is(err, ErrPrecondition) || !ok || refused.Current != nil {
			t.Errorf("a condition on no file: %+v", err)
		}
		first, err := c.Create(ctx, "/a", []byte("one"))
		wantErr(t, err, nil)
		_, err = c.Create(ctx, "/a", []byte("two"))
		refused, ok := errors.AsType[*lockapi.Error](err)
		if !errors.Is(err, ErrPrecondition) || !ok || refused.Current == nil || refused.Current.FileStat != first || refused.Current.Bytes() != nil {
			t.Fatalf("the second creation: %+v", err)
		}
		second := mustPut(t, c, "/a", "two", IfRevision(refused.Current.Revision))
		_, err = c.Delete(ctx, "/a", IfRevision(first.Revision))
		wantErr(t, err, ErrPrecondition)
		if revision, err := c.Delete(ctx, "/a", IfRevision(second.Revision)); revision != second.Revision+1 || err != nil {
			t.Errorf("deleted at %d, %v", revision, err)
		}
	})
}

// A refusal tells the content where that was asked for, of text and of other
// bytes: with a counter each try is one call.
func TestTellCurrent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		for _, content := range []string{"", "two", "\x00\xff"} {
			mustPut(t, c, "/a", content)
			for name, put := range map[string]func(context.Context, string, []byte, ...WriteOption) (lockapi.FileStat, error){"client": c.Put, "session": s.Put} {
				_, err := put(ctx, "/a", []byte("x"), IfAbsent(), TellCurrent())
				refused, ok := errors.AsType[*lockapi.Error](err)
				if !ok || refused.Code != ErrPrecondition || refused.Current == nil || string(refused.Current.Bytes()) != content || refused.Current.Bytes() == nil {
					t.Errorf("by %s over %q: %+v", name, content, err)
				}
			}
		}
		_, err := c.Put(ctx, "/none", nil, IfRevision(1), TellCurrent())
		if refused, ok := errors.AsType[*lockapi.Error](err); !ok || refused.Code != ErrPrecondition || refused.Current != nil {
			t.Errorf("of no file: %+v", err)
		}
	})
}

// What a refusal tells is not believed where it cannot be the file.
func TestLiesInRefusals(t *testing.T) {
	var lie func(current map[string]any)
	about := func(r *http.Request) bool { return r.URL.Query().Get("content") == "true" }
	amongLies(t, about, func(t *testing.T, l *liar, c *Client) {
		l.tell(func(_ *http.Response, body map[string]any) {
			if current, ok := body["current"].(map[string]any); ok {
				lie(current)
			}
		})
		mustPut(t, c, "/a", "one")
		for name, change := range map[string]func(map[string]any){
			"another file":        func(m map[string]any) { m["path"] = "/b" },
			"another content":     func(m map[string]any) { m["content"] = "two" },
			"a longer content":    func(m map[string]any) { m["content"] = "one more" },
			"no content":          func(m map[string]any) { delete(m, "content") },
			"an impossible stat":  func(m map[string]any) { m["generation"] = 0 },
			"a later instance":    func(m map[string]any) { m["instance"] = 1000 },
			"a content for bytes": func(m map[string]any) { delete(m, "content"); m["content_base64"] = "AP8=" },
		} {
			lie = change
			if _, err := c.Put(t.Context(), "/a", nil, IfAbsent(), TellCurrent()); !errors.Is(err, ErrInternal) {
				t.Errorf("%s: %v", name, err)
			}
		}
		lie = func(map[string]any) {}
		if _, err := c.Put(t.Context(), "/a", nil, IfAbsent(), TellCurrent()); !errors.Is(err, ErrPrecondition) {
			t.Errorf("the truth: %v", err)
		}
	})
}

func TestWriteOptionsThatMakeNoSense(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		for name, call := range map[string]func() error{
			"no path":        func() error { _, err := c.Put(ctx, "a", nil); return err },
			"two conditions": func() error { _, err := c.Put(ctx, "/a", nil, IfRevision(1), IfAbsent()); return err },
			"revision 0":     func() error { _, err := c.Put(ctx, "/a", nil, IfRevision(0)); return err },
			"nobody's":       func() error { _, err := c.Put(ctx, "/a", nil, Ephemeral()); return err },
			"no new name":    func() error { _, err := s.CreateSequential(ctx, "/a/", nil, IfAbsent()); return err },
			"nothing to do":  func() error { _, err := s.Delete(ctx, "/a", IfAbsent()); return err },
			"told deletion":  func() error { _, err := s.Delete(ctx, "/a", TellCurrent()); return err },
			"told new name":  func() error { _, err := s.CreateSequential(ctx, "/a/", nil, TellCurrent()); return err },
			"owned deletion": func() error { _, err := s.Delete(ctx, "/a", Ephemeral()); return err },
			"no directory":   func() error { _, _, err := s.DeleteBelow(ctx, "/a"); return err },
			"the root":       func() error { _, _, err := s.DeleteBelow(ctx, "/"); return err },
			"many, one":      func() error { _, _, err := s.DeleteBelow(ctx, "/a/", IfRevision(3)); return err },
		} {
			if err := call(); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := c.Put(ctx, "/a", make([]byte, lockapi.MaxFileBytes+1))
		wantErr(t, err, ErrTooLarge)
		if n := f.tries(); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// Whatever is lost, a session's write is done once, and answered as the first
// time.
func TestSessionWritesOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		var lost atomic.Int64
		f.set(func() {
			f.drop = func(r *http.Request) bool {
				return strings.HasPrefix(r.URL.Path, lockapi.RouteFiles) && r.Method != http.MethodGet && lost.Add(1)%3 != 0
			}
		})
		stat := mustPut(t, s, "/a", "one", Ephemeral())
		if stat.Generation != 1 || stat.Session != s.ID() {
			t.Errorf("stat is %+v", stat)
		}
		job, err := s.CreateSequential(ctx, "/queue/", []byte("job"))
		if err != nil || job.Path != "/queue/0000000000000002" || job.Generation != 1 {
			t.Errorf("created %+v, %v", job, err)
		}
		_, err = s.Create(ctx, "/a", nil)
		wantErr(t, err, ErrPrecondition)
		if revision, err := s.Delete(ctx, job.Path); revision != 3 || err != nil {
			t.Errorf("deleted at %d, %v", revision, err)
		}
		if n, revision, err := s.DeleteBelow(ctx, "/queue/"); n != 0 || revision != 0 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		if n := f.tries(); len(f.files.answers) != 5 || n < 10 {
			t.Errorf("%d requests had %d keys", n, len(f.files.answers))
		}
		wantFile(t, c, "/a", "one")
		wantErr(t, s.Close(ctx), nil)
		_, err = c.Get(ctx, "/a")
		wantErr(t, err, ErrNotFound)
		_, err = s.Put(ctx, "/a", nil)
		wantErr(t, err, ErrSessionClosed)
	})
}

// A session's write outlives its master.
func TestSessionWriteFollowsTheMaster(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		f.set(func() {
			f.drop = func(r *http.Request) bool { return r.URL.Host == "r1" && r.Method == http.MethodPut }
		})
		time.AfterFunc(200*time.Millisecond, func() { f.kill("r1") })
		time.AfterFunc(2*time.Second, func() { f.elect("r2") })
		if stat := mustPut(t, s, "/a", "one"); stat.Generation != 1 {
			t.Errorf("it was written %d times", stat.Generation)
		}
	})
}

// A write without a key is not sent again where it may have been done, and is
// where it certainly was not.
func TestUnkeyedWriteIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		mustPut(t, c, "/a", "one")
		f.set(func() { f.drop = func(r *http.Request) bool { return r.Method != http.MethodGet } })
		for name, write := range map[string]func() error{
			"put":               func() error { _, err := c.Put(ctx, "/a", nil); return err },
			"put at a revision": func() error { _, err := c.Put(ctx, "/b", nil, IfAbsent()); return err },
			"create sequential": func() error { _, err := c.CreateSequential(ctx, "/q/", nil); return err },
			"delete":            func() error { _, err := c.Delete(ctx, "/a"); return err },
			"delete below":      func() error { _, _, err := c.DeleteBelow(ctx, "/q/"); return err },
			"transaction":       func() error { _, err := c.Txn().Then(OpDelete("/a")).Commit(ctx); return err },
		} {
			before := f.tries()
			wantErr(t, write(), ErrOutcomeUnknown)
			if n := f.tries() - before; n != 1 {
				t.Errorf("%s: %d requests were sent", name, n)
			}
		}
		f.set(func() { f.drop, f.master = nil, "" })
		time.AfterFunc(3*time.Second, func() { f.elect("r3") })
		mustPut(t, c, "/c", "certainly")
	})
}

// What is under way when a write hangs is not asked of another replica.
func TestUnkeyedWriteIsNotHedged(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		mustPut(t, c, "/a", "one")
		f.silence("r1", true)
		isPut := func(r fakeRequest) bool { return r.method == http.MethodPut }
		before := f.count(isPut)
		_, err := c.Put(t.Context(), "/a", nil)
		wantErr(t, err, ErrOutcomeUnknown)
		if n := f.count(isPut) - before; n != 1 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// A write under a hold carries its sequencer, and is refused when that is over.
func TestWhile(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		h := lock(t, s, "/primary")
		mustPut(t, c, "/a", "one", While(h))
		mustPut(t, s, "/a", "two", While(h))
		f.set(func() { f.locks["/primary"].holders = nil }) // by an operator, say
		_, err := s.Put(ctx, "/a", nil, While(h))
		if refused, ok := errors.AsType[*lockapi.Error](err); !errors.Is(err, ErrNotHeld) || !ok || refused.Sequencer != h.Sequencer() {
			t.Errorf("a write of a late holder: %+v", err)
		}
		_ = h.Unlock(ctx)
		before := len(f.sent())
		_, err = c.Delete(ctx, "/a", While(h))
		if !errors.Is(err, ErrNotHeld) || !errors.Is(err, ErrUnlocked) || len(f.sent()) != before {
			t.Errorf("a write under a hold that is over here: %v", err)
		}
		wantFile(t, c, "/a", "two")
	})
}

// A session that is over is noticed by a write.
func TestWriteOfAnExpiredSession(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		f.set(func() { f.end(s.ID()) })
		_, err := s.Put(t.Context(), "/a", nil)
		wantErr(t, err, ErrSessionExpired)
		wantState(t, s, Expired)
	})
}

// The answers that the cell remembers suffice, however many write at once and
// however long the answer to one of them takes.
func TestWritesStayWithinTheRememberedAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		f.set(func() {
			f.drop = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/slow") }
		})
		slow := make(chan error, 1)
		go func() {
			_, err := s.Put(t.Context(), "/slow", []byte("x"))
			slow <- err
		}()
		synctest.Wait()
		var done atomic.Int64
		for i := range 1000 {
			go func() {
				if _, err := s.Put(t.Context(), fmt.Sprintf("/f/%d", i), nil); err == nil {
					done.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		if n := done.Load(); n != windowSize-1 {
			t.Errorf("%d later writes were made beside one without an answer, want %d", n, windowSize-1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Put(ctx, "/late", nil)
		wantErr(t, err, context.DeadlineExceeded)
		f.set(func() { f.drop = nil })
		wantErr(t, <-slow, nil)
		time.Sleep(time.Minute)
		if n := done.Load(); n != 1000 {
			t.Errorf("%d writes were made", n)
		}
	})
}

// The content is the caller's again when Put has returned.
func TestPutCopiesTheContent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		content := []byte("one")
		f.set(func() {
			f.delay = func(r *http.Request) time.Duration {
				if r.Method == http.MethodPut {
					clear(content)
				}
				return 0
			}
		})
		stat, err := s.Put(t.Context(), "/a", content)
		if err != nil || bytes.Equal(content, []byte("one")) {
			t.Fatalf("%+v, %v", stat, err)
		}
		wantFile(t, c, "/a", "one")
	})
}

func TestListFiles(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx := t.Context()
		for _, path := range []string{"/a/1", "/a/b/2", "/a/b/3", "/a/c", "/a/d/e/f", "/b"} {
			mustPut(t, c, path, path)
		}
		var got []string
		for file, err := range c.List(ctx, "/a/", Contents()) {
			if err != nil || string(file.Content) != file.Path || file.AsOf != 6 {
				t.Fatalf("%+v, %v", file, err)
			}
			got = append(got, file.Path)
		}
		if want := []string{"/a/1", "/a/b/2", "/a/b/3", "/a/c", "/a/d/e/f"}; !slices.Equal(got, want) {
			t.Errorf("listed are %v, want %v", got, want)
		}
		got = nil
		for e, err := range c.ReadDir(ctx, "/a/b/") {
			if err != nil || e.File == nil || e.File.Content != nil {
				t.Fatalf("%+v, %v", e, err)
			}
			got = append(got, e.Path)
		}
		if want := []string{"/a/b/2", "/a/b/3"}; !slices.Equal(got, want) {
			t.Errorf("listed are %v, want %v", got, want)
		}
		last, err := c.Revision(ctx)
		if n, revision, err2 := c.DeleteBelow(ctx, "/a/"); n != 5 || revision != last+5 || err != nil || err2 != nil {
			t.Errorf("deleted %d up to %d, %v", n, revision, errors.Join(err, err2))
		}
	})
}

// What can't be so is not believed.
func TestLiesAboutFiles(t *testing.T) {
	stat := func(pairs ...any) func(*http.Response, map[string]any) { return set(pairs...) }
	amongLies(t, func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, lockapi.RouteFiles) }, func(t *testing.T, l *liar, c *Client) {
		ctx := t.Context()
		s := open(t, c)
		mustPut(t, c, "/a", "one")
		for name, lie := range map[string]func(*http.Response, map[string]any){
			"another path": stat("path", "/b"), "revision 0": stat("revision", 0), "an old revision": stat("revision", 1),
			"another size": stat("size", 7), "another content": stat("sha256", "00"), "generation 0": stat("generation", 0),
			"an instance to come": stat("instance", 1<<40), "nothing": nothing,
			"the first of an old instance": stat("generation", 1, "instance", 1),
		} {
			l.tell(lie)
			if _, err := s.Put(ctx, "/a", []byte("two")); !errors.Is(err, ErrInternal) {
				t.Errorf("%s is taken for a write: %v", name, err)
			}
		}
		for name, lie := range map[string]func(*http.Response, map[string]any){
			"another path": stat("path", "/b"), "another content": stat("content", "six"), "none": stat("content", nil),
			"no revision":            func(r *http.Response, _ map[string]any) { r.Header.Del(lockapi.HeaderRevision) },
			"a revision of the past": func(r *http.Response, _ map[string]any) { r.Header.Set(lockapi.HeaderRevision, "0") },
			"out of date":            outOfDate,
		} {
			l.tell(lie)
			if _, err := c.Get(ctx, "/a"); !errors.Is(err, ErrInternal) {
				t.Errorf("%s is taken for the file: %v", name, err)
			}
		}
		l.tell(stat("deleted", true, "revision", 1))
		_, err := s.Delete(ctx, "/nothing")
		wantErr(t, err, ErrInternal)
		for name, lie := range map[string]func(*http.Response, map[string]any){
			"another prefix": stat("files", []any{map[string]any{"path": "/b", "revision": 1, "instance": 1, "generation": 1}}),
			"no progress":    stat("next", ""),
		} {
			if name == "no progress" {
				lie = stat("files", []any{}, "next", "/a/z")
			}
			l.tell(lie)
			var err error
			for _, err = range c.List(ctx, "/a/") {
			}
			wantErr(t, err, ErrInternal)
		}
		l.stop()
	})
}

// A write whose first attempt got no answer may have been done: that a quota
// refuses the next one says nothing of that. Where no attempt before was lost,
// it says that nothing was done.
func TestRefusedAfterALostAnswer(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
			puts := 0
			c, err := Config{URLs: []string{"http://r1"}, Transport: tooMany{f, func(r *http.Request) bool {
				if r.Method != http.MethodPut && r.URL.Path != lockapi.RouteTransactions {
					return false
				}
				puts++
				return !lost || puts%2 == 0
			}}}.New()
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, c)
			f.set(func() {
				f.drop = func(r *http.Request) bool {
					return r.Method == http.MethodPut || r.URL.Path == lockapi.RouteTransactions
				}
			})
			for name, write := range map[string]func() error{
				"put": func() error { _, err := s.Put(t.Context(), "/a", []byte("one")); return err },
				"transaction": func() error {
					_, err := s.Txn().Then(OpPut("/b", nil)).Commit(t.Context())
					return err
				},
			} {
				err := write()
				e, ok := errors.AsType[*lockapi.Error](err)
				if errors.Is(err, ErrOutcomeUnknown) != lost || errors.Is(err, ErrTooMany) == lost || !ok || e.RetryAfter != 7 {
					t.Errorf("%s, an attempt before it lost: %v: %+v", name, lost, err)
				}
			}
			if lost {
				wantFile(t, c, "/a", "one")
			}
		})
	}
}

// A hold that is nil is refused with a word on what to give.
func TestWhileNoHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		for name, err := range map[string]error{
			"put":    second(c.Put(t.Context(), "/a", nil, While(nil))),
			"own":    second(s.Put(t.Context(), "/a", nil, While(nil))),
			"delete": second(s.Delete(t.Context(), "/a", While(nil))),
			"txn":    second(s.Txn().If(WhenHeld(nil)).Commit(t.Context())),
		} {
			if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "nil") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if f.tries() != 0 {
			t.Error("a write was sent")
		}
	})
}

func second[T any](_ T, err error) error { return err }
