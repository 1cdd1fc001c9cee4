package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// firstLook is how long a wait may be without a word about it.
	firstLook = 200 * time.Millisecond
	// lookEvery is the time between two looks for a person at a terminal, and
	// mostLookEvery where nobody is told how the wait goes on.
	lookEvery     = time.Second
	mostLookEvery = 5 * time.Second
	// troubleAfter is for how long a cell may be silent, or without a master, and
	// nobody be told: mastership moves in less.
	troubleAfter = 2 * time.Second
)

// vigil watches over a wait. It ends it when no replica has answered for as long
// as --timeout says, and tells meanwhile what is waited for.
type vigil struct {
	a        *app
	path     string
	patience time.Duration
	every    time.Duration
	session  atomic.Pointer[client.Session] // the one that waits, once there is one

	heard    time.Time        // when a replica last answered
	mastered time.Time        // when the cell last had a master
	failed   map[string]error // by server: why it did not answer when last asked
}

func (a *app) newVigil(f lockFlags) *vigil {
	v := &vigil{a: a, path: f.path, patience: a.opts.timeout, failed: make(map[string]error)}
	v.every = min(mostLookEvery, max(v.patience/4, time.Millisecond))
	if a.ui.live {
		v.every = min(v.every, lookEvery)
	}
	return v
}

// over has the vigil look after the place in the queue that a session has.
func (v *vigil) over(session *client.Session) { v.session.Store(session) }

// keep begins the vigil. giveUp is called with errSilence if it is in vain. The
// function that it returns ends it, and returns when it has.
func (v *vigil) keep(ctx context.Context, giveUp context.CancelCauseFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	v.heard, v.mastered = time.Now(), time.Now()
	silence := time.AfterFunc(v.patience, func() { giveUp(errSilence) })
	go func() {
		defer close(ended)
		pause := time.NewTimer(min(firstLook, v.every))
		defer pause.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
			if v.look(ctx) {
				silence.Reset(v.patience)
			}
			pause.Reset(v.every)
		}
	}()
	return func() {
		cancel()
		silence.Stop()
		<-ended
		v.a.ui.progress("", "")
	}
}

// look reports whether the cell answers, and tells how the wait stands.
func (v *vigil) look(ctx context.Context) bool {
	began := time.Now()
	if v.place(ctx) {
		v.heard, v.mastered = began, began
		return true
	}
	if ctx.Err() != nil || !v.answered(ctx) {
		v.tellSilence(ctx)
		return false
	}
	v.heard = began
	if ctx.Err() == nil && v.session.Load() != nil && time.Since(v.mastered) >= troubleAfter {
		v.a.ui.progress("no master", "waiting: the cell has no master")
	}
	return true
}

// place tells the place in the queue, and reports whether the cell told it.
func (v *vigil) place(ctx context.Context) bool {
	session := v.session.Load()
	if session == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	state, err := v.a.client.ReadSession(ctx, session.ID())
	if err != nil {
		return errors.Is(err, client.ErrSessionNotFound) // the wait will end of it by itself
	}
	i := slices.IndexFunc(state.Waits, func(w lockapi.Wait) bool { return w.Path == v.path })
	if i < 0 || v.a.ui.told("place") {
		return true
	}
	if lock, err := v.a.client.ReadLock(ctx, v.path); err == nil {
		v.a.ui.progress("place", fmt.Sprintf("waiting, place %d: %s", state.Waits[i].Position, inTheWay(v.path, lock.Holders, lock.MoreHolders, lock.DelayRemainingMS)))
	}
	return true
}

// answered reports whether any replica answers, be it with a refusal.
func (v *vigil) answered(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, failed := v.a.probe(asking, v.a.opts.servers)
	if ctx.Err() != nil {
		return false // we broke it off
	}
	any := false
	for i, err := range failed {
		_, refused := errors.AsType[*lockapi.Error](err)
		any = any || err == nil || refused
		v.failed[v.a.opts.servers[i]] = err
	}
	return any
}

func (v *vigil) tellSilence(ctx context.Context) {
	if silent := time.Since(v.heard); ctx.Err() == nil && silent >= troubleAfter {
		v.a.ui.progress("silence", fmt.Sprintf("no replica answers; giving up in %s", human(max(0, v.patience-silent))))
	}
}
