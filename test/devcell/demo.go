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
	demoBound = 2 * time.Minute // for the whole story, building apart; it takes ten seconds
	demoTTL   = 4 * time.Second // of the sessions: short, so that nobody waits long for an expiry
	demoLock  = "/demo/leader"
)

// runDemo says how a lock outlives the master's process and not its holder. It
// has a directory and ports of its own.
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
	if err := s.tellAll(ctx); err != nil {
		return fmt.Errorf("the demo failed: %w\n%s", err, logs(s.cell))
	}
	say("\nAll of it came true, in %.1f s.", time.Since(s.began).Seconds())
	return nil
}

// tellAll is the story. Each part checks what it tells.
func (s *story) tellAll(ctx context.Context) error {
	s.tell("cell", "three replicas started, as processes of their own")
	master, err := s.cell.WaitReady(ctx)
	if err != nil {
		return err
	}
	epoch, err := s.tellMaster(ctx, master)
	if err != nil {
		return err
	}
	alice, bob, grant, err := s.tellLock(ctx)
	if err != nil {
		return err
	}
	if err := s.tellKill(ctx, master, epoch, alice, grant); err != nil {
		return err
	}
	return s.tellExpiry(ctx, alice, bob, grant)
}

// tellMaster shows who is in office, and returns the epoch.
func (s *story) tellMaster(ctx context.Context, master *cell.Replica) (uint64, error) {
	view, err := master.Cell(ctx)
	if err != nil {
		return 0, err
	}
	s.tell("master", "%s is in office: epoch %d, lease of %d ms", master.ID, view.Epoch, view.Lease.TermMS)
	return view.Epoch, nil
}

// tellLock has alice hold the lock and bob wait for it.
func (s *story) tellLock(ctx context.Context) (alice, bob *member, held lockapi.Grant, err error) {
	if alice, err = s.join(ctx, "alice", demoTTL); err != nil {
		return
	}
	if bob, err = s.join(ctx, "bob", demoTTL); err != nil {
		return
	}
	s.tell("sessions", "alice and bob are kept alive, each with a ttl of %s", demoTTL)
	if held, err = alice.acquire(ctx, demoLock); err != nil {
		return
	}
	if held.State != lockapi.StateHeld || held.Token == 0 {
		return alice, bob, held, fmt.Errorf("alice should hold the lock; the cell says: %+v", held)
	}
	s.tell("lock", "alice holds %s: token %d, sequencer %s", demoLock, held.Token, held.Sequencer)
	place, err := bob.acquire(ctx, demoLock)
	if err == nil && (place.State != lockapi.StateQueued || place.Position != 1) {
		err = fmt.Errorf("bob should be next in the queue; the cell says: %+v", place)
	}
	if err == nil {
		s.tell("queue", "bob waits for it at position %d", place.Position)
	}
	return alice, bob, held, err
}

// tellKill kills the master and finds alice's hold and bob's wait under its
// successor.
func (s *story) tellKill(ctx context.Context, master *cell.Replica, epoch uint64, alice *member, grant lockapi.Grant) error {
	if err := master.Kill(); err != nil {
		return err
	}
	killed := time.Now()
	s.tell("kill -9", "%s, the master, is dead (%s)", master.ID, exitWords(master))
	next, err := s.cell.WaitMaster(ctx)
	if err != nil {
		return err
	}
	outage := time.Since(killed)
	later, err := s.tellMaster(ctx, next)
	if err != nil {
		return err
	}
	if next == master || later <= epoch {
		return fmt.Errorf("another master with a later epoch than %d should be in office; it is %s with epoch %d", epoch, next.ID, later)
	}
	s.tell("", "it took over %d ms after the kill", outage.Milliseconds())
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
		return fmt.Errorf("the sequencer should be valid and one waiter be left; the cell says: %+v, %+v", check, l)
	}
	s.tell("lock", "alice still holds it with token %d, bob still waits", grant.Token)
	s.tell("check", "%s is valid", grant.Sequencer)
	return nil
}

// keptAlive waits until alice's keepalives are answered under the new epoch,
// and then for one whole ttl: the lock is held because they go on.
func (s *story) keptAlive(ctx context.Context, alice *member, epoch uint64, grant lockapi.Grant) error {
	err := cell.Wait(ctx, "alice's keepalives are answered by the new master", func(context.Context) error {
		if got, _ := alice.heard(); got < epoch {
			return fmt.Errorf("the latest was answered in epoch %d", got)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.tell("keepalive", "alice's keepalives are answered in epoch %d", epoch)
	select {
	case <-time.After(demoTTL + time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := alice.holds(ctx, demoLock, grant.Token); err != nil {
		return err
	}
	s.tell("lock", "more than a ttl later alice holds it still: the keepalives go on")
	return nil
}

// tellExpiry has alice fall silent and bob get the lock.
func (s *story) tellExpiry(ctx context.Context, alice, bob *member, grant lockapi.Grant) error {
	alice.silence()
	silent := time.Now()
	s.tell("silence", "alice stops its keepalives and holds the lock")
	var event lockapi.Event
	err := cell.Wait(ctx, "bob is told of the grant", func(context.Context) error {
		if _, grants := bob.heard(); len(grants) > 0 {
			event = grants[0]
			return nil
		}
		return fmt.Errorf("no event so far")
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
	s.tell("lock", "alice's session ran out; bob holds the lock %.1f s after the silence, token %d > %d", time.Since(silent).Seconds(), event.Token, grant.Token)
	check, err := s.check(ctx, grant.Sequencer)
	if err != nil {
		return err
	}
	if check.Valid {
		return fmt.Errorf("%s should no longer be valid", grant.Sequencer)
	}
	s.tell("check", "%s is not valid any more: %s", grant.Sequencer, check.Reason)
	return nil
}

// check asks whether a sequencer is valid.
func (s *story) check(ctx context.Context, sequencer string) (c lockapi.SequencerCheck, err error) {
	return c, s.call(ctx, http.MethodGet, lockapi.RouteSequencers+"?value="+url.QueryEscape(sequencer), nil, &c)
}
