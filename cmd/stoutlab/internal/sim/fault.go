package sim

// Fault is something that befalls a process when its trigger happens.
type Fault struct {
	Who  int
	When Trigger
	Do   Harm
}

// Trigger is the moment of a fault: the start of the run, or the Nth time (from
// 1) that the process sends a message of the kind. Before such a message the
// process goes no further: the message is not sent. After it the process goes
// no further either: the rest of a multicast is not sent.
type Trigger struct {
	Start bool
	Kind  Kind
	Any   bool // any kind counts
	After bool
	Nth   int // 0 means 1
}

// Harm is what a fault does.
type Harm uint8

// The harms.
const (
	Crash   Harm = iota // the process stops for good
	CutOff              // nothing sent to it or by it arrives any more
	Suspect             // an inaccurate detector tells all others that it crashed
	Reboot              // it crashes, and restarts after two bounds
)

// Detector is how a failure detector behaves. A detector that speaks does so
// one bound after the event.
type Detector uint8

// The detectors. Incomplete misses every crash. Inaccurate tells of crashes and
// also of what is none: see Suspect.
const (
	NoDetector Detector = iota
	Perfect
	Incomplete
	Inaccurate
)

type armed struct {
	Fault
	left int // sends that are still to pass
	done bool
}

// sending is called before a message goes out. It reports whether the sender
// gets as far as sending it.
func (n *Network) sending(from int, kind Kind) bool {
	for i := range n.faults {
		f := &n.faults[i]
		if f.done || f.Who != from || f.When.Start || f.When.Kind != kind && !f.When.Any {
			continue
		}
		if f.left--; f.left > 0 {
			continue
		}
		f.done = true
		if f.When.After {
			n.afterSend = append(n.afterSend, f.Fault)
			continue
		}
		n.harm(f.Fault)
	}
	return n.alive[from]
}

// harm does what a fault says.
func (n *Network) harm(f Fault) {
	switch f.Do {
	case Crash:
		n.crash(f.Who)
	case CutOff:
		n.cut[f.Who] = true
		n.note(f.Who, Cut, "")
	case Suspect:
		if n.cfg.Detector == Inaccurate {
			n.tell(f.Who)
		}
	case Reboot:
		n.crash(f.Who)
		n.add(event{at: n.now + 2*n.cfg.Bound, what: Restarted, to: f.Who})
	}
}

func (n *Network) crash(p int) {
	if !n.alive[p] {
		return
	}
	n.alive[p] = false
	n.lookOver()
	n.leader[p] = Nobody
	n.note(p, Crashed, "")
	n.endLead(p)
	n.inside(p, false)
	if n.cfg.Detector == Perfect || n.cfg.Detector == Inaccurate {
		n.tell(p)
	}
}

// tell has the detector tell all others of a crash.
func (n *Network) tell(p int) {
	for q := range n.procs {
		if _, listens := n.procs[q].(Suspecter); listens && q != p && n.alive[q] {
			n.add(event{at: n.now + n.cfg.Bound, what: Suspected, to: q, timer: p, chain: n.chain[q] + 1})
		}
	}
}

func (n *Network) restart(p int) {
	r, can := n.procs[p].(Restarter)
	if n.alive[p] || !can {
		return
	}
	n.alive[p] = true
	clear(n.timers[p])
	r.Restart()
	n.begin(p, Restarted, event{})
	n.procs[p].Init(n.portOf(p))
	n.end(p)
}
