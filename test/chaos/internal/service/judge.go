package service

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Recovery is the time after a fault's end during which a replica still counts
// as impaired.
const Recovery = 2 * time.Second

// Harm is the effect of a fault. Times are on the run's clock.
type Harm struct {
	Fault    string
	What     string
	Replicas []string    // impaired
	Links    [][2]string // impaired in either direction
	From     time.Duration
	Until    time.Duration // its end, without Recovery
}

// Probe is one acquire.
type Probe struct {
	From, Until time.Duration // Until is the time of the grant, or of giving up
	Granted     bool
	Err         string // of the last failed attempt
}

// Loss is an unexpected end of a prober's session.
type Loss struct {
	At, TTL time.Duration
	Err     string
}

// Span is an interval.
type Span struct{ From, Until time.Duration }

func (s Span) overlaps(o Span) bool { return s.From < o.Until && o.From < s.Until }

// Record is the input of Judge.
type Record struct {
	Replicas []string
	Within   time.Duration // longest time for a grant
	Harms    []Harm
	Probes   []Probe
	Losses   []Loss
	Late     []Span // when this machine was late
}

// Verdict is the result.
type Verdict struct {
	Problems []string
	Late     int // probes that took longer than the bound
	Excused  int // late ones, excused by a late machine
	Impaired int // late ones without a healthy majority
}

// Judge applies the rule. It considers a probe from its begin up to the bound:
// later impairments are no excuse.
func (r *Record) Judge() (v Verdict) {
	for _, p := range r.Probes {
		if p.Until-p.From <= r.Within {
			continue // it was granted, or the run ended
		}
		v.Late++
		due := Span{p.From, p.From + r.Within}
		if r.excused(due, &v) {
			continue
		}
		v.Problems = append(v.Problems, fmt.Sprintf("an acquire that began at %.3f s %s, although a majority of the replicas was healthy%s",
			p.From.Seconds(), p.outcome(), r.during(due)))
	}
	for _, l := range r.Losses {
		if lease := (Span{l.At - l.TTL, l.At}); !r.excused(lease, &Verdict{}) {
			v.Problems = append(v.Problems, fmt.Sprintf("a session with a ttl of %v was lost at %.3f s (%s), although a majority of the replicas was healthy%s",
				l.TTL, l.At.Seconds(), l.Err, r.during(lease)))
		}
	}
	return v
}

func (p *Probe) outcome() string {
	if p.Granted {
		return fmt.Sprintf("was granted after %.3f s", (p.Until - p.From).Seconds())
	}
	return fmt.Sprintf("was given up after %.3f s (%s)", (p.Until - p.From).Seconds(), p.Err)
}

// excused reports whether the rule does not apply to an interval, and counts
// the reason.
func (r *Record) excused(s Span, v *Verdict) bool {
	switch {
	case !r.healthy(s):
		v.Impaired++
	case slices.ContainsFunc(r.Late, s.overlaps):
		v.Excused++
	default:
		return false
	}
	return true
}

// during describes the faults that were under way.
func (r *Record) during(s Span) (text string) {
	for _, h := range r.Harms {
		if h.span().overlaps(s) {
			text += fmt.Sprintf("; %s %s from %.3f to %.3f s", h.Fault, h.What, h.From.Seconds(), h.Until.Seconds())
		}
	}
	return text
}

// span returns the interval in which a harm impairs.
func (h *Harm) span() Span { return Span{h.From, h.Until + Recovery} }

// healthy reports whether there was a healthy majority at each instant of an
// interval.
func (r *Record) healthy(s Span) bool {
	instants := []time.Duration{s.From}
	var harms []Harm
	for _, h := range r.Harms {
		if at := h.span(); at.overlaps(s) {
			harms = append(harms, h)
			instants = append(instants, max(at.From, s.From))
		}
	}
	for _, at := range instants { // health gets worse only at these instants
		var now []Harm
		for _, h := range harms {
			if s := h.span(); s.From <= at && at < s.Until {
				now = append(now, h)
			}
		}
		if !r.majority(now) {
			return false
		}
	}
	return true
}

// majority reports whether there is a healthy majority under the given harms.
func (r *Record) majority(harms []Harm) bool {
	bit := map[string]uint{}
	for i, id := range r.Replicas {
		bit[id] = 1 << i
	}
	impaired := uint(0)
	for _, h := range harms {
		for _, id := range h.Replicas {
			impaired |= bit[id]
		}
	}
	for set := uint(0); set < 1<<len(r.Replicas); set++ {
		if bits.OnesCount(set) <= len(r.Replicas)/2 || set&impaired != 0 {
			continue
		}
		if !slices.ContainsFunc(harms, func(h Harm) bool {
			return slices.ContainsFunc(h.Links, func(l [2]string) bool { return set&bit[l[0]] != 0 && set&bit[l[1]] != 0 })
		}) {
			return true
		}
	}
	return false
}
