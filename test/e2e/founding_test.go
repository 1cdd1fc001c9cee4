package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// standby returns what a replica reports while it waits.
func standby(ctx context.Context, r *cell.Replica) (*lockapi.Error, error) {
	_, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil)
	report := new(lockapi.Error)
	if !errors.As(err, &report) {
		return nil, fmt.Errorf("%s at %s: %v", lockapi.RouteReady, r.ID, err)
	}
	return report, nil
}

// waitsFor waits until a replica reports that it waits for another one to found
// the cell.
func waitsFor(t *testing.T, r, missing *cell.Replica) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), r.ID+" waits for "+missing.ID, func(ctx context.Context) error {
		report, err := standby(ctx, r)
		if err == nil && (!strings.Contains(report.Detail, "waiting for "+missing.ID) || report.Command != "" || report.Directory == "") {
			err = fmt.Errorf("it reports %+v", report)
		}
		return err
	}))
}

// TestFoundingWaits: all replicas together found a new cell. A waiting replica
// names the missing one, once in the log, and can be stopped.
func TestFoundingWaits(t *testing.T) {
	t.Parallel()
	c := cell.NewPrepared(t, cell.Options{})
	first, second, third := c.Replicas()[0], c.Replicas()[1], c.Replicas()[2]
	must(t, first.Start())
	must(t, second.Start())
	waitsFor(t, first, third)
	waitsFor(t, second, third)
	staysWithoutMaster(t, first, second)
	var live struct{ Status string }
	if _, err := first.Call(cell.Bounded(t), http.MethodGet, lockapi.RouteLive, nil, &live); err != nil || live.Status != "live" {
		t.Errorf("%s: %+v, %v", lockapi.RouteLive, live, err)
	}
	if own := call[lockapi.Replica](t, first, http.MethodGet, lockapi.RouteReplica, nil); own.Role != lockapi.RoleNone || own.Healthy || own.Directory == "" {
		t.Errorf("%s reports about itself %+v", first.ID, own)
	}
	_, err := first.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteSessions, nil, nil)
	wantCode(t, "a call before the founding", err, lockapi.CodeNoMaster)
	if err == nil || !strings.Contains(err.Error(), "waiting for "+third.ID) {
		t.Errorf("a call before the founding gets %v", err)
	}
	if count := strings.Count(first.LogTail(1000), "waiting for "+third.ID+" "); count != 1 {
		t.Errorf("the log has %d messages that it waits for %s:\n%s", count, third.ID, first.LogTail(20))
	}
	must(t, first.Terminate(cell.Bounded(t))) // with exit code 0
	must(t, first.Start())
	must(t, third.Start())
	c.Ready(t)
	wantOneCell(t, c)
}

// wantOneCell checks that all replicas are voting members of one cell.
func wantOneCell(t *testing.T, c *cell.Cell) {
	t.Helper()
	id := ""
	for _, r := range c.Replicas() {
		now := call[lockapi.Members](t, r, http.MethodGet, lockapi.RouteMembers, nil)
		if id == "" {
			id = now.CellID
		}
		voters := 0
		for _, m := range now.Members {
			if m.Suffrage == lockapi.SuffrageVoter {
				voters++
			}
		}
		if now.CellID != id || id == "" || len(now.Members) != len(c.Replicas()) || voters != len(c.Replicas()) {
			t.Errorf("at %s the members of cell %s are %+v", r.ID, now.CellID, now.Members)
		}
	}
}

// TestInterruptedFounding: replicas are killed, or lose their directories,
// while they found a cell. Either one cell is founded, or a replica reports
// that it must be admitted.
func TestInterruptedFounding(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := cell.NewPrepared(t, cell.Options{})
			began := time.Now()
			interrupt(t, c)
			admitStrangers(t, c)
			c.Ready(t)
			wantOneCell(t, c)
			s := open(t, c.Replicas()[n%3], aWhile)
			acquire(t, c.Replicas()[(n+1)%3], "/first", ask(s.ID, "", 0))
			t.Logf("founded %v after the first start", time.Since(began))
		})
	}
}

// interrupt starts the replicas and kills them at random; some lose their
// directories.
func interrupt(t *testing.T, c *cell.Cell) {
	t.Helper()
	for _, r := range c.Replicas() {
		must(t, r.Start())
	}
	wiped := false // one of three at most: the others are a majority
	for range 6 {
		time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
		r := c.Replicas()[rand.IntN(3)]
		must(t, r.Kill())
		if !wiped && rand.IntN(4) == 0 {
			wiped = true
			must(t, os.RemoveAll(r.DataDir))
		}
		must(t, r.Start())
	}
}

// admitStrangers waits until each replica is ready or reports that it must be
// admitted, and admits it.
func admitStrangers(t *testing.T, c *cell.Cell) {
	t.Helper()
	for _, r := range c.Replicas() {
		lost := false
		must(t, cell.Wait(cell.Bounded(t), r.ID+" is ready or a stranger", func(ctx context.Context) error {
			_, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil)
			report := new(lockapi.Error)
			lost = errors.As(err, &report) && report.Command != ""
			if lost {
				return nil
			}
			return err
		}))
		if lost {
			must(t, c.Admit(cell.Bounded(t), r))
		}
	}
}

// TestCellsDoNotMix: a replica of one cell at the address of another cell's
// replica is not a member there, with equal or different cell names.
func TestCellsDoNotMix(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := cell.New(t, cell.Options{Name: "one"}), cell.New(t, cell.Options{Name: name})
			var held []lockapi.Grant
			for _, c := range []*cell.Cell{one, two} {
				s := open(t, c.Ready(t), aWhile)
				held = append(held, acquire(t, c.Replicas()[0], "/kept", ask(s.ID, "", 0)))
			}
			ours, theirs := one.Replicas()[2], two.Replicas()[2]
			their := call[lockapi.Replica](t, theirs, http.MethodGet, lockapi.RouteReplica, nil)
			must(t, ours.Kill())
			must(t, theirs.Kill())
			must(t, theirs.StartWith("--raft-listen="+ours.RaftAddr, "--api-listen="+strings.TrimPrefix(ours.URL, "http://")))

			// It serves at our address, but is not our member.
			must(t, cell.Wait(cell.Bounded(t), "theirs serves", func(ctx context.Context) error {
				var now lockapi.Replica
				_, err := ours.Call(ctx, http.MethodGet, lockapi.RouteReplica, nil, &now)
				if err == nil && (now.Directory != their.Directory || now.Role == lockapi.RoleNone) {
					err = fmt.Errorf("at our address is %+v, want %+v", now, their)
				}
				return err
			}))
			present := one.WaitMasterOf(t, one.Replicas()[0], one.Replicas()[1])
			for _, m := range call[lockapi.Members](t, present, http.MethodGet, lockapi.RouteMembers, nil).Members {
				if m.Healthy != (m.ID != ours.ID) {
					t.Errorf("member %+v", m)
				}
			}
			knowsNoMaster(t, ours)
			wantHolder(t, read(t, present, "/kept"), held[0])

			must(t, theirs.Kill())
			must(t, ours.Start())
			must(t, theirs.Start())
			for i, c := range []*cell.Cell{one, two} {
				wantHolder(t, read(t, c.Ready(t), "/kept"), held[i])
			}
		})
	}
}

// knowsNoMaster checks for the time of a few elections that a replica follows
// no master.
func knowsNoMaster(t *testing.T, r *cell.Replica) {
	t.Helper()
	throughout(t, func() error {
		view, err := ownView(cell.Bounded(t), r)
		if err == nil && view.Master != nil {
			err = fmt.Errorf("%s takes %s for the master", r.ID, view.Master.ID)
		}
		return err
	})
}
