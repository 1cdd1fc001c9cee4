package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// frequentSnapshots make a cell write snapshots and cut its log after few
// entries.
var frequentSnapshots = []string{"--snapshot-threshold=32", "--trailing-logs=8", "--snapshot-interval=100ms"}

// TestFullRestart: a cell that was stopped or killed as a whole continues with
// all its state, and tokens grow.
func TestFullRestart(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{})
	before := everything{}
	before.add(t, c.Ready(t))
	for _, way := range []string{"SIGTERM", "kill -9"} {
		if way == "SIGTERM" {
			must(t, c.Stop(cell.Bounded(t)))
		} else {
			for _, r := range c.Replicas() {
				must(t, r.Kill())
			}
		}
		for _, r := range c.Replicas() {
			must(t, r.Start())
		}
		c.Ready(t)
		for _, r := range c.Replicas() {
			t.Run("through "+r.ID+" after "+way, func(t *testing.T) { before.check(t, r) })
		}
		before.add(t, c.Ready(t))
	}
}

// TestReadyIsCaughtUp: a returning replica is not ready before it has caught
// up. Otherwise a rolling restart would stop the next replica while a majority
// lacks entries.
func TestReadyIsCaughtUp(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	master := c.Ready(t)
	away := c.Others(master)[0]
	must(t, away.Kill())
	for range 300 {
		call[lockapi.Session](t, master, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{TTLMS: aWhile.Milliseconds()})
	}
	missed := call[lockapi.Replica](t, master, http.MethodGet, lockapi.RouteReplica, nil).AppliedIndex
	must(t, away.Start())
	must(t, cell.Wait(cell.Bounded(t), "the replica is ready", func(ctx context.Context) error {
		_, err := away.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil)
		return err
	}))
	if got := call[lockapi.Replica](t, away, http.MethodGet, lockapi.RouteReplica, nil).AppliedIndex; got+64 < missed {
		t.Errorf("ready with entry %d applied, where the master was at %d before it started", got, missed)
	}
}

// everything is what a test put into a cell: grants by (session, handle), queue
// positions, and the highest token seen.
type everything struct {
	sessions []lockapi.SessionState
	highest  uint64
}

// add opens a session that holds and waits in several ways.
func (e *everything) add(t *testing.T, r *cell.Replica) {
	t.Helper()
	n := len(e.sessions)
	s := call[lockapi.Session](t, r, http.MethodPost, lockapi.RouteSessions, lockapi.SessionRequest{
		TTLMS: aWhile.Milliseconds(), Name: fmt.Sprintf("session %d", n), Meta: map[string]string{"n": fmt.Sprint(n)},
	})
	shared := ask(s.ID, "reader", 0)
	shared.Mode = lockapi.Shared
	semaphore := ask(s.ID, "slot", 0)
	semaphore.Mode, semaphore.Limit = lockapi.Shared, 9
	queued := ask(s.ID, "queued", 0)
	queued.Queue = true
	for path, req := range map[string]lockapi.LockRequest{
		fmt.Sprintf("/own/%d", n): ask(s.ID, "", 0), "/shared": shared, "/semaphore": semaphore, "/queue": queued,
	} {
		g := acquire(t, r, path, req)
		if g.Token != 0 && g.Token <= e.highest && n > 0 {
			t.Errorf("token %d after %d", g.Token, e.highest)
		}
	}
	state := call[lockapi.SessionState](t, r, http.MethodGet, sessionRoute(s.ID), nil)
	if len(state.Holds)+len(state.Waits) != 4 {
		t.Fatalf("a session with four requests has %+v", state)
	}
	for _, h := range state.Holds {
		e.highest = max(e.highest, h.Token)
	}
	e.sessions = append(e.sessions, state)
}

// check reads all of it through a replica.
func (e *everything) check(t *testing.T, r *cell.Replica) {
	t.Helper()
	for _, want := range e.sessions {
		got := call[lockapi.SessionState](t, r, http.MethodGet, sessionRoute(want.ID), nil)
		got.LeaseRemainingMS, want.LeaseRemainingMS = nil, nil
		got.Epoch, want.Epoch = 0, 0
		if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
			t.Errorf("session is %s, was %s", a, b)
		}
	}
}

// TestRollingRestartUnderLoad: each replica in turn stops cleanly and returns,
// while snapshots are written and the log is cut.
func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: frequentSnapshots})
	c.Ready(t)
	l := startLoad(t, c, 8)
	for _, r := range c.Replicas() {
		l.progress(t, 60)
		must(t, r.Terminate(cell.Bounded(t)))
		l.progress(t, 60)
		must(t, r.Start())
		c.Ready(t)
	}
	l.end(t)
	for _, r := range c.Replicas() {
		if _, err := newestSnapshot(r); err != nil {
			t.Error(err)
		}
	}
}

func newestSnapshot(r *cell.Replica) (index uint64, err error) {
	names, err := filepath.Glob(filepath.Join(r.DataDir, "snapshots", "*-*-*"))
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		var term, at, when uint64
		if _, err := fmt.Sscanf(filepath.Base(name), "%d-%d-%d", &term, &at, &when); err != nil || filepath.Ext(name) != "" {
			continue // it is being written
		}
		if _, err := os.Stat(filepath.Join(name, "state.bin")); err == nil {
			index = max(index, at)
		}
	}
	if index == 0 {
		return 0, fmt.Errorf("replica %s has no snapshot among %q", r.ID, names)
	}
	return index, nil
}

// TestCatchUpBySnapshot: a replica that was down for longer than the log
// reaches back catches up, becomes master and serves the right state.
func TestCatchUpBySnapshot(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: append(frequentSnapshots, calm...)})
	master := c.Ready(t)
	away, other := c.Others(master)[0], c.Others(master)[1]
	all := everything{}
	all.add(t, master)
	last := call[lockapi.Replica](t, away, http.MethodGet, lockapi.RouteReplica, nil).AppliedIndex
	must(t, away.Kill())
	all.add(t, master)
	s := open(t, master, aWhile)
	must(t, cell.Wait(cell.Bounded(t), "the log of the others begins after what the replica has", func(context.Context) error {
		for range 20 {
			release(t, master, acquire(t, master, "/away", ask(s.ID, "", 0)))
		}
		for _, r := range []*cell.Replica{master, other} {
			index, err := newestSnapshot(r)
			if err != nil {
				return err
			}
			if index < last+50 { // the log reaches back 8 entries from there
				return fmt.Errorf("the newest snapshot of %s is at %d, %s was at %d", r.ID, index, away.ID, last)
			}
		}
		return nil
	}))
	all.add(t, master)
	must(t, away.Start())
	c.Ready(t)
	all.check(t, away)
	transferTo(t, c, master, away)
	if now := c.Ready(t); now != away {
		t.Fatalf("%s is master, not %s", now.ID, away.ID)
	}
	for _, r := range c.Replicas() {
		all.check(t, r)
	}
	all.add(t, away)
	// Its own disk has the state, too.
	must(t, away.Kill())
	newMaster(t, c, away)
	must(t, away.Start())
	c.Ready(t)
	all.check(t, away)
	must(t, cell.Wait(cell.Bounded(t), "its own state shows everything", func(ctx context.Context) error {
		l, err := staleLock(ctx, away, "/shared")
		if err == nil && len(l.Holders) != len(all.sessions) {
			err = fmt.Errorf("%d of %d holders", len(l.Holders), len(all.sessions))
		}
		return err
	}))
}

// TestKillsWithSnapshotsUnderLoad: replicas that are killed while they write
// and install snapshots return with all acknowledged changes.
func TestKillsWithSnapshotsUnderLoad(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: frequentSnapshots})
	master := c.Ready(t)
	l := startLoad(t, c, 8)
	for i := range 3 {
		victim := append(c.Others(master), master)[i]
		l.progress(t, 60)
		must(t, victim.Kill())
		began := time.Now()
		l.progress(t, 100)
		t.Logf("%s was killed; the gap in service was %v", victim.ID, l.gap(began).Round(time.Millisecond))
		must(t, victim.Start())
		master = c.Ready(t)
	}
	l.end(t)
}
