package sim

import "math/rand/v2"

// Config is a network and its faults.
type Config struct {
	N     int // processes, 0…N−1
	Extra int // nodes behind them that serve and do not take part, such as a service
	Kinds []KindInfo
	New   func(id int) Process

	Ring    []int // the ids in the direction of messages; nil: 0, 1, … N−1
	Latency Latency
	Delay   map[[2]int]Time // latency of single links [from, to]; it replaces Latency
	Bound   Time            // for time-outs; 0: the largest latency
	Seed    uint64
	Rates   []float64 // clock rates; other clocks run at 1
	Loss    float64   // fraction of messages that are lost
	Twice   float64   // fraction of messages that arrive twice
	Reorder bool      // messages of one link may overtake one another

	Faults   []Fault
	Detector Detector

	Until   Time  // the run is cut off at this time; 0: when no event is left
	Entries []int // the run is over when every live process has left the critical section so often; nil: never
	Limit   int   // events after which a run counts as endless; 0: 5·N² + 20 000
	Trace   int   // number of records to keep; 0: none
	Causal  bool  // keep vector clocks, to check the order of requests
}

// Latency is the duration of a message: evenly distributed between the two. The
// zero value is one unit.
type Latency struct{ Least, Most Time }

func (l Latency) draw(rng *rand.Rand) Time {
	if l.Most <= l.Least {
		return l.Least
	}
	return l.Least + rng.Int64N(l.Most-l.Least+1)
}

func (c Config) normal() Config {
	if c.Latency == (Latency{}) {
		c.Latency = Latency{1, 1}
	}
	if c.Bound == 0 {
		c.Bound = c.Latency.Most
		for _, d := range c.Delay {
			c.Bound = max(c.Bound, d)
		}
	}
	if c.Limit == 0 {
		c.Limit = 5*c.N*c.N + 20_000
	}
	if c.Ring == nil {
		c.Ring = make([]int, c.N)
		for i := range c.Ring {
			c.Ring[i] = i
		}
	}
	return c
}
