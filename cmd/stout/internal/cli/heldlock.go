package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/child"
	"github.com/stoutlock/stout/internal/wait"
)

// Time limits for releasing the lock after the command ended. The shorter one
// applies if the cell could not be reached before. After that, the lock becomes
// free when the ttl is over.
const (
	closeTimeout     = 5 * time.Second
	closeLostTimeout = time.Second
)

// heldLock is the lock of stout lock. It is also the lease of its command, which gets
// some time to clean up when the lock was taken away.
type heldLock struct {
	*client.Held
	session *client.Session
	flags   lockFlags
}

// why returns why the lock was lost early: client.ErrLockLost after a release by
// another program, client.ErrSessionExpired if the session was ended, and
// client.ErrJeopardy if the lease was not renewed in time.
func (h *heldLock) why() error { return cmp.Or(h.Err(), client.ErrJeopardy) }

// isTaken reports whether the cell has ended the hold while its lease ran.
func (h *heldLock) isTaken() bool {
	err := h.Err()
	return errors.Is(err, client.ErrLockLost) || errors.Is(err, client.ErrSessionExpired)
}

// Remaining returns the time left of the lease. It is endless for a hold that was
// taken away: the revocation ends the command.
func (h *heldLock) Remaining() time.Duration {
	if h.isTaken() {
		return math.MaxInt64
	}
	return h.Held.Remaining()
}

// Done returns nil: the end of the lease shows in Remaining.
func (h *heldLock) Done() <-chan struct{} { return nil }

// taken returns a channel that is closed when the hold is taken away.
func (h *heldLock) taken(ctx context.Context) <-chan struct{} {
	taken := make(chan struct{})
	go func() {
		select {
		case <-h.Held.Done():
			if h.isTaken() {
				close(taken)
			}
		case <-ctx.Done():
		}
	}()
	return taken
}

// describe turns an event of the running command into a message.
func (h *heldLock) describe(e child.Event) string {
	path := clean(h.flags.path)
	why := fmt.Sprintf("the lease on %s was not renewed", path)
	switch is := h.why(); {
	case errors.Is(is, client.ErrLockLost):
		why = fmt.Sprintf("another caller released %s", path)
	case errors.Is(is, client.ErrSessionExpired):
		why = fmt.Sprintf("the session that held %s has ended (closed or expired)", path)
	case e == child.Killed:
		why = fmt.Sprintf("the lease on %s has ended or is about to end", path)
	}
	return happened(e, h.flags.command[0], why, fmt.Sprintf("%s is lost in %s", path, human(h.flags.ttl)))
}

// lost returns the error for a lock that was lost early.
func (h *heldLock) lost(why error) *failure {
	const overlap = "another session may have held it in the meantime"
	reason, hint := "its lease was not renewed in time", "stout status shows whether the cell is well"
	switch {
	case errors.Is(why, client.ErrLockLost):
		reason, hint = "another caller released it", overlap
	case errors.Is(why, client.ErrSessionExpired):
		reason, hint = "the session that held it has ended (closed or expired)", overlap
	}
	return (&failure{code: h.flags.lostCode, message: fmt.Sprintf("lost %s: %s", clean(h.flags.path), reason)}).
		hint("%s; work under token %d may be incomplete", hint, h.Token())
}

// giveBack releases the lock and ends the session, within a time limit shorter
// than the client's. It returns why the lock was no longer held, or nil if it
// was or that is unknown.
//
// If the cell no longer knows the session and the lease still ran at that
// answer, the session was ended by another caller. After the end of the lease
// it may simply have expired.
func (a *app) giveBack(h *heldLock) error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience(h.session))
	defer cancel()
	left, began := h.Remaining(), time.Now()
	err := wait.Do(ctx, func() error { return h.Unlock(context.Background()) })
	switch {
	case errors.Is(err, client.ErrLockLost):
	case errors.Is(err, client.ErrSessionExpired):
		if time.Since(began) >= left {
			err = nil
		}
	case err != nil:
		a.noteUnreleased(h.session)
		return nil
	}
	// The lock is free; an error in ending the session does not matter.
	_ = wait.Do(ctx, func() error { return h.session.Close(context.Background()) })
	return err
}

// closeSession ends the session of a failed acquisition, if there is one. Its
// requests end with it, or when its ttl is over.
func (a *app) closeSession(ctx context.Context, session *client.Session) {
	if session == nil {
		return
	}
	err := wait.Do(ctx, func() error { return session.Close(context.Background()) })
	if err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrSessionNotFound) {
		a.ui.note("the cell could not be reached to stop waiting; the wait ends in at most %s%s", human(session.TTL()), onceInOffice)
	}
}

// onceInOffice qualifies the end of a session: no session expires without a
// master, and a new master gives each one its whole ttl.
const onceInOffice = ", or that long after the cell has a master again"

func closePatience(session *client.Session) time.Duration {
	if session.Remaining() < session.TTL()/5 { // long after the last successful keepalive
		return closeLostTimeout
	}
	return closeTimeout
}

func (a *app) noteUnreleased(session *client.Session) {
	a.ui.note("the cell could not be reached to release the lock; it is free in at most %s%s", human(session.TTL()), onceInOffice)
}
