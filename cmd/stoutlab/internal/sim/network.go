package sim

import (
	"math"
	"math/rand/v2"
)

// NoProcess is the leader of a process that knows no leader.
const NoProcess = -1

// Network is a run under way.
type Network struct {
	cfg    Config
	procs  []Process
	alive  []bool
	cut    []bool // off from the network
	port   Port   // one Port for all calls, to save allocations
	rng    *rand.Rand
	source *rand.PCG

	now     Time
	agenda  *agenda         // future events; nil if the caller chooses,
	pending []event         // among these
	place   []int           // of each process in the ring
	lastOn  map[[2]int]Time // the last arrival on a link, to prevent overtaking
	timers  []map[int]int   // by process: the epochs of its running timers
	epoch   int

	faults    []armed
	afterSend []Fault // faults after the present message
	loop      loop
	chance    bool // this run has something random

	chain []int   // by process: the longest causal chain to it
	clock []int   // Lamport's
	past  [][]int // vector clocks, if the Config asks for them
	msgs  int     // the number of the latest message

	leader []int  // each process's leader
	leads  []Time // until when each leads, in true time
	within []int  // processes in the critical section
	left   []int  // how often each left it
	over   bool   // all have left it as often as they wanted to

	out     Outcome
	tracing bool
	current int // the first record of the present step
}

// New makes a network in its initial state.
func New(cfg Config) *Network {
	cfg = cfg.normal()
	all := cfg.N + cfg.Extra
	source := rand.NewPCG(cfg.Seed, 0x10caa1)
	n := &Network{
		cfg:     cfg,
		procs:   make([]Process, all),
		alive:   make([]bool, all),
		cut:     make([]bool, all),
		leader:  make([]int, all),
		rng:     rand.New(source),
		source:  source,
		place:   make([]int, all),
		timers:  make([]map[int]int, all),
		lastOn:  map[[2]int]Time{},
		chain:   make([]int, all),
		clock:   make([]int, all),
		left:    make([]int, all),
		tracing: cfg.Trace > 0,
		current: -1,
	}
	n.out.ByKind = make([]int, len(cfg.Kinds))
	for i, p := range cfg.Ring {
		n.place[p] = i
	}
	for i := range n.procs {
		n.procs[i], n.alive[i], n.leader[i] = cfg.New(i), true, NoProcess
	}
	if cfg.Causal {
		n.past = make([][]int, all)
		for i := range n.past {
			n.past[i] = make([]int, all)
		}
	}
	n.chance = cfg.Latency.Least != cfg.Latency.Most || cfg.Loss+cfg.Twice > 0
	for _, f := range cfg.Faults {
		n.faults = append(n.faults, armed{Fault: f, left: max(1, f.When.Nth)})
	}
	return n
}

// Run runs a network until no event is left, and returns the outcome.
func Run(cfg Config) *Outcome {
	n := New(cfg)
	n.agenda = &agenda{}
	n.start()
	for n.agenda.len > 0 && !n.Over() {
		if n.out.Events >= n.cfg.Limit {
			n.out.Endless = true
			break
		}
		e := n.agenda.next()
		if n.cfg.Until > 0 && e.at > n.cfg.Until {
			n.out.CutOff = true
			break
		}
		n.now = e.at
		if n.out.Loop, n.out.Endless = n.again(e); n.out.Endless {
			break
		}
		n.happen(e)
	}
	return n.finish()
}

// Over reports whether every live process has entered and left as often as the
// Config wants. It is always false for a run without Entries.
func (n *Network) Over() bool { return n.over }

// lookOver is called whenever a process leaves, or crashes.
func (n *Network) lookOver() {
	if n.cfg.Entries == nil {
		return
	}
	for p, wanted := range n.cfg.Entries {
		if n.alive[p] && n.left[p] < wanted {
			return
		}
	}
	n.over = true
}

// start applies the faults of the start, and then starts every process.
func (n *Network) start() {
	for i := range n.faults {
		if f := &n.faults[i]; f.When.Start {
			f.done = true
			n.harm(f.Fault)
		}
	}
	for p := range n.procs {
		if n.alive[p] {
			n.begin(p, Started, event{})
			n.procs[p].Init(n.portOf(p))
			n.end(p)
		}
	}
}

func (n *Network) happen(e event) {
	n.out.Events++
	p := e.to
	if e.what == Restarted {
		n.restart(p)
		return
	}
	if e.what == Received {
		if p = n.arrives(e); p < 0 {
			return
		}
	}
	if !n.alive[p] || e.what == TimedOut && n.timers[p][e.timer] != e.epoch {
		return
	}
	n.out.Time = n.now
	n.chain[p] = max(n.chain[p], e.chain)
	n.out.Chain = max(n.out.Chain, n.chain[p])
	n.clock[p] = max(n.clock[p], e.clock) + 1
	n.learn(p, e.past)
	n.begin(p, e.what, e)
	switch e.what {
	case Received:
		n.procs[p].Receive(n.portOf(p), e.m)
	case TimedOut:
		delete(n.timers[p], e.timer)
		n.procs[p].Timeout(n.portOf(p), e.timer)
	case Suspected:
		n.procs[p].(Suspecter).Suspect(n.portOf(p), e.timer)
	}
	n.end(p)
}

func (n *Network) end(p int) {
	n.record(p)
	n.current = -1
}

func (n *Network) portOf(p int) *Port {
	n.port = Port{n: n, self: p}
	return &n.port
}

// neighbour returns the next live process in the ring in a direction: the ring
// closes around dead ones.
func (n *Network) neighbour(p, direction int) int {
	ring := n.cfg.Ring
	for i, at := 0, n.place[p]; i < len(ring); i++ {
		at = (at + direction + len(ring)) % len(ring)
		if n.alive[ring[at]] {
			return ring[at]
		}
	}
	return p
}

// arrives returns the receiver of a message, or −1. If the receiver of a
// message around a ring has died, the next live process receives it.
func (n *Network) arrives(e event) int {
	to := e.to
	if n.cut[e.m.From] && e.m.From != to || n.cut[to] && e.m.From != to {
		n.drop(e, "cut off")
		return -1
	}
	if n.alive[to] {
		return to
	}
	if e.around != 0 {
		if next := n.neighbour(to, e.around); n.alive[next] {
			return next
		}
	}
	n.drop(e, "dead")
	return -1
}

// send sends a message; around is its direction around the ring, or 0.
func (n *Network) send(from, to, around int, m Message) {
	if !n.alive[from] || !n.sending(from, m.Kind) {
		return
	}
	n.emit(from, to, around, m)
	for _, f := range n.afterSend {
		n.harm(f)
	}
	n.afterSend = n.afterSend[:0]
}

// emit sends a message, or loses it.
func (n *Network) emit(from, to, around int, m Message) {
	m.From, m.To = from, to
	if from == to {
		n.out.ToSelf++
	} else {
		n.out.ByKind[m.Kind]++
		n.out.Messages++
	}
	n.clock[from]++
	n.msgs++
	e := event{
		what: Received, to: to, m: m, id: n.msgs, clock: n.clock[from],
		chain: n.chain[from] + 1, past: n.stamp(from), around: around,
	}
	if from == to {
		e.chain--
	}
	if n.tracing {
		n.sent(e)
	}
	if n.cfg.Loss > 0 && from != to && n.rng.Float64() < n.cfg.Loss {
		n.drop(e, "lost")
		return
	}
	n.dispatch(e)
	if n.cfg.Twice > 0 && from != to && n.rng.Float64() < n.cfg.Twice {
		n.dispatch(e)
	}
}

// dispatch schedules the arrival of a message.
func (n *Network) dispatch(e event) {
	from, to := e.m.From, e.to
	delay, fixed := n.cfg.Delay[[2]int{from, to}]
	if !fixed && (from != to || e.around != 0) { // a hop takes its time, even around a ring of one
		delay = n.cfg.Latency.draw(n.rng)
	}
	e.at = n.now + delay
	if !n.cfg.Reorder && n.cfg.Latency.Least != n.cfg.Latency.Most {
		link := [2]int{from, to}
		e.at = max(e.at, n.lastOn[link])
		n.lastOn[link] = e.at
	}
	n.add(e)
}

func (n *Network) add(e event) {
	if n.agenda == nil {
		n.pending = append(n.pending, e)
	} else {
		n.agenda.add(e)
	}
}

func (n *Network) after(p int, d Time, timer int) {
	if !n.alive[p] {
		return
	}
	if n.timers[p] == nil {
		n.timers[p] = map[int]int{}
	}
	n.epoch++
	n.timers[p][timer] = n.epoch
	wait := Time(math.Ceil(float64(d) / n.rate(p)))
	n.add(event{at: n.now + wait, what: TimedOut, to: p, timer: timer, epoch: n.epoch, chain: n.chain[p] + 1})
}

func (n *Network) stop(p, timer int) { delete(n.timers[p], timer) }
