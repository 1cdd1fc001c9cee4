package lab

import (
	"fmt"
	"slices"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

// checkElection checks the processes' beliefs at the end.
//
// Safety: no two live processes believe in different leaders, and their leader
// is alive and the best alive. Liveness: the run ends, and every live process
// knows a leader. In an election for a span of office, safety means that no two
// spans overlap, in true time; liveness, that a process is in office at the end.
func (p *Plan) checkElection(r *Result) {
	out := r.Outcome
	e := &ElectionResult{Leaders: map[int]*int{}, Announced: out.Announced, WinnersPerPhase: out.Tally}
	if e.Announced == nil {
		e.Announced = []int{}
	}
	if p.Algorithm.Phases && e.WinnersPerPhase == nil {
		e.WinnersPerPhase = []int{}
	}
	r.ElectionResult = e
	var without []int
	for id := range p.Case.N {
		if !out.Alive[id] {
			continue
		}
		e.Leaders[id] = nil
		if leader := out.Leaders[id]; leader != sim.NoProcess {
			e.Leaders[id] = &leader
		} else if !out.Cut[id] {
			without = append(without, id)
		}
	}
	e.Leader = p.common(out)
	if p.Algorithm.Office {
		p.checkOffice(r, without)
		return
	}
	bad := p.firstWrong(out)
	r.Safety = bad == nil
	r.Violation = bad
	r.Liveness = !out.Endless && len(without) == 0
	if r.Safety && !r.Liveness {
		r.Violation = &Violation{"liveness", out.Time, p.stuck(out, without)}
	}
}

func (p *Plan) stuck(out *sim.Outcome, without []int) string {
	if out.Endless {
		return endless(out)
	}
	return fmt.Sprintf("nothing is left to do, and %s know%s no leader", list(without), s(len(without) == 1))
}

func s(one bool) string {
	if one {
		return "s"
	}
	return ""
}

// common returns the leader that all live processes believe in, or nil.
func (p *Plan) common(out *sim.Outcome) *int {
	leader := sim.NoProcess
	for id := range p.Case.N {
		if !out.Alive[id] {
			continue
		}
		if out.Leaders[id] == sim.NoProcess || leader != sim.NoProcess && out.Leaders[id] != leader {
			return nil
		}
		leader = out.Leaders[id]
	}
	if leader == sim.NoProcess {
		return nil
	}
	return &leader
}

// best returns the process that should be elected, or NoProcess if any process may
// be.
func (p *Plan) best(out *sim.Outcome) int {
	a, c := p.Algorithm, p.Case
	if a.Winner == spec.Anybody || a.NoInitiator && len(c.Initiators) > 0 {
		return sim.NoProcess
	}
	best := sim.NoProcess
	candidates := a.Candidates && !p.begunAnew(out)
	for id := range c.N {
		if !out.Alive[id] || out.Cut[id] || candidates && !c.Starts(id) {
			continue
		}
		if best == sim.NoProcess || a.Winner == spec.Highest {
			best = id
		}
	}
	return best
}

// begunAnew reports whether all processes learned of a crash and restarted the
// election.
func (p *Plan) begunAnew(out *sim.Outcome) bool {
	d := p.Config.Detector
	return p.Algorithm.Anew && (d == sim.Perfect || d == sim.Inaccurate) && slices.Contains(out.Alive[:p.Case.N], false)
}

// firstWrong returns the first event that gave a process a wrong belief that it
// still has at the end.
func (p *Plan) firstWrong(out *sim.Outcome) *Violation {
	best := p.best(out)
	var first *sim.Belief
	for i := range out.Beliefs {
		b := &out.Beliefs[i]
		if b.Leader == sim.NoProcess || !out.Alive[b.Process] || out.Leaders[b.Process] != b.Leader {
			continue
		}
		wrong := ""
		switch {
		case !out.Alive[b.Leader]:
			wrong = fmt.Sprintf("process %d believes in %d, which has crashed", b.Process, b.Leader)
		case first != nil && first.Leader != b.Leader:
			wrong = fmt.Sprintf("process %d believes in %d, and process %d in %d",
				b.Process, b.Leader, first.Process, first.Leader)
		case best != sim.NoProcess && b.Leader != best && !p.bestIsBelieved(out, best):
			wrong = fmt.Sprintf("process %d believes in %d, and the best alive is %d", b.Process, b.Leader, best)
		}
		if wrong != "" {
			return &Violation{"safety", b.At, wrong}
		}
		if first == nil {
			first = b
		}
	}
	return nil
}

// bestIsBelieved reports whether a process believes in the best; then another
// belief is reported as one of two.
func (p *Plan) bestIsBelieved(out *sim.Outcome, best int) bool {
	for id, leader := range out.Leaders {
		if out.Alive[id] && leader == best {
			return true
		}
	}
	return false
}

func (p *Plan) checkOffice(r *Result, without []int) {
	out := r.Outcome
	r.Safety = out.Broken == nil
	for id, leader := range out.Leaders {
		if out.Alive[id] && leader == id {
			r.Liveness = true
		}
	}
	switch {
	case !r.Safety:
		r.Violation = &Violation{"safety", out.Broken.At, out.Broken.Text}
	case !r.Liveness:
		r.Violation = &Violation{"liveness", out.Time, fmt.Sprintf("there is no master at the end; %d processes know no master", len(without))}
	}
}
