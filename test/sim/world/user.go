package world

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

// user is a program that uses the cell through the SDK, and now and then through
// bare HTTP. Its clock runs at a rate of its own. When it crashes another takes
// its place.
type user struct {
	w     *world
	name  string
	rng   *rand.Rand
	clock *clock

	ctx     context.Context // of the present program
	crash   context.CancelFunc
	client  *client.Client
	session *client.Session // nil while there is none
	held    *client.Held    // through the SDK; nil while nothing is held
	handles int
	served  map[string]bool // paths got and released since the faults ended

	promised map[string]time.Duration // by session: until when on its clock, as bare keepalives were told
}

// The locks that all users want. Modes are agreed on, as a limit has to be.
var paths = []struct {
	path string
	opts []client.LockOption
	mode lockapi.Mode
	max  int64
}{
	{path: "/one", mode: lockapi.Exclusive},
	{path: "/two", mode: lockapi.Exclusive},
	{path: "/few", mode: lockapi.Shared, max: 2, opts: []client.LockOption{client.Limit(2)}},
}

func newUser(w *world, i int) *user {
	return &user{
		w: w, name: fmt.Sprintf("u%d", i+1), served: map[string]bool{}, promised: map[string]time.Duration{},
		rng:   rand.New(rand.NewPCG(w.opts.Seed, uint64(100+i))),
		clock: &clock{w: w, rate: w.rate()},
	}
}

// start starts the user's program, in the place of one that has crashed.
func (u *user) start() {
	u.ctx, u.crash = context.WithCancel(context.Background())
	var urls []string
	for _, m := range u.w.machines {
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
	u.client, u.session, u.held = c, nil, nil
	go u.work(u.ctx)
}

// kill ends the user's program at once; another one is started.
func (u *user) kill() {
	u.w.trace.note(u.name, "crashes")
	u.crash()
	u.start()
}

// remaining is for how long the user counts on a session yet; false where it does
// not.
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
		ttl := time.Duration(1500+u.rng.IntN(5000)) * time.Millisecond
		opening, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := u.client.NewSession(opening, client.WithTTL(ttl))
		cancel()
		if err != nil {
			continue
		}
		u.session = s
		u.w.trace.note(u.name, "has session %.4s with a ttl of %v", s.ID(), ttl)
		// What the user has lost sight of goes with a session: it takes a new one
		// when the faults end.
		for calm := u.w.quiet; s.Err() == nil && ctx.Err() == nil && calm == u.w.quiet && !u.isServed(); {
			u.one(ctx, s)
			u.wait(ctx, 200*time.Millisecond)
		}
		if errors.Is(s.Err(), client.ErrSessionExpired) && ctx.Err() == nil {
			u.w.trace.note(u.name, "session %.4s is over: %v", s.ID(), s.Err())
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

// isServed: the faults are over, and the user got all that it wants since.
func (u *user) isServed() bool { return u.w.quiet && len(u.served) == len(paths) }

// one does one thing.
func (u *user) one(ctx context.Context, s *client.Session) {
	which := u.rng.IntN(len(paths))
	switch n := u.rng.IntN(13); {
	case u.w.quiet && n == 0:
		u.bare(ctx, s, which)
	case n < 5 || u.w.quiet:
		for u.w.quiet && u.served[paths[which].path] {
			which = (which + 1) % len(paths)
		}
		u.lock(ctx, s, which)
	case n < 7:
		u.bare(ctx, s, which)
	case n < 9:
		u.read(ctx, which)
	case n < 11:
		u.bareRead(ctx, which)
	case n < 12:
		u.bareKeepalive(ctx, s)
	default:
		u.wait(ctx, time.Second)
	}
}

// wait lets up to d pass.
func (u *user) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(between(u.rng, time.Millisecond, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// lock takes a lock through the SDK, works, and releases it.
func (u *user) lock(ctx context.Context, s *client.Session, which int) {
	want := paths[which]
	opts := append([]client.LockOption{client.Wait(between(u.rng, 10*time.Millisecond, 8*time.Second))}, want.opts...)
	if u.rng.IntN(3) == 0 {
		opts = append(opts, client.LockDelay(between(u.rng, 100*time.Millisecond, 3*time.Second)))
	}
	calling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var h *client.Held
	var err error
	if u.rng.IntN(3) == 0 && !u.w.quiet {
		h, err = s.TryLock(calling, want.path, opts...)
	} else {
		h, err = s.Lock(calling, want.path, opts...)
	}
	if err != nil || ctx.Err() != nil {
		u.pace(ctx)
		return
	}
	u.holds(h, s)
	u.wait(ctx, 500*time.Millisecond)
	if u.rng.IntN(4) == 0 && h.Err() == nil {
		u.checkSequencer(ctx, h)
	}
	if u.held == h {
		u.held = nil
	}
	if u.rng.IntN(12) == 0 && !u.w.quiet {
		return // it forgets to release: the hold lasts as long as the session
	}
	unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := h.Unlock(unlocking); err == nil && ctx.Err() == nil {
		u.w.judge.released(u.name, h.Token())
		u.served[want.path] = u.w.quiet
		if !u.w.quiet {
			delete(u.served, want.path)
		}
	}
}

// pace keeps a program whose calls fail at once from doing nothing else.
func (u *user) pace(ctx context.Context) { u.wait(ctx, 20*time.Millisecond) }

// holds checks a grant of the SDK against what the other users believe.
func (u *user) holds(h *client.Held, s *client.Session) {
	if h.Err() != nil {
		return
	}
	u.w.judge.acquired(u.name, h.Path(), s.ID(), h.Handle(), h.Token())
	u.w.trace.note(u.name, "holds %s with token %d", h.Path(), h.Token())
	sharing := int64(1)
	for _, other := range u.w.users {
		o := other.held
		if other == u || o == nil || o.Path() != h.Path() || o.Err() != nil || u.w.judge.byForce(other.session) {
			continue
		}
		sharing++
		if h.Mode() == lockapi.Exclusive {
			u.w.fail("%s and %s both count on %s, with tokens %d and %d", u.name, other.name, h.Path(), h.Token(), o.Token())
		}
	}
	if h.Mode() == lockapi.Shared && sharing > 2 {
		u.w.fail("%d users count on %s, whose limit is 2", sharing, h.Path())
	}
	u.held = h
}

func (u *user) checkSequencer(ctx context.Context, h *client.Held) {
	floor := u.w.judge.floor()
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	got, err := u.client.CheckSequencer(calling, h.Sequencer())
	if err == nil {
		u.w.judge.checked(u.name, floor, h.Path(), h.Token(), got.Valid)
	}
}

func (u *user) read(ctx context.Context, which int) {
	floor := u.w.judge.floor()
	calling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if got, err := u.client.ReadLock(calling, paths[which].path); err == nil {
		u.w.judge.read(u.name, floor, got)
	} else {
		u.pace(ctx)
	}
}
