package simcell

import (
	"math/rand/v2"
	"time"
)

// profile is what kind of a run a seed makes: which faults there are at all,
// and how the users behave. A fault that needs a rare mixture of both is seldom
// met by runs that are all the average of everything (Groce et al. 2012, "Swarm
// testing").
type profile struct {
	weights   []int         // of the actions
	stalls    int           // one point in this many is a stall; 0 = none
	near      time.Duration // a message on a fair network takes so long at most
	think     time.Duration // between two things that a user does
	hold      time.Duration // for how long a user holds a lock at most
	ttl       time.Duration // of sessions, at most
	delays    int           // one lock in this many is taken with a lock-delay
	patience  time.Duration // of a bare call that waits
	work      []int         // weights of what a user does, in the order of deeds
	witnesses int           // of each user
	pipelines bool          // entries are sent without waiting for the answers before
	watches   bool          // users watch the cell's events
	follows   bool          // one keeps a copy of files
	slow      bool          // watchers are slow at times
	events    int           // that a replica keeps
	silence   int           // one new session in this many is cut off at once; 0 = none
	again     int           // one message in this many has a copy that comes late; 0 = none
	stuck     int           // one in this many takes seconds, on a fair network, too; 0 = none
}

// newProfile draws the profile of a seed. Where a special one is named it is that.
func newProfile(r *rand.Rand, seed uint64, name string) profile {
	p := profile{
		stalls:    pick(r, 0, 400, 150, 150, 40),
		near:      pick(r, 300*time.Microsecond, 2*time.Millisecond, 2*time.Millisecond, 20*time.Millisecond),
		think:     pick(r, 30*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond, 2*time.Second),
		hold:      pick(r, 20*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 8*time.Second),
		ttl:       pick(r, 1500*time.Millisecond, 6*time.Second, 6*time.Second),
		delays:    pick(r, 1, 3, 3, 10),
		patience:  pick(r, 50*time.Millisecond, 6*time.Second, 6*time.Second),
		witnesses: pick(r, 0, 0, 1, 1, 2),
		pipelines: pick(r, true, true, true, false),
		silence:   pick(r, 0, 4),
		watches:   pick(r, true, true, false),
		follows:   pick(r, true, false),
		slow:      pick(r, true, false),
		events:    pick(r, 20, 200, 65536, 65536),
	}
	for _, a := range actions {
		weight := a.weight
		if weight > 0 {
			weight *= pick(r, 0, 1, 1, 3)
		}
		p.weights = append(p.weights, weight)
	}
	p.weights[0] = actions[0].weight * pick(r, 1, 1, 4, 10)
	for _, d := range deeds {
		p.work = append(p.work, d.weight*pick(r, 0, 1, 1, 3))
	}
	p.work[0] = deeds[0].weight
	p.specialize(rand.New(rand.NewPCG(seed, 6)), name) // a draw of its own: the other runs are what they were
	return p
}

// pick draws one of several values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// weighed draws a place in a list of weights.
func weighed(r *rand.Rand, weights []int) int {
	sum := 0
	for _, n := range weights {
		sum += n
	}
	n := r.IntN(sum)
	for i, weight := range weights {
		if n -= weight; n < 0 {
			return i
		}
	}
	panic("the weights add up to more than their sum")
}
