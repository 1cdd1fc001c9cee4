package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

const (
	demoBound = 2 * time.Minute // for the whole story without building; it takes ten seconds
	demoTTL   = 4 * time.Second // of the sessions: short, so that an expiry comes soon
	demoLock  = "/demo/leader"
)

// runDemo shows that a lock survives the death of the master's process, but not
// the death of its holder. It uses a directory and ports of its own.
func runDemo(ctx context.Context) (err error) {
	_, bin, err := build(ctx, "./cmd/stoutd")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stout-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, demoBound)
	defer cancel()
	s := &story{began: time.Now()}
	s.cell, err = cell.Start(cell.Options{Dir: dir, Name: "demo", Binary: filepath.Join(bin, "stoutd")})
	if err != nil {
		return err
	}
	defer s.cell.Close()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("the demo failed: %w\n%s", err, logs(s.cell))
	}
	say("\nAll steps succeeded, in %.1f s.", time.Since(s.began).Seconds())
	return nil
}

// run shows the story. Each part checks what it prints.
func (s *story) run(ctx context.Context) error {
	s.print("cell", "started three replicas, one process each")
	master, err := s.cell.WaitReady(ctx)
	if err != nil {
		return err
	}
	epoch, err := s.showMaster(ctx, master)
	if err != nil {
		return err
	}
	alice, bob, grant, err := s.showLock(ctx)
	if err != nil {
		return err
	}
	if err := s.showKill(ctx, master, epoch, alice, grant); err != nil {
		return err
	}
	return s.showExpiry(ctx, alice, bob, grant)
}

func (s *story) showMaster(ctx context.Context, master *cell.Replica) (uint64, error) {
	view, err := master.Cell(ctx)
	if err != nil {
		return 0, err
	}
	s.print("master", "%s is master: epoch %d, lease %d ms", master.ID, view.Epoch, view.Lease.TermMS)
	return view.Epoch, nil
}

// showLock makes alice acquire the lock and bob wait for it.
func (s *story) showLock(ctx context.Context) (alice, bob *member, held lockapi.Grant, err error) {
	if alice, err = s.join(ctx, "alice", demoTTL); err != nil {
		return
	}
	if bob, err = s.join(ctx, "bob", demoTTL); err != nil {
		return
	}
	s.print("sessions", "alice and bob open sessions with a ttl of %s and send keepalives", demoTTL)
	if held, err = alice.acquire(ctx, demoLock); err != nil {
		return
	}
	if held.State != lockapi.StateHeld || held.Token == 0 {
		return alice, bob, held, fmt.Errorf("alice should hold the lock; the cell reports %+v", held)
	}
	s.print("lock", "alice acquires %s: token %d, sequencer %s", demoLock, held.Token, held.Sequencer)
	place, err := bob.acquire(ctx, demoLock)
	if err == nil && (place.State != lockapi.StateQueued || place.Position != 1) {
		err = fmt.Errorf("bob should be next in the queue; the cell reports %+v", place)
	}
	if err == nil {
		s.print("queue", "bob waits for the lock at position %d", place.Position)
	}
	return alice, bob, held, err
}

// showKill kills the master and checks that its successor knows alice's hold
// and bob's queue position.
func (s *story) showKill(ctx context.Context, master *cell.Replica, epoch uint64, alice *member, grant lockapi.Grant) error {
	if err := master.Kill(); err != nil {
		return err
	}
	killed := time.Now()
	s.print("kill -9", "the master %s is dead (%s)", master.ID, exitWords(master))
	next, err := s.cell.WaitMaster(ctx)
	if err != nil {
		return err
	}
	outage := time.Since(killed)
	later, err := s.showMaster(ctx, next)
	if err != nil {
		return err
	}
	if next == master || later <= epoch {
		return fmt.Errorf("want another master with an epoch above %d; got %s with epoch %d", epoch, next.ID, later)
	}
	s.print("", "took over %d ms after the kill", outage.Milliseconds())
	if err := s.stillHeld(ctx, alice, grant); err != nil {
		return err
	}
	return s.keptAlive(ctx, alice, later, grant)
}

func exitWords(r *cell.Replica) string {
	_, words := r.ExitState()
	return words
}

func (s *story) stillHeld(ctx context.Context, alice *member, grant lockapi.Grant) error {
	if err := alice.holds(ctx, demoLock, grant.Token); err != nil {
		return err
	}
	check, err := s.check(ctx, grant.Sequencer)
	if err != nil {
		return err
	}
	l, err := s.lock(ctx, demoLock)
	if err != nil {
		return err
	}
	if !check.Valid || l.Waiters != 1 {
		return fmt.Errorf("the sequencer should be valid, with one waiter in the queue; the cell reports %+v, %+v", check, l)
	}
	s.print("lock", "alice still holds the lock with token %d; bob still waits", grant.Token)
	s.print("check", "%s is valid", grant.Sequencer)
	return nil
}

// keptAlive waits until alice's keepalives are answered under the new epoch,
// and then for more than one ttl. After that only continued keepalives explain
// that alice still holds the lock.
func (s *story) keptAlive(ctx context.Context, alice *member, epoch uint64, grant lockapi.Grant) error {
	err := cell.Wait(ctx, "the new master answers alice's keepalives", func(context.Context) error {
		if got, _ := alice.latest(); got < epoch {
			return fmt.Errorf("the latest answer has epoch %d", got)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.print("keepalive", "the new master answers alice's keepalives: epoch %d", epoch)
	select {
	case <-time.After(demoTTL + time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := alice.holds(ctx, demoLock, grant.Token); err != nil {
		return err
	}
	s.print("lock", "more than one ttl later, alice still holds the lock: the keepalives continue")
	return nil
}

// showExpiry stops alice's keepalives and waits until bob gets the lock.
func (s *story) showExpiry(ctx context.Context, alice, bob *member, grant lockapi.Grant) error {
	alice.stopKeepalives()
	silent := time.Now()
	s.print("silence", "alice stops sending keepalives without releasing the lock")
	var event lockapi.Event
	err := cell.Wait(ctx, "bob receives the grant", func(context.Context) error {
		if _, grants := bob.latest(); len(grants) > 0 {
			event = grants[0]
			return nil
		}
		return fmt.Errorf("no event yet")
	})
	if err != nil {
		return err
	}
	if event.Type != lockapi.EventLockGranted || event.Path != demoLock || event.Token <= grant.Token {
		return fmt.Errorf("bob should get %s with a token above %d; the event is %+v", demoLock, grant.Token, event)
	}
	if err := bob.holds(ctx, demoLock, event.Token); err != nil {
		return err
	}
	s.print("lock", "alice's session expired; bob holds the lock %.1f s after the last keepalive, with token %d > %d", time.Since(silent).Seconds(), event.Token, grant.Token)
	check, err := s.check(ctx, grant.Sequencer)
	if err != nil {
		return err
	}
	if check.Valid {
		return fmt.Errorf("%s should no longer be valid", grant.Sequencer)
	}
	s.print("check", "%s is no longer valid: %s", grant.Sequencer, check.Reason)
	return nil
}

func (s *story) check(ctx context.Context, sequencer string) (c lockapi.SequencerCheck, err error) {
	return c, s.call(ctx, http.MethodGet, lockapi.RouteSequencers+"?value="+url.QueryEscape(sequencer), nil, &c)
}
