package replica

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/replica/state"
)

// often makes a replica propose marks and sums as fast as batches come.
func often(r *Replica) {
	c := r.fsm.sums
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every, c.delay = time.Millisecond, 0
}

// awaitSum renews the lease until every replica has summed the state at an
// entry from the given one on, the same for all, and returns it.
func awaitSum(t *testing.T, leader *Replica, epoch, from uint64, all ...*Replica) Checksum {
	t.Helper()
	var first Checksum
	until(t, "all have summed the same entry", func() bool {
		if out, err := renew(leader, epoch)(); err != nil || !out.Accepted {
			t.Fatalf("renewal: %+v, %v", out, err)
		}
		var ok bool
		if first, ok = leader.Checksum(); !ok || first.Index < from {
			return false
		}
		for _, r := range all {
			if other, _ := r.Checksum(); other.Index != first.Index {
				return false
			}
		}
		return true
	})
	return first
}

// fault waits for the fault that ends a replica, while it renews the leader's
// lease. It consumes the fault, so that stop finds none.
func fault(t *testing.T, r, leader *Replica, epoch uint64) error {
	t.Helper()
	var got error
	until(t, r.ID()+" fails", func() bool {
		renew(leader, epoch) // may fail, once the others have ended
		select {
		case got = <-r.Failed():
			return true
		default:
			return false
		}
	})
	return got
}

// diverge changes the state of a replica that has nothing to apply.
func diverge(r *Replica) {
	odd := *r.State()
	odd.Counter++
	r.fsm.current.Store(&odd)
}

func startThree(t *testing.T) (all []*Replica, leader *Replica, epoch uint64) {
	t.Helper()
	opts := options(t, 3)
	for i := range opts {
		// A replica that is behind gets entries: the snapshot of a diverged
		// leader would make it diverge as well.
		opts[i].TrailingLogs = 1 << 20
	}
	all = startAll(t, opts...)
	leader, epoch = lead(t, all...)
	for _, r := range all {
		often(r)
	}
	write(t, leader, epoch, "a", 5)
	same(t, leader, all...)
	return all, leader, epoch
}

// TestDivergedFollowerEnds: the sums agree, also after a restart, until one
// replica's state differs. That replica ends, reports the reason, and cannot be
// started again.
func TestDivergedFollowerEnds(t *testing.T) {
	t.Parallel()
	all, leader, epoch := startThree(t)
	first := awaitSum(t, leader, epoch, 0, all...)
	for _, r := range all {
		if sum, ok := r.Checksum(); !ok || sum.Sum != first.Sum && sum.Index == first.Index {
			t.Errorf("%s sums %v, %s %v", r.ID(), sum, leader.ID(), first)
		}
	}
	others := without(all, leader)
	odd, sound := others[0], others[1]
	stop(t, sound)
	sound = start(t, sound.opts)
	often(sound)
	awaitSum(t, leader, epoch, leader.State().Index, leader, odd, sound)

	same(t, leader, odd)
	diverge(odd)
	err := fault(t, odd, leader, epoch)
	for _, want := range []string{"the state after log entry ", " has checksum ", odd.opts.DataDir, "empty one", "docs/operations.md"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	stop(t, odd)
	if again, err := Open(odd.opts); err == nil {
		stop(t, again)
		t.Error("the diverged replica was started again")
	} else if !strings.Contains(err.Error(), "the state after log entry ") {
		t.Errorf("%q does not say why", err)
	}
	awaitSum(t, leader, epoch, leader.State().Index, leader, sound)
	write(t, leader, epoch, "b", 5)
	same(t, leader, sound)
}

// TestDivergedMasterIsLeftAlone: if the master differs, the others end, all
// with the same sum. They can be started again after an operator has decided.
func TestDivergedMasterIsLeftAlone(t *testing.T) {
	t.Parallel()
	all, leader, epoch := startThree(t)
	awaitSum(t, leader, epoch, 0, all...)
	diverge(leader)
	others := without(all, leader)
	own := map[string]string{} // sums by the entry after which they are
	for _, r := range others {
		err := fault(t, r, leader, epoch).Error()
		found := regexp.MustCompile(`state after log entry (\d+) .*checksum (\w+) here`).FindStringSubmatch(err)
		if found == nil {
			t.Fatalf("%q does not tell the sum of %s", err, r.ID())
		}
		// A replica that was behind ends at a later sum of the master.
		if sum, known := own[found[1]]; known && sum != found[2] {
			t.Errorf("after entry %s the others have the sums %s and %s; want the same", found[1], sum, found[2])
		}
		own[found[1]] = found[2]
	}
	stop(t, leader)
	next, _ := lead(t, others...)
	same(t, next, others...) // each has what the other had of the master's sums
	for i, r := range others {
		stop(t, r)
		must(t, os.Remove(filepath.Join(r.opts.DataDir, "quarantined.txt")))
		others[i] = start(t, r.opts)
	}
	next, epoch = lead(t, others...)
	write(t, next, epoch, "c", 5)
	same(t, next, others...)
}

// bench is a checksums with a state and log that the test controls.
type bench struct {
	*checksums
	now    time.Duration
	state  *state.State
	differ []Checksum // own sums that differed
}

func newBench() *bench {
	b := &bench{state: state.New()}
	b.checksums = newChecksums(func() time.Duration { return b.now }, func(own, _ Checksum) { b.differ = append(b.differ, own) })
	b.state, _ = b.state.Apply(1, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}}})
	return b
}

// apply applies a batch of the open office as the replica would.
func (b *bench) apply(commands ...state.Command) {
	next, out := b.state.Apply(b.state.Index+1, 1, state.Batch{Epoch: b.state.Epoch, LeaseMS: 1000, Commands: commands})
	b.state = next
	b.note(next, &out)
}

// propose returns the additions to a renewal by the master.
func (b *bench) propose() []state.Command {
	if due, ok := b.due(); ok {
		return []state.Command{due}
	}
	return nil
}

func tell(index uint64, sum [sha256.Size]byte) state.Command {
	return state.Command{Operation: &state.ReportSum{Entry: index, Sum: sum[:]}}
}

// TestWhatIsDue: a mark every checksumEvery, its sum reportAfter later, and fewer
// marks when sums take long.
func TestWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		if got := b.propose(); len(got) != 0 {
			t.Fatalf("right after the start: %v", got)
		}
		b.now = checksumEvery
		mark := b.propose()
		if len(mark) != 1 || state.Name(mark[0].Operation) != "mark-state" {
			t.Fatalf("after %v: %v", b.now, mark)
		}
		if got := b.propose(); len(got) != 0 {
			t.Fatalf("two marks at once: %v", got)
		}
		b.apply(mark...)
		synctest.Wait()
		if got := b.propose(); len(got) != 0 {
			t.Fatalf("told at once: %v", got)
		}
		b.now += reportAfter
		sum := b.propose()
		if want := b.state.Hash(); len(sum) != 1 || !isSum(sum[0], 2, want) {
			t.Fatalf("%v after the mark: %v, want the sum %x", reportAfter, sum, want)
		}
		if got := b.propose(); len(got) != 0 {
			t.Fatalf("told twice: %v", got)
		}
		b.took = time.Second
		for b.now += checksumEvery; len(b.propose()) == 0; b.now += time.Second {
		}
		if want := checksumEvery + checksumShare*time.Second; b.now != want {
			t.Errorf("the mark after a sum that took 1s comes at %v, want %v", b.now, want)
		}
	})
}

// TestSumsAreCompared: a reported sum is compared before and after the own one
// is ready, but only if there is an own one and the entry was not stored before
// the start.
func TestSumsAreCompared(t *testing.T) {
	markState, wrong := state.Command{Operation: &state.MarkState{}}, [sha256.Size]byte{1}
	for name, tc := range map[string]struct {
		before uint64
		play   func(b *bench)
		differ []uint64 // entries with differing sums
	}{
		"equal":               {0, func(b *bench) { b.apply(markState); sum := b.state.Hash(); synctest.Wait(); b.apply(tell(2, sum)) }, nil},
		"told later":          {0, func(b *bench) { b.apply(markState); synctest.Wait(); b.apply(tell(2, wrong)) }, []uint64{2}},
		"told sooner":         {0, func(b *bench) { b.apply(markState); b.apply(tell(2, wrong)); synctest.Wait() }, []uint64{2}},
		"never marked":        {0, func(b *bench) { b.apply(tell(1, wrong)) }, nil},
		"of an earlier entry": {0, func(b *bench) { b.apply(markState); synctest.Wait(); b.apply(tell(1, wrong)) }, nil},
		"two marks waiting":   {0, func(b *bench) { b.apply(markState); b.apply(markState); b.apply(markState); b.apply(tell(4, wrong)) }, []uint64{4}},
		"stored before":       {3, func(b *bench) { b.apply(markState); synctest.Wait(); b.apply(tell(2, wrong)) }, nil},
		"stored after":        {2, func(b *bench) { b.apply(markState); synctest.Wait(); b.apply(tell(2, wrong)) }, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.before = tc.before
				tc.play(b)
				b.work.Wait()
				var got []uint64
				for _, sum := range b.differ {
					got = append(got, sum.Index)
				}
				if len(got) != len(tc.differ) || len(got) == 1 && got[0] != tc.differ[0] {
					t.Errorf("sums of the entries %v differed, want %v", got, tc.differ)
				}
			})
		})
	}
}

// TestSuccessorTellsTheSum: the successor applied the mark of the office before
// it.
func TestSuccessorTellsTheSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.apply(state.Command{Operation: &state.MarkState{}}) // proposed by somebody else
		synctest.Wait()
		b.now = reportAfter
		if got := b.propose(); len(got) != 1 || !isSum(got[0], 2, b.state.Hash()) {
			t.Errorf("the successor proposes %v, want the sum of entry 2", got)
		}
	})
}

// isSum reports whether a command has that sum of that entry.
func isSum(c state.Command, entry uint64, sum [sha256.Size]byte) bool {
	op, ok := c.Operation.(*state.ReportSum)
	return ok && op.Entry == entry && bytes.Equal(op.Sum, sum[:])
}
