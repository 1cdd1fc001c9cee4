package peers

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Every is how often a replica checks the others without a request, so that it
// knows how long one has been silent.
const Every = time.Second

// UnreachedAfter is how long a replica's questions remain unanswered before the
// path to it counts as dead.
const UnreachedAfter = 2 * Every

// Others holds a member's knowledge about the other members. It is safe for
// concurrent use.
type Others struct {
	bound    time.Duration // time limit of each question
	contacts contacts
	clocks   clocks
	asked    questions
}

// New returns an empty Others. bound is the time limit of a question. clock is
// the clock used for leases, which this replica reports to other members; nil
// for none.
func New(bound time.Duration, clock func() time.Duration) *Others {
	o := &Others{bound: bound, clocks: newClocks(clock)}
	o.contacts.started = time.Now()
	o.asked.ask = o.clocks.look
	return o
}

// Forget drops the records of replicas that are no longer members. Otherwise
// they would accumulate over the life of the process.
func (o *Others) Forget(members []lockapi.Replica) {
	stay := make(map[string]bool, len(members))
	for _, r := range members {
		stay[r.ID] = true
	}
	forget(&o.contacts.mu, o.contacts.last, stay)
	forget(&o.asked.mu, o.asked.last, stay)
	forget(&o.clocks.mu, o.clocks.rates, stay)
}

// forget deletes the replicas that are not in stay from a map guarded by mu.
func forget[T any](mu *sync.Mutex, from map[string]T, stay map[string]bool) {
	mu.Lock()
	defer mu.Unlock()
	maps.DeleteFunc(from, func(id string, _ T) bool { return !stay[id] })
}

// Look asks all replicas except self in parallel for their own entries, and
// writes the answers into replicas.
func (o *Others) Look(ctx context.Context, way http.RoundTripper, self string, replicas []lockapi.Replica) {
	var wg sync.WaitGroup
	for i := range replicas {
		if replicas[i].ID != self {
			wg.Go(func() { o.look(ctx, way, &replicas[i]) })
		}
	}
	wg.Wait()
}

// look replaces this replica's knowledge of another one with that replica's
// answer. A replica that does not answer is unhealthy, with its last known
// applied index.
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

// LastAnswer returns when a replica last answered and its applied index then; false
// if it never answered.
func (o *Others) LastAnswer(id string) (at time.Time, applied uint64, ok bool) {
	got, ok := o.contacts.lastAnswer(id)
	return got.at, got.applied, ok
}

// IsUnreached reports whether the path to a replica is dead.
func (o *Others) IsUnreached(id string) bool { return o.contacts.isUnreached(id) }

// Unreached lists the replicas to which the path is dead.
func (o *Others) Unreached() []string { return o.contacts.unreached() }

// ShowClock adds the reading of this replica's clock to an answer to another
// member.
func (o *Others) ShowClock(h http.Header) { o.clocks.show(h) }

// ClockRate returns how much faster a member's clock runs than this replica's,
// as a fraction, and the possible error; false while it is unknown.
func (o *Others) ClockRate(id string) (difference, err float64, ok bool) { return o.clocks.rate(id) }
