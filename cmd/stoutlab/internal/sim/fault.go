package sim

// Fault is a fault of a process at its trigger.
type Fault struct {
	Process int
	When    Trigger
	Do      Harm
}

// Trigger is the moment of a fault: the start of the run, or the Nth time (from
// 1) that the process sends a message of the kind. With a fault before such a
// message, the message is not sent. With a fault after it, the rest of a
// multicast is not sent.
type Trigger struct {
	Start bool
	Kind  Kind
	Any   bool // any kind counts
	After bool
	Nth   int // 0 means 1
}

// Harm is the effect of a fault.
type Harm uint8

// The harms.
const (
	Crash   Harm = iota // the process stops permanently
	CutOff              // no message to or from it arrives any more
	Suspect             // an inaccurate detector reports its crash to all others
	Reboot              // it crashes, and restarts after two bounds
)

// Detector is the behaviour of a failure detector. A detector reports one bound
// after the event.
type Detector uint8

// The detectors. Incomplete misses every crash. Inaccurate reports crashes, and
// also false ones: see Suspect.
const (
	NoDetector Detector = iota
	Perfect
	Incomplete
	Inaccurate
)

type armed struct {
	Fault
	left int // sends to let pass first
	done bool
}

// sending is called before a message is sent. It returns false if a fault stops
// the sender before it.
func (n *Network) sending(from int, kind Kind) bool {
	for i := range n.faults {
		f := &n.faults[i]
		if f.done || f.Process != from || f.When.Start || f.When.Kind != kind && !f.When.Any {
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

func (n *Network) harm(f Fault) {
	switch f.Do {
	case Crash:
		n.crash(f.Process)
	case CutOff:
		n.cut[f.Process] = true
		n.note(f.Process, Cut, "")
	case Suspect:
		if n.cfg.Detector == Inaccurate {
			n.reportCrash(f.Process)
		}
	case Reboot:
		n.crash(f.Process)
		n.add(event{at: n.now + 2*n.cfg.Bound, what: Restarted, to: f.Process})
	}
}

func (n *Network) crash(p int) {
	if !n.alive[p] {
		return
	}
	n.alive[p] = false
	n.lookOver()
	n.leader[p] = NoProcess
	n.note(p, Crashed, "")
	n.endLead(p)
	n.inside(p, false)
	if n.cfg.Detector == Perfect || n.cfg.Detector == Inaccurate {
		n.reportCrash(p)
	}
}

// reportCrash makes the detector report a crash to all others.
func (n *Network) reportCrash(p int) {
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
