package peers

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Every is how often a replica looks at the others without being asked, so that it
// can tell for how long one has been silent.
const Every = time.Second

// UnreachedAfter is how long a replica leaves questions unanswered until the way to it
// counts as dead.
const UnreachedAfter = 2 * Every

// Others is what a member has learned of the others. It is safe for concurrent use.
type Others struct {
	bound    time.Duration // of each question
	contacts contacts
	clocks   clocks
	asked    questions
}

// New returns Others without any knowledge. bound is how long a question may take;
// clock is the clock that leases are counted on, which other members are told of, nil
// for none.
func New(bound time.Duration, clock func() time.Duration) *Others {
	o := &Others{bound: bound, clocks: newClocks(clock)}
	o.contacts.started = time.Now()
	o.asked.ask = o.clocks.look
	return o
}

// Forget drops what is known of replicas that are members no more: names come and go
// for as long as the process lives.
func (o *Others) Forget(members []lockapi.Replica) {
	stay := make(map[string]bool, len(members))
	for _, r := range members {
		stay[r.ID] = true
	}
	forget(&o.contacts.mu, o.contacts.last, stay)
	forget(&o.asked.mu, o.asked.last, stay)
	forget(&o.clocks.mu, o.clocks.rates, stay)
}

// forget deletes from a map, by replica, that mu guards.
func forget[T any](mu *sync.Mutex, from map[string]T, stay map[string]bool) {
	mu.Lock()
	defer mu.Unlock()
	maps.DeleteFunc(from, func(id string, _ T) bool { return !stay[id] })
}

// Look asks every replica but self for its own entry, all at once, and writes what
// they report into replicas.
func (o *Others) Look(ctx context.Context, way http.RoundTripper, self string, replicas []lockapi.Replica) {
	var wg sync.WaitGroup
	for i := range replicas {
		if replicas[i].ID != self {
			wg.Go(func() { o.look(ctx, way, &replicas[i]) })
		}
	}
	wg.Wait()
}

// look replaces what this replica knows of another by what the other reports. One that
// does not answer is unhealthy, its applied index the last one known.
func (o *Others) look(ctx context.Context, way http.RoundTripper, r *lockapi.Replica) {
	got, age, err := o.asked.of(ctx, way, r.ID, o.bound)
	if err != nil || got.ID != r.ID {
		if age == 0 && ctx.Err() == nil {
			o.contacts.miss(r.ID)
		}
		known := o.contacts.of(r.ID)
		r.Healthy = false
		r.LastContactMS = time.Since(known.at).Milliseconds()
		r.AppliedIndex = known.applied
		r.Promise = nil
		return
	}
	if age == 0 {
		o.contacts.note(r.ID, got.AppliedIndex)
	}
	got = aged(got, age)
	r.Role = got.Role
	r.Healthy = true
	r.LastContactMS = got.LastContactMS
	r.AppliedIndex = got.AppliedIndex
	r.Promise = got.Promise
	r.Unreached = got.Unreached
}

// LastAnswer returns when a replica last answered, and how far it was; false if it never
// did.
func (o *Others) LastAnswer(id string) (at time.Time, applied uint64, ok bool) {
	got, ok := o.contacts.heard(id)
	return got.at, got.applied, ok
}

// IsUnreached reports whether the way to a replica is dead.
func (o *Others) IsUnreached(id string) bool { return o.contacts.isUnreached(id) }

// Unreached lists the replicas to which the way is dead.
func (o *Others) Unreached() []string { return o.contacts.unreached() }

// ShowClock puts what this replica's clock reads into an answer to another member.
func (o *Others) ShowClock(h http.Header) { o.clocks.show(h) }

// ClockRate returns how much faster a member's clock runs than this replica's, as a
// fraction, and how far that may be off; false while it is not known.
func (o *Others) ClockRate(id string) (difference, err float64, ok bool) { return o.clocks.rate(id) }
