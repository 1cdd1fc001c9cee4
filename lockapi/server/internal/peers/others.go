package peers

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
)

// Every is how often a replica checks the others without a request, so that it
// knows how long one has been silent.
const Every = time.Second

// UnreachedAfter is how long a member may leave questions unanswered before the
// path to it counts as dead.
const UnreachedAfter = 2 * Every

// Others holds a member's knowledge about the other members. It is safe for
// concurrent use.
type Others struct {
	bound   time.Duration        // time limit of each question
	clock   func() time.Duration // nil if there is no clock to report
	origin  string               // identifies this process; valid only within it
	started time.Time            // used for a replica that has never answered

	mu  sync.Mutex // guards the following field and the members, except their rates
	all map[string]*member
}

// member is the knowledge about another member.
type member struct {
	answered time.Time   // last answer; zero for none
	applied  uint64      // in that answer
	missed   time.Time   // first failed question since then; zero for none
	asked    *question   // the latest; nil before
	rates    lease.Rates // of its clock
}

// New returns an empty Others. bound is the time limit of a question. clock is
// the clock used for leases, which this replica reports to other members; nil
// for none.
func New(bound time.Duration, clock func() time.Duration) *Others {
	return &Others{bound: bound, clock: clock, origin: rand.Text(), started: time.Now(), all: map[string]*member{}}
}

// Forget drops the records of replicas that are no longer members. Otherwise
// they would accumulate over the life of the process.
func (o *Others) Forget(members []lockapi.Replica) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.all, func(id string, _ *member) bool {
		return !slices.ContainsFunc(members, func(r lockapi.Replica) bool { return r.ID == id })
	})
}

// lock locks the knowledge about a member. The caller unlocks o.mu.
func (o *Others) lock(id string) *member {
	o.mu.Lock()
	m := o.all[id]
	if m == nil {
		m = new(member)
		o.all[id] = m
	}
	return m
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
	got, age, err := o.ask(ctx, way, r.ID)
	m := o.lock(r.ID)
	defer o.mu.Unlock()
	if err != nil || got.ID != r.ID {
		if age == 0 && ctx.Err() == nil && m.missed.IsZero() {
			m.missed = time.Now()
		}
		last := m.answered
		if last.IsZero() {
			last = o.started
		}
		r.Healthy = false
		r.LastContactMS = time.Since(last).Milliseconds()
		r.AppliedIndex = m.applied
		r.Promise = nil
		return
	}
	if age == 0 {
		m.answered, m.applied, m.missed = time.Now(), got.AppliedIndex, time.Time{}
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
	m := o.lock(id)
	defer o.mu.Unlock()
	return m.answered, m.applied, !m.answered.IsZero()
}

// isUnreached reports whether a member has not answered for UnreachedAfter.
func (m *member) isUnreached() bool {
	return !m.missed.IsZero() && time.Since(m.missed) >= UnreachedAfter
}

// IsUnreached reports whether the path to a replica is dead.
func (o *Others) IsUnreached(id string) bool {
	m := o.lock(id)
	defer o.mu.Unlock()
	return m.isUnreached()
}

// Unreached lists the replicas to which the path is dead.
func (o *Others) Unreached() (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, m := range o.all {
		if m.isUnreached() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
