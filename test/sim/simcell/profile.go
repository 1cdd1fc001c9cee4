package simcell

import (
	"math/rand/v2"
	"time"
)

// profile is the kind of run that a seed makes: which faults occur, and how the
// users behave. Runs that are all an average of everything seldom meet a fault
// that needs a rare mixture of both (Groce et al. 2012, "Swarm testing").
type profile struct {
	weights   []int         // of the actions
	stalls    int           // one point in this many is a stall; 0 = none
	near      time.Duration // greatest delay of a message on a fair network
	think     time.Duration // between two actions of a user
	hold      time.Duration // longest time that a user holds a lock
	ttl       time.Duration // of sessions, at most
	delays    int           // one lock in this many is taken with a lock-delay
	patience  time.Duration // of a bare call that waits
	work      []int         // weights of a user's actions, in the order of userActions
	probes    int           // number of probes per user
	pipelines bool          // entries are sent without waiting for earlier answers
	watches   bool          // users watch the cell's events
	follows   bool          // one user keeps a copy of files
	slow      bool          // watchers are sometimes slow
	events    int           // number of events that a replica keeps
	access    bool          // access is on
	quotas    bool          // the operator puts quotas, if access is on
	ranks     bool          // requests for locks have priorities
	sets      bool          // some requests are for several locks
	keys      bool          // users also come through the door for Consul's clients
	members   bool          // members come and go; else in one run of four
	five      bool          // then the run starts with an absent member of five; else one in three
	cutOff    int           // one new session in this many is cut off at once; 0 = none
	again     int           // one message in this many has a late copy; 0 = none
	stuck     int           // one in this many takes seconds, also on a fair network; 0 = none
}

// newProfile draws the profile of a seed, or returns the named special one.
func newProfile(r *rand.Rand, seed uint64, name string) profile {
	p := profile{
		stalls:    pick(r, 0, 400, 150, 150, 40),
		near:      pick(r, 300*time.Microsecond, 2*time.Millisecond, 2*time.Millisecond, 20*time.Millisecond),
		think:     pick(r, 30*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond, 2*time.Second),
		hold:      pick(r, 20*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 8*time.Second),
		ttl:       pick(r, 1500*time.Millisecond, 6*time.Second, 6*time.Second),
		delays:    pick(r, 1, 3, 3, 10),
		patience:  pick(r, 50*time.Millisecond, 6*time.Second, 6*time.Second),
		probes:    pick(r, 0, 0, 1, 1, 2),
		pipelines: pick(r, true, true, true, false),
		cutOff:    pick(r, 0, 4),
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
	for _, d := range userActions {
		p.work = append(p.work, d.weight*pick(r, 0, 1, 1, 3))
	}
	p.work[0] = userActions[0].weight
	own := rand.New(rand.NewPCG(seed, 8)) // so that other runs stay the same
	p.ranks = pick(own, true, false)
	p.quotas = pick(own, true, false)
	p.sets = pick(own, true, false)
	p.keys = pick(own, true, false)
	p.specialize(rand.New(rand.NewPCG(seed, 6)), name) // has a random stream of its own, so that other runs stay the same
	return p
}

// pick draws one of several values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// weighed draws an index from a list of weights.
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
