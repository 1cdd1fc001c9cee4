package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/app"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi"
)

type holder struct{ *app.App }

// lock takes the lock and holds it for a command, or until a signal.
func (a *holder) lock(ctx context.Context, f lockFlags, signals <-chan os.Signal) error {
	h, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (*heldLock, error) { return a.acquire(ctx, f) })
	if err != nil {
		if h != nil { // granted just as the signal came
			a.giveBack(h)
		}
		return err
	}
	if f.prepare != nil {
		_, err := app.CancelOnSignal(ctx, signals, nil, func(ctx context.Context) (any, error) { return nil, h.prepare(ctx) })
		if err != nil {
			gone := h.Err() // before our own release
			if gone == nil && (errors.Is(err, client.ErrNotHeld) || errors.Is(err, client.ErrSessionExpired)) {
				gone = client.ErrLockLost
			}
			a.giveBack(h)
			if gone != nil {
				return h.lost(gone)
			}
			out := a.Explain(err)
			f.recode(out, err)
			return out
		}
	}
	return a.serve(ctx, h, signals)
}

// prepare does what precedes the command, as long as the lock is held.
func (h *heldLock) prepare(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.Held.Context(), func() { cancel(context.Cause(h.Held.Context())) })()
	return cmp.Or(h.flags.prepare(ctx, h), h.Err()) // it may be lost since
}

// serve runs the command under the lock or, without one, prints the grant and
// keeps the lock until a signal. stout exits with the command's exit code, but a
// lost lock outranks it: the command may have run beside another holder.
func (a *holder) serve(ctx context.Context, h *heldLock, signals <-chan os.Signal) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := false
	if len(h.flags.command) > 0 {
		var result child.Result
		result, err = a.RunCommand(child.Command{
			Args: h.flags.command, Env: a.environment(h),
			Margins: h.flags.margins, Lease: h.Remaining, Revoked: h.revoked(ctx), Signals: signals,
		}, h.describe)
		lost = result.Lost
	} else {
		lost, err = app.UntilSignal(ctx, signals, func() error { return a.showGrant(h) }, h.Held.Done())
	}
	var why error
	if lost || h.Remaining() <= 0 { // the lease may have ended unwatched, while stout was stopped
		why = h.why()
	}
	cancel() // our own release must not be reported as a loss
	if gone := a.giveBack(h); why == nil {
		why = gone
	}
	if why != nil {
		return h.lost(why)
	}
	if h.refused != nil {
		a.UI.Note("the cell refused to release %s (%s); it is free when the ttl of %s is over", format.Clean(h.flags.path), format.Clean(h.refused.Error()), format.Human(h.flags.ttl))
	}
	return err
}

func (a *holder) showGrant(h *heldLock) error {
	at, parts := h.GrantedAt(), h.parts()
	if a.UI.JSON {
		return a.UI.Object(lockapi.Grant{
			Path: h.Path(), State: lockapi.StateHeld, Session: h.session.ID(), Handle: h.Handle(),
			Mode: h.Mode(), Token: h.Token(), Sequencer: h.Sequencer(), GrantedAt: &at, With: parts[1:],
		})
	}
	for _, part := range parts {
		a.UI.Pairs(
			[2]string{"holding", a.UI.Out.OK(format.Clean(part.Path))},
			[2]string{"token", fmt.Sprint(part.Token)},
			[2]string{"sequencer", format.Clean(part.Sequencer)},
			[2]string{"session", format.Clean(h.session.ID())},
		)
	}
	a.UI.Note("Ctrl-C releases it")
	return nil
}

// parts returns the grants of all locks.
func (h *heldLock) parts() (parts []lockapi.GrantPart) {
	for _, sequencer := range h.Sequencers() {
		q, _ := lockapi.ParseSequencer(sequencer) // the client has checked it
		parts = append(parts, lockapi.GrantPart{Path: q.Path, Token: q.Token, Sequencer: sequencer})
	}
	return parts
}

// heldLock is what stout lock holds, one lock or several. Its command gets some
// time to clean up when a lock was taken away.
type heldLock struct {
	*client.Held
	session *client.Session
	flags   lockFlags
	refused error // why the cell refused the release, such as a revoked credential
}

// why returns why the lock was lost early: client.ErrLockLost after a release by
// another program, client.ErrSessionExpired if the session was ended, and
// client.ErrJeopardy if the lease was not renewed in time.
func (h *heldLock) why() error { return cmp.Or(h.Err(), client.ErrJeopardy) }

// isRevoked reports whether the cell has ended the hold while its lease ran.
func (h *heldLock) isRevoked() bool {
	err := h.Err()
	return errors.Is(err, client.ErrLockLost) || errors.Is(err, client.ErrSessionExpired)
}

// Remaining returns the time left of the lease. It is endless for a hold that was
// taken away: the revocation ends the command.
func (h *heldLock) Remaining() time.Duration {
	if h.isRevoked() {
		return math.MaxInt64
	}
	return h.Held.Remaining()
}

// revoked returns a channel that is closed when the hold is taken away.
func (h *heldLock) revoked(ctx context.Context) <-chan struct{} {
	revoked := make(chan struct{})
	go func() {
		select {
		case <-h.Held.Done():
			if h.isRevoked() {
				close(revoked)
			}
		case <-ctx.Done():
		}
	}()
	return revoked
}

func (h *heldLock) describe(e child.Event) string {
	path := format.Clean(h.flags.path)
	why := fmt.Sprintf("the lease on %s was not renewed", path)
	switch is := h.why(); {
	case errors.Is(is, client.ErrLockLost):
		why = fmt.Sprintf("another caller released %s%s", h.oneOf(), path)
	case errors.Is(is, client.ErrSessionExpired):
		why = fmt.Sprintf("the session that held %s has ended (closed or expired)", path)
	case e == child.Killed, e == child.Refused:
		why = fmt.Sprintf("the lease on %s has ended or is about to end", path)
	}
	return app.Happened(e, h.flags.command[0], why, fmt.Sprintf("%s is lost in %s", path, format.Human(h.flags.ttl)))
}

// oneOf introduces several paths if the cell has ended only one hold.
func (h *heldLock) oneOf() string {
	if len(h.flags.paths) > 1 {
		return "one of "
	}
	return ""
}

func (h *heldLock) lost(why error) *exit.Failure {
	const overlap = "another session may have held it in the meantime"
	reason, hint := "its lease was not renewed in time", "stout status shows whether the cell is well"
	switch {
	case errors.Is(why, client.ErrLockLost):
		reason, hint = "another caller released it", overlap
		if h.oneOf() != "" {
			reason = "another caller released one of them"
		}
	case errors.Is(why, client.ErrSessionExpired):
		reason, hint = "the session that held it has ended (closed or expired)", overlap
	case h.refused != nil:
		reason, hint = "the cell refuses the credential of its holder: "+format.Clean(h.refused.Error()), "stout access whoami shows which credential is used"
	}
	return exit.Errorf(h.flags.lostCode, "lost %s: %s", format.Clean(h.flags.path), reason).
		Hint("%s; work under token %d may be incomplete", hint, h.Token())
}

// giveBack releases the lock and ends the session, within a time limit shorter
// than the client's. It returns why the lock was no longer held, or nil if it
// was or that is unknown.
//
// If the cell no longer knows the session and the lease still ran at that
// answer, the session was ended by another caller. After the end of the lease
// it may simply have expired.
func (a *holder) giveBack(h *heldLock) error {
	ctx, cancel := context.WithTimeout(context.Background(), app.ClosePatience(h.session))
	defer cancel()
	if h.flags.retract != nil {
		first, done := context.WithTimeout(ctx, app.ClosePatience(h.session)/2)
		_ = wait.Do(first, func() error { return h.flags.retract(first, h) })
		done()
	}
	left, began := h.Remaining(), time.Now()
	err := wait.Do(ctx, func() error { return h.Unlock(context.Background()) })
	switch {
	case errors.Is(err, client.ErrLockLost):
	case errors.Is(err, client.ErrSessionExpired):
		if time.Since(began) >= left {
			err = nil
		}
	case errors.Is(err, client.ErrUnauthenticated), errors.Is(err, client.ErrPermissionDenied):
		h.refused = err
		return nil
	case err != nil:
		a.NoteUnreached(h.session, "release the lock; it is free")
		return nil
	}
	// The lock is free; an error in ending the session does not matter.
	_ = wait.Do(ctx, func() error { return h.session.Close(context.Background()) })
	return err
}
