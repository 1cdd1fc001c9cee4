package client_test

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

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

func mustPut(t *testing.T, w interface {
	Put(context.Context, string, []byte, ...client.WriteOption) (lockapi.FileStat, error)
}, path, content string, opts ...client.WriteOption) lockapi.FileStat {
	t.Helper()
	stat, err := w.Put(t.Context(), path, []byte(content), opts...)
	must(t, err)
	return stat
}

func wantFile(t *testing.T, c *client.Client, path, content string) client.File {
	t.Helper()
	file, err := c.Get(t.Context(), path)
	if err != nil || string(file.Content) != content {
		t.Fatalf("%s is %q, %v, want %q", path, file.Content, err, content)
	}
	return file
}

// changesFiles reports whether a request changes files.
func changesFiles(r sentRequest) bool {
	return r.method != http.MethodGet && (strings.HasPrefix(r.path, lockapi.RouteFiles) || r.path == lockapi.RouteTransactions)
}

func TestFiles(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		wantErr(t, second(c.Get(ctx, "/a")), client.ErrNotFound)
		first := mustPut(t, c, "/a", "one")
		if first.Revision == 0 || first.Generation != 1 || first.Size != 3 {
			t.Errorf("stat is %+v", first)
		}
		for _, content := range []string{"", "\xff\x00", "a \"b\"\n<é>", strings.Repeat("x", lockapi.MaxFileBytes)} {
			stat := mustPut(t, c, "/a", content)
			if got := wantFile(t, c, "/a", content); got.FileStat != stat || got.AsOf != stat.Revision {
				t.Errorf("read %+v at %d, written was %+v", got.FileStat, got.AsOf, stat)
			}
		}
		deleted, err := c.Delete(ctx, "/a")
		if again, err2 := c.Delete(ctx, "/a"); deleted == 0 || again != 0 || err != nil || err2 != nil {
			t.Errorf("deleted at %d, %v; again at %d, %v", deleted, err, again, err2)
		}
		_, err = c.Get(ctx, "/a")
		if refused, ok := errors.AsType[*lockapi.Error](err); !ok || refused.Code != client.ErrNotFound || refused.Revision != deleted {
			t.Errorf("reading a deleted file: %+v", err)
		}
	})
}

// A failed condition returns the file's current stat, or no stat if the file
// does not exist.
func TestFileConditions(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		_, err := c.Put(ctx, "/a", nil, client.IfRevision(7))
		if refused, ok := errors.AsType[*lockapi.Error](err); !errors.Is(err, client.ErrPrecondition) || !ok || refused.Current != nil {
			t.Errorf("a condition on no file: %+v", err)
		}
		first, err := c.Create(ctx, "/a", []byte("one"))
		wantErr(t, err, nil)
		_, err = c.Create(ctx, "/a", []byte("two"))
		refused, ok := errors.AsType[*lockapi.Error](err)
		if !errors.Is(err, client.ErrPrecondition) || !ok || refused.Current == nil || refused.Current.FileStat != first || refused.Current.Bytes() != nil {
			t.Fatalf("the second creation: %+v", err)
		}
		two := mustPut(t, c, "/a", "two", client.IfRevision(refused.Current.Revision))
		wantErr(t, second(c.Delete(ctx, "/a", client.IfRevision(first.Revision))), client.ErrPrecondition)
		if revision, err := c.Delete(ctx, "/a", client.IfRevision(two.Revision)); revision != two.Revision+1 || err != nil {
			t.Errorf("deleted at %d, %v", revision, err)
		}
	})
}

// A refusal includes the file's content if requested, as text or as bytes. A
// counter so needs one call per try.
func TestTellCurrent(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		for _, content := range []string{"", "two", "\x00\xff"} {
			mustPut(t, c, "/a", content)
			for name, put := range map[string]func(context.Context, string, []byte, ...client.WriteOption) (lockapi.FileStat, error){"client": c.Put, "session": s.Put} {
				_, err := put(ctx, "/a", []byte("x"), client.IfAbsent(), client.ReturnCurrent())
				refused, ok := errors.AsType[*lockapi.Error](err)
				if !ok || refused.Code != client.ErrPrecondition || refused.Current == nil || string(refused.Current.Bytes()) != content || refused.Current.Bytes() == nil {
					t.Errorf("by %s over %q: %+v", name, content, err)
				}
			}
		}
		_, err := c.Put(ctx, "/none", nil, client.IfRevision(1), client.ReturnCurrent())
		if refused, ok := errors.AsType[*lockapi.Error](err); !ok || refused.Code != client.ErrPrecondition || refused.Current != nil {
			t.Errorf("of no file: %+v", err)
		}
	})
}

// The client rejects a refusal if its content cannot be the file's.
func TestLiesInRefusals(t *testing.T) {
	var lie func(current map[string]any)
	about := func(r *http.Request) bool { return r.URL.Query().Get("content") == "true" }
	amongLies(t, about, func(t *testing.T, l *liar, c *client.Client) {
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
			if _, err := c.Put(t.Context(), "/a", nil, client.IfAbsent(), client.ReturnCurrent()); !errors.Is(err, client.ErrInternal) {
				t.Errorf("%s: %v", name, err)
			}
		}
		lie = func(map[string]any) {}
		if _, err := c.Put(t.Context(), "/a", nil, client.IfAbsent(), client.ReturnCurrent()); !errors.Is(err, client.ErrPrecondition) {
			t.Errorf("the truth: %v", err)
		}
	})
}

func TestWriteOptionsThatMakeNoSense(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		for name, call := range map[string]func() error{
			"no path":        func() error { _, err := c.Put(ctx, "a", nil); return err },
			"two conditions": func() error { _, err := c.Put(ctx, "/a", nil, client.IfRevision(1), client.IfAbsent()); return err },
			"revision 0":     func() error { _, err := c.Put(ctx, "/a", nil, client.IfRevision(0)); return err },
			"nobody's":       func() error { _, err := c.Put(ctx, "/a", nil, client.Ephemeral()); return err },
			"no new name":    func() error { _, err := s.CreateSequential(ctx, "/a/", nil, client.IfAbsent()); return err },
			"nothing to do":  func() error { _, err := s.Delete(ctx, "/a", client.IfAbsent()); return err },
			"told deletion":  func() error { _, err := s.Delete(ctx, "/a", client.ReturnCurrent()); return err },
			"told new name":  func() error { _, err := s.CreateSequential(ctx, "/a/", nil, client.ReturnCurrent()); return err },
			"owned deletion": func() error { _, err := s.Delete(ctx, "/a", client.Ephemeral()); return err },
			"no directory":   func() error { _, _, err := s.DeleteBelow(ctx, "/a"); return err },
			"the root":       func() error { _, _, err := s.DeleteBelow(ctx, "/"); return err },
			"many, one":      func() error { _, _, err := s.DeleteBelow(ctx, "/a/", client.IfRevision(3)); return err },
		} {
			if err := call(); !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantErr(t, second(c.Put(ctx, "/a", make([]byte, lockapi.MaxFileBytes+1))), client.ErrTooLarge)
		wantAtMost(t, tc.count(changesFiles), 0, "requests were sent")
	})
}

// A session's write happens once, even if messages get lost, and returns the
// first answer.
func TestSessionWritesOnce(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		var lost atomic.Int64
		tc.dropIf(func(r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, lockapi.RouteFiles) && r.Method != http.MethodGet && lost.Add(1)%3 != 0
		})
		stat := mustPut(t, s, "/a", "one", client.Ephemeral())
		if stat.Generation != 1 || stat.Session != s.ID() {
			t.Errorf("stat is %+v", stat)
		}
		job, err := s.CreateSequential(ctx, "/queue/", []byte("job"))
		if err != nil || !strings.HasPrefix(job.Path, "/queue/00000000") || job.Generation != 1 {
			t.Errorf("created %+v, %v", job, err)
		}
		wantErr(t, second(s.Create(ctx, "/a", nil)), client.ErrPrecondition)
		if revision, err := s.Delete(ctx, job.Path); revision <= job.Revision || err != nil {
			t.Errorf("deleted at %d, %v", revision, err)
		}
		if n, revision, err := s.DeleteBelow(ctx, "/queue/"); n != 0 || revision != 0 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		keys := map[string]int{}
		for _, r := range tc.sent() {
			if changesFiles(r) {
				keys[r.header.Get(lockapi.HeaderIdempotencyKey)]++
			}
		}
		if n := tc.count(changesFiles); len(keys) != 5 || n < 10 {
			t.Errorf("%d requests had %d keys", n, len(keys))
		}
		wantFile(t, c, "/a", "one")
		wantErr(t, s.Close(ctx), nil)
		wantErr(t, second(c.Get(ctx, "/a")), client.ErrNotFound)
		wantErr(t, second(s.Put(ctx, "/a", nil)), client.ErrSessionClosed)
	})
}

// A session's write survives a change of master.
func TestSessionWriteFollowsTheMaster(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.dropIf(func(r *http.Request) bool { return r.URL.Host == "r1" && r.Method == http.MethodPut })
		time.AfterFunc(200*time.Millisecond, func() { tc.kill("r1") })
		time.AfterFunc(2*time.Second, func() { tc.Elect("r2") })
		if stat := mustPut(t, s, "/a", "one"); stat.Generation != 1 {
			t.Errorf("it was written %d times", stat.Generation)
		}
	})
}

// A write without a key is not sent again if it may have taken effect. It is
// sent again if it certainly had no effect.
func TestUnkeyedWriteIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		mustPut(t, c, "/a", "one")
		tc.dropIf(func(r *http.Request) bool { return r.Method != http.MethodGet })
		for name, write := range map[string]func() error{
			"put":               func() error { _, err := c.Put(ctx, "/a", nil); return err },
			"put at a revision": func() error { _, err := c.Put(ctx, "/b", nil, client.IfAbsent()); return err },
			"create sequential": func() error { _, err := c.CreateSequential(ctx, "/q/", nil); return err },
			"delete":            func() error { _, err := c.Delete(ctx, "/a"); return err },
			"delete below":      func() error { _, _, err := c.DeleteBelow(ctx, "/q/"); return err },
			"transaction":       func() error { _, err := c.Txn().Then(client.OpDelete("/a")).Commit(ctx); return err },
		} {
			before := tc.count(changesFiles)
			wantErr(t, write(), client.ErrOutcomeUnknown)
			if n := tc.count(changesFiles) - before; n != 1 {
				t.Errorf("%s: %d requests were sent", name, n)
			}
		}
		tc.set(func() { tc.drop = nil })
		tc.Depose()
		time.AfterFunc(3*time.Second, func() { tc.Elect("r3") })
		mustPut(t, c, "/c", "certainly")
	})
}

// While a write without a key hangs, no other replica gets it.
func TestUnkeyedWriteIsNotHedged(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		mustPut(t, c, "/a", "one")
		tc.isolate("r1", true)
		isPut := func(r sentRequest) bool { return r.method == http.MethodPut }
		before := tc.count(isPut)
		wantErr(t, second(c.Put(t.Context(), "/a", nil)), client.ErrOutcomeUnknown)
		wantEqual(t, "requests were sent", tc.count(isPut)-before, 1)
	})
}

// A write under a hold carries its sequencer, and is refused after the hold
// ended.
func TestWhile(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		h := lock(t, s, "/primary")
		mustPut(t, c, "/a", "one", client.While(h))
		mustPut(t, s, "/a", "two", client.While(h))
		tc.set(func() { tc.withoutEvents = true }) // the holder does not learn of the release
		tc.ReleaseByForce("/primary")
		_, err := s.Put(ctx, "/a", nil, client.While(h))
		if refused, ok := errors.AsType[*lockapi.Error](err); !errors.Is(err, client.ErrNotHeld) || !ok || refused.Sequencer != h.Sequencer() {
			t.Errorf("a write of a late holder: %+v", err)
		}
		_ = h.Unlock(ctx)
		before := len(tc.sent())
		_, err = c.Delete(ctx, "/a", client.While(h))
		if !errors.Is(err, client.ErrNotHeld) || !errors.Is(err, client.ErrUnlocked) || len(tc.sent()) != before {
			t.Errorf("a write under a hold that is over here: %v", err)
		}
		wantFile(t, c, "/a", "two")
	})
}

// The client's writes stay within the number of answers that the cell
// remembers. This holds however many run at once and however long one of them
// takes.
func TestWritesStayWithinTheRememberedAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.dropIf(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/slow") })
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
		wantEqual(t, "later writes were made beside one without an answer", done.Load(), client.WindowSize-1)
		ctx := timeout(t, time.Second)
		wantErr(t, second(s.Put(ctx, "/late", nil)), context.DeadlineExceeded)
		tc.set(func() { tc.drop = nil })
		wantErr(t, <-slow, nil)
		time.Sleep(time.Minute)
		wantEqual(t, "writes were made", done.Load(), 1000)
	})
}

// The caller may change the content after Put has returned.
func TestPutCopiesTheContent(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		content := []byte("one")
		tc.delayBy(func(r *http.Request) time.Duration {
			if r.Method == http.MethodPut {
				clear(content)
			}
			return 0
		})
		stat, err := s.Put(t.Context(), "/a", content)
		if err != nil || bytes.Equal(content, []byte("one")) {
			t.Fatalf("%+v, %v", stat, err)
		}
		wantFile(t, c, "/a", "one")
	})
}

func TestListFiles(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		ctx := t.Context()
		for _, path := range []string{"/a/1", "/a/b/2", "/a/b/3", "/a/c", "/a/d/e/f", "/b"} {
			mustPut(t, c, path, path)
		}
		var got []string
		for file, err := range c.List(ctx, "/a/", client.Contents()) {
			if err != nil || string(file.Content) != file.Path || file.AsOf < file.Revision {
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
		if n, revision, err2 := c.DeleteBelow(ctx, "/a/"); n != 5 || revision <= last || err != nil || err2 != nil {
			t.Errorf("deleted %d up to %d, %v", n, revision, errors.Join(err, err2))
		}
	})
}

// The client rejects impossible answers about files.
func TestLiesAboutFiles(t *testing.T) {
	type lies = map[string]func(*http.Response, map[string]any)
	about := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, lockapi.RouteFiles) }
	amongLies(t, about, func(t *testing.T, l *liar, c *client.Client) {
		ctx := t.Context()
		s := open(t, c)
		mustPut(t, c, "/a", "one")
		l.wantDisbelieved(t, lies{
			"another path": set("path", "/b"), "revision 0": set("revision", 0), "an old revision": set("revision", 1),
			"another size": set("size", 7), "another content": set("sha256", "00"), "generation 0": set("generation", 0),
			"an instance to come": set("instance", 1<<40), "nothing": nothing,
			"the first of an old instance": set("generation", 1, "instance", 1),
		}, func() error { return second(s.Put(ctx, "/a", []byte("two"))) })
		l.wantDisbelieved(t, lies{
			"another path": set("path", "/b"), "another content": set("content", "six"), "none": set("content", nil),
			"no revision":            func(r *http.Response, _ map[string]any) { r.Header.Del(lockapi.HeaderRevision) },
			"a revision of the past": func(r *http.Response, _ map[string]any) { r.Header.Set(lockapi.HeaderRevision, "0") },
			"out of date":            outOfDate,
		}, func() error { return second(c.Get(ctx, "/a")) })
		l.wantDisbelieved(t, lies{"a deletion of the past": set("deleted", true, "revision", 1)},
			func() error { return second(s.Delete(ctx, "/nothing")) })
		l.wantDisbelieved(t, lies{
			"another prefix": set("files", []any{map[string]any{"path": "/b", "revision": 1, "instance": 1, "generation": 1}}),
			"no progress":    set("files", []any{}, "next", "/a/z"),
		}, func() error { return last(c.List(ctx, "/a/")) })
	})
}

// While(nil) is refused with an error that names the nil hold.
func TestWhileNoHold(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		for name, err := range map[string]error{
			"put":    second(c.Put(t.Context(), "/a", nil, client.While(nil))),
			"own":    second(s.Put(t.Context(), "/a", nil, client.While(nil))),
			"delete": second(s.Delete(t.Context(), "/a", client.While(nil))),
			"txn":    second(s.Txn().If(client.WhenHeld(nil)).Commit(t.Context())),
		} {
			if !errors.Is(err, client.ErrInvalidArgument) || !strings.Contains(err.Error(), "nil") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if tc.count(changesFiles) != 0 {
			t.Error("a write was sent")
		}
	})
}
