package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// sdkSession opens a session of the Go client that outlasts the test's changes
// of master.
func sdkSession(t *testing.T, c *cell.Cell, urls ...string) *client.Session {
	t.Helper()
	if urls == nil {
		urls = c.URLs()
	}
	sdk, err := client.New(urls...)
	must(t, err)
	s, err := sdk.NewSession(cell.Bounded(t), client.WithTTL(aWhile))
	must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// TestFilesByTheClient: each form of reading and writing files, on behalf of a
// session and of nobody, through replicas of which none need be the master.
func TestFilesByTheClient(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	master := c.Ready(t)
	for _, via := range []*cell.Replica{master, c.Others(master)[0]} {
		role := "master"
		if via != master {
			role = "another"
		}
		t.Run(role, func(t *testing.T) {
			s := sdkSession(t, c, via.URL)
			dir := "/" + role + "/"
			t.Run("write", func(t *testing.T) { writeForms(t, s, dir) })
			t.Run("guard", func(t *testing.T) { guardForms(t, s, dir) })
			t.Run("list", func(t *testing.T) { listForms(t, s, dir) })
			t.Run("transact", func(t *testing.T) { transactForms(t, s, dir) })
		})
	}
}

func writeForms(t *testing.T, s *client.Session, dir string) {
	ctx, sdk, path := cell.Bounded(t), s.Client(), dir+"a"
	_, err := sdk.Get(ctx, path)
	if !errors.Is(err, client.ErrNotFound) {
		t.Fatalf("reading what is not there: %v", err)
	}
	content := []byte("with \x00, \n and \xff")
	made, err := sdk.Create(ctx, path, content)
	must(t, err)
	_, err = s.Create(ctx, path, nil)
	refused, ok := errors.AsType[*lockapi.Error](err)
	if !ok || refused.Code != client.ErrPrecondition || refused.Current == nil || refused.Current.Revision != made.Revision {
		t.Errorf("creating it again: %v", err)
	}
	got, err := sdk.Get(ctx, path)
	if err != nil || !bytes.Equal(got.Content, content) || got.FileStat != made {
		t.Errorf("read %+v, %v; written was %+v", got, err, made)
	}
	next, err := s.Put(ctx, path, nil, client.IfRevision(made.Revision))
	if err != nil || next.Instance != made.Instance || next.Generation != 2 || next.Revision <= made.Revision {
		t.Errorf("%+v, %v after %+v", next, err, made)
	}
	if _, err := sdk.Put(ctx, path, nil, client.IfRevision(made.Revision)); !errors.Is(err, client.ErrPrecondition) {
		t.Errorf("writing over another revision: %v", err)
	}
	if _, err := sdk.Delete(ctx, path, client.IfRevision(made.Revision)); !errors.Is(err, client.ErrPrecondition) {
		t.Errorf("deleting another revision: %v", err)
	}
	for _, want := range []bool{true, false} {
		if deleted, err := s.Delete(ctx, path); err != nil || deleted != want {
			t.Errorf("deleted: %v, %v; wanted %v", deleted, err, want)
		}
	}
}

func guardForms(t *testing.T, s *client.Session, dir string) {
	ctx, sdk := cell.Bounded(t), s.Client()
	held, err := s.Lock(ctx, dir+"lock")
	must(t, err)
	_, err = s.Put(ctx, dir+"guarded", []byte("1"), client.While(held), client.Ephemeral())
	must(t, err)
	_, err = sdk.Put(ctx, dir+"guarded", []byte("2"), client.While(held))
	must(t, err)
	got, err := sdk.Get(ctx, dir+"guarded")
	if err != nil || got.Session != s.ID() {
		t.Errorf("the owner of %+v is not %s, %v", got, s.ID(), err)
	}
	// Somebody else releases the lock: the client does not know, the cell does.
	if done, err := sdk.Release(ctx, dir+"lock", s.ID(), held.Handle(), held.Token()); err != nil || !done {
		t.Fatalf("released: %v, %v", done, err)
	}
	for name, write := range map[string]func() error{
		"put":          func() error { _, err := s.Put(ctx, dir+"guarded", nil, client.While(held)); return err },
		"of nobody":    func() error { _, err := sdk.Put(ctx, dir+"guarded", nil, client.While(held)); return err },
		"create":       func() error { _, err := s.Create(ctx, dir+"other", nil, client.While(held)); return err },
		"sequential":   func() error { _, err := s.CreateSequential(ctx, dir+"seq-", nil, client.While(held)); return err },
		"delete":       func() error { _, err := s.Delete(ctx, dir+"guarded", client.While(held)); return err },
		"delete below": func() error { _, err := s.DeleteBelow(ctx, dir, client.While(held)); return err },
	} {
		if err := write(); !errors.Is(err, client.ErrNotHeld) {
			t.Errorf("%s without the lock: %v", name, err)
		}
	}
	if got, err := sdk.Get(ctx, dir+"guarded"); err != nil || string(got.Content) != "2" {
		t.Errorf("%q, %v after writes without the lock", got.Content, err)
	}
	// An ephemeral file ends with its session.
	other, err := sdk.NewSession(ctx)
	must(t, err)
	_, err = other.Put(ctx, dir+"guarded", nil, client.Ephemeral())
	must(t, err)
	must(t, other.Close(ctx))
	if _, err := sdk.Get(ctx, dir+"guarded"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("its session is over, and it is there: %v", err)
	}
}

func listForms(t *testing.T, s *client.Session, dir string) {
	ctx, sdk := cell.Bounded(t), s.Client()
	var want []string
	for i := range 5 {
		stat, err := s.CreateSequential(ctx, dir+"list/", fmt.Append(nil, i))
		must(t, err)
		want = append(want, stat.Path)
	}
	stat, err := sdk.CreateSequential(ctx, dir+"list/deep/x-", nil)
	must(t, err)
	var got []string
	for file, err := range sdk.List(ctx, dir+"list/", client.Contents()) {
		must(t, err)
		if i := len(got); i < 5 && string(file.Content) != fmt.Sprint(i) {
			t.Errorf("file %d has the content %q", i, file.Content)
		}
		got = append(got, file.Path)
	}
	if !slices.Equal(got, append(slices.Clone(want), stat.Path)) {
		t.Errorf("listed are %q", got)
	}
	got = nil
	for e, err := range sdk.ReadDir(ctx, dir+"list/") {
		must(t, err)
		got = append(got, e.Path)
	}
	if !slices.Equal(got, append(slices.Clone(want), dir+"list/deep/")) {
		t.Errorf("in the directory are %q", got)
	}
	if n, err := s.DeleteBelow(ctx, dir+"list/"); err != nil || n != 6 {
		t.Errorf("deleted %d, %v", n, err)
	}
}

func transactForms(t *testing.T, s *client.Session, dir string) {
	ctx, sdk := cell.Bounded(t), s.Client()
	a, b, lock := dir+"txn/a", dir+"txn/b", dir+"txn/lock"
	done, err := s.Txn().If(client.WhenAbsent(a), client.WhenFree(lock), client.WhenAlive(s.ID())).
		Then(client.OpCreate(a, []byte("1"), client.Ephemeral()), client.OpAcquire(lock, "h"), client.OpGet(b)).
		Commit(ctx)
	if err != nil || !done.Succeeded || len(done.Results) != 3 || done.Results[1].Grant == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	if now, err := sdk.ReadLock(ctx, lock); err != nil || len(now.Holders) != 1 || now.Holders[0].Session != s.ID() {
		t.Errorf("the lock is %+v, %v", now, err)
	}
	done, err = sdk.Txn().If(client.WhenAbsent(a)).Then(client.OpPut(b, nil)).Else(client.OpGet(a)).Commit(ctx)
	if err != nil || done.Succeeded || done.Results[0].File == nil || *done.Results[0].File.Content != "1" {
		t.Errorf("the other branch: %+v, %v", done, err)
	}
	_, err = s.Txn().Then(client.OpPut(b, nil), client.OpCreate(a, nil)).Commit(ctx)
	refused, ok := errors.AsType[*lockapi.Error](err)
	if !ok || refused.Code != client.ErrPrecondition || refused.Operation == nil || *refused.Operation != 1 {
		t.Errorf("an operation that can't be done: %v", err)
	}
	if _, err := sdk.Get(ctx, b); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("half of a transaction was done: %v", err)
	}
}

// TestExactlyOnceByTheClient: writes by sessions, through masters that are
// killed, transferred and cut off, are each done once, and every watcher is
// told each of them, in the same order.
func TestExactlyOnceByTheClient(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm, Network: true})
	master := c.Ready(t)
	ctx, stop := context.WithCancel(cell.Bounded(t))
	defer stop()

	first, err := sdkSession(t, c).Client().Revision(ctx)
	must(t, err)
	var watchers [3]toldEvents
	var watching sync.WaitGroup
	for i, r := range c.Replicas() {
		sdk, err := client.New(append([]string{r.URL}, c.URLs()...)...)
		must(t, err)
		watching.Go(func() { watchers[i].watch(ctx, t, sdk, first) })
	}

	var writes [4]int
	writing, enough := context.WithCancel(ctx)
	var writers sync.WaitGroup
	for i := range writes {
		s := sdkSession(t, c)
		writers.Go(func() { writes[i] = writeUntil(writing, ctx, t, s, i) })
	}
	old := master
	must(t, old.Kill())
	master = newMaster(t, c, old)
	must(t, old.Start())
	c.Ready(t)
	c.Network().Isolate(master.ID)
	master = newMaster(t, c, master)
	c.Network().Heal()
	transferTo(t, c, master, c.Others(master)[0])
	enough()
	writers.Wait()

	total := 0
	for i, n := range writes {
		t.Logf("writer %d made %d changes of each kind", i, n)
		total += n
	}
	if total < 20 {
		t.Errorf("only %d changes were made", total)
	}
	sdk := sdkSession(t, c).Client()
	checkOnce(t, sdk, writes[:])
	must(t, cell.Wait(ctx, "all watchers have been told all", func(context.Context) error {
		for i := range watchers {
			if err := watchers[i].complete(total); err != nil {
				return fmt.Errorf("watcher %d: %w", i, err)
			}
		}
		return nil
	}))
	stop()
	watching.Wait()
	for i := range watchers[1:] {
		if !slices.Equal(watchers[0].told, watchers[i+1].told) {
			t.Errorf("two watchers were told different things:\n%s\n%s", strings.Join(watchers[0].told, "\n"), strings.Join(watchers[i+1].told, "\n"))
		}
	}
}

// writeUntil makes changes of each kind until writing ends, and returns how
// many. None is given up.
func writeUntil(writing, ctx context.Context, t *testing.T, s *client.Session, writer int) (n int) {
	for ; writing.Err() == nil; n++ {
		_, put := s.Put(ctx, fmt.Sprintf("/put/%d", writer), fmt.Append(nil, n))
		_, made := s.CreateSequential(ctx, fmt.Sprintf("/seq/%d-", writer), nil)
		_, txn := s.Txn().Then(client.OpPut(fmt.Sprintf("/txn/%d", writer), fmt.Append(nil, n))).Commit(ctx)
		if err := errors.Join(put, made, txn); err != nil {
			t.Errorf("writer %d: %v", writer, err)
			return n
		}
	}
	return n
}

// checkOnce checks by the files that each change was made once.
func checkOnce(t *testing.T, sdk *client.Client, writes []int) {
	t.Helper()
	ctx := cell.Bounded(t)
	sequential := make(map[string]int)
	for file, err := range sdk.List(ctx, "/seq/") {
		must(t, err)
		writer, _, _ := strings.Cut(strings.TrimPrefix(file.Path, "/seq/"), "-")
		sequential[writer]++
	}
	for i, n := range writes {
		if got := sequential[fmt.Sprint(i)]; got != n {
			t.Errorf("writer %d made %d sequential files; there are %d", i, n, got)
		}
		for _, kind := range []string{"put", "txn"} {
			file, err := sdk.Get(ctx, fmt.Sprintf("/%s/%d", kind, i))
			must(t, err)
			if file.Generation != uint64(n) || string(file.Content) != fmt.Sprint(n-1) {
				t.Errorf("writer %d wrote %d times; the %s file has generation %d and the content %q", i, n, kind, file.Generation, file.Content)
			}
		}
	}
}

// toldEvents is what a watcher was told.
type toldEvents struct {
	mu   sync.Mutex // guards what follows
	told []string
}

func (h *toldEvents) watch(ctx context.Context, t *testing.T, sdk *client.Client, after uint64) {
	for e, err := range sdk.Watch(ctx, after, client.OnPrefix("/put/", "/seq/", "/txn/")) {
		if ctx.Err() != nil {
			return
		}
		if err != nil || e.Compacted != nil {
			t.Errorf("a watcher was told %+v, %v", e, err)
			return
		}
		h.mu.Lock()
		if e.Type != lockapi.EventMasterChanged {
			h.told = append(h.told, fmt.Sprintf("%d %s %s", e.Revision, e.Type, e.Path))
		}
		h.mu.Unlock()
	}
}

// complete is nil when all changes have been told, three for each round of a
// writer.
func (h *toldEvents) complete(rounds int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.told) < 3*rounds {
		return fmt.Errorf("%d changes have been told of %d", len(h.told), 3*rounds)
	}
	return nil
}

// TestFollowByTheClient: a follower knows the files as they are after each
// change of master, and one that comes later is told the same.
func TestFollowByTheClient(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	master := c.Ready(t)
	s := sdkSession(t, c)
	ctx := cell.Bounded(t)
	follow := func() (wait func(want string)) {
		changes := make(chan string, 1000)
		go func() {
			files := make(map[string]string)
			for change, err := range s.Client().Follow(ctx, "/f/", client.Contents()) {
				switch {
				case err != nil:
					return
				case change.Synced:
				case change.File == nil:
					delete(files, change.Path)
				case change.File.Content != nil:
					files[change.Path] = string(change.File.Content)
				}
				changes <- fmt.Sprint(files)
			}
		}()
		return func(want string) {
			t.Helper()
			for got := ""; got != want; {
				select {
				case got = <-changes:
				case <-ctx.Done():
					t.Fatalf("the files are %s; wanted %s", got, want)
				}
			}
		}
	}
	put := func(path, content string) {
		t.Helper()
		_, err := s.Put(ctx, path, []byte(content))
		must(t, err)
	}
	put("/f/a", "1")
	early := follow()
	early("map[/f/a:1]")
	must(t, master.Kill())
	newMaster(t, c, master)
	put("/f/b", "2")
	put("/other", "x")
	early("map[/f/a:1 /f/b:2]")
	must(t, master.Start())
	transferTo(t, c, c.Others(master)[0], master)
	if _, err := s.Delete(ctx, "/f/a"); err != nil {
		t.Fatal(err)
	}
	put("/f/b", "3")
	early("map[/f/b:3]")
	follow()("map[/f/b:3]")
}
