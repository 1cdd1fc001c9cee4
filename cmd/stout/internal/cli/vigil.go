package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// firstLook is how long a wait may be without a word about it.
	firstLook = 200 * time.Millisecond
	// lookEvery is the time between two looks for a person at a terminal, and
	// mostLookEvery where nobody sees how the wait goes on.
	lookEvery     = time.Second
	mostLookEvery = 5 * time.Second
	// troubleAfter is for how long a cell may be silent, or without a master,
	// and nobody be told: mastership moves in less.
	troubleAfter = 2 * time.Second
)

// vigil watches over a wait. It ends it when no replica has answered for as
// long as --timeout says, and tells meanwhile what is waited for.
//
// The cell is asked for the queue position, which only a master knows, and
// beside that each replica about itself: one that hangs, or has no master to
// ask, does not stand in the way of another that answers.
type vigil struct {
	a        *app
	path     string
	patience time.Duration
	every    time.Duration
	session  atomic.Pointer[client.Session] // the one that waits, once there is one
	silence  *time.Timer                    // ends the wait

	mu       sync.Mutex
	heard    time.Time        // when a replica last answered
	mastered time.Time        // when the cell last had a master
	placed   bool             // a master answered when last asked
	failed   map[string]error // by server that was asked since: why it did not answer, or what it waits for
}

func (a *app) newVigil(f lockFlags) *vigil {
	v := &vigil{a: a, path: f.path, patience: a.opts.timeout, failed: make(map[string]error)}
	v.every = min(mostLookEvery, max(v.patience/4, time.Millisecond))
	if a.ui.live {
		v.every = min(v.every, lookEvery)
	}
	return v
}

// over has the vigil look after the queue position that a session has.
func (v *vigil) over(session *client.Session) { v.session.Store(session) }

// keep begins the vigil. giveUp is called with errSilence if no replica
// answers. The function that it returns ends it, and returns when it has.
func (v *vigil) keep(ctx context.Context, giveUp context.CancelCauseFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	v.heard, v.mastered = time.Now(), time.Now()
	v.silence = time.AfterFunc(v.patience, func() { giveUp(errSilence) })
	var looks sync.WaitGroup
	looks.Go(func() { v.repeat(ctx, func() time.Duration { return v.look(ctx) }) })
	for _, url := range v.a.opts.servers {
		looks.Go(func() { v.repeat(ctx, func() time.Duration { return v.ask(ctx, url) }) })
	}
	return func() {
		cancel()
		looks.Wait()
		v.silence.Stop()
		v.a.ui.progress("", "")
	}
}

// repeat calls f again as long after it began as it says, and at once where it
// takes longer than that.
func (v *vigil) repeat(ctx context.Context, f func() time.Duration) {
	next := time.NewTimer(min(firstLook, v.every))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		began := time.Now()
		next.Reset(f() - time.Since(began))
	}
}

// look shows how the wait is going, and returns when to look again: sooner
// where something is wrong, which a person wants to know.
func (v *vigil) look(ctx context.Context) (again time.Duration) {
	placed := v.place(ctx)
	v.mu.Lock()
	v.placed = placed
	v.mu.Unlock()
	if placed {
		v.hear(true)
		return v.every
	}
	silent, masterless, why := v.standing()
	switch {
	case ctx.Err() != nil:
	case silent >= troubleAfter:
		v.a.ui.progress("silence", fmt.Sprintf("no replica answers; giving up in %s", human(max(0, v.patience-silent))))
	case masterless >= troubleAfter:
		v.a.ui.progress("no master"+why, "waiting: the cell has no master"+why)
	}
	return min(v.every, lookEvery)
}

// standing says for how long the cell has been silent, which it is if all
// replicas were asked and none answered, and for how long without a master,
// which it is if one answers. why is what a replica says that is no member of a
// cell: that it waits for others to found one, say.
func (v *vigil) standing() (silent, masterless time.Duration, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	answered := false
	for _, url := range v.a.opts.servers {
		err, asked := v.failed[url]
		refused, refuses := errors.AsType[*lockapi.Error](err)
		answered = answered || asked && (err == nil || refuses)
		if refuses && refused.Directory != "" && why == "" {
			why = fmt.Sprintf("; %s says: %s", address(url), saying(refused))
		}
	}
	switch {
	case answered:
		masterless = time.Since(v.mastered)
	case len(v.failed) == len(v.a.opts.servers):
		silent = time.Since(v.heard)
	}
	return silent, masterless, why
}

// hear notes that a replica has answered, and whether a master has.
func (v *vigil) hear(master bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.heard = time.Now()
	if master {
		v.mastered = v.heard
		clear(v.failed)
	}
	v.silence.Reset(v.patience)
}

// place shows the queue position, and reports whether the cell gave it.
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

// ask hears whether a replica answers, be it with a refusal, unless its master
// has answered a moment ago. It returns when to ask again.
func (v *vigil) ask(ctx context.Context, url string) (again time.Duration) {
	if v.wellKnown() {
		return min(v.every, lookEvery)
	}
	asking, cancel := context.WithTimeout(ctx, max(probeTimeout, v.every))
	defer cancel()
	_, err := v.a.client.Replica(asking, url)
	if ctx.Err() != nil {
		return v.every // we broke it off
	}
	if err == nil || isRefusal(err) {
		v.hear(false)
	}
	if err == nil && v.session.Load() == nil {
		err = v.standby(asking, url)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed[url] = err
	return v.every
}

// wellKnown says whether a master has answered so lately that replicas need not
// be asked.
func (v *vigil) wellKnown() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.placed && time.Since(v.mastered) < v.every
}

// standby is what a replica says that is no member of a cell, and nil where it
// is one: only those refuse at once to tell of the cell.
func (v *vigil) standby(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, min(firstLook, v.every))
	defer cancel()
	if _, err := v.a.client.CellAt(ctx, url); isRefusal(err) {
		return err
	}
	return nil
}
