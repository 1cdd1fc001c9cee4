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
	// firstLook is the time before the first report on a wait.
	firstLook = 200 * time.Millisecond
	// lookEvery is the time between two looks for a person at a terminal, and
	// mostLookEvery elsewhere.
	lookEvery     = time.Second
	mostLookEvery = 5 * time.Second
	// troubleAfter is how long a cell may be silent or without a master before
	// that is reported: mastership moves faster.
	troubleAfter = 2 * time.Second
)

// waitWatch watches over a wait. It ends the wait if no replica has answered
// for --timeout, and until then reports what blocks the lock.
//
// The master is asked for the queue position, and each replica also about
// itself. So a replica that hangs or has no master does not hide another that
// answers.
type waitWatch struct {
	a        *app
	path     string
	patience time.Duration
	every    time.Duration
	session  atomic.Pointer[client.Session] // the waiting session, once it is open
	silence  *time.Timer                    // ends the wait

	mu       sync.Mutex
	heard    time.Time        // when a replica last answered
	mastered time.Time        // when the cell last had a master
	placed   bool             // a master answered when last asked
	failed   map[string]error // by server asked since: why it did not answer, or what it waits for
}

func (a *app) newWaitWatch(f lockFlags) *waitWatch {
	w := &waitWatch{a: a, path: f.path, patience: a.opts.timeout, failed: make(map[string]error)}
	w.every = min(mostLookEvery, max(w.patience/4, time.Millisecond))
	if a.ui.live {
		w.every = min(w.every, lookEvery)
	}
	return w
}

// setSession makes the watch follow the queue position of a session.
func (w *waitWatch) setSession(session *client.Session) { w.session.Store(session) }

// start begins the watch. giveUp is called with errSilence if no replica
// answers. end stops the watch and waits for it.
func (w *waitWatch) start(ctx context.Context, giveUp context.CancelCauseFunc) (end func()) {
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

// repeat calls f again after the returned time, counted from the start of the
// call.
func (w *waitWatch) repeat(ctx context.Context, f func() time.Duration) {
	for pause := min(firstLook, w.every); sleep(ctx, pause); {
		began := time.Now()
		pause = f() - time.Since(began)
	}
}

// look shows the state of the wait and returns when to look again: sooner if
// something is wrong.
func (w *waitWatch) look(ctx context.Context) (again time.Duration) {
	placed := w.place(ctx)
	w.mu.Lock()
	w.placed = placed
	w.mu.Unlock()
	if placed {
		w.answered(true)
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

// standing returns how long the cell has been silent (all replicas were asked
// and none answered) or without a master (a replica answers). why is the answer
// of a replica outside any cell, for example that it waits for a founding.
func (w *waitWatch) standing() (silent, masterless time.Duration, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answered := false
	for _, url := range w.a.opts.servers {
		err, asked := w.failed[url]
		refused, refuses := errors.AsType[*lockapi.Error](err)
		answered = answered || asked && (err == nil || refuses)
		if refuses && refused.Directory != "" && why == "" {
			why = fmt.Sprintf("; %s reports: %s", w.a.address(url), ownReason(refused))
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

// answered records that a replica has answered, and whether a master has.
func (w *waitWatch) answered(master bool) {
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
		return errors.Is(err, client.ErrSessionNotFound) // this ends the wait by itself
	}
	i := slices.IndexFunc(state.Waits, func(wait lockapi.Wait) bool { return wait.Path == w.path })
	if i < 0 || w.a.ui.shown("place") {
		return true
	}
	if lock, err := w.a.client.ReadLock(ctx, w.path); err == nil {
		w.a.ui.progress("place", fmt.Sprintf("waiting at position %d: %s", state.Waits[i].Position, inTheWay(w.path, lock.Holders, lock.MoreHolders, lock.DelayRemainingMS)))
	}
	return true
}

// ask checks whether a replica answers, even with an error, unless its master
// answered just before. It returns when to ask again.
func (w *waitWatch) ask(ctx context.Context, url string) (again time.Duration) {
	if w.wellKnown() {
		return min(w.every, lookEvery)
	}
	asking, cancel := context.WithTimeout(ctx, max(probeTimeout, w.every))
	defer cancel()
	_, err := w.a.client.Replica(asking, url)
	if ctx.Err() != nil {
		return w.every // canceled
	}
	if err == nil || ask.IsRefusal(err) {
		w.answered(false)
	}
	if err == nil && w.session.Load() == nil {
		err = w.standby(asking, url)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[url] = err
	return w.every
}

// wellKnown reports whether a master answered so recently that replicas need
// not be asked.
func (w *waitWatch) wellKnown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.placed && time.Since(w.mastered) < w.every
}

// standby returns the error of a replica outside any cell, or nil for a member.
// Only such a replica refuses at once to describe the cell.
func (w *waitWatch) standby(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, min(firstLook, w.every))
	defer cancel()
	if _, err := w.a.client.CellAt(ctx, url); ask.IsRefusal(err) {
		return err
	}
	return nil
}
