package certmagicstout_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/contrib/certmagicstout"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
)

func newStorage(t *testing.T, c *client.Client) *certmagicstout.Storage {
	t.Helper()
	s, err := certmagicstout.New(c, "/certs/", client.TTL(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// TestAsFileStorage: random operations have the same results as certmagic's own
// FileStorage. The keys are such that no file is a directory, too.
func TestAsFileStorage(t *testing.T) {
	for _, seed := range testrun.Sample(t, 3, 50) {
		synctest.Test(t, func(t *testing.T) {
			c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
			got, want := newStorage(t, c.Client()), &certmagic.FileStorage{Path: t.TempDir()}
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			dirs := []string{"certificates", "certificates/ca", "certificates/ca/example.com", "certificates/ca.b", "ocsp"}
			for range 150 {
				dir := dirs[r.IntN(len(dirs))]
				key := dir + "/" + []string{"f", "g.crt", "h"}[r.IntN(3)]
				either := []string{dir, key}[r.IntN(2)]
				compare := func(what string, a, b any, errA, errB error) {
					t.Helper()
					if fmt.Sprint(a) != fmt.Sprint(b) || (errA == nil) != (errB == nil) || errors.Is(errA, fs.ErrNotExist) != errors.Is(errB, fs.ErrNotExist) {
						t.Errorf("seed %d: %s: %v, %v; FileStorage: %v, %v", seed, what, a, errA, b, errB)
					}
				}
				switch r.IntN(6) {
				case 0, 1:
					value := []byte(fmt.Sprint(r.IntN(100)))
					compare("store "+key, nil, nil, got.Store(ctx, key, value), want.Store(ctx, key, value))
				case 2:
					if r.IntN(3) == 0 {
						compare("delete "+either, nil, nil, got.Delete(ctx, either), want.Delete(ctx, either))
					}
				case 3:
					a, errA := got.Load(ctx, key)
					b, errB := want.Load(ctx, key)
					compare("load "+key, string(a), string(b), errA, errB)
				case 4:
					prune(t, want)
					compare("exists "+either, got.Exists(ctx, either), want.Exists(ctx, either), nil, nil)
					a, errA := got.Stat(ctx, either)
					b, errB := want.Stat(ctx, either)
					if !a.IsTerminal {
						b.Size = 0 // of a directory of the file system
					}
					compare("stat "+either, []any{a.IsTerminal, a.Size, a.Key}, []any{b.IsTerminal, b.Size, b.Key}, errA, errB)
					if a.IsTerminal && time.Since(a.Modified) > time.Minute {
						t.Errorf("%s was modified at %v", either, a.Modified)
					}
				case 5:
					prune(t, want)
					recursive := r.IntN(2) == 0
					a, errA := got.List(ctx, dir, recursive)
					b, errB := want.List(ctx, dir, recursive)
					slices.Sort(b)
					compare(fmt.Sprintf("list %s, %v", dir, recursive), a, b, errA, errB)
				}
			}
		})
	}
}

// prune removes the directories of a FileStorage that have become empty: in a
// cell a directory exists by the files in it.
func prune(t *testing.T, s *certmagic.FileStorage) {
	t.Helper()
	for removed := true; removed; {
		removed = false
		err := filepath.WalkDir(s.Path, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != s.Path && os.Remove(path) == nil {
				removed = true
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreLoad follows certmagic's tests of FileStorage: a value is loaded as
// it was stored, and a concurrent Store is seen whole or not at all.
func TestStoreLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
		s := newStorage(t, c.Client())
		a, b := bytes.Repeat([]byte("a"), 200_000), bytes.Repeat([]byte("b"), 200_000)
		if err := s.Store(ctx, "foo", a); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Store(ctx, "foo", b); err != nil {
				t.Error(err)
			}
		})
		for range 10 {
			if got, err := s.Load(ctx, "foo"); err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		all.Wait()
		c.KillMaster()
		if got, err := newStorage(t, c.Client()).Load(ctx, "foo"); err != nil || !bytes.Equal(got, b) {
			t.Errorf("another process reads %d bytes, %v", len(got), err)
		}
		if err := s.Store(ctx, "bar", make([]byte, 300_000)); !errors.Is(err, client.ErrTooLarge) {
			t.Errorf("a large value: %v", err)
		}
		if err := s.Store(ctx, "../other", a); err == nil {
			t.Error("a key outside the directory was accepted")
		}
		if _, err := certmagicstout.New(c.Client(), "/certs"); err == nil {
			t.Error("a bad directory was accepted")
		}
	})
}

// TestLock: a lock excludes callers of this process and of others. A wait ends
// with its context, and a process that is cut off loses its lock.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := stouttest.New(t, stouttest.Options{}), t.Context()
		m := c.Client()
		one, two := newStorage(t, m), newStorage(t, c.Client())
		const name = "issue_cert_*.example.com/.."
		if err := one.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*certmagicstout.Storage{one, two} {
			brief, cancel := context.WithTimeout(ctx, time.Minute)
			if err := s.Lock(brief, name); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a second lock: %v", err)
			}
			cancel()
			if ok, err := s.TryLock(ctx, name); ok || err != nil {
				t.Errorf("a second lock, without waiting: %v, %v", ok, err)
			}
		}
		if err := one.Unlock(ctx, name); err != nil {
			t.Error(err)
		}
		if err := one.Unlock(ctx, name); err == nil {
			t.Error("a lock was released twice")
		}
		if ok, err := one.TryLock(ctx, name); !ok || err != nil {
			t.Errorf("a free lock: %v, %v", ok, err)
		}
		c.Cut(m)
		if err := two.Lock(ctx, name); err != nil {
			t.Error(err)
		}
		c.Mend(m)
		time.Sleep(10 * time.Second)
		if err := one.Unlock(ctx, name); err == nil {
			t.Error("a lost lock was released")
		}
		if ok, err := one.TryLock(ctx, name); ok || err != nil {
			t.Errorf("the other's lock: %v, %v", ok, err)
		}
		if err := two.Unlock(ctx, name); err != nil {
			t.Error(err)
		}
		if err := one.Lock(ctx, name); err != nil {
			t.Errorf("with a new session: %v", err)
		}
	})
}
