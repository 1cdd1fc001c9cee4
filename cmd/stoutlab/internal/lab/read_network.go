package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/cmd/stoutlab/internal/sim"
	"github.com/stoutlock/stout/cmd/stoutlab/internal/spec"
)

func readNetwork(p *Plan) error {
	o := p.Options
	least, most, err := readRange(o.Latency)
	if err != nil {
		return err
	}
	p.Config.Latency = sim.Latency{Least: least, Most: most}
	if o.Bound < 0 || o.Bound > maxUnits {
		return usage("--bound %d: want 1 to %d units", o.Bound, maxUnits)
	}
	p.Config.Bound = sim.Time(o.Bound)
	if o.Bound == 0 {
		p.Config.Bound = most
	}
	p.Case.Bound = p.Config.Bound
	for name, part := range map[string]float64{"loss": o.Loss, "duplicate": o.Duplicate} {
		if !(part >= 0 && part < 1) {
			return usage("--%s %v: want a fraction, at least 0 and below 1", name, part)
		}
	}
	p.Config.Loss, p.Config.Twice, p.Config.Reorder = o.Loss, o.Duplicate, o.Reorder
	p.Case.Faulty = o.Loss > 0 || o.Duplicate > 0 || o.Reorder || p.Config.Bound < most
	return nil
}

func readRange(text string) (least, most sim.Time, err error) {
	if text == "" {
		return 1, 1, nil
	}
	from, to, ranged := strings.Cut(text, "..")
	if !ranged {
		to = from
	}
	least, err1 := strconv.ParseInt(from, 10, 32)
	most, err2 := strconv.ParseInt(to, 10, 32)
	if err1 != nil || err2 != nil || least < 1 || most < least || most > maxUnits {
		return 0, 0, usage("--latency %q: want a number of units, at least 1, or a range such as 1..5", text)
	}
	return least, most, nil
}

// readIDs parses "0,3" as ids below n.
func readIDs(flag, text string, n int) ([]int, error) {
	var ids []int
	named := make([]bool, n)
	for _, word := range strings.Split(text, ",") {
		id, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || id < 0 || id >= n {
			return nil, usage("--%s %q: unknown process %q; want 0 … %d", flag, text, word, n-1)
		}
		if named[id] {
			return nil, usage("--%s %q: duplicate id %d", flag, text, id)
		}
		named[id] = true
		ids = append(ids, id)
	}
	return ids, nil
}

func readInitiators(p *Plan) (err error) {
	a, c, text := p.Algorithm, &p.Case, p.Options.Initiators
	if text != "" && a.Family == spec.Mutex {
		return usage("--initiators %s: mutual exclusion has no initiators; see --entries", text)
	}
	switch {
	case text == "all", text == "" && a.All:
		c.Initiators = spec.Ascending(c.N, nil)
		if a.Dead { // the failed process does not notice the failure
			c.Initiators = c.Initiators[:c.N-1]
		}
	case text != "":
		c.Initiators, err = readIDs("initiators", text, c.N)
		if err == nil && a.Dead && slices.Contains(c.Initiators, c.N-1) {
			return usage("--initiators %s: in %s process %d has failed before the run", text, a.Name, c.N-1)
		}
		if err == nil && !a.ChoosesInitiators() && len(c.Initiators) < c.N {
			return usage("--initiators %s: in %s all processes begin", text, a.Name)
		}
	case a.NoInitiator, a.Family == spec.Mutex:
	case a.Best != nil && p.Options.Order == "best": // the process to be elected begins
		c.Initiators = []int{c.N - 1}
	default:
		c.Initiators = []int{0}
	}
	return err
}

func readOrder(p *Plan) (err error) {
	a, c, text := p.Algorithm, &p.Case, p.Options.Order
	if text != "" && !a.Ring {
		return usage("--order %s: %s is not a ring algorithm", text, a.Name)
	}
	switch text {
	case "":
		c.Ring = spec.Ascending(c.N, nil)
	case "best", "worst":
		order := a.Best
		if text == "worst" {
			order = a.Worst
		}
		if order == nil {
			return usage("--order %s: in %s all orders cost the same", text, a.Name)
		}
		c.Ring = order(c.N, c.Initiators)
	case "random":
		c.Ring = rand.New(rand.NewPCG(c.Seed, 0x0de7)).Perm(c.N)
	default:
		if c.Ring, err = readIDs("order", text, c.N); err == nil && len(c.Ring) != c.N {
			return usage("--order %s: names %d of %d processes; want all", text, len(c.Ring), c.N)
		}
	}
	return err
}

// IsBest reports whether this ring costs least.
func (p *Plan) IsBest() bool {
	best := p.Algorithm.Best
	return best != nil && slices.Equal(p.Case.Ring, best(p.Case.N, p.Case.Initiators))
}

var detectors = map[string]sim.Detector{
	"none": sim.NoDetector, "perfect": sim.Perfect, "incomplete": sim.Incomplete, "inaccurate": sim.Inaccurate,
}

func readDetector(p *Plan) error {
	text := p.Options.Detector
	if text == "" {
		text = "none"
		if p.Algorithm.Session {
			text = "perfect"
		}
	}
	d, known := detectors[text]
	if !known {
		return usage("--detector %q: want none, perfect, incomplete or inaccurate", text)
	}
	p.Config.Detector = d
	if d == sim.Inaccurate {
		p.Case.Faulty = true
		p.suspectBest()
	}
	if p.Algorithm.Dead && d != sim.NoDetector {
		p.Case.Faulty = true // not only the initiators learn of the failure
	}
	return nil
}

// suspectBest makes an inaccurate detector report a process falsely: the one
// about to win, just after it began to inform the others.
func (p *Plan) suspectBest() {
	a, c := p.Algorithm, p.Case
	best := c.N - 1
	if a.Dead {
		best--
	}
	if a.Winner == spec.Lowest {
		best = 0
	}
	p.Config.Faults = append(p.Config.Faults,
		sim.Fault{Process: best, Do: sim.Suspect, When: sim.Trigger{Kind: a.Decides, After: true}})
}

func readClocks(p *Plan) error {
	o, c := p.Options, &p.Case
	c.Lease = sim.Time(o.Lease)
	if o.Lease < 0 || o.Lease > maxUnits {
		return usage("--lease %d: want 1 to %d units", o.Lease, maxUnits)
	}
	if c.Lease == 0 {
		c.Lease = 20 * c.Bound
	}
	if !(o.Drift >= 0 && o.Drift < 0.5) {
		return usage("--drift %v: want a fraction below 0.5, such as 0.01", o.Drift)
	}
	if o.Rates == "" {
		return nil
	}
	for _, word := range strings.Split(o.Rates, ",") {
		r, err := strconv.ParseFloat(word, 64)
		if err != nil || !(r >= 0.01 && r <= 100) {
			return usage("--rates %q: %q is not a clock rate such as 1.02", o.Rates, word)
		}
		p.Config.Rates = append(p.Config.Rates, r)
		c.Faulty = c.Faulty || math.Abs(r-1) > o.Drift
	}
	if len(p.Config.Rates) > c.N {
		return usage("--rates %q: %d clocks for %d processes", o.Rates, len(p.Config.Rates), c.N)
	}
	return nil
}

// NewUsage returns an error in the options.
func NewUsage(format string, args ...any) error { return usage(format, args...) }
