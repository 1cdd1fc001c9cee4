package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// sdkSession opens a session of the Go client that survives the test's changes
// of master.
func sdkSession(t *testing.T, c *cell.Cell, urls ...string) *client.Session {
	t.Helper()
	if urls == nil {
		urls = c.URLs()
	}
	sdk, err := client.New(urls...)
	must(t, err)
	s, err := sdk.NewSession(cell.Bounded(t), client.TTL(aWhile))
	must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// TestFilesByTheClient: each form of reading and writing files, with and
// without a session, through the master and through another replica.
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
		t.Fatalf("reading a missing file: %v", err)
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
		if revision, err := s.Delete(ctx, path); err != nil || revision > made.Revision != want {
			t.Errorf("deleted at %d, %v; wanted %v", revision, err, want)
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
	// Another caller releases the lock: the client does not know it, the cell
	// does.
	if done, err := admin.New(sdk).Release(ctx, dir+"lock", s.ID(), held.Handle(), held.Token()); err != nil || !done {
		t.Fatalf("released: %v, %v", done, err)
	}
	for name, write := range map[string]func() error{
		"put":          func() error { _, err := s.Put(ctx, dir+"guarded", nil, client.While(held)); return err },
		"no session":   func() error { _, err := sdk.Put(ctx, dir+"guarded", nil, client.While(held)); return err },
		"create":       func() error { _, err := s.Create(ctx, dir+"other", nil, client.While(held)); return err },
		"sequential":   func() error { _, err := s.CreateSequential(ctx, dir+"seq-", nil, client.While(held)); return err },
		"delete":       func() error { _, err := s.Delete(ctx, dir+"guarded", client.While(held)); return err },
		"delete below": func() error { _, _, err := s.DeleteBelow(ctx, dir, client.While(held)); return err },
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
		t.Errorf("the file has outlived its session: %v", err)
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
	if n, revision, err := s.DeleteBelow(ctx, dir+"list/"); err != nil || n != 6 || revision <= stat.Revision+5 {
		t.Errorf("deleted %d up to %d, %v", n, revision, err)
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
