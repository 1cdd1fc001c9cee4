package stouttest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi"
)

// inCell runs a test in a bubble with a cell.
func inCell(t *testing.T, size int, test func(t *testing.T, cell *stouttest.Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, stouttest.New(t, stouttest.Options{Size: size})) })
}

func open(t *testing.T, c *client.Client, ttl time.Duration) *client.Session {
	t.Helper()
	s, err := c.NewSession(t.Context(), client.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

func lock(t *testing.T, s *client.Session, path string, opts ...client.LockOption) *client.Held {
	t.Helper()
	h, err := s.Lock(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestMasterIsKilled: another replica takes over, or the same one in a cell of
// one, and holds survive.
func TestMasterIsKilled(t *testing.T) {
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			inCell(t, size, func(t *testing.T, cell *stouttest.Cell) {
				s := open(t, cell.Client(), 10*time.Second)
				h := lock(t, s, "/a")
				for range 3 {
					before := cell.Master()
					cell.KillMaster()
					if now := cell.Master(); now == "" || size > 1 && now == before {
						t.Errorf("%q is master after %q was killed", now, before)
					}
					time.Sleep(15 * time.Second)
					if s.State() != client.Safe || h.Err() != nil {
						t.Fatalf("the session is %v, the hold %v", s.State(), h.Err())
					}
				}
				if err := h.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestMajorityIsStopped: the cell has no master until a majority runs again.
func TestMajorityIsStopped(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		cell.Stop("r3")
		if cell.Master() != "r1" {
			t.Errorf("%q is master of two replicas", cell.Master())
		}
		s := open(t, cell.Client(), time.Minute)
		cell.Stop("r2")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := s.TryLock(ctx, "/a"); err == nil || cell.Master() != "" {
			t.Errorf("a lock with one replica of three: %v; %q is master", err, cell.Master())
		}
		cell.Start("r3")
		lock(t, s, "/a")
	})
}

// TestWithoutMaster: a cell has no master after Depose, until Elect. Sessions
// and holds survive.
func TestWithoutMaster(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		h := lock(t, open(t, cell.Client(), time.Minute), "/a")
		cell.Depose()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := cell.Client().ReadLock(ctx, "/a"); !errors.Is(err, client.ErrNoMaster) || cell.Master() != "" {
			t.Errorf("with %q as its master: %v", cell.Master(), err)
		}
		for _, id := range []string{"r3", "r3", "r2"} {
			cell.Elect(id)
			if got := cell.Master(); got != id {
				t.Errorf("%q is master, and not %s", got, id)
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestMasterIsIsolated: another replica takes over, and clients of the old
// master follow.
func TestMasterIsIsolated(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		s := open(t, cell.Client(), 10*time.Second)
		h := lock(t, s, "/a")
		before := cell.Master()
		cell.IsolateMaster()
		if now := cell.Master(); now == before {
			t.Errorf("%q is still master", now)
		}
		lock(t, s, "/b")
		time.Sleep(15 * time.Second)
		if h.Err() != nil {
			t.Error(h.Err())
		}
	})
}

// TestForwarding: a call to a follower reaches the master.
func TestForwarding(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		for _, url := range cell.URLs() {
			c := cell.Client(func(c *client.Config) { c.URLs, c.OnlyURLs = []string{url}, true })
			if _, err := c.Put(t.Context(), "/f", []byte(url)); err != nil {
				t.Errorf("%s: %v", url, err)
			}
			if f, err := c.Get(t.Context(), "/f"); err != nil || string(f.Content) != url {
				t.Errorf("%s: %q, %v", url, f.Content, err)
			}
		}
	})
}

// TestSessionExpires: a session expires if the cell ends it, or if it cannot
// reach the cell. Its lock goes to the next waiter.
func TestSessionExpires(t *testing.T) {
	for name, end := range map[string]func(*stouttest.Cell, *client.Client, string){
		"by the cell": func(cell *stouttest.Cell, _ *client.Client, id string) { cell.ExpireSession(id) },
		"cut":         func(cell *stouttest.Cell, c *client.Client, _ string) { cell.Cut(c) },
		"all is lost": func(cell *stouttest.Cell, c *client.Client, _ string) { cell.Lose(c) },
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
				c := cell.Client()
				s := open(t, c, 5*time.Second)
				h := lock(t, s, "/a")
				began := time.Now()
				end(cell, c, s.ID())
				next := lock(t, open(t, cell.Client(), time.Minute), "/a", client.Wait(time.Minute))
				if h.Err() == nil || next.Token() <= h.Token() {
					t.Errorf("the next hold has token %d after %d; the first hold: %v", next.Token(), h.Token(), h.Err())
				}
				cell.Mend(c)
				select {
				case <-s.Done():
				case <-time.After(time.Minute):
				}
				if !errors.Is(s.Err(), client.ErrSessionExpired) {
					t.Errorf("after %v: %v", time.Since(began), s.Err())
				}
			})
		})
	}
}

// TestReleaseByForce: the holder learns of the release, and its session
// survives.
func TestReleaseByForce(t *testing.T) {
	inCell(t, 1, func(t *testing.T, cell *stouttest.Cell) {
		s := open(t, cell.Client(), 10*time.Second)
		h := lock(t, s, "/a")
		cell.ReleaseByForce("/a")
		lock(t, open(t, cell.Client(), time.Minute), "/a")
		if err := h.Unlock(t.Context()); !errors.Is(err, client.ErrLockLost) {
			t.Errorf("the first holder's unlock: %v", err)
		}
		if s.State() != client.Safe {
			t.Errorf("its session is %v", s.State())
		}
	})
}

// TestCloseWhileCutOff: without a deadline the client tries for the session's ttl, and
// with one for longer.
func TestCloseWhileCutOff(t *testing.T) {
	inCell(t, 1, func(t *testing.T, cell *stouttest.Cell) {
		c := cell.Client()
		s := open(t, c, 10*time.Second)
		cell.Cut(c)
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, bound := range []struct {
			ctx  context.Context
			want time.Duration
		}{{context.Background(), 10 * time.Second}, {within, 50 * time.Second}} {
			began := time.Now()
			err := s.Close(bound.ctx)
			if took := time.Since(began); err == nil || took < bound.want || took > bound.want+time.Second {
				t.Errorf("%v after %v, want %v", err, took, bound.want)
			}
		}
	})
}

// TestHarmWithAccess: access control does not refuse the test's own faults.
func TestHarmWithAccess(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		token, err := admin.New(cell.Client()).Access().Enable(t.Context(), lockapi.EnableRequest{})
		if err != nil {
			t.Fatal(err)
		}
		root := cell.Client(func(c *client.Config) {
			c.Token = func(context.Context) (string, error) { return token.Secret, nil }
		})
		h := lock(t, open(t, root, time.Minute), "/a")
		cell.Elect("r3")
		cell.Elect("r1")
		cell.ReleaseByForce("/a")
		<-h.Context().Done()
		if err := context.Cause(h.Context()); !errors.Is(err, client.ErrLockLost) {
			t.Errorf("the hold ends with %v", err)
		}
	})
}

// TestLostAnswers: a write takes effect even if its answers are lost.
func TestLostAnswers(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		c, other := cell.Client(), cell.Client()
		if _, err := c.Put(t.Context(), "/known", nil); err != nil { // makes the client learn its cell
			t.Fatal(err)
		}
		cell.LoseAnswers(c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Create(ctx, "/f", []byte("x")); err == nil {
			t.Error("an answer came")
		}
		if f, err := other.Get(t.Context(), "/f"); err != nil || string(f.Content) != "x" {
			t.Errorf("%q, %v", f.Content, err)
		}
		cell.Mend(c)
		if f, err := c.Get(t.Context(), "/f"); err != nil || string(f.Content) != "x" {
			t.Errorf("mended: %q, %v", f.Content, err)
		}
	})
}

// TestDelay: each answer takes as long as the delay.
func TestDelay(t *testing.T) {
	inCell(t, 1, func(t *testing.T, cell *stouttest.Cell) {
		c := cell.Client()
		if _, err := c.Put(t.Context(), "/f", nil); err != nil {
			t.Fatal(err)
		}
		for _, d := range []time.Duration{700 * time.Millisecond, 0} {
			cell.Delay(d)
			began := time.Now()
			if _, err := c.Get(t.Context(), "/f"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < d || took > d+10*time.Millisecond {
				t.Errorf("with a delay of %v it took %v", d, took)
			}
		}
	})
}

// TestEvents: a watch continues over changes of master and lost connections,
// and misses no event.
func TestEvents(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		c, writer := cell.Client(), cell.Client()
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan string, 100)
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for e, err := range c.Watch(ctx, 0, client.OnPrefix("/f/"), client.OfType(lockapi.EventFileCreated)) {
				if err != nil {
					return
				}
				if e.File != nil {
					seen <- e.Path
				}
			}
		}()
		for i, harm := range []func(){func() {}, cell.KillMaster, func() { cell.Cut(c); cell.Mend(c) }, cell.IsolateMaster, func() { cell.Lose(c); time.Sleep(time.Second); cell.Mend(c) }} {
			harm()
			path := fmt.Sprintf("/f/%d", i)
			if _, err := writer.Create(t.Context(), path, nil); err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got != path {
				t.Errorf("%s after %s", got, path)
			}
		}
		cancel()
		<-ended
	})
}

// TestEventsEndWithTheProcess: a replica that was started again does not have
// the events of its former process.
func TestEventsEndWithTheProcess(t *testing.T) {
	inCell(t, 1, func(t *testing.T, cell *stouttest.Cell) {
		if _, err := cell.Client().Create(t.Context(), "/a", nil); err != nil {
			t.Fatal(err)
		}
		cell.KillMaster()
		for e, err := range cell.Client().Watch(t.Context(), 0) {
			if err != nil || e.Compacted == nil {
				t.Errorf("%v, %v", e, err)
			}
			break
		}
	})
}

// TestRealTime: a cell also works outside a bubble and without a test, and its
// end leaves no goroutine behind.
func TestRealTime(t *testing.T) {
	before := runtime.NumGoroutine()
	cell := stouttest.New(nil, stouttest.Options{})
	s, err := cell.Client().NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := lock(t, s, "/a")
	if err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cell.Close()
	cell.Close() // does nothing
	for began := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
