package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// wipe ends a replica, moves its data directory away, as an empty replacement
// disk would do, and starts it. It returns the place of the old directory.
func wipe(t *testing.T, r *cell.Replica) (old string) {
	t.Helper()
	old = r.DataDir + ".old"
	must(t, r.Kill())
	must(t, os.Rename(r.DataDir, old))
	must(t, r.Start())
	return old
}

// bringBack starts a replica with an earlier directory.
func bringBack(t *testing.T, r *cell.Replica, old string) {
	t.Helper()
	must(t, r.Kill())
	must(t, os.RemoveAll(r.DataDir))
	must(t, os.Rename(old, r.DataDir))
	must(t, r.Start())
}

// stranger waits until a replica reports that it does not belong to the cell,
// and checks the report.
func stranger(t *testing.T, r *cell.Replica) *lockapi.Error {
	t.Helper()
	report, err := r.Stranger(cell.Bounded(t))
	must(t, err)
	if want := fmt.Sprintf("stout member replace %s --directory %s", r.ID, report.Directory); report.Command != want || report.Directory == "" {
		t.Errorf("%s reports %+v, want the command %q", r.ID, report, want)
	}
	if !strings.Contains(report.Detail, report.Command) || !strings.Contains(report.Detail, "not a member") {
		t.Errorf("%s reports %q", r.ID, report.Detail)
	}
	return report
}

// staysWithoutMaster checks for the time of a few elections that no given
// replica considers itself the master.
func staysWithoutMaster(t *testing.T, replicas ...*cell.Replica) {
	t.Helper()
	throughout(t, func() error {
		for _, r := range replicas {
			if isMaster(cell.Bounded(t), r) == nil {
				return fmt.Errorf("%s is master", r.ID)
			}
		}
		return nil
	})
}

// TestWipedDirectory: a replica that returns with an empty directory does not
// count. With the third replica cut off, there is no master, and no data is
// lost. The replica becomes a member again when its new directory replaces the
// old one, which is then no longer a member.
func TestWipedDirectory(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Network: true})
	master := c.Ready(t)
	wiped, other := c.Others(master)[0], c.Others(master)[1]
	s := open(t, master, aWhile)
	held := acquire(t, master, "/kept", ask(s.ID, "", 0))

	old := wipe(t, wiped)
	report := stranger(t, wiped)
	second := acquire(t, other, "/second", ask(s.ID, "", 0)) // the two continue

	// With the master cut off, two of three names remain, but only one of their
	// directories.
	c.Network().Isolate(master.ID)
	staysWithoutMaster(t, wiped, other)
	c.Network().Heal()
	present := c.WaitMasterOf(t, master, other)
	wantHolder(t, read(t, present, "/kept"), held)
	wantHolder(t, read(t, present, "/second"), second)

	// With the other one cut off, the master can reach only a stranger.
	away := master
	if present == master {
		away = other
	}
	c.Network().Isolate(away.ID)
	must(t, cell.Wait(cell.Bounded(t), "the master gives up", func(ctx context.Context) error {
		if err := isMaster(ctx, present); err != nil {
			return nil
		}
		return errors.New("it is still master")
	}))
	staysWithoutMaster(t, wiped, present)
	c.Network().Heal()
	c.WaitMasterOf(t, master, other)

	must(t, c.Admit(cell.Bounded(t), wiped))
	if now := call[lockapi.Replica](t, wiped, http.MethodGet, lockapi.RouteReplica, nil); now.Directory != report.Directory {
		t.Errorf("%s has directory %s, and was admitted with %s", wiped.ID, now.Directory, report.Directory)
	}
	must(t, other.Kill()) // the new directory is now one of two
	present = c.WaitMasterOf(t, master, wiped)
	wantHolder(t, read(t, present, "/kept"), held)
	third := acquire(t, present, "/third", ask(s.ID, "", 0))
	if second.Token <= held.Token || third.Token <= second.Token {
		t.Errorf("tokens %d, %d, %d", held.Token, second.Token, third.Token)
	}
	must(t, other.Start())
	c.Ready(t)

	// The old directory learns that it was replaced, and does nothing.
	bringBack(t, wiped, old)
	stranger(t, wiped)
	must(t, wiped.Restart(cell.Bounded(t)))
	stranger(t, wiped)
	wantHolder(t, read(t, c.WaitMasterOf(t, master, other), "/third"), third)
}

// wantApplied waits until a replica's own state has the grant.
func wantApplied(t *testing.T, r *cell.Replica, g lockapi.Grant) {
	t.Helper()
	must(t, cell.Wait(cell.Bounded(t), r.ID+" has the grant", func(ctx context.Context) error {
		var l lockapi.Lock
		_, err := r.Call(ctx, http.MethodGet, lockRoute(g.Path)+"?consistency=stale", nil, &l)
		if err == nil && (len(l.Holders) != 1 || l.Holders[0].Session != g.Session || l.Holders[0].Token != g.Token) {
			err = fmt.Errorf("%+v", l)
		}
		return err
	}))
}

// TestTwoWiped: after the loss of a majority of the directories, the remaining
// replica follows no leader and keeps its state. The return of one old disk is
// enough.
func TestTwoWiped(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	master := c.Ready(t)
	s := open(t, master, aWhile)
	held := acquire(t, master, "/kept", ask(s.ID, "", 0))
	survivor := c.Others(master)[0]
	wantApplied(t, survivor, held) // two disks of three will be lost next
	first, second := master, c.Others(master)[1]
	old := wipe(t, first)
	wipe(t, second)
	lost := stranger(t, first)
	stranger(t, second)
	staysWithoutMaster(t, c.Replicas()...)
	wantApplied(t, survivor, held)
	_, err := survivor.Call(cell.Bounded(t), http.MethodPost, lockapi.RouteMembers+"/"+first.ID+"/replace?force=true",
		lockapi.ReplaceMemberRequest{Directory: lost.Directory}, nil)
	wantCode(t, "replacing without a majority", err, lockapi.CodeNoMaster)

	bringBack(t, first, old)
	present := c.WaitMasterOf(t, first, survivor)
	wantHolder(t, read(t, present, "/kept"), held)
	must(t, c.Admit(cell.Bounded(t), second))
}

// TestAutoReplace: a wiped member becomes a member again without an operator,
// even the master; the old directory does not.
func TestAutoReplace(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: []string{"--auto-replace", "1s"}})
	master := c.Ready(t)
	s := open(t, master, aWhile)
	held := acquire(t, master, "/kept", ask(s.ID, "", 0))
	for _, r := range []*cell.Replica{c.Others(master)[0], master} {
		old := wipe(t, r)
		must(t, cell.Wait(cell.Bounded(t), r.ID+" votes again", func(ctx context.Context) error {
			if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil); err != nil {
				return err
			}
			var now lockapi.Members
			if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteMembers, nil, &now); err != nil {
				return err
			}
			if now.Tolerates != 1 || len(now.Members) != 3 {
				return fmt.Errorf("%+v", now)
			}
			return nil
		}))
		wantHolder(t, read(t, r, "/kept"), held)
		if r != master {
			continue
		}
		bringBack(t, r, old)
		if report, err := r.Stranger(cell.Bounded(t)); err != nil || !strings.Contains(report.Detail, "not a member") {
			t.Errorf("the old directory reports %+v, %v", report, err)
		}
	}
}
