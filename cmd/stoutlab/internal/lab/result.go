package lab

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Result is what a run came to, as `stoutlab run -o json` prints it. What does
// not apply to the algorithm's family is left out.
type Result struct {
	Algorithm   string   `json:"algorithm"`
	N           int      `json:"n"`
	Seed        uint64   `json:"seed"`
	Messages    Messages `json:"messages"`
	Turnaround  int      `json:"turnaround"`
	VirtualTime sim.Time `json:"virtual_time"`

	*ElectionResult
	*MutexResult

	Safety    bool           `json:"safety"`
	Liveness  bool           `json:"liveness"`
	Violation *Violation     `json:"violation"`
	Expected  *spec.Expected `json:"expected"` // null where something is made to break, and of a ring of one
	Within    *bool          `json:"within"`
	Note      string         `json:"note,omitempty"`

	Trace       []sim.Record   `json:"trace,omitempty"`
	Outcome     *sim.Outcome   `json:"-"`
	Plan        *Plan          `json:"-"`
	Undisturbed *spec.Expected `json:"-"` // what the books say of the run if nothing broke in it
}

// Messages are counts of messages.
type Messages struct {
	Total  int            `json:"total"`
	ByKind map[string]int `json:"by_kind"`
	ToSelf int            `json:"to_self"`
	Bits   int            `json:"bits"`
}

// ElectionResult is what elections have.
type ElectionResult struct {
	Leader          *int         `json:"leader"`  // of all, where they agree
	Leaders         map[int]*int `json:"leaders"` // of each process alive
	Announced       []int        `json:"announced"`
	WinnersPerPhase []int        `json:"winners_per_phase,omitzero"` // of algorithms that go by phases
}

// MutexResult is what mutual exclusion has.
type MutexResult struct {
	Entries  []Entry  `json:"entries"`
	PerEntry PerEntry `json:"per_entry"`
	// ClientDelay is from asking to entering, where nobody else wants to: of
	// each process that enters, in a run of its own without failures.
	ClientDelay *Delay `json:"client_delay"`
	// SynchronizationDelay is from leaving to the next entry, where somebody
	// waited for it.
	SynchronizationDelay *Delay  `json:"synchronization_delay"`
	Ordering             *bool   `json:"ordering"` // entries keep to the happened-before of the requests; null in runs too large to tell
	VotingSets           [][]int `json:"voting_sets,omitempty"`
	ToSelf               *int    `json:"to_self,omitempty"` // with voting sets: messages.to_self
}

// Entry is one entry into the critical section.
type Entry struct {
	Process int      `json:"process"`
	At      sim.Time `json:"at"`
}

// PerEntry is what an entry cost, on average.
type PerEntry struct {
	Messages float64 `json:"messages"`
	ToSelf   float64 `json:"to_self"`
}

// Delay is a distribution of times.
type Delay struct {
	Min  sim.Time `json:"min"`
	Mean float64  `json:"mean"`
	Max  sim.Time `json:"max"`
}

// Violation is what was broken, and by which event first.
type Violation struct {
	Property string   `json:"property"` // safety or liveness
	At       sim.Time `json:"at"`
	Event    string   `json:"event"`
}

func (v *Violation) String() string { return fmt.Sprintf("at %d: %s", v.At, v.Event) }

// Run prepares a run, lets it happen, and judges it.
func Run(o Options) (*Result, error) {
	p, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	return p.Run(), nil
}

// Run lets the run happen and judges it.
func (p *Plan) Run() *Result { return p.Judge(sim.Run(p.Config)) }

// Judge says what an outcome is worth.
func (p *Plan) Judge(out *sim.Outcome) *Result {
	a := p.Algorithm
	r := &Result{
		Algorithm: a.Name, N: p.Case.N, Seed: p.Case.Seed, Turnaround: out.Chain, VirtualTime: out.Time,
		Messages: Messages{Total: out.Messages, ByKind: map[string]int{}, ToSelf: out.ToSelf, Bits: out.Bits},
		Note:     a.Note, Trace: out.Trace, Outcome: out, Plan: p,
	}
	if p.Options.Detector != "" && p.Config.Detector != sim.NoDetector && !p.listens() {
		r.Note = strings.TrimPrefix(r.Note+"; nobody here listens to a detector", "; ")
	}
	for k, info := range a.Kinds {
		r.Messages.ByKind[info.Name] = out.ByKind[k]
	}
	if a.Family == spec.Election {
		p.judgeElection(r)
	} else {
		p.judgeMutex(r)
	}
	if a.Expect != nil && (p.Case.N > 1 || !a.Ring) { // a ring of one sends to itself only
		r.Undisturbed = a.Expect(p.Case)
	}
	if !p.Case.Faulty {
		r.Expected = r.Undisturbed
	}
	if r.Expected != nil {
		within := r.Expected.Messages.Holds(out.Messages)
		if l := p.Config.Latency; l.Least == l.Most {
			// Books count message times: where some messages are faster than
			// others, a chain of many may be the quicker one.
			within = within && r.Expected.Turnaround.Holds(out.Chain) && r.delaysWithin(l.Least)
		}
		if r.Liveness || a.Family == spec.Election {
			r.Within = &within
		}
	}
	return r
}

// listens reports whether processes of this run listen to a detector.
func (p *Plan) listens() bool {
	for _, id := range []int{0, p.Case.N + p.Algorithm.Extra - 1} {
		switch process := p.Config.New(id).(type) {
		case interface{ Listens() bool }:
			if process.Listens() {
				return true
			}
		case sim.Suspecter:
			return true
		}
	}
	return false
}

// delaysWithin reports whether the delays of mutual exclusion are what the book
// says, with messages that take that long.
func (r *Result) delaysWithin(unit sim.Time) bool {
	if r.MutexResult == nil {
		return true
	}
	holds := func(d *Delay, book *spec.Range) bool {
		return d == nil || book == nil || sim.Time(book.Min)*unit <= d.Min && d.Max <= sim.Time(book.Max)*unit
	}
	return holds(r.ClientDelay, r.Expected.ClientDelay) &&
		holds(r.SynchronizationDelay, r.Expected.SynchronizationDelay)
}

// Good reports whether both safety and liveness hold.
func (r *Result) Good() bool { return r.Safety && r.Liveness }

// endless says why a run that was stopped would not have ended.
func endless(out *sim.Outcome) string {
	if out.Loop > 0 {
		return fmt.Sprintf("the run never ends: every %d events it is in the same state again", out.Loop)
	}
	return fmt.Sprintf("the run has not ended after %d events", out.Events)
}

func list(ids []int) string {
	if len(ids) == 1 {
		return fmt.Sprintf("process %d", ids[0])
	}
	var words []string
	for i, id := range ids {
		if i == 8 {
			words = append(words, "…")
			break
		}
		words = append(words, fmt.Sprint(id))
	}
	return "processes " + strings.Join(words, ", ")
}
