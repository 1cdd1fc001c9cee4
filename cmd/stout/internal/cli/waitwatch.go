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
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
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

// waitWatch watches over a wait. It ends it when no replica has answered for as
// long as --timeout says, and tells meanwhile what is waited for.
//
// The cell is asked for the queue position, which only a master knows, and
// beside that each replica about itself: one that hangs, or has no master to
// ask, does not stand in the way of another that answers.
type waitWatch struct {
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

func (a *app) newWaitWatch(f lockFlags) *waitWatch {
	w := &waitWatch{a: a, path: f.path, patience: a.opts.timeout, failed: make(map[string]error)}
	w.every = min(mostLookEvery, max(w.patience/4, time.Millisecond))
	if a.ui.live {
		w.every = min(w.every, lookEvery)
	}
	return w
}

// over has the watch look after the queue position that a session has.
func (w *waitWatch) over(session *client.Session) { w.session.Store(session) }

// keep begins the watch. giveUp is called with errSilence if no replica
// answers. The function that it returns ends it, and returns when it has.
func (w *waitWatch) keep(ctx context.Context, giveUp context.CancelCauseFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.heard, w.mastered = time.Now(), time.Now()
	w.silence = time.AfterFunc(w.patience, func() { giveUp(errSilence) })
	var looks sync.WaitGroup
	looks.Go(func() { w.repeat(ctx, func() time.Duration { return w.look(ctx) }) })
	for _, url := range w.a.opts.servers {
		looks.Go(func() { w.repeat(ctx, func() time.Duration { return w.ask(ctx, url) }) })
	}
	return func() {
		cancel()
		looks.Wait()
		w.silence.Stop()
		w.a.ui.progress("", "")
	}
}

// repeat calls f again as long after it began as it says, and at once where it
// takes longer than that.
func (w *waitWatch) repeat(ctx context.Context, f func() time.Duration) {
	for pause := min(firstLook, w.every); sleep(ctx, pause); {
		began := time.Now()
		pause = f() - time.Since(began)
	}
}

// look shows how the wait is going, and returns when to look again: sooner
// where something is wrong, which a person wants to know.
func (w *waitWatch) look(ctx context.Context) (again time.Duration) {
	placed := w.place(ctx)
	w.mu.Lock()
	w.placed = placed
	w.mu.Unlock()
	if placed {
		w.hear(true)
		return w.every
	}
	silent, masterless, why := w.standing()
	switch {
	case ctx.Err() != nil:
	case silent >= troubleAfter:
		w.a.ui.progress("silence", fmt.Sprintf("no replica answers; giving up in %s", human(max(0, w.patience-silent))))
	case masterless >= troubleAfter:
		w.a.ui.progress("no master"+why, "waiting: the cell has no master"+why)
	}
	return min(w.every, lookEvery)
}

// standing says for how long the cell has been silent, which it is if all
// replicas were asked and none answered, and for how long without a master,
// which it is if one answers. why is what a replica says that is no member of a
// cell: that it waits for others to found one, say.
func (w *waitWatch) standing() (silent, masterless time.Duration, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answered := false
	for _, url := range w.a.opts.servers {
		err, asked := w.failed[url]
		refused, refuses := errors.AsType[*lockapi.Error](err)
		answered = answered || asked && (err == nil || refuses)
		if refuses && refused.Directory != "" && why == "" {
			why = fmt.Sprintf("; %s says: %s", w.a.address(url), saying(refused))
		}
	}
	switch {
	case answered:
		masterless = time.Since(w.mastered)
	case len(w.failed) == len(w.a.opts.servers):
		silent = time.Since(w.heard)
	}
	return silent, masterless, why
}

// hear notes that a replica has answered, and whether a master has.
func (w *waitWatch) hear(master bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
	if master {
		w.mastered = w.heard
		clear(w.failed)
	}
	w.silence.Reset(w.patience)
}

// place shows the queue position, and reports whether the cell gave it.
func (w *waitWatch) place(ctx context.Context) bool {
	session := w.session.Load()
	if session == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	state, err := w.a.client.ReadSession(ctx, session.ID())
	if err != nil {
		return errors.Is(err, client.ErrSessionNotFound) // the wait will end of it by itself
	}
	i := slices.IndexFunc(state.Waits, func(wait lockapi.Wait) bool { return wait.Path == w.path })
	if i < 0 || w.a.ui.told("place") {
		return true
	}
	if lock, err := w.a.client.ReadLock(ctx, w.path); err == nil {
		w.a.ui.progress("place", fmt.Sprintf("waiting, place %d: %s", state.Waits[i].Position, inTheWay(w.path, lock.Holders, lock.MoreHolders, lock.DelayRemainingMS)))
	}
	return true
}

// ask hears whether a replica answers, be it with a refusal, unless its master
// has answered a moment ago. It returns when to ask again.
func (w *waitWatch) ask(ctx context.Context, url string) (again time.Duration) {
	if w.wellKnown() {
		return min(w.every, lookEvery)
	}
	asking, cancel := context.WithTimeout(ctx, max(probeTimeout, w.every))
	defer cancel()
	_, err := w.a.client.Replica(asking, url)
	if ctx.Err() != nil {
		return w.every // we broke it off
	}
	if err == nil || ask.IsRefusal(err) {
		w.hear(false)
	}
	if err == nil && w.session.Load() == nil {
		err = w.standby(asking, url)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[url] = err
	return w.every
}

// wellKnown says whether a master has answered so lately that replicas need not
// be asked.
func (w *waitWatch) wellKnown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.placed && time.Since(w.mastered) < w.every
}

// standby is what a replica says that is no member of a cell, and nil where it
// is one: only those refuse at once to tell of the cell.
func (w *waitWatch) standby(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, min(firstLook, w.every))
	defer cancel()
	if _, err := w.a.client.CellAt(ctx, url); ask.IsRefusal(err) {
		return err
	}
	return nil
}
