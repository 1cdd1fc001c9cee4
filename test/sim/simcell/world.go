package simcell

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Options select what to run.
type Options struct {
	Seed  uint64
	Steps int
	// Skew is how far clocks drift from true time, as a multiple of the
	// replicas' configured bound. The replicas must tolerate 1.
	Skew float64
	// Access enables access control, which is on in one of four runs anyway.
	Access bool
	// Members makes members come and go, as in one of four runs anyway.
	Members bool
	// Profile names the special profile of every run (see Profiles). If it is
	// empty, few runs have one.
	Profile string
	Trace   bool
	Dir     string // directory of the disks' files
}

// drift is the replicas' configured bound on clocks. It is far larger than for
// a real clock, so that errors that depend on it show.
const drift = 0.05

// world is one run.
type world struct {
	opts           Options
	began          time.Time
	rng            *rand.Rand // of the network, the disks and the pauses
	script         *rand.Rand // of the faults
	net            *network
	machines       []*machine
	users          []*user
	oracle         *oracle
	access         *operator       // nil if access stays off
	keeper         *keeper         // nil if no backups are kept
	memberOperator *memberOperator // nil if members do not change
	lacks          string          // see settled
	founders       []string        // names of the founding list
	historyReader  *historyReader  // nil if no program reads histories
	profile        profile
	trace          *trace
	stats          *Stats
	step           int
	disks          int
	requests       int                    // of HTTP
	calling        map[pair]int           // calls for a lock under way, by pair
	called         map[pair]time.Duration // when the last one began or ended
	granted        map[pair]bool          // whether one of them was granted
	keeps          map[pair]bool          // whether one of them requested a place that is kept
	lease          time.Duration          // of all masters, unless mixed
	mixed          bool                   // replicas are configured differently
	pauses         bool                   // pauses may fall anywhere
	woke           time.Duration          // when a machine last resumed after a pause
	old            *machine               // the last one that another campaigned against
	waiting        *machine               // see lieInWait
	snapshotAfter  uint64                 // entries
	faultsOver     bool                   // the faults are over
	quiet          bool                   // the faults are over and a master is in office
	over           chan struct{}          // closed at the end, or when a promise is broken
	failure        *Failure
}

// Failure is a broken promise.
type Failure struct {
	Seed uint64        `json:"seed"`
	Step int           `json:"step"`
	At   time.Duration `json:"at"`
	What string        `json:"what"`
}

func (f *Failure) String() string {
	return fmt.Sprintf("seed %d, step %d, after %v: %s", f.Seed, f.Step, f.At, f.What)
}

// Run runs one seed, adds its result to out, and returns its story. Call it in
// a bubble of its own, with the runtime seeded.
func Run(o Options, out *Report) (story []string) {
	if out.Stats == nil {
		out.Stats = newStats()
	}
	w := newWorld(o, out.Stats)
	out.Failure = w.run()
	out.Sum += w.trace.sum
	out.Stats.Seeds++
	out.Stats.Steps += o.Steps
	out.Stats.Virtual += w.now()
	return w.trace.lines
}

func newWorld(o Options, stats *Stats) *world {
	w := &world{
		opts: o, began: time.Now(), stats: stats, over: make(chan struct{}),
		calling: map[pair]int{}, called: map[pair]time.Duration{}, granted: map[pair]bool{}, keeps: map[pair]bool{},
		rng:    rand.New(rand.NewPCG(o.Seed, 1)),
		script: rand.New(rand.NewPCG(o.Seed, 2)),
	}
	w.profile = newProfile(w.script, o.Seed, o.Profile)
	w.trace = &trace{w: w, on: o.Trace}
	w.net = newNetwork(w)
	w.oracle = newOracle(w)
	w.access = newOperator(w)
	w.keeper = newKeeper(w)
	w.memberOperator = newMemberOperator(w)
	w.historyReader = newHistoryReader(w)
	return w
}

// now returns the true time since the run began.
func (w *world) now() time.Duration { return time.Since(w.began) }

// fail records the first broken promise and ends the run.
func (w *world) fail(format string, args ...any) {
	if w.isOver() {
		return
	}
	w.failure = &Failure{Seed: w.opts.Seed, Step: w.step, At: w.now(), What: fmt.Sprintf(format, args...)}
	w.trace.note("judge", "BROKEN: %s", w.failure.What)
	close(w.over)
}

func (w *world) failed() bool { return w.failure != nil }

func (w *world) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// chance reports true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

// between returns a random duration. Small durations are as likely as large
// ones, by order of magnitude.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	span := least << r.IntN(bits.Len64(uint64(most/least)))
	return min(most, span+time.Duration(r.Int64N(int64(span)+1)))
}

// rate draws the rate of a clock: often one of the extremes.
func (w *world) rate() float64 {
	most := drift * w.opts.Skew
	switch w.script.IntN(4) {
	case 0:
		return 1 - most
	case 1:
		return 1 + most
	case 2:
		return 1
	}
	return 1 + most*(2*w.script.Float64()-1)
}

// clock is a clock with a rate of its own.
type clock struct {
	w      *world
	offset time.Duration
	rate   float64
}

func (c *clock) read() time.Duration {
	return c.offset + time.Duration(float64(c.w.now())*c.rate)
}

// bend changes the rate from now on.
func (c *clock) bend(rate float64) {
	c.offset = c.read() - time.Duration(float64(c.w.now())*rate)
	c.rate = rate
	c.w.trace.note("clock", "one runs at %.3f from now on", rate)
}

// run plays the script and returns the broken promise, or nil.
func (w *world) run() *Failure {
	size := 3
	if w.script.IntN(5) == 0 || w.memberOperator != nil && w.memberOperator.five {
		size = 5
	}
	w.lease = time.Second << w.script.IntN(3)
	w.mixed = w.script.IntN(4) == 0
	w.snapshotAfter = []uint64{12, 40, 1000}[w.script.IntN(3)]
	for i := range size {
		m := newMachine(w, i)
		w.machines, w.founders = append(w.machines, m), append(w.founders, m.id)
	}
	w.memberOperator.start()
	for _, m := range w.machines {
		m.start()
	}
	for i := range 3 + w.script.IntN(3) {
		u := newUser(w, i)
		w.users = append(w.users, u)
		u.start()
	}
	w.access.start()
	w.keeper.start()
	w.historyReader.start()
	w.play()
	w.exile()
	if !w.failed() {
		w.settle()
	}
	if !w.failed() {
		w.end()
	}
	return w.failure
}
