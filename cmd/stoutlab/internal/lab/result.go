package lab

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// Result is the result of a run, as `stoutlab run -o json` prints it. Fields
// that do not apply to the algorithm's family are left out.
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
	Expected  *spec.Expected `json:"expected"` // null if the run has faults, or a ring has one process
	Within    *bool          `json:"within"`
	Note      string         `json:"note,omitempty"`

	Trace       []sim.Record   `json:"trace,omitempty"`
	Outcome     *sim.Outcome   `json:"-"`
	Plan        *Plan          `json:"-"`
	Undisturbed *spec.Expected `json:"-"` // the books' figures for the run without faults
}

// Messages are counts of messages.
type Messages struct {
	Total  int            `json:"total"`
	ByKind map[string]int `json:"by_kind"`
	ToSelf int            `json:"to_self"`
	Bits   int            `json:"bits"`
}

// ElectionResult is the part for elections.
type ElectionResult struct {
	Leader          *int         `json:"leader"`  // of all, if they agree
	Leaders         map[int]*int `json:"leaders"` // of each live process
	Announced       []int        `json:"announced"`
	WinnersPerPhase []int        `json:"winners_per_phase,omitzero"` // for algorithms with phases
}

// MutexResult is the part for mutual exclusion.
type MutexResult struct {
	Entries  []Entry  `json:"entries"`
	PerEntry PerEntry `json:"per_entry"`
	// ClientDelay is the time from asking to entering without contention, of
	// each process that enters, in a separate run without failures.
	ClientDelay *Delay `json:"client_delay"`
	// SynchronizationDelay is the time from a leave to the next entry, if a
	// process was waiting for it.
	SynchronizationDelay *Delay  `json:"synchronization_delay"`
	Ordering             *bool   `json:"ordering"` // entries follow the happened-before order of the requests; null in runs too large to check
	VotingSets           [][]int `json:"voting_sets,omitempty"`
	ToSelf               *int    `json:"to_self,omitempty"` // with voting sets: messages.to_self
}

// Entry is one entry into the critical section.
type Entry struct {
	Process int      `json:"process"`
	At      sim.Time `json:"at"`
}

// PerEntry is the average cost of an entry.
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

// Violation is the broken property, and the first event that broke it.
type Violation struct {
	Property string   `json:"property"` // safety or liveness
	At       sim.Time `json:"at"`
	Event    string   `json:"event"`
}

func (v *Violation) String() string { return fmt.Sprintf("at %d: %s", v.At, v.Event) }

// Run prepares a run, runs it, and checks it.
func Run(o Options) (*Result, error) {
	p, err := Prepare(o)
	if err != nil {
		return nil, err
	}
	return p.Run(), nil
}

// Run runs the plan and checks the outcome.
func (p *Plan) Run() *Result { return p.Check(sim.Run(p.Config)) }

// Check checks an outcome and returns the result.
func (p *Plan) Check(out *sim.Outcome) *Result {
	a := p.Algorithm
	r := &Result{
		Algorithm: a.Name, N: p.Case.N, Seed: p.Case.Seed, Turnaround: out.Chain, VirtualTime: out.Time,
		Messages: Messages{Total: out.Messages, ByKind: map[string]int{}, ToSelf: out.ToSelf, Bits: out.Bits},
		Note:     a.Note, Trace: out.Trace, Outcome: out, Plan: p,
	}
	if p.Options.Detector != "" && p.Config.Detector != sim.NoDetector && !p.listens() {
		r.Note = strings.TrimPrefix(r.Note+"; no process listens to a detector", "; ")
	}
	for k, info := range a.Kinds {
		r.Messages.ByKind[info.Name] = out.ByKind[k]
	}
	if a.Family == spec.Election {
		p.checkElection(r)
	} else {
		p.checkMutex(r)
	}
	if a.Expect != nil && (p.Case.N > 1 || !a.Ring) { // a ring of one sends only to itself
		r.Undisturbed = a.Expect(p.Case)
	}
	if !p.Case.Faulty {
		r.Expected = r.Undisturbed
	}
	if r.Expected != nil {
		within := r.Expected.Messages.Holds(out.Messages)
		if l := p.Config.Latency; l.Least == l.Most {
			// Books count message times: if some messages are faster than
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

// delaysWithin reports whether the delays of mutual exclusion are within the
// book's, with messages of that latency.
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

// endless explains why a run was stopped.
func endless(out *sim.Outcome) string {
	if out.Loop > 0 {
		return fmt.Sprintf("the run never ends: it returns to the same state every %d events", out.Loop)
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
