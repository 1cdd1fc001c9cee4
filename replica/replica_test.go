package replica

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// TestMain lets tests wait for elections and disks together, fewer of them under
// the race detector.
func TestMain(m *testing.M) {
	testrun.Wait(testrun.Times(32, 16))
	os.Exit(m.Run())
}

// patience bounds every wait of these tests, which use real disks and sockets.
var patience = testrun.Extend(2*time.Minute, 3)

// until waits for something to become true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// freeAddrs returns n loopback addresses on which no program listens.
func freeAddrs(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		port, err := freeport.Get()
		must(t, err)
		addrs = append(addrs, freeport.Address(port))
	}
	return addrs
}

// leaderTimeout ends the leadership of a replica. A leader keeps it for a whole
// test on a busy machine, also under the race detector.
var leaderTimeout = testrun.Extend(2*time.Second, 4)

// options returns the options of n replicas with small thresholds and short
// time-outs.
func options(t *testing.T, n int) []Options {
	t.Helper()
	var members []membership.Member
	for i, addr := range freeAddrs(t, n) {
		members = append(members, membership.Member{ID: fmt.Sprintf("r%d", i+1), RaftAddr: addr, APIURL: fmt.Sprintf("http://r%d", i+1)})
	}
	var all []Options
	for _, m := range members {
		all = append(all, Options{
			Cell: "test", ID: m.ID, DataDir: t.TempDir(), RaftListen: m.RaftAddr, Members: members,
			MasterLease: time.Second, HeartbeatTimeout: leaderTimeout, ElectionTimeout: leaderTimeout,
			ClockDrift: 0.01, SnapshotThreshold: 40, SnapshotInterval: 50 * time.Millisecond, TrailingLogs: 10,
			Logger: zerolog.Nop(),
		})
	}
	return all
}

// startAll founds a cell together with all replicas of the list.
func startAll(t *testing.T, opts ...Options) []*Replica {
	t.Helper()
	all := make([]*Replica, len(opts))
	errs := make([]error, len(opts))
	var opening sync.WaitGroup
	for i, o := range opts {
		opening.Go(func() { all[i], errs[i] = Open(o) })
	}
	opening.Wait()
	for i, r := range all {
		must(t, errs[i])
		closeAfter(t, r)
	}
	return all
}

// start opens a replica, and closes it at the end of the test.
func start(t *testing.T, o Options) *Replica {
	t.Helper()
	r, err := Open(o)
	must(t, err)
	closeAfter(t, r)
	return r
}

func closeAfter(t *testing.T, r *Replica) {
	t.Cleanup(func() {
		select {
		case <-r.quit: // closed by the test
		default:
			stop(t, r)
		}
	})
}

func stop(t *testing.T, r *Replica) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("close %s: %v", r.ID(), err)
	}
	select {
	case err := <-r.Failed():
		t.Errorf("%s failed: %v", r.ID(), err)
	default:
	}
}

// lead waits for a leader among the replicas and opens an office there.
func lead(t *testing.T, replicas ...*Replica) (leader *Replica, epoch uint64) {
	t.Helper()
	until(t, "an office", func() bool {
		leader, epoch = tryToLead(t, replicas...)
		return leader != nil
	})
	return leader, epoch
}

// tryToLead opens an office with the leader among the replicas; it returns nil
// without one.
func tryToLead(t *testing.T, replicas ...*Replica) (leader *Replica, epoch uint64) {
	for _, r := range replicas {
		term, ok := r.Leading()
		if !ok || r.Barrier(t.Context()) != nil {
			continue
		}
		out, err := r.Submit(state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: term, Master: r.ID()}}}})()
		if err == nil && out.Accepted {
			return r, out.Epoch
		}
	}
	return nil, 0
}

func open(id string) state.Command {
	return state.Command{Operation: &state.OpenSession{Session: id, TTLMS: 1000}}
}

// renew renews the lease with the commands that are due, as a master does.
func renew(r *Replica, epoch uint64) func() (*state.Outcome, error) {
	b := state.Batch{Epoch: epoch, LeaseMS: 1000}
	if due, ok := r.Due(); ok {
		b.Commands = append(b.Commands, due)
	}
	return r.Submit(b)
}

var errDisk = errors.New("no space left on device")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write opens n sessions, one entry each.
func write(t *testing.T, r *Replica, epoch uint64, prefix string, n int) {
	t.Helper()
	for i := range n {
		b := state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open(fmt.Sprintf("%s%04d", prefix, i))}}
		if out, err := r.Submit(b)(); err != nil || !out.Accepted || !isDone(out.Results[0]) {
			t.Fatalf("write %d through %s: %+v, %v", i, r.ID(), out, err)
		}
	}
}

func dump(t *testing.T, s *state.State) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, s.Snapshot(&b))
	return b.Bytes()
}

// same waits until all have applied as much as the first, and compares them.
func same(t *testing.T, first *Replica, others ...*Replica) {
	t.Helper()
	for _, r := range others {
		until(t, r.ID()+" catches up", func() bool { return r.State().Index >= first.State().Index })
		if !bytes.Equal(dump(t, r.State()), dump(t, first.State())) {
			t.Errorf("%s and %s differ at index %d", r.ID(), first.ID(), first.State().Index)
		}
	}
}

func TestReplicaAloneComesBack(t *testing.T) {
	t.Parallel()
	o := options(t, 1)[0]
	r := start(t, o)
	_, epoch := lead(t, r)
	write(t, r, epoch, "s", 100) // over the threshold: a snapshot and a log behind it
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v", err)
	}
	if h := r.Health(); !h.HasLeader || h.Applied < 101 {
		t.Errorf("health %+v", h)
	}
	before := dump(t, r.State())
	stop(t, r)

	began := o.now()
	r = start(t, o)
	until(t, "it leads again", func() bool { _, ok := r.Leading(); return ok && r.Barrier(t.Context()) == nil })
	if !bytes.Equal(dump(t, r.State()), before) {
		t.Errorf("after the restart: another state at index %d", r.State().Index)
	}
	term, _ := r.Leading()
	if p := r.PromisedBefore(term); p < began {
		t.Errorf("promised at %v, before the start at %v", p, began)
	}
	late := state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open("late")}}
	if out, err := r.Submit(late)(); err != nil || out.Accepted {
		t.Errorf("a batch of the earlier office: %+v, %v", out, err)
	}
	if _, next := lead(t, r); next != epoch+1 {
		t.Errorf("epoch %d after %d", next, epoch)
	}
}

func (o Options) now() time.Duration {
	o.setDefaults()
	return o.Clock()
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"not a member":   {func(o *Options) { o.ID = "r9" }, `"r9"`},
		"lease too long": {func(o *Options) { o.MasterLease = time.Hour }, "1h0m0s"},
		"no lease":       {func(o *Options) { o.MasterLease = 0 }, "master lease"},
		"port":           {func(o *Options) { o.RaftListen = "127.0.0.1:notaport" }, "notaport"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, 1)[0]
			tc.change(&o)
			r, err := Open(o)
			if err == nil {
				stop(t, r)
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q does not say %q", err, tc.want)
			}
		})
	}
}

// TestThreeReplicas over TCP: commit, catch-up by snapshot, loss of the leader.
func TestThreeReplicas(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 20)
	same(t, leader, all...)
	others := without(all, leader)
	until(t, "everybody knows the leader", func() bool {
		return others[0].Leader() == leader.ID() && others[1].Leader() == leader.ID()
	})
	if out, err := others[0].Submit(state.Batch{LeaseMS: 1})(); !errors.Is(err, membership.ErrNotApplied) {
		t.Errorf("a batch at a follower: %+v, %v", out, err)
	}
	if err := others[0].Barrier(t.Context()); err == nil {
		t.Error("a barrier at a follower")
	}

	away := others[1]
	last := away.State().Index
	stop(t, away)
	write(t, leader, epoch, "b", 150)
	until(t, "the log is cut behind a snapshot", func() bool {
		first, err := leader.stores.Logs.FirstIndex()
		return err == nil && first > last+1
	})
	began := away.Now()
	back := start(t, away.opts)
	same(t, leader, back)
	if p := back.PromisedBefore(1 << 40); p < began {
		t.Errorf("the replica that was restored has promised nothing since %v: %v", began, p)
	}

	stop(t, leader)
	oldTerm := leader.State().Term
	rest := []*Replica{others[0], back}
	next, epoch2 := lead(t, rest...)
	if epoch2 <= epoch || next.State().Term <= oldTerm || next.State().SessionCount() != 170 {
		t.Errorf("epoch %d term %d sessions %d", epoch2, next.State().Term, next.State().SessionCount())
	}
	term, _ := next.Leading()
	if r := next.PromisedBefore(term); r > next.Now() || r < began-patience {
		t.Errorf("r is %v at %v", r, next.Now())
	}
	if err := next.Transfer(t.Context(), "r9"); err == nil {
		t.Error("handed over to nobody")
	}
	write(t, next, epoch2, "c", 5)
	same(t, next, rest...)
}

func without(all []*Replica, one *Replica) []*Replica {
	var rest []*Replica
	for _, r := range all {
		if r != one {
			rest = append(rest, r)
		}
	}
	return rest
}

// isDone reports whether opening a session created one.
func isDone(r state.Result) bool {
	opened, ok := r.(state.SessionResult)
	return ok && opened.Verdict == state.Done
}
