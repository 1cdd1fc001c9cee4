package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// inCells is a bubble in which each replica answers with the cell id noted for
// it.
func inCells(t *testing.T, any bool, test func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string)) {
	t.Helper()
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		cells := map[string]string{"r1": "old", "r2": "old", "r3": "old"}
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			host := r.URL.Host
			if host == "r4" && cells[host] != "" { // r4 is the master
				r = r.Clone(r.Context())
				r.URL.Host = tc.Master()
			}
			resp, err := tc.RoundTrip(r)
			if err == nil && host == "r4" {
				resp.Header.Del(lockapi.HeaderMaster)
			}
			if err == nil {
				tc.set(func() { resp.Header.Set(lockapi.HeaderCell, cells[host]) })
			}
			return resp, err
		})
		test(t, tc, tc.knowing(t, client.Config{Transport: transport, AnyCell: any}, tc.URLs()...), cells)
	})
}

// A client that has called one cell accepts no other, and the error names the
// other cell and AnyCell.
func TestAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		must(t, second(c.ReadLock(t.Context(), "/a")))
		tc.set(func() {
			for id := range cells {
				cells[id] = "new"
			}
		})
		for name, call := range map[string]func(context.Context) error{
			"a read":  func(ctx context.Context) error { _, err := c.ReadLock(ctx, "/a"); return err },
			"a write": func(ctx context.Context) error { _, err := c.NewSession(ctx); return err },
			"a backup": func(ctx context.Context) error {
				_, err := admin.New(c).Backup(ctx, &strings.Builder{})
				return err
			},
			"a watch": func(ctx context.Context) error {
				for _, err := range c.Watch(ctx, 1) {
					if err != nil {
						return err
					}
				}
				return nil
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			err := call(ctx)
			cancel()
			if !errors.Is(err, client.ErrOtherCell) || !strings.Contains(err.Error(), "id new") || !strings.Contains(err.Error(), "AnyCell") || time.Since(began) > 10*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		must(t, second(admin.New(c).Cell(t.Context())))
	})
}

// A replica of another cell among this cell's replicas is skipped.
func TestOneOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		must(t, second(c.ReadLock(t.Context(), "/a")))
		tc.set(func() { cells["r1"] = "new" })
		tc.Elect("r2")
		for range 10 {
			must(t, second(c.ReadLock(t.Context(), "/a")))
		}
	})
}

// TestOtherCellOnFewerMachines: the other cell uses fewer machines, and the
// remaining ones never answer. A client waits for them for a while, since its
// own cell may come back.
func TestOtherCellOnFewerMachines(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		read := func() error {
			ctx := timeout(t, client.MostAbsence/3)
			_, err := c.ReadLock(ctx, "/a")
			return err
		}
		must(t, read())
		tc.kill("r2")
		tc.kill("r3")
		for range 2 { // the cell returns, and is lost again
			tc.set(func() { cells["r1"] = "new" })
			if err := read(); errors.Is(err, client.ErrOtherCell) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("soon: %v", err)
			}
			tc.set(func() { cells["r1"] = "old" })
			must(t, read())
		}
		tc.set(func() { cells["r1"] = "new" })
		began, err := time.Now(), error(nil)
		for err = read(); errors.Is(err, context.DeadlineExceeded); err = read() {
		}
		if took := time.Since(began); !errors.Is(err, client.ErrOtherCell) || took < client.MostAbsence || took > 3*client.MostAbsence {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// With AnyCell the client accepts every cell.
func TestAnyCell(t *testing.T) {
	inCells(t, true, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		for _, cell := range []string{"old", "new"} {
			tc.set(func() { cells["r1"], cells["r2"], cells["r3"] = cell, cell, cell })
			must(t, second(c.ReadLock(t.Context(), "/a")))
		}
	})
}

// With AnyCell the client accepts the lower numbers of a new cell at the same
// addresses.
func TestAnyCellWithLowerNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := stouttest.New(t, stouttest.Options{}), stouttest.New(t, stouttest.Options{})
		at := &exchanged{}
		_ = two.Client(func(o *client.Config) { at.two = o.Transport })
		c := one.Client(func(o *client.Config) {
			at.one, o.Transport, o.AnyCell = o.Transport, at, true
		})
		work := func() {
			must(t, second(c.Put(t.Context(), "/a", nil)))
			must(t, second(c.Get(t.Context(), "/a")))
			s, err := c.NewSession(t.Context())
			must(t, err)
			must(t, second(s.Lock(t.Context(), "/l")))
			must(t, s.Close(t.Context()))
		}
		for range 20 {
			work()
		}
		at.now.Store(true)
		work()
	})
}

// exchanged is a client's network, in which another cell takes the first one's place.
type exchanged struct {
	now      atomic.Bool
	one, two http.RoundTripper
}

func (e *exchanged) RoundTrip(q *http.Request) (*http.Response, error) {
	if e.now.Load() {
		return e.two.RoundTrip(q)
	}
	return e.one.RoundTrip(q)
}

// TestStreamOfAnotherCell: the client also checks the cell id in each bookmark,
// for instance if a proxy removes the header.
func TestStreamOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, tc *testCell, c *client.Client, cells map[string]string) {
		must(t, second(c.ReadLock(t.Context(), "/a")))
		tc.script(sse(lockapi.StreamBookmark, 9, lockapi.Bookmark{Revision: 9, Cell: "new"}))
		tc.set(func() { cells["r1"], cells["r2"], cells["r3"] = "", "", "" })
		ctx := timeout(t, time.Minute)
		for e, err := range c.Watch(ctx, 1) {
			if !errors.Is(err, client.ErrOtherCell) {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}

// TestWatchAfterWhatIsNotReached: if no replica has reached the caller's
// revision, the watch yields Compacted and continues from the present one.
func TestWatchAfterWhatIsNotReached(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.script(sse(lockapi.StreamCompacted, 2, lockapi.Compacted{Oldest: 0, Revision: 2}))
		for e, err := range c.Watch(t.Context(), 9) {
			if err != nil || e.Compacted == nil || e.Compacted.Revision != 2 {
				t.Errorf("%+v, %v", e, err)
			}
			break
		}
	})
}
