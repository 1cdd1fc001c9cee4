package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// testCell is as much of a cell as a rehearsal calls, behind one transport.
type testCell struct {
	mu       sync.Mutex
	masters  []string // the last one is in office, in the epoch that their number is
	unwell   string   // member that is not well
	sessions []string
	queue    []lockapi.Waiter
	calls    []string        // changes that were asked for
	lost     bool            // no replica answers
	rights   map[string]bool // false: the caller lacks it
	release  time.Duration   // how long the release of a lock takes
}

func (c *testCell) elect(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masters = append(c.masters, id)
}

func (c *testCell) ail(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwell = id
}

func (c *testCell) cell() lockapi.Cell {
	out := lockapi.Cell{Cell: "test", Epoch: uint64(len(c.masters)), Access: c.rights != nil}
	if id := c.masters[len(c.masters)-1]; id != "" {
		out.Master, out.Lease = &lockapi.MasterRef{ID: id, URL: "http://" + id}, lockapi.Lease{Held: true, TermMS: 750, RemainingMS: 700}
	}
	return out
}

func (c *testCell) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if lost {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer, err := c.answer(r)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if refused, ok := answer.(*lockapi.Error); ok {
		status = refused.Code.Status()
	}
	if answer == nil {
		status = http.StatusNoContent
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (c *testCell) answer(r *http.Request) (any, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, lockapi.RouteSessions+"/"), "/")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/keepalive"):
		return lockapi.Keepalive{TTLMS: 12_000, HeldMS: 1000, Epoch: 1}, ask.Sleep(r.Context(), time.Second)
	case r.Method == http.MethodPut:
		return c.grant(r)
	case path == lockapi.RouteTransfer:
		return c.change(r)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, lockapi.RouteLocks):
		return lockapi.Released{Released: true}, ask.Sleep(r.Context(), c.release)
	}
	if err := ask.Sleep(r.Context(), time.Millisecond); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost:
		c.sessions = append(c.sessions, fmt.Sprintf("s%d", len(c.sessions)+1))
		return lockapi.Session{ID: c.sessions[len(c.sessions)-1], TTLMS: 12_000, Epoch: 1}, nil
	case r.Method == http.MethodDelete:
		c.sessions = slices.DeleteFunc(c.sessions, func(s string) bool { return s == id })
		return nil, nil
	case path == lockapi.RouteCell:
		return c.cell(), nil
	case path == lockapi.RouteMembers:
		out := lockapi.Members{Tolerates: 1}
		for _, id := range []string{"r1", "r2", "r3"} {
			out.Members = append(out.Members, lockapi.Member{ID: id, Suffrage: lockapi.SuffrageVoter, Healthy: id != c.unwell})
		}
		return out, nil
	case path == lockapi.RouteWhoAmI:
		return lockapi.WhoAmI{Principal: "user:ann", How: lockapi.HowToken, Operate: c.rights["operate"], Observe: c.rights["observe"]}, nil
	case path == lockapi.RouteCheck:
		verdict := func(right string) lockapi.AccessVerdict { return lockapi.AccessVerdict{Allowed: c.rights[right]} }
		return lockapi.AccessCheck{Principal: "user:ann", Path: r.URL.Query().Get("path"), Read: verdict("read"), Lock: verdict("lock")}, nil
	case strings.HasPrefix(path, lockapi.RouteLocks):
		return lockapi.Lock{
			Path: strings.TrimPrefix(path, lockapi.RouteLocks), State: lockapi.StateHeld, Mode: lockapi.Exclusive,
			Holders: []lockapi.Holder{{Session: "s1", Handle: "h", Mode: lockapi.Exclusive, Token: 1}}, Waiters: len(c.queue), Queue: slices.Clone(c.queue),
		}, nil
	}
	return lockapi.SessionList{Sessions: []lockapi.SessionState{}}, nil
}

// grant gives every lock at once, but has all but the first wait for the one held.
func (c *testCell) grant(r *http.Request) (any, error) {
	var asked lockapi.LockRequest
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.URL.Path, "/held") && asked.Session != "s1" {
		c.mu.Lock()
		if !slices.ContainsFunc(c.queue, func(w lockapi.Waiter) bool { return w.Handle == asked.Handle }) {
			c.queue = append(c.queue, lockapi.Waiter{Session: asked.Session, Handle: asked.Handle, Mode: lockapi.Exclusive, Position: len(c.queue) + 1})
		}
		at := len(c.queue)
		c.mu.Unlock()
		err := ask.Sleep(r.Context(), time.Duration(asked.WaitMS)*time.Millisecond)
		return lockapi.Grant{Path: strings.TrimPrefix(r.URL.Path, lockapi.RouteLocks), State: lockapi.StateQueued, Session: asked.Session, Handle: asked.Handle, Mode: asked.Mode, Position: at}, err
	}
	g := lockapi.Grant{Path: strings.TrimPrefix(r.URL.Path, lockapi.RouteLocks), State: lockapi.StateHeld, Session: asked.Session, Handle: asked.Handle, Mode: asked.Mode, Token: 1}
	g.Sequencer = lockapi.Sequencer{Mode: g.Mode, Token: g.Token, Path: g.Path}.String()
	return g, ask.Sleep(r.Context(), time.Millisecond)
}

func (c *testCell) change(r *http.Request) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, r.URL.Path)
	c.masters = append(c.masters, "r2")
	return lockapi.Transferred{Master: "r2"}, nil
}

// client is of c, in the time of the bubble.
func (c *testCell) client(t *testing.T) *client.Client {
	t.Helper()
	begun := time.Now()
	sdk, err := client.Config{
		URLs: []string{"http://r1"}, OnlyURLs: true, AnyCell: true, Transport: c,
		Clock: func() time.Duration { return time.Since(begun) },
	}.New()
	if err != nil {
		t.Fatal(err)
	}
	return sdk
}

// rehearsed runs a rehearsal of c in a bubble, with something between the look before
// and the run, and f beside that.
func rehearsed(t *testing.T, c *testCell, between func(), f func(ctx context.Context, cancel context.CancelFunc), judge func(Report, error)) {
	synctest.Test(t, func(t *testing.T) {
		sdk := c.client(t)
		defer sdk.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := Rehearsal{
			Client: sdk, URLs: []string{"http://r1"}, Poller: ask.Poller{Via: c}, Path: "/r",
			Lead: Lead, Settle: Settle, Doing: func(string) {},
		}
		before, err := r.Look(ctx)
		if err != nil || !Go(Assess(before)) {
			t.Fatal(err, Assess(before))
		}
		between()
		go f(ctx, cancel)
		judge(r.Run(ctx, before))
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := &testCell{masters: []string{"r3", "r1"}}
	rehearsed(t, c, func() {}, func(context.Context, context.CancelFunc) {}, func(r Report, err error) {
		if err != nil || r.Verdict != Passed || r.Before != (Office{"r1", 2}) || r.After != (Office{"r2", 3}) {
			t.Errorf("%+v, %v", r, err)
		}
		if r.Left != nil || len(c.sessions) > 0 || len(c.calls) != 1 {
			t.Errorf("it left %q, and called %q", c.sessions, c.calls)
		}
	})
}

// A new master that is lost during the observation is reported, and the
// rehearsal is not a success.
func TestNewMasterIsLost(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{"r3": Look, "": Failed} {
		c := &testCell{masters: []string{"r1"}}
		rehearsed(t, c, func() {}, func(ctx context.Context, _ context.CancelFunc) {
			_ = ask.Sleep(ctx, Lead+Settle/2)
			c.elect(next)
		}, func(r Report, err error) {
			if err != nil || r.Verdict != want || r.After != (Office{"r2", 2}) || !strings.Contains(strings.Join(r.Why, "; "), "at the end") {
				t.Errorf("then %q: %+v, %v", next, r, err)
			}
		})
	}
}

// A go is checked again before the change: at once, and after the observation.
func TestGoIsJudgedAgain(t *testing.T) {
	t.Parallel()
	none := func() {}
	for name, c := range map[string]struct {
		becomes func(*testCell)
		later   bool
		want    string
	}{
		"a member is not well while it is asked": {func(c *testCell) { c.ail("r3") }, false, "r3 is unhealthy"},
		"nor while it looks":                     {func(c *testCell) { c.ail("r3") }, true, "r3 is unhealthy"},
		"another master while it is asked":       {func(c *testCell) { c.elect("r3") }, false, "mastership has changed: r1 was master in epoch 1, now r3 is in epoch 2"},
		"another one while it looks":             {func(c *testCell) { c.elect("r3") }, true, "mastership has changed: "},
		"none":                                   {func(c *testCell) { c.elect("") }, false, "no master holds its lease"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := &testCell{masters: []string{"r1"}}
			between, beside := func() { c.becomes(cell) }, func(context.Context, context.CancelFunc) {}
			if c.later {
				between, beside = none, func(ctx context.Context, _ context.CancelFunc) {
					_ = ask.Sleep(ctx, Lead/2)
					c.becomes(cell)
				}
			}
			rehearsed(t, cell, between, beside, func(r Report, err error) {
				if late, ok := errors.AsType[*NoGo](err); !ok || Go(late.Warnings) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%+v, %v", r, err)
				}
				if len(cell.calls)+len(cell.sessions) > 0 {
					t.Errorf("it called %q and left %q", cell.calls, cell.sessions)
				}
			})
		})
	}
}

// An interrupted rehearsal also reports what it leaves behind.
func TestRunThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]time.Duration{"before the change": Lead / 2, "after it": Lead + time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, lost := range []bool{false, true} {
				c := &testCell{masters: []string{"r1"}}
				rehearsed(t, c, func() {}, func(ctx context.Context, cancel context.CancelFunc) {
					_ = ask.Sleep(ctx, at)
					c.mu.Lock()
					c.lost = lost
					c.mu.Unlock()
					cancel()
				}, func(r Report, err error) {
					if !errors.Is(err, context.Canceled) || (r.Left != nil) != lost || r.Changed != (at > Lead) {
						t.Errorf("lost %v: left %v, changed %v, %v", lost, r.Left, r.Changed, err)
					}
				})
			}
		})
	}
}

// A missing right is reported before anything is done.
func TestRights(t *testing.T) {
	t.Parallel()
	all := []string{"operate", "observe", "lock", "read"}
	for lacks, want := range map[string]string{
		"": "", "operate": "user:ann may not operate the cell, which", "observe": "observe it, which", "lock": "may not lock below /r, which",
		"read": "read below /r, which", "operate lock": "may not operate the cell, nor lock below /r, which",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &testCell{masters: []string{"r1"}, rights: map[string]bool{}}
			for _, right := range all {
				c.rights[right] = !strings.Contains(lacks, right)
			}
			sdk := c.client(t)
			defer sdk.Close()
			r := Rehearsal{Client: sdk, URLs: []string{"http://r1"}, Poller: ask.Poller{Via: c}, Path: "/r"}
			b, err := r.Look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Rights(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			got := Assess(b)
			if Go(got) != (want == "") || want != "" && !strings.Contains(got[0].What, want) {
				t.Errorf("without %q: %+v, want %q", lacks, got, want)
			}
		})
	}
}
