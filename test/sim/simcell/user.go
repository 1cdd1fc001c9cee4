package simcell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// user is a program that uses the cell through the SDK, and sometimes through
// bare HTTP. Its clock has a rate of its own. When it crashes another program
// replaces it.
type user struct {
	w     *world
	name  string
	rng   *rand.Rand
	ranks *rand.Rand // draws priorities, so that other runs stay the same
	clock *clock

	ctx     context.Context // of the present program
	crash   context.CancelFunc
	client  *client.Client
	session *client.Session // nil while closed
	held    *client.Held    // through the SDK; nil without one
	forced  *client.Held    // the hold that an operator releases, or has released
	handles int
	served  map[string]bool // paths taken and released since the faults ended

	known          map[string]uint64 // latest known revisions of files
	former         *client.Held      // an earlier hold; it may have ended
	renews         bool              // it uses a session of the door
	index          uint64            // the last one of a read through the door
	indexIsCurrent bool              // it is not from a stale read
	polled         uint64            // it has received all events up to it, by bare calls

	last      pair                     // of bare calls, with a released grant; see ask
	probed    string                   // the session of its probe; see probeSession
	spared    string                   // a session that it has only opened; see spare
	promised  map[string]time.Duration // by session: end on its clock, from bare calls
	epochs    map[string]uint64        // by session: the last one from a keepalive
	releasing map[uint64]bool          // tokens with a bare release sent
	forgotten map[string]bool          // handles of the SDK's holds that are left until the session's end
}

// want is a lock that all users use. They agree on limits, as they must, and on
// modes, except for one lock that is taken in either mode.
type want struct {
	path string
	mode lockapi.Mode
	max  int64
}

var wants = []want{
	{path: "/one", mode: lockapi.Exclusive},
	{path: "/two", mode: lockapi.Exclusive},
	{path: "/few", mode: lockapi.Shared, max: 2},
	{path: "/mix"},
}

// anyWant draws a lock and its mode.
func (u *user) anyWant() want {
	l := wants[u.rng.IntN(len(wants))]
	if l.mode == "" {
		l.mode = pick(u.rng, lockapi.Exclusive, lockapi.Shared, lockapi.Shared)
	}
	return l
}

// delay draws a lock-delay, mostly none.
func (u *user) delay() time.Duration {
	if u.rng.IntN(u.w.profile.delays) > 0 {
		return 0
	}
	return between(u.rng, 100*time.Millisecond, 3*time.Second)
}

func newUser(w *world, i int) *user {
	return &user{
		w: w, name: fmt.Sprintf("u%d", i+1), served: map[string]bool{}, promised: map[string]time.Duration{}, epochs: map[string]uint64{},
		known: map[string]uint64{}, releasing: map[uint64]bool{}, forgotten: map[string]bool{},
		rng:   rand.New(rand.NewPCG(w.opts.Seed, uint64(100+i))),
		ranks: rand.New(rand.NewPCG(w.opts.Seed, uint64(300+i))),
		clock: &clock{w: w, rate: w.rate()},
	}
}

// start starts the user's program, or replaces a crashed one.
func (u *user) start() {
	if u.w.access.holdsUsers() {
		return
	}
	u.ctx, u.crash = context.WithCancel(context.Background())
	var urls []string
	for _, m := range u.w.everyMachine() { // a client that is cut off while all others are replaced must find them
		urls = append(urls, "http://"+m.id)
	}
	u.rng.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	config := client.Config{URLs: urls, Transport: u.w.endpoint(u.name, u.ctx), Clock: u.clock.read}
	if u.w.opts.Trace {
		config.Logger = slog.New(slog.NewTextHandler(u.w.trace.writer(u.name), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c, err := config.New()
	if err != nil {
		panic(err)
	}
	context.AfterFunc(u.ctx, func() { _ = c.Close() })
	u.client = c
	u.forgets()
	go u.work(u.ctx)
	for range u.w.profile.probes {
		go u.probe(u.ctx)
	}
	if u.w.profile.keys {
		go u.followsKeys(u.ctx)
	}
	if u.w.profile.watches {
		kind := anyEvents(u.rng).kind
		go u.watches(u.ctx, "watcher", kind)
		go u.watches(u.ctx, "second watcher", kind)
	}
	if u.w.profile.follows && u.name == "u1" {
		go u.follows(u.ctx)
	}
}

// kill ends the user's program at once and starts another.
func (u *user) kill() {
	u.w.trace.note(u.name, "crashes")
	u.crash()
	u.start()
}

// forgets drops what a crashed program knew.
func (u *user) forgets() {
	u.session, u.held, u.last, u.probed, u.spared = nil, nil, pair{}, "", ""
}

// remaining returns how long the user still counts on a session; false if it
// does not.
func (u *user) remaining(id string) (time.Duration, bool) {
	left := u.promised[id] - u.clock.read()
	if u.session != nil && u.session.ID() == id && u.session.State() == client.Safe {
		left = max(left, u.session.Remaining())
	}
	return left, left > 0
}

// work is the user's program.
func (u *user) work(ctx context.Context) {
	for ctx.Err() == nil && !u.w.failed() {
		ttl := time.Duration(1000+u.rng.Int64N(u.w.profile.ttl.Milliseconds())) * time.Millisecond
		opening, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := u.client.NewSession(opening, client.TTL(ttl), client.Name(u.name), client.Meta(u.metadata()))
		cancel()
		if err != nil {
			continue
		}
		u.session = s
		u.w.trace.note(u.name, "has session %.4s with a ttl of %v", s.ID(), ttl)
		if n := u.w.profile.cutOff; n > 0 && !u.w.faultsOver && u.rng.IntN(n) == 0 {
			u.w.mute(u, between(u.rng, time.Second, 12*time.Second))
		}
		// Unknown leftovers end with their session: the user takes a new one
		// when the faults end.
		for calm := u.w.quiet; s.Err() == nil && ctx.Err() == nil && calm == u.w.quiet && !u.isServed(); {
			u.one(ctx, s)
			u.wait(ctx, u.pause())
		}
		if errors.Is(s.Err(), client.ErrSessionExpired) && ctx.Err() == nil {
			u.w.trace.note(u.name, "session %.4s is over: %v", s.ID(), s.Err())
		}
		if u.w.quiet && s.Err() == nil {
			u.sweeps(ctx, s)
		}
		if u.w.quiet || u.rng.IntN(2) == 0 {
			closing, cancel := context.WithTimeout(ctx, 10*time.Second)
			_ = s.Close(closing)
			cancel()
		}
		if u.session == s {
			u.session = nil
		}
		if u.isServed() {
			return
		}
	}
}

// pause returns the user's longest pause between two actions.
func (u *user) pause() time.Duration {
	if u.w.quiet {
		return 200 * time.Millisecond
	}
	return u.w.profile.think
}

// isServed reports whether the faults are over and the user has got all its
// locks since.
func (u *user) isServed() bool {
	all := len(wants)
	if u.w.profile.keys {
		all++ // lastKey
	}
	return u.w.quiet && len(u.served) == all
}

// userActions are a user's actions while there are faults.
var userActions = []struct {
	weight int
	do     func(*user, context.Context, *client.Session)
}{
	{5, func(u *user, ctx context.Context, s *client.Session) { u.lock(ctx, s, u.anyWant()) }},
	{2, func(u *user, ctx context.Context, s *client.Session) { u.bare(ctx, s, u.anyWant()) }},
	{2, func(u *user, ctx context.Context, _ *client.Session) { u.read(ctx, u.anyWant().path) }},
	{2, func(u *user, ctx context.Context, _ *client.Session) { u.bareRead(ctx, u.anyone(), u.anyWant().path) }},
	{1, func(u *user, ctx context.Context, s *client.Session) {
		u.bareKeepalive(ctx, u.anyone(), s.ID(), time.Duration(u.rng.Int64N(int64(s.TTL()))))
	}},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.contend(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.inherits(ctx, s) }},
	{1, func(u *user, ctx context.Context, _ *client.Session) { u.wait(ctx, time.Second) }},
	{2, func(u *user, ctx context.Context, s *client.Session) { u.writesFile(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.deletesFile(ctx, s) }},
	{2, func(u *user, ctx context.Context, _ *client.Session) { u.readsFile(ctx) }},
	{1, func(u *user, ctx context.Context, _ *client.Session) { u.listsFiles(ctx) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.queues(ctx, s) }},
	{2, func(u *user, ctx context.Context, s *client.Session) { u.transacts(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.repeats(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.acquiresAndWrites(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.remembers(ctx, s) }},
	{1, func(u *user, ctx context.Context, s *client.Session) { u.writesEither(ctx, s) }},
	{1, func(u *user, ctx context.Context, _ *client.Session) { u.polls(ctx) }},
	{2, func(u *user, ctx context.Context, _ *client.Session) { u.asksNow(ctx) }},
}

// one performs one action.
func (u *user) one(ctx context.Context, s *client.Session) {
	if !u.w.quiet {
		if u.w.profile.keys && u.ranks.IntN(4) == 0 {
			u.keys(ctx, s)
			return
		}
		userActions[weighed(u.rng, u.w.profile.work)].do(u, ctx, s)
		return
	}
	if u.w.profile.keys && !u.served[lastKey] {
		u.locksKey(ctx, s.ID(), lastKey)
		return
	}
	l := u.anyWant()
	if u.rng.IntN(13) == 0 {
		u.bare(ctx, s, l)
		return
	}
	for u.served[l.path] {
		l = u.anyWant()
	}
	u.lock(ctx, s, l)
}

// wait lets up to d pass.
func (u *user) wait(ctx context.Context, d time.Duration) {
	sleep(between(u.rng, time.Millisecond, max(d, time.Millisecond)), ctx.Done())
}

// works holds a lock for a while.
func (u *user) works(ctx context.Context) {
	most := u.w.profile.hold
	if u.w.quiet {
		most = min(most, 500*time.Millisecond)
	}
	u.wait(ctx, most)
}
