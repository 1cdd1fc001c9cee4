package work

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/chaos/internal/exclusion"
)

// giveUp bounds a client's attempts to release its holds at the end of an
// epoch. The rest expires.
const giveUp = 3 * time.Second

type sdk struct {
	title  string
	opts   *Options
	client *client.Client
}

func newSDK(title string, opts *Options) (*sdk, error) {
	c, err := client.Config{URLs: opts.URLs, Transport: opts.Recorder.Transport(title, nil)}.New()
	if err != nil {
		return nil, err
	}
	return &sdk{title: title, opts: opts, client: c}, nil
}

func (w *sdk) name() string { return w.title }

func (w *sdk) close() { _ = w.client.Close() }

func (w *sdk) work(ctx context.Context, r *rand.Rand, epoch int) {
	s, err := w.client.NewSession(ctx, client.TTL(between(r, 2*time.Second, 5*time.Second)), client.Name(w.title))
	if err != nil {
		return // the epoch is over
	}
	for ctx.Err() == nil && s.Err() == nil {
		w.round(ctx, r, s, draw(r, epoch))
		cell.Pause(ctx, between(r, 5*time.Millisecond, 60*time.Millisecond))
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
	defer cancel()
	_ = s.Close(end) // if this fails, the session expires
}

// round acquires a lock, works under it and releases it; sometimes it reads
// locks instead.
func (w *sdk) round(ctx context.Context, r *rand.Rand, s *client.Session, t target) {
	if r.IntN(5) == 0 {
		_, _ = w.client.ReadLock(ctx, t.path)
		return
	}
	var opts []client.LockOption
	switch {
	case t.limit > 0:
		opts = append(opts, client.Limit(int(t.limit)))
	case t.mode == lockapi.Shared:
		opts = append(opts, client.Shared())
	}
	var held *client.Held
	var err error
	if r.IntN(3) == 0 {
		held, err = s.TryLock(ctx, t.path, opts...)
	} else {
		within, cancel := context.WithTimeout(ctx, between(r, 200*time.Millisecond, 4*time.Second))
		defer cancel()
		if r.IntN(2) == 0 {
			opts = append(opts, client.Wait(between(r, 50*time.Millisecond, time.Second)))
		}
		held, err = s.Lock(within, t.path, opts...)
	}
	if err != nil {
		return // refused, given up, or the session is over
	}
	began := w.opts.Recorder.Now()
	w.hold(ctx, r, held, t)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
	defer cancel()
	_ = held.Unlock(end) // if this fails, the session keeps releasing it
	w.opts.grants.ended(held.Sequencer(), w.opts.Recorder.Now()-began)
}

// hold works under a lock, and records the time during which its hold was
// valid.
func (w *sdk) hold(ctx context.Context, r *rand.Rand, held *client.Held, t target) {
	now := w.opts.Recorder.Now
	good := func() (at time.Duration, ok bool) {
		at = now()
		return at, held.Err() == nil
	}
	from, ok := good()
	if !ok {
		return
	}
	until := from
	end := from + between(r, 0, 60*time.Millisecond)
	if r.IntN(20) == 0 {
		end = from + between(r, 500*time.Millisecond, 3*time.Second)
	}
	for ok && until < end && ctx.Err() == nil {
		w.touch(held, t)
		if r.IntN(4) == 0 {
			_, _ = w.client.CheckSequencer(held.Context(), held.Sequencer())
		}
		cell.Pause(held.Context(), between(r, time.Millisecond, 20*time.Millisecond))
		var at time.Duration
		if at, ok = good(); ok {
			until = at
		}
	}
	w.opts.Holds.Add(exclusion.Hold{Path: t.path, Owner: held.Handle(), Mode: t.mode, Limit: t.limit, Token: held.Token(), From: from, Until: until})
}

// touch writes to the resource that the lock guards. Only an exclusive hold
// excludes others.
func (w *sdk) touch(held *client.Held, t target) {
	if t.mode == lockapi.Exclusive {
		w.opts.Resource.Write(t.path, held.Handle(), held.Token(), func() bool { return held.Err() == nil })
	}
}

func (w *sdk) prove(ctx context.Context) error {
	s, err := w.client.NewSession(ctx, client.Name(w.title))
	if err != nil {
		return err
	}
	held, err := s.Lock(ctx, "/chaos/prove/"+w.title)
	if err != nil {
		return err
	}
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	return s.Close(ctx)
}
