package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// inCells has each replica of a fake cell answer as the cell that is noted for it.
func inCells(t *testing.T, any bool, f func(t *testing.T, f *fakeCell, c *Client, cells map[string]string)) {
	t.Helper()
	bubble(t, func(t *testing.T, fake *fakeCell, _ *Client) {
		cells := map[string]string{"r1": "old", "r2": "old", "r3": "old"}
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := fake.RoundTrip(r)
			if err == nil {
				fake.set(func() { resp.Header.Set(lockapi.HeaderCell, cells[r.URL.Host]) })
			}
			return resp, err
		})
		c, err := Config{
			URLs: []string{"http://r1", "http://r2", "http://r3"}, Transport: transport, AnyCell: any,
			Clock: func() time.Duration { return time.Since(fake.start) },
		}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		f(t, fake, c, cells)
	})
}

// A client that has spoken with a cell goes on with no other one, and says why.
func TestAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		f.set(func() {
			for id := range cells {
				cells[id] = "new"
			}
		})
		for name, call := range map[string]func(context.Context) error{
			"a read":  func(ctx context.Context) error { _, err := c.ReadLock(ctx, "/a"); return err },
			"a write": func(ctx context.Context) error { _, err := c.NewSession(ctx); return err },
			"a backup": func(ctx context.Context) error {
				_, err := c.Backup(ctx, &strings.Builder{})
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
			if !errors.Is(err, ErrOtherCell) || !strings.Contains(err.Error(), "id new") || !strings.Contains(err.Error(), "AnyCell") || time.Since(began) > 10*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
		}
		if _, err := c.Cell(t.Context()); err != nil {
			t.Errorf("what a replica says of itself: %v", err)
		}
	})
}

// One replica of another cell among those of this one is passed over.
func TestOneOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		f.set(func() { cells["r1"] = "new" })
		f.elect("r2")
		for range 10 {
			if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOtherCellOnFewerMachines: the machines that the other cell does without never answer.
// A client waits for them for a while, since a cell that is away may come back.
func TestOtherCellOnFewerMachines(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		read := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), mostAbsence/3)
			defer cancel()
			_, err := c.ReadLock(ctx, "/a")
			return err
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		f.kill("r2")
		f.kill("r3")
		for range 2 { // the cell comes back, and is away again
			f.set(func() { cells["r1"] = "new" })
			if err := read(); errors.Is(err, ErrOtherCell) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("soon: %v", err)
			}
			f.set(func() { cells["r1"] = "old" })
			if err := read(); err != nil {
				t.Error(err)
			}
		}
		f.set(func() { cells["r1"] = "new" })
		began, err := time.Now(), error(nil)
		for err = read(); errors.Is(err, context.DeadlineExceeded); err = read() {
		}
		if took := time.Since(began); !errors.Is(err, ErrOtherCell) || took < mostAbsence || took > 3*mostAbsence {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Whoever says so goes on with any.
func TestAnyCell(t *testing.T) {
	inCells(t, true, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		for _, cell := range []string{"old", "new"} {
			f.set(func() { cells["r1"], cells["r2"], cells["r3"] = cell, cell, cell })
			if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
				t.Error(err)
			}
		}
	})
	c, err := NewWith([]string{"http://r1"}, WithAnyCell())
	if err != nil || !c.calls.cell.any {
		t.Error(err)
	}
}

// TestStreamOfAnotherCell: the cell of a stream is looked at with each bookmark as well,
// where something on the way leaves the header out, say.
func TestStreamOfAnotherCell(t *testing.T) {
	inCells(t, false, func(t *testing.T, f *fakeCell, c *Client, cells map[string]string) {
		if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		f.set(func() {
			for _, r := range f.replicas {
				r.events.script = sse(lockapi.StreamBookmark, 9, lockapi.Bookmark{Revision: 9, Cell: "new"})
			}
			cells["r1"], cells["r2"], cells["r3"] = "", "", ""
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for e, err := range c.Watch(ctx, 1) {
			if !errors.Is(err, ErrOtherCell) {
				t.Errorf("%+v, %v", e, err)
			}
		}
	})
}

// TestWatchAfterWhatIsNotReached: if no replica has reached the caller's revision, the watch
// yields Compacted and continues from the present one.
func TestWatchAfterWhatIsNotReached(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.put("/a", "x")
		f.set(func() {
			for _, r := range f.replicas {
				r.events.script = sse(lockapi.StreamCompacted, 2, lockapi.Compacted{Oldest: 0, Revision: 2})
			}
		})
		for e, err := range c.Watch(t.Context(), 9) {
			if err != nil || e.Compacted == nil || e.Compacted.Revision != 2 {
				t.Errorf("%+v, %v", e, err)
			}
			break
		}
	})
}

// TestCompactedIsKept: a replica that answered compacted and does not answer again has
// answered. Else the watch went back to revision 0.
func TestCompactedIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		var got []lockapi.Compacted
		w := &watch{c: c, after: 4, yield: func(e Event, _ error) bool {
			got = append(got, *e.Compacted)
			return true
		}}
		refused := &lockapi.Error{Code: lockapi.CodeCompacted, Compacted: lockapi.Compacted{Oldest: 5, Revision: 7}}
		all := c.calls.targets.known.Load().all
		for _, ask := range []struct {
			of  *endpoint
			err error
		}{{all[0], refused}, {all[0], io.EOF}, {all[1], io.EOF}, {all[2], io.EOF}} {
			w.at = ask.of
			if err := w.judge(t.Context(), ask.err); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != 1 || got[0].Revision != 7 || w.after != 7 {
			t.Errorf("told %+v, and goes on after %d", got, w.after)
		}
	})
}
