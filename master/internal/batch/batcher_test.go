package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/progress"
	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// memLog is a log in memory, with an office in epoch 1 and term 1, and a delay
// for each entry. Entries take effect in the order of Submit.
type memLog struct {
	mu      sync.Mutex
	state   *state.State
	batches []state.Batch
	delay   time.Duration
	fail    error
}

func newMemLog(delay time.Duration) *memLog {
	s, _ := state.New().Apply(1, 1, state.Batch{LeaseMS: 1000, Commands: []state.Command{
		{Operation: &state.OpenOffice{Term: 1, Master: "r1"}}, // epoch 1
	}})
	return &memLog{state: s, delay: delay}
}

func (l *memLog) Submit(b state.Batch) func() (*state.Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return func() (*state.Outcome, error) { return nil, l.fail }
	}
	next, out := l.state.Apply(l.state.Index+1, 1, b)
	l.state, l.batches = next, append(l.batches, b)
	done := time.After(l.delay)
	return func() (*state.Outcome, error) { <-done; return &out, nil }
}

func newTestBatcher(l *memLog, epoch uint64) (*Batcher, *[]time.Duration, *[]error) {
	begin := time.Now()
	var accepted []time.Duration
	var failed []error
	return New(Options{
		Epoch: epoch, LeaseMS: 1000, Submit: l.Submit, Due: nothingDue,
		Clock:    func() time.Duration { return time.Since(begin) },
		Accepted: func(p time.Duration, _ *state.Outcome) { accepted = append(accepted, p) },
		Failed:   func(err error) { failed = append(failed, err) },
	}), &accepted, &failed
}

func open(id string) state.Command {
	return state.Command{Operation: &state.OpenSession{Session: id, TTLMS: 1000}}
}

func TestBatcherJoinsWhatGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(10 * time.Millisecond)
		b, accepted, _ := newTestBatcher(l, 1)
		var calls sync.WaitGroup
		for i := range 300 {
			calls.Go(func() {
				r, err := sessionOf(b.Begin(open(fmt.Sprintf("s%03d", i)), nil)())
				if err != nil || r.Verdict != state.Done || r.Session.ID != fmt.Sprintf("s%03d", i) {
					t.Errorf("call %d: %+v, %v: not its own result", i, r, err)
				}
			})
		}
		calls.Wait()
		if n := l.state.SessionCount(); n != 300 {
			t.Errorf("%d sessions, want 300", n)
		}
		for i, batch := range l.batches {
			if len(batch.Commands) > maxBatchCommands {
				t.Errorf("batch %d has %d commands", i, len(batch.Commands))
			}
		}
		if len(l.batches) > 6 {
			t.Errorf("%d entries for 300 calls that came at once: they were not joined", len(l.batches))
		}
		if len(*accepted) != len(l.batches) {
			t.Errorf("%d batches reported, %d accepted", len(*accepted), len(l.batches))
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

// TestBatchesShareTheLoad: each caller sends a new command as soon as its last
// one is answered. The load spreads over the batches; no batch has only the
// first such command.
func TestBatchesShareTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(10 * time.Millisecond)
		b, _, _ := newTestBatcher(l, 1)
		var calls sync.WaitGroup
		for i := range 16 {
			calls.Go(func() {
				for j := range 20 {
					<-time.After(time.Duration(i+1) * 100 * time.Microsecond)
					if _, err := b.Begin(open(fmt.Sprint(i, " ", j)), nil)(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		calls.Wait()
		for i, batch := range l.batches[10:40] { // without the first and the last batches
			if n := len(batch.Commands); n < 3 {
				t.Errorf("entry %d has %d commands of 16 callers", 10+i, n)
			}
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

// TestLoneCommandWaitsForNoCompany: without an entry under way a command is
// proposed at once, however large the last entries were.
func TestLoneCommandWaitsForNoCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(time.Millisecond)
		b, accepted, _ := newTestBatcher(l, 1)
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() { b.Begin(open(fmt.Sprint(i)), nil)() })
		}
		calls.Wait()
		<-time.After(time.Second)
		b.Begin(open("alone"), nil)()
		if last := (*accepted)[len(*accepted)-1]; last < time.Second || last > time.Second+10*time.Millisecond {
			t.Errorf("proposed after %v, want a second", last)
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

func TestBatcherRenewsWithAnEmptyBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(time.Millisecond)
		b, accepted, _ := newTestBatcher(l, 1)
		<-time.After(5 * time.Millisecond)
		b.Renew()
		<-time.After(5 * time.Millisecond)
		synctest.Wait()
		if len(l.batches) != 1 || len(l.batches[0].Commands) != 0 || l.batches[0].LeaseMS != 1000 {
			t.Fatalf("batches %+v, want an empty one with the lease", l.batches)
		}
		if (*accepted)[0] != 5*time.Millisecond {
			t.Errorf("counted from %v, want 5ms: the instant before the proposal", (*accepted)[0])
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

// TestBatcherTellsNoEffectFromUnknown: a command that was not submitted had no
// effect; a submitted one may have had one.
func TestBatcherTellsNoEffectFromUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(time.Minute)
		b, _, _ := newTestBatcher(l, 1)
		errs := make([]error, 4)
		var calls sync.WaitGroup
		for i := range errs {
			calls.Go(func() { _, errs[i] = b.Begin(open(fmt.Sprint(i)), nil)() })
			synctest.Wait() // the first two take the two slots
		}
		b.Close(errors.New("mastership was lost"))
		calls.Wait()
		for i, want := range []error{membership.ErrUnknown, membership.ErrUnknown, membership.ErrNotApplied, membership.ErrNotApplied} {
			if !errors.Is(errs[i], want) {
				t.Errorf("call %d: %v, want %v", i, errs[i], want)
			}
		}
		if _, err := b.Begin(open("late"), nil)(); !errors.Is(err, membership.ErrNotApplied) {
			t.Errorf("after the end: %v, want %v", err, membership.ErrNotApplied)
		}
		b.loops.Wait()
	})
}

func TestBatcherEndsOnRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(time.Millisecond)
		b, accepted, failed := newTestBatcher(l, 7) // of an epoch that is not the cell's
		if _, err := b.Begin(open("a"), nil)(); !errors.Is(err, membership.ErrNotApplied) {
			t.Errorf("refused batch: %v, want %v", err, membership.ErrNotApplied)
		}
		b.loops.Wait()
		if len(*accepted) != 0 || len(*failed) != 1 {
			t.Errorf("accepted %d, failed %d; want 0 and 1", len(*accepted), len(*failed))
		}
	})
}

func TestBatcherDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(10 * time.Millisecond)
		b, _, _ := newTestBatcher(l, 1)
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				if _, err := b.Begin(open(fmt.Sprint(i)), nil)(); err != nil {
					t.Errorf("call %d, taken before the drain: %v", i, err)
				}
			})
		}
		synctest.Wait()
		if err := b.Drain(context.Background(), errors.New("handing over")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Begin(open("late"), nil)(); !errors.Is(err, membership.ErrNotApplied) {
			t.Errorf("during the drain: %v, want %v", err, membership.ErrNotApplied)
		}
		calls.Wait()
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

// TestBatcherKeepsTheOrderOfBegin: a command begun later comes later in the
// log.
func TestBatcherKeepsTheOrderOfBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(10 * time.Millisecond)
		b, _, _ := newTestBatcher(l, 1)
		var results []func() (state.Result, error)
		for i := range 300 {
			results = append(results, b.Begin(open(fmt.Sprintf("s%03d", i)), nil))
		}
		for i, result := range results {
			if r, err := sessionOf(result()); err != nil || r.Session.ID != fmt.Sprintf("s%03d", i) {
				t.Errorf("call %d: %+v, %v", i, r, err)
			}
		}
		n := 0
		for _, batch := range l.batches {
			for _, c := range batch.Commands {
				if op := c.Operation.(*state.OpenSession); op.Session != fmt.Sprintf("s%03d", n) {
					t.Fatalf("command %d is %s", n, op.Session)
				}
				n++
			}
		}
		b.Close(errors.New("test is over"))
		if _, err := b.Begin(open("late"), nil)(); !errors.Is(err, membership.ErrNotApplied) {
			t.Errorf("after the end: %v", err)
		}
		b.loops.Wait()
	})
}

// TestBatchesAreNoLargerThanEntries: the encoding of the batcher's largest
// batch fits into an entry.
func TestBatchesAreNoLargerThanEntries(t *testing.T) {
	for _, each := range []int{0, membership.MaxBatchBytes / maxBatchCommands, membership.MaxBatchBytes, membership.MaxCommandBytes} {
		var b Batcher
		for i := range 2 * maxBatchCommands {
			op := &state.OpenSession{Session: fmt.Sprintf("%d", i), TTLMS: 1 << 60, Name: "name", Key: "key", Digest: bytes.Repeat([]byte{1}, 32)}
			c := state.Command{Time: 1 << 60, Caller: "caller", Operation: op}
			for range 16 {
				if c.Size()+16 < each {
					op.Meta = map[string]string{"key": strings.Repeat("x", each-c.Size()-16)}
				}
			}
			b.pending = append(b.pending, &call{cmd: c})
		}
		batch := state.Batch{Epoch: 1 << 60, LeaseMS: 1 << 40}
		for _, c := range b.pending[:b.fits()] {
			batch.Commands = append(batch.Commands, c.cmd)
		}
		raw, err := batch.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > membership.MaxEntryBytes-1<<10 { // a checksum may ride along
			t.Errorf("%d commands of %d bytes are %d encoded", len(batch.Commands), each, len(raw))
		}
	}
}

// TestWhatIsDueRidesOnBatches: due commands follow the commands of a batch, or
// fill an empty one. No caller gets their results.
func TestWhatIsDueRidesOnBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog(10 * time.Millisecond)
		b, accepted, failed := newTestBatcher(l, 1)
		due := []state.Command{{Operation: &state.MarkState{}}, {Operation: &state.ReportSum{Entry: 1, Sum: make([]byte, 32)}}}
		b.opts.Due = func() (c state.Command, ok bool) {
			if len(due) > 0 {
				c, due, ok = due[0], due[1:], true
			}
			return c, ok
		}
		if r, err := sessionOf(b.Begin(open("a"), nil)()); err != nil || r.Session.ID != "a" {
			t.Errorf("%+v, %v", r, err)
		}
		b.Renew()
		<-time.After(time.Second)
		if r, err := sessionOf(b.Begin(open("b"), nil)()); err != nil || r.Session.ID != "b" {
			t.Errorf("%+v, %v", r, err)
		}
		var got [][]string
		for _, batch := range l.batches {
			var names []string
			for _, c := range batch.Commands {
				names = append(names, state.Name(c.Operation))
			}
			got = append(got, names)
		}
		if want := [][]string{{"open-session", "mark-state"}, {"tell-sum"}, {"open-session"}}; !reflect.DeepEqual(got, want) {
			t.Errorf("batches of %v, want %v", got, want)
		}
		if len(*accepted) != 3 || len(*failed) != 0 {
			t.Errorf("accepted %v, failed %v", *accepted, *failed)
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}

// nothingDue is a Due without commands.
func nothingDue() (state.Command, bool) { return state.Command{}, false }

// sessionOf returns the session of a result.
func sessionOf(r state.Result, err error) (state.SessionResult, error) {
	got, _ := r.(state.SessionResult)
	return got, err
}

// TestHangsAreSeen: the watch detects an answer that is not delivered. Package
// master then ends its office.
func TestHangsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, until := time.Now(), make(chan struct{})
		clock := func() time.Duration { return time.Since(began) }
		watch := progress.New(clock)
		b := New(Options{
			Epoch: 1, LeaseMS: 1000, Submit: newMemLog(time.Millisecond).Submit, Due: nothingDue, Clock: clock, Progress: watch,
			Accepted: func(time.Duration, *state.Outcome) { <-until }, Failed: func(err error) { t.Error(err) },
		})
		go func() { _, _ = b.Begin(open("s"), nil)() }()
		time.Sleep(2 * time.Second)
		if h := watch.Hangs(time.Second); h == nil || h.Step != "answer" {
			t.Errorf("%v hangs", h)
		}
		close(until)
		synctest.Wait()
		if h := watch.Hangs(time.Second); h != nil {
			t.Errorf("%v hangs", h)
		}
		b.Close(errors.New("test is over"))
		b.loops.Wait()
	})
}
