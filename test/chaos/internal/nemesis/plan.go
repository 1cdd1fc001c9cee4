package nemesis

import (
	"math/rand/v2"
	"slices"
	"time"
)

// plan draws faults by a seed. Every kind comes once before any kind comes
// again, so that a short run includes each.
type plan struct {
	random *rand.Rand
	faults []fault
	deck   []fault
}

// draw is one fault to run.
type draw struct {
	fault
	calm     time.Duration // before it
	lasts    time.Duration
	overlaps bool       // the next one does not wait for its end
	random   *rand.Rand // separate, so that other faults do not change its draws
}

// Bounds of the time between faults: some of it lets the cell recover, some is
// too short.
const (
	leastCalm = 300 * time.Millisecond
	mostCalm  = 3 * time.Second
)

func newPlan(seed uint64, faults []fault) *plan {
	return &plan{random: rand.New(rand.NewPCG(seed, 0)), faults: faults}
}

func (p *plan) draw() draw {
	if len(p.deck) == 0 {
		p.deck = slices.Clone(p.faults)
		p.random.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	f := p.deck[0]
	p.deck = p.deck[1:]
	return draw{
		fault: f, calm: between(p.random, leastCalm, mostCalm), lasts: between(p.random, f.least, f.most),
		overlaps: p.random.IntN(3) == 0, random: rand.New(rand.NewPCG(p.random.Uint64(), p.random.Uint64())),
	}
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}
