package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

var (
	errWaitOver = errors.New("the time to wait is over")
	errSilence  = errors.New("no replica answers")
)

// lateOutcome is how long an acquisition that has given up waits for an outcome
// on its way, within survey.LastWords.
const lateOutcome = 600 * time.Millisecond

// acquire opens a session and takes the lock, within the time that the flags
// allow for both, while replicas answer. If it fails, it leaves nothing behind
// as far as the cell can be reached. It returns at most survey.LastWords after its
// time is over.
func (a *holder) acquire(ctx context.Context, f lockFlags) (*heldLock, error) {
	asking, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	w := a.newWaitWatch(f)
	end := w.start(asking, giveUp)
	// The client takes time to clean up. The caller need not wait for that,
	// because the end of the session also ends the attempt.
	attempt := wait.Go(func() (*heldLock, error) { return a.obtain(asking, f, w) })
	out, known := outcome(attempt, f.over(a.Options.Timeout), asking.Done())
	end()
	if known && out.Err == nil {
		return out.Value, nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), survey.LastWords)
	defer cancel()
	why := func() *exit.Failure {
		return a.Collector().Explain(last, cmp.Or(f.bound(a.Options.Timeout), a.Options.Timeout))
	}
	if !known {
		found, diagnose := make(chan *exit.Failure, 1), why
		go func() { found <- diagnose() }()
		why = func() *exit.Failure { return <-found }
		out, known = outcome(attempt, time.After(lateOutcome), nil)
	}
	err := cmp.Or(context.Cause(asking), errWaitOver)
	if known {
		err = out.Err
	}
	if err == nil {
		return out.Value, nil
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		if session := w.session.Load(); session != nil { // its requests end with it, or when its ttl is over
			a.EndSession(last, session, "stop waiting; the wait ends")
		}
	})
	defer closing.Wait()
	if ctx.Err() != nil {
		return nil, err // a signal ended it; the reason is not needed
	}
	return nil, a.notAcquired(f, w, err, why)
}

// outcome waits for an attempt until over or givenUp, and reports whether it
// ended.
func outcome[T any](attempt <-chan T, over <-chan time.Time, givenUp <-chan struct{}) (out T, known bool) {
	select {
	case out = <-attempt:
		return out, true
	case <-over:
	case <-givenUp:
	}
	select {
	case out = <-attempt:
		return out, true
	default:
		return out, false
	}
}

func (a *holder) obtain(ctx context.Context, f lockFlags, w *waitWatch) (*heldLock, error) {
	bounded, bound, began := ctx, f.bound(a.Options.Timeout), time.Now()
	if bound > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeoutCause(ctx, bound, errWaitOver)
		defer cancel()
	}
	meta := map[string]string{"pid": strconv.Itoa(os.Getpid())} // shows operators which process this is
	if len(f.command) > 0 {
		meta["command"] = f.command[0]
	}
	session, err := a.Client.NewSession(bounded, client.TTL(f.ttl), client.Name(f.name), client.Meta(meta))
	if err != nil {
		return nil, err
	}
	w.session.Store(session)
	opts, lock := f.options(), session.Lock
	switch {
	case f.try:
		ctx, lock = bounded, session.TryLock
	case f.waits:
		opts = append(opts, client.Wait(max(bound-time.Since(began), time.Millisecond)))
	}
	held, err := lock(ctx, f.paths[0], opts...)
	if err != nil {
		return nil, err
	}
	return &heldLock{Held: held, session: session, flags: f}, nil
}

// inTheWay describes what blocks a lock: its holders, with more that are not
// listed, or its lock-delay.
func inTheWay(path string, holders []lockapi.Holder, more int, delayMS int64) string {
	switch {
	case len(holders) == 1:
		h := holders[0]
		return fmt.Sprintf("%s is held by %s, token %d, for %s", format.Clean(path), format.Clean(h.SessionName), h.Token, format.Since(h.GrantedAt))
	case len(holders) > 1:
		return fmt.Sprintf("%s has %d holders", format.Clean(path), len(holders)+more)
	case delayMS > 0:
		return fmt.Sprintf("%s is free but in its lock-delay for %s more", format.Clean(path), format.MS(delayMS))
	default:
		return fmt.Sprintf("%s is taken, or others wait for it", format.Clean(path))
	}
}

// notAcquired maps a failed acquisition to an exit code: one for a lock that
// another session holds, and another if the cell could not grant it. why finds
// the reason if the cell gave none.
func (a *holder) notAcquired(f lockFlags, w *waitWatch, err error, why func() *exit.Failure) error {
	var out *exit.Failure
	refused, _ := errors.AsType[*lockapi.Error](err)
	switch {
	case refused != nil && (refused.Code == lockapi.CodeLockHeld || refused.Code == lockapi.CodeLockDelayed):
		out = &exit.Failure{Code: f.conflictCode, Quiet: true, Message: "lock not acquired: " + inTheWay(f.path, refused.Holders, refused.MoreHolders, refused.DelayRemainingMS)}
		if len(f.paths) > 1 {
			out.Message = "lock not acquired: " + format.Clean(refused.Detail) // which names the lock
		}
		if f.waits {
			shows := "locks " + format.Clean(f.paths[0]) + " shows its"
			if len(f.paths) > 1 {
				shows = "locks shows"
			}
			out.Hint("wait longer with --wait; stout %s holders and waiters", shows)
		}
		return out
	case errors.Is(err, errSilence):
		out = a.Collector().Unreachable(w.failed, a.Options.Timeout)
	case errors.Is(err, client.ErrSessionExpired), errors.Is(err, client.ErrSessionNotFound):
		out = exit.Errorf(exit.Unavailable, "the session ended while waiting (closed or expired)")
	case errors.Is(err, errWaitOver), errors.Is(err, client.ErrOutcomeUnknown),
		errors.Is(err, client.ErrNoMaster), errors.Is(err, context.DeadlineExceeded): // given up before the cell settled it
		out = why()
	default:
		out = a.Explain(err)
	}
	out.Message = "lock not acquired: " + out.Message
	f.recode(out, err)
	return out
}

// recode replaces an exit code that could be the command's own.
func (f *lockFlags) recode(out *exit.Failure, err error) {
	switch {
	case out.Code == exit.NoMaster, out.Code == exit.Unreachable, out.Code == exit.Unavailable,
		errors.Is(err, client.ErrTooMany), errors.Is(err, client.ErrInternal): // the cell could not
		out.Code = f.unavailableCode
	case out.Code == exit.Failed:
		out.Code = exit.Refused
	}
}

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
	a        *holder
	paths    []string // of the locks
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

func (a *holder) newWaitWatch(f lockFlags) *waitWatch {
	w := &waitWatch{a: a, patience: a.Options.Timeout, paths: f.paths, failed: make(map[string]error)}
	w.every = min(mostLookEvery, max(w.patience/4, time.Millisecond))
	if a.UI.Live {
		w.every = min(w.every, lookEvery)
	}
	return w
}

// start begins the watch. giveUp is called with errSilence if no replica
// answers. end stops the watch and waits for it.
func (w *waitWatch) start(ctx context.Context, giveUp context.CancelCauseFunc) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.heard, w.mastered = time.Now(), time.Now()
	w.silence = time.AfterFunc(w.patience, func() { giveUp(errSilence) })
	var looks sync.WaitGroup
	looks.Go(func() { w.repeat(ctx, func() time.Duration { return w.look(ctx) }) })
	for _, url := range w.a.Options.Servers {
		looks.Go(func() { w.repeat(ctx, func() time.Duration { return w.ask(ctx, url) }) })
	}
	return func() {
		cancel()
		looks.Wait()
		w.silence.Stop()
		w.a.UI.Progress("", "")
	}
}

// repeat calls f again after the returned time, counted from the start of the
// call.
func (w *waitWatch) repeat(ctx context.Context, f func() time.Duration) {
	for pause := min(firstLook, w.every); ask.Sleep(ctx, pause) == nil; {
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
	silent, masterless, why := w.lastHeard()
	switch {
	case ctx.Err() != nil:
	case silent >= troubleAfter:
		w.a.UI.Progress("silence", fmt.Sprintf("no replica answers; giving up in %s", format.Human(max(0, w.patience-silent))))
	case masterless >= troubleAfter:
		w.a.UI.Progress("no master"+why, "waiting: the cell has no master"+why)
	}
	return min(w.every, lookEvery)
}

// lastHeard returns how long the cell has been silent (all replicas were asked
// and none answered) or without a master (a replica answers). why is the answer
// of a replica outside any cell, for example that it waits for a founding.
func (w *waitWatch) lastHeard() (silent, masterless time.Duration, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answered := false
	for _, url := range w.a.Options.Servers {
		err, asked := w.failed[url]
		refused, refuses := errors.AsType[*lockapi.Error](err)
		answered = answered || asked && (err == nil || refuses)
		if refuses && refused.Directory != "" && why == "" {
			why = fmt.Sprintf("; %s reports: %s", w.a.Address(url), survey.OwnReason(refused))
		}
	}
	switch {
	case answered:
		masterless = time.Since(w.mastered)
	case len(w.failed) == len(w.a.Options.Servers):
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
	ctx, cancel := context.WithTimeout(ctx, survey.ProbeTimeout)
	defer cancel()
	state, err := w.a.Admin.ReadSession(ctx, session.ID())
	if err != nil {
		return errors.Is(err, client.ErrSessionNotFound) // this ends the wait by itself
	}
	i := slices.IndexFunc(state.Waits, func(wait lockapi.Wait) bool { return wait.Path == w.paths[0] })
	if i < 0 || w.a.UI.Shown("place") {
		return true
	}
	for n, path := range w.paths {
		lock, err := w.a.Client.ReadLock(ctx, path)
		if err != nil {
			break
		}
		if last := n == len(w.paths)-1; last || len(lock.Holders) > 0 || lock.DelayRemainingMS > 0 {
			w.a.UI.Progress("place", fmt.Sprintf("waiting at position %d: %s", state.Waits[i].Position, inTheWay(path, lock.Holders, lock.MoreHolders, lock.DelayRemainingMS)))
			break
		}
	}
	return true
}

// ask checks whether a replica answers, even with an error, unless its master
// answered just before. It returns when to ask again.
func (w *waitWatch) ask(ctx context.Context, url string) (again time.Duration) {
	w.mu.Lock()
	master := w.placed && time.Since(w.mastered) < w.every
	w.mu.Unlock()
	if master {
		return min(w.every, lookEvery)
	}
	asking, cancel := context.WithTimeout(ctx, max(survey.ProbeTimeout, w.every))
	defer cancel()
	_, err := w.a.Admin.Replica(asking, url)
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

// standby returns the error of a replica outside any cell, or nil for a member.
// Only such a replica refuses at once to describe the cell.
func (w *waitWatch) standby(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, min(firstLook, w.every))
	defer cancel()
	if _, err := w.a.Admin.CellAt(ctx, url); ask.IsRefusal(err) {
		return err
	}
	return nil
}
