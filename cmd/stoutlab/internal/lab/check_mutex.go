package lab

import (
	"fmt"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
)

// checkMutex checks the processes' entries.
//
// Safety: no two processes are inside at the same time. Liveness: every live
// process entered as often as it wanted to. Ordering: if one request happened
// before another, it was granted before it.
func (p *Plan) checkMutex(r *Result) {
	out := r.Outcome
	m := &MutexResult{Entries: []Entry{}}
	r.MutexResult = m
	for _, s := range out.Sections {
		if s.What == sim.Enter {
			m.Entries = append(m.Entries, Entry{s.Process, s.At})
		}
	}
	if n := float64(len(m.Entries)); n > 0 {
		m.PerEntry = PerEntry{float64(out.Messages) / n, float64(out.ToSelf) / n}
	}
	m.SynchronizationDelay = synchronization(out.Sections)
	m.ClientDelay = p.clientDelay()
	if p.Config.Causal && len(m.Entries) <= maxOrdered {
		kept := ordered(out.Sections)
		m.Ordering = &kept
	}
	if p.Algorithm.Sets != nil {
		m.VotingSets, m.ToSelf = p.Algorithm.Sets(p.Case), &out.ToSelf
	}
	waiting := p.waiting(out)
	r.Safety = out.Broken == nil
	r.Liveness = len(waiting) == 0 && !out.Endless
	switch {
	case !r.Safety:
		r.Violation = &Violation{"safety", out.Broken.At, out.Broken.Text}
	case out.Endless:
		r.Violation = &Violation{"liveness", out.Time, endless(out)}
	case !r.Liveness:
		text := fmt.Sprintf("nothing is left to do, and %s still wait%s", list(waiting), s(len(waiting) == 1))
		r.Violation = &Violation{"liveness", out.Time, text}
	}
}

// waiting returns the live processes that have not entered as often as they
// wanted.
func (p *Plan) waiting(out *sim.Outcome) []int {
	left := append([]int(nil), p.Case.Entries...)
	for _, s := range out.Sections {
		if s.What == sim.Enter {
			left[s.Process]--
		}
	}
	var ids []int
	for id, n := range left {
		if n > 0 && out.Alive[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// synchronization measures the time from each leave to the next entry, if the
// entering process had asked before.
func synchronization(events []sim.Section) *Delay {
	var all []sim.Time
	asked := map[int]sim.Time{}
	left := sim.Time(-1)
	for _, s := range events {
		switch s.What {
		case sim.Want:
			asked[s.Process] = s.At
		case sim.Leave:
			left = s.At
		case sim.Enter:
			if left >= 0 && asked[s.Process] <= left {
				all = append(all, s.At-left)
			}
		}
	}
	return delayOf(all)
}

// maxAlone bounds the number of processes that are measured alone.
const maxAlone = 64

// clientDelay measures each process alone, in a run without failures.
func (p *Plan) clientDelay() *Delay {
	var all []sim.Time
	for id := 0; id < p.Case.N && len(all) < maxAlone; id++ {
		if p.Case.Entries[id] == 0 {
			continue
		}
		c, cfg := p.Case, p.Config
		c.Entries = make([]int, c.N)
		c.Entries[id] = 1
		cfg.Faults, cfg.Loss, cfg.Twice, cfg.Trace, cfg.Causal, cfg.Delay = nil, 0, 0, 0, false, nil
		cfg.New = func(q int) sim.Process { return p.Algorithm.New(c, q) }
		cfg.Entries = c.Entries
		asked := sim.Time(0)
		for _, s := range sim.Run(cfg).Sections {
			switch s.What {
			case sim.Want:
				asked = s.At
			case sim.Enter:
				all = append(all, s.At-asked)
			}
		}
	}
	return delayOf(all)
}

func delayOf(all []sim.Time) *Delay {
	if len(all) == 0 {
		return nil
	}
	d := &Delay{Min: all[0], Max: all[0]}
	sum := sim.Time(0)
	for _, t := range all {
		d.Min, d.Max, sum = min(d.Min, t), max(d.Max, t), sum+t
	}
	d.Mean = float64(sum) / float64(len(all))
	return d
}

// maxOrdered bounds the number of entries that are compared with each other: a
// run with more has no verdict.
const maxOrdered = 2000

// ordered reports whether entries follow the order of requests. It needs vector
// clocks: request a happened before b if b's clock includes a.
func ordered(events []sim.Section) bool {
	var granted []sim.Section // the requests, in the order of the entries
	open := map[int]sim.Section{}
	for _, s := range events {
		switch s.What {
		case sim.Want:
			open[s.Process] = s
		case sim.Enter:
			granted = append(granted, open[s.Process])
			delete(open, s.Process)
		}
	}
	for i, later := range granted {
		for _, earlier := range granted[i+1:] {
			if before(earlier, later) {
				return false
			}
		}
	}
	return true
}

func before(a, b sim.Section) bool {
	return a.Past != nil && b.Past != nil && a.Process != b.Process && b.Past[a.Process] >= a.Past[a.Process]
}
