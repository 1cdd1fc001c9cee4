package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestLocks tests an undisturbed cell.
func TestLocks(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	master := c.Ready(t)
	t.Run("through every replica", func(t *testing.T) { throughEveryReplica(t, c) })
	t.Run("stale reads", func(t *testing.T) { staleReads(t, c, master) })
	t.Run("a race without waiting", func(t *testing.T) { raceWithoutWaiting(t, c) })
	t.Run("a race for a place in the queue", func(t *testing.T) { raceForTheQueue(t, c, master) })
	t.Run("a grant as an event", func(t *testing.T) { grantAsEvent(t, c, master) })
}

// throughEveryReplica acquires, reads and releases at each pair of replicas: a
// linearizable read sees what another replica has just answered.
func throughEveryReplica(t *testing.T, c *cell.Cell) {
	var last uint64
	for _, a := range c.Replicas() {
		session := open(t, a, aWhile)
		for _, b := range c.Replicas() {
			g := acquire(t, a, "/every/replica", ask(session.ID, b.ID, 0))
			if g.Token <= last {
				t.Errorf("token %d after %d", g.Token, last)
			}
			last = g.Token
			wantHolder(t, read(t, b, g.Path), g)
			if again := acquire(t, b, g.Path, ask(session.ID, b.ID, 0)); again.Token != g.Token {
				t.Errorf("the same pair got %d at %s and %d at %s", g.Token, a.ID, again.Token, b.ID)
			}
			check := call[lockapi.SequencerCheck](t, b, http.MethodGet, lockapi.RouteSequencers+"?value="+g.Sequencer, nil)
			if !check.Valid {
				t.Errorf("sequencer %s of a lock that is held: %+v", g.Sequencer, check)
			}
			release(t, b, g)
			if l := read(t, a, g.Path); l.State != lockapi.StateFree {
				t.Errorf("%s reads %+v after the release at %s", a.ID, l, b.ID)
			}
		}
	}
}

// staleReads are answered from each replica's own state and marked as stale; in
// the end they show everything.
func staleReads(t *testing.T, c *cell.Cell, master *cell.Replica) {
	g := acquire(t, master, "/stale", ask(open(t, master, aWhile).ID, "", 0))
	for _, r := range c.Replicas() {
		must(t, cell.Wait(cell.Bounded(t), r.ID+" shows the grant", func(ctx context.Context) error {
			l, err := staleLock(ctx, r, g.Path)
			if err == nil && (len(l.Holders) != 1 || l.Holders[0].Token != g.Token) {
				err = fmt.Errorf("it shows %+v", l)
			}
			return err
		}))
	}
	release(t, master, g)
}

func staleLock(ctx context.Context, r *cell.Replica, path string) (l lockapi.Lock, err error) {
	resp, err := request(ctx, r, http.MethodGet, lockRoute(path)+"?consistency=stale", &l)
	if err == nil && resp.Header.Get(lockapi.HeaderStale) != "true" {
		err = fmt.Errorf("%s is %q", lockapi.HeaderStale, resp.Header.Get(lockapi.HeaderStale))
	}
	return l, err
}

// racers is the number of racing clients, each with its own session.
const racers = 32

func openRacers(t *testing.T, c *cell.Cell) []string {
	sessions := make([]string, racers)
	for i := range sessions {
		sessions[i] = open(t, c.Replicas()[i%3], aWhile).ID
	}
	return sessions
}

func raceWithoutWaiting(t *testing.T, c *cell.Cell) {
	var calls []<-chan answer[lockapi.Grant]
	for i, id := range openRacers(t, c) {
		calls = append(calls, begin[lockapi.Grant](t, c.Replicas()[i%3], http.MethodPut, lockRoute("/race/try"), ask(id, "", 0)))
	}
	var grants []lockapi.Grant
	for _, got := range calls {
		a := await(t, "a try", got)
		if a.err == nil {
			grants = append(grants, a.out)
			continue
		}
		wantCode(t, "a try", a.err, lockapi.CodeLockHeld)
		if e := new(lockapi.Error); errors.As(a.err, &e) && len(e.Holders) != 1 {
			t.Errorf("a refusal names the holders %+v", e.Holders)
		}
	}
	if len(grants) != 1 {
		t.Fatalf("%d clients got the lock: %+v", len(grants), grants)
	}
	wantHolder(t, read(t, c.Replicas()[0], "/race/try"), grants[0])
}

// raceForTheQueue: exactly one of 32 callers holds the lock; the others get it
// one after the other in queue order, with growing tokens.
func raceForTheQueue(t *testing.T, c *cell.Cell, master *cell.Replica) {
	const path = "/race/queue"
	sessions := openRacers(t, c)
	answers := make(chan answer[lockapi.Grant], racers)
	for i, id := range sessions {
		got := begin[lockapi.Grant](t, c.Replicas()[i%3], http.MethodPut, lockRoute(path), ask(id, "", aWhile))
		go func() { answers <- <-got }()
	}
	wantWaiters(t, master, path, racers-1)
	order := queueOf(t, master, path, sessions)
	holder := await(t, "the first grant", answers)
	for _, next := range append(order, "") {
		must(t, holder.err)
		wantHolder(t, read(t, master, path), holder.out)
		if len(answers) > 0 {
			t.Fatalf("a second grant beside %+v: %+v", holder.out, <-answers)
		}
		release(t, master, holder.out)
		if next == "" {
			break
		}
		got := await(t, "the next grant", answers)
		if got.out.Session != next || got.out.Token <= holder.out.Token {
			t.Fatalf("after %+v came %+v %v, want session %s", holder.out, got.out, got.err, next)
		}
		holder = got
	}
	if l := read(t, master, path); l.State != lockapi.StateFree {
		t.Errorf("in the end: %+v", l)
	}
}

// queueOf lists the sessions that wait for a lock, next first.
func queueOf(t *testing.T, r *cell.Replica, path string, sessions []string) []string {
	t.Helper()
	places := map[string]int{}
	var order []string
	for _, id := range sessions {
		for _, w := range call[lockapi.SessionState](t, r, http.MethodGet, sessionRoute(id), nil).Waits {
			if w.Path == path {
				places[id] = w.Position
				order = append(order, id)
			}
		}
	}
	slices.SortFunc(order, func(a, b string) int { return places[a] - places[b] })
	for i, id := range order {
		if places[id] != i+1 {
			t.Errorf("%s has place %d, want %d", id, places[id], i+1)
		}
	}
	return order
}

// grantAsEvent: a kept queue position survives its call. Its grant arrives as
// an event on a keepalive through any replica, until it is acknowledged.
func grantAsEvent(t *testing.T, c *cell.Cell, master *cell.Replica) {
	const path = "/event"
	held := acquire(t, master, path, ask(open(t, master, aWhile).ID, "", 0))
	for _, r := range c.Replicas() {
		waiter := open(t, r, aWhile)
		req := ask(waiter.ID, "h", 0)
		req.Queue = true
		if g := acquire(t, r, path, req); g.State != lockapi.StateQueued || g.Position != 1 {
			t.Errorf("at %s: %+v, want queued at 1", r.ID, g)
		}
		alive := begin[lockapi.Keepalive](t, r, http.MethodPost, sessionRoute(waiter.ID)+"/keepalive", lockapi.KeepaliveRequest{WaitMS: 50_000})
		release(t, master, held)
		got := await(t, "the keepalive", alive)
		must(t, got.err)
		if len(got.out.Events) != 1 || got.out.Events[0].Path != path || got.out.Events[0].Handle != "h" {
			t.Fatalf("at %s: %+v, want one grant", r.ID, got.out)
		}
		event := got.out.Events[0]
		for ack, want := range []int{1, 0} {
			k := call[lockapi.Keepalive](t, r, http.MethodPost, sessionRoute(waiter.ID)+"/keepalive", lockapi.KeepaliveRequest{Ack: uint64(ack) * event.Seq})
			if len(k.Events) != want {
				t.Errorf("acknowledged %d: %+v, want %d events", uint64(ack)*event.Seq, k.Events, want)
			}
		}
		held = acquire(t, r, path, ask(waiter.ID, "h", time.Second))
		if held.Token != event.Token {
			t.Errorf("the event has token %d, the repeated call %d", event.Token, held.Token)
		}
	}
}
