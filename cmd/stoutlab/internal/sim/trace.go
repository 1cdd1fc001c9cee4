package sim

import "fmt"

// Action is a kind of record, and of event.
type Action uint8

// The kinds of records.
const (
	Started   Action = iota
	Received         // a message arrived
	TimedOut         // a timer fired
	Suspected        // the failure detector reported a crash
	Crashed
	Restarted
	Cut     // cut off from the network
	Sent    // a message was sent
	Dropped // a message was lost, or its receiver is dead
	Elected // the process now believes in a leader
	Leads   // the process acts as leader for a while
	Want    // the process asks for the critical section
	Enter
	Leave
	Noted
)

var whats = [...]string{"init", "receive", "timeout", "suspect", "crash", "restart", "cut", "send",
	"drop", "elect", "lead", "want", "enter", "leave", "note"}

func (w Action) String() string { return whats[w] }

// MarshalText makes JSON show the word.
func (w Action) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Record is one line of a trace.
type Record struct {
	At      Time   `json:"at"`
	Process int    `json:"process"`
	What    Action `json:"what"`
	Message int    `json:"message,omitempty"` // its number, from 1: links a Sent to its Received
	Peer    int    `json:"peer"`              // the other end of the message
	Kind    string `json:"kind,omitempty"`    // of the message
	Text    string `json:"text,omitempty"`
	Lamport int    `json:"lamport"`
	State   string `json:"state,omitempty"` // of the process, after the step that begins here
}

func (n *Network) append(r Record) {
	if !n.tracing {
		return
	}
	if len(n.out.Trace) >= n.cfg.Trace {
		n.out.Truncated = true
		return
	}
	r.At, r.Lamport = n.now, n.clock[r.Process]
	n.out.Trace = append(n.out.Trace, r)
}

func (n *Network) note(p int, what Action, text string) {
	n.append(Record{Process: p, What: what, Peer: NoProcess, Text: text})
}

func (n *Network) message(p, peer int, what Action, e event, text string) {
	if !n.tracing {
		return
	}
	k := n.cfg.Kinds[e.m.Kind]
	if text == "" {
		text = k.text(e.m)
	}
	n.append(Record{Process: p, What: what, Message: e.id, Peer: peer, Kind: k.Name, Text: text})
}

func (n *Network) sent(e event) { n.message(e.m.From, e.to, Sent, e, "") }

func (n *Network) drop(e event, why string) { n.message(e.to, e.m.From, Dropped, e, why) }

// begin opens a step in the trace.
func (n *Network) begin(p int, what Action, e event) {
	if !n.tracing {
		return
	}
	n.current = len(n.out.Trace)
	switch what {
	case Received:
		n.message(p, e.m.From, Received, e, "")
	case TimedOut:
		if e.timer < 0 { // the user's timer, not the algorithm's
			what = Noted
		}
		n.note(p, what, "")
	case Suspected:
		n.note(p, Suspected, fmt.Sprintf("the detector reports that %d has crashed", e.timer))
	default:
		n.note(p, what, "")
	}
}

// record records the state after the step.
func (n *Network) record(p int) {
	if n.tracing && n.current < len(n.out.Trace) {
		n.out.Trace[n.current].State = State(n.procs[p])
	}
}

// State returns the fields of a process as text.
func State(p Process) string {
	if s, ok := p.(fmt.Stringer); ok {
		return s.String()
	}
	text := fmt.Sprintf("%+v", p)
	if len(text) > 0 && text[0] == '&' {
		text = text[1:]
	}
	return text
}
