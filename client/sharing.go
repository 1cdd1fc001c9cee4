package client

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// sharing lets the quiet sessions of a client share keepalives that wait. One
// call then keeps up to lockapi.MaxKeepalives sessions alive over one
// connection. The rules of a session stay the same: its own goroutine processes
// its part of the answer like the answer to a keepalive of its own.
//
// Sessions with ttls within a factor of two form a circle. An answer reaches all
// its sessions at once, so they share the next call, too. A session that comes
// later does not disturb the call under way. It takes part in another one, which
// ends at the same time.
//
// The master answers a shared call as soon as one session has an event. That
// session then keeps itself alive until one of its calls has waited without an
// event: otherwise the events of a few sessions would repeat the call for all.
type sharing struct {
	mu      sync.Mutex      // guards the circles, with their sharers and calls
	circles map[int]*circle // by sizeOf
}

// circle is the sessions that share keepalives.
type circle struct {
	c       *Client
	window  time.Duration // the longest time to gather sharers for a call
	gathers bool          // a call begins soon
	waiting []*sharer     // for that call
	calls   []*jointCall  // under way
}

// sharer is a session that takes part in one call.
type sharer struct {
	k     *keeper
	ack   uint64
	fresh bool          // see keeper.fresh
	until time.Duration // clock when the call should end for its sake
	call  *jointCall    // nil before it has begun
	over  bool          // the call is over
	out   chan kept     // gets one result
}

// kept is the result for a sharer. Without an answer it makes a keepalive of its
// own, if quiet is false or it is the only sharer.
type kept struct {
	sent   time.Duration
	answer *lockapi.Keepalive // nil without an answer
	quiet  bool               // the session may share the next call
	until  time.Duration      // when its own keepalive should end; 0 for no bound
}

// jointCall is a keepalive of several sessions. With one sharer it makes no
// call; it only shows when that session's own keepalive should end.
type jointCall struct {
	of      *circle
	sharers []*sharer
	until   time.Duration // clock when it should end
	stop    context.CancelFunc
	overdue bool // the last answer was late, but the master answered others
	part    bool // of a call that failed
}

// together makes a keepalive that other sessions of the client may share.
func (k *keeper) together(ctx context.Context) (news bool, err error) {
	under, cut := context.WithCancel(ctx)
	defer cut()
	wait := k.begin(0, cut)
	if wait == 0 {
		return k.alone(ctx, 0, 0)
	}
	m := k.s.c.sharing.enter(k, wait)
	defer k.s.c.sharing.leave(m)
	select {
	case <-under.Done():
		return false, call.ErrCut
	case got := <-m.out:
		k.quiet = got.quiet
		switch {
		case got.answer != nil:
			news = k.renewed(got.sent, got.answer)
			k.quiet = !news
			return news, nil
		case got.quiet:
			return k.alone(ctx, 0, got.until)
		}
		return false, call.ErrCut
	}
}

// sizeOf returns the number of bits of a ttl, which selects its circle.
func sizeOf(ttl time.Duration) int { return bits.Len64(uint64(ttl.Milliseconds())) }

// enter makes a session a sharer for one call.
func (s *sharing) enter(k *keeper, wait time.Duration) *sharer {
	c, size := k.s.c, sizeOf(k.s.ttl)
	m := &sharer{k: k, ack: k.ack, fresh: k.fresh, until: c.clock.now() + wait, out: make(chan kept, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.circles[size]
	if o == nil {
		if s.circles == nil {
			s.circles = map[int]*circle{}
		}
		o = &circle{c: c, window: min((time.Millisecond<<size)/40, timing.MaxBackoff)}
		s.circles[size] = o
	}
	o.waiting = append(o.waiting, m)
	switch {
	case o.gathers:
	case c.limiter.hasOne():
		o.begin()
	default:
		o.gathers = true
		time.AfterFunc(o.pause(), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			o.gathers = false
			o.begin()
		})
	}
	return m
}

// leave ends a sharer's part, and the call if no other sharer is left.
func (s *sharing) leave(m *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch j := m.call; {
	case m.over:
	case j == nil:
		o := s.circles[sizeOf(m.k.s.ttl)]
		o.waiting = without(o.waiting, m)
	default:
		if j.sharers = without(j.sharers, m); len(j.sharers) == 0 {
			j.end()
		}
	}
}

// without returns a list without one element.
func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(x T) bool { return x == one })
}

// pause returns how long to gather sharers. The more calls are under way, the
// longer it is, since each of them occupies a connection. The mutex is held.
func (o *circle) pause() time.Duration {
	return min(o.window>>4<<min(len(o.later()), 4), o.window)
}

// later lists the calls that do not end soon. The mutex is held.
func (o *circle) later() (out []*jointCall) {
	soon := o.c.clock.now() + o.window
	for _, j := range o.calls {
		if j.until > soon {
			out = append(out, j)
		}
	}
	return out
}

// begin begins the calls of the sharers that wait. They are to end with the
// first one under way. The mutex is held.
func (o *circle) begin() {
	var first time.Duration
	for _, j := range o.later() {
		if first == 0 || j.until < first {
			first = j.until
		}
	}
	for some := range slices.Chunk(o.waiting, lockapi.MaxKeepalives) {
		j := &jointCall{of: o, sharers: slices.Clone(some), until: first, stop: func() {}}
		for _, m := range some {
			m.call = j
			if j.until == 0 || m.until < j.until {
				j.until = m.until
			}
		}
		if first == 0 {
			j.spread()
		}
		o.calls = append(o.calls, j)
		if len(some) == 1 {
			some[0].out <- kept{quiet: true, until: j.until}
			continue
		}
		var ctx context.Context
		ctx, j.stop = context.WithCancel(context.Background())
		go j.run(ctx, 0)
	}
	o.waiting = nil
}

// spread lets a call end earlier, by up to a quarter of its time, if a session
// is new or has a new master. Otherwise clients that opened sessions, or moved
// to a new master, at the same time would renew them together. The mutex is
// held.
func (j *jointCall) spread() {
	if slices.ContainsFunc(j.sharers, func(m *sharer) bool { return m.fresh }) {
		j.until -= upTo((j.until - j.of.c.clock.now()) / 4)
	}
}

// upTo returns a random duration from 0 to most.
func upTo(most time.Duration) time.Duration { return rand.N(max(most, 0) + 1) }

// end removes a call that has results for all sharers. The mutex is held.
func (j *jointCall) end() {
	j.stop()
	j.of.calls = without(j.of.calls, j)
	for _, m := range j.sharers {
		m.over = true
	}
	j.sharers = nil
}

// run makes the call, and repeats it after a failure. If the call is hopeless,
// run divides it, or lets each sharer make its own.
func (j *jointCall) run(ctx context.Context, failures int) {
	var pause timing.Backoff
	for ; ; failures++ {
		err := j.keepAlive(ctx, failures)
		if err == nil || ctx.Err() != nil {
			return
		}
		j.of.c.log.Debug("stout: shared keepalive failed", "error", err)
		all := j.present()
		switch {
		case len(all) == 0:
		case isRefused(err) || len(all) <= partsOfCall && isHopeless(err, all):
			j.deliver(all, func(int) kept { return kept{} })
			return
		case isHopeless(err, all):
			j.divide(failures + 1)
			return
		}
		for _, m := range all {
			m.k.poll.short()
		}
		timing.Sleep(ctx, pause.Next())
	}
}

// present returns the sharers that have not left.
func (j *jointCall) present() []*sharer {
	s := &j.of.c.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(j.sharers)
}

// deliver ends the call with a result for each sharer.
func (j *jointCall) deliver(to []*sharer, result func(i int) kept) {
	for i, m := range to {
		m.out <- result(i)
	}
	s := &j.of.c.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	j.end()
}

// isRefused reports whether the cell refuses the call itself, so that the
// sharers should rather ask one by one.
func isRefused(err error) bool {
	refused, ok := errors.AsType[*lockapi.Error](err)
	return ok && call.IsAnswer(err) && !call.IsInvalid(err) && refused.Code.Status() < http.StatusInternalServerError &&
		refused.Code != lockapi.CodeNotMaster && refused.Code != lockapi.CodeTooMany
}

// isHopeless reports whether smaller calls should be made: the call gets no
// valid answer, perhaps because it is large or because of one of its sessions,
// and the lease of a sharer is about to end.
func isHopeless(err error, all []*sharer) bool {
	return (!call.IsAnswer(err) || call.IsInvalid(err)) && !call.NeverSent(err) && remaining(all) < all[0].k.s.ttl/5
}

// partsOfCall is the number of smaller calls that replace a hopeless one. One
// call for each session at once would be a thousand times the load, and a
// master that answers late because it has too much to do would never recover.
const partsOfCall = 8

// divide replaces the call by smaller ones.
func (j *jointCall) divide(failures int) {
	s := &j.of.c.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	all := j.sharers
	j.sharers = nil // they are not over
	j.end()
	for some := range slices.Chunk(all, max(1, (len(all)+partsOfCall-1)/partsOfCall)) {
		part := &jointCall{of: j.of, sharers: slices.Clone(some), until: j.until, part: true}
		for _, m := range some {
			m.call = part
		}
		var ctx context.Context
		ctx, part.stop = context.WithCancel(context.Background())
		part.of.calls = append(part.of.calls, part)
		go part.run(ctx, failures)
	}
}

// remaining returns what is left of the lease that ends first.
func remaining(all []*sharer) time.Duration {
	left := all[0].k.s.lease.remaining()
	for _, m := range all[1:] {
		left = min(left, m.k.s.lease.remaining())
	}
	return left
}

// keepAlive asks one replica, follows its redirects, and delivers the answer.
func (j *jointCall) keepAlive(ctx context.Context, failures int) error {
	c := j.of.c
	var to *call.Route
	for hops := 0; ; hops++ {
		all := j.present()
		if len(all) == 0 {
			return call.ErrCut
		}
		var answer lockapi.Keepalives
		q := j.request(all, failures+hops) // a new master answers at once, so that all learn of it
		q.Out = &answer
		sent, next, err := c.keepAlive(ctx, to, &q, try{failures, all[0].k.s.ttl, func() time.Duration { return remaining(all) }, &j.overdue, true, j.part})
		if err == nil {
			c.calls.SawRevision(answer.MembersRevision)
			took := (c.clock.now() - sent).Milliseconds()
			j.deliver(all, func(i int) kept {
				got := answer.Sessions[i]
				if got.Keepalive == nil {
					return kept{} // the answer to a keepalive of its own decides
				}
				got.HeldMS = min(got.HeldMS, took)
				return kept{sent: sent, answer: got.Keepalive}
			})
			return nil
		}
		if to = next; to == nil || hops == call.MostFollowed {
			return err
		}
	}
}

// request returns the call for some sharers. It waits until a third of the lease
// of the first of them is left, or until the call should end.
func (j *jointCall) request(all []*sharer, failures int) call.Call {
	var (
		req   lockapi.KeepalivesRequest
		wait  time.Duration
		epoch uint64
	)
	for _, m := range all {
		req.Sessions = append(req.Sessions, lockapi.SessionAck{ID: m.k.s.id, Ack: m.ack})
		epoch = max(epoch, m.k.epoch.Load())
	}
	if failures == 0 {
		wait = longPoll
		for _, m := range all {
			wait = min(wait, m.k.s.lease.remaining()-m.k.s.ttl/3)
		}
		wait = max(min(wait, j.until-j.of.c.clock.now()), 0).Truncate(time.Millisecond)
	}
	req.WaitMS = wait.Milliseconds()
	return call.Call{
		Method: http.MethodPost, Path: lockapi.RouteKeepalives, Body: call.Encode(req), Wait: wait,
		Check: func(q *call.Call) string { return verifyKeepalives(q.Out.(*lockapi.Keepalives), req.Sessions, epoch) },
	}
}

// verifyKeepalives describes what is wrong with the answer to a call for some
// sessions. epoch is the latest that any of them has seen.
func verifyKeepalives(all *lockapi.Keepalives, asked []lockapi.SessionAck, epoch uint64) string {
	if len(all.Sessions) != len(asked) {
		return fmt.Sprintf("%d entries for %d sessions", len(all.Sessions), len(asked))
	}
	for i, s := range all.Sessions {
		switch {
		case s.ID != asked[i].ID:
			return fmt.Sprintf("the entry of session %q", lockapi.Clip(s.ID))
		case (s.Keepalive == nil) == (s.Error == nil):
			return fmt.Sprintf("neither a lease nor an error for session %q, or both", s.ID)
		case s.Keepalive == nil:
			continue
		}
		if wrong := wrongLease(s.Keepalive, epoch); wrong != "" {
			return wrong
		}
	}
	return ""
}
