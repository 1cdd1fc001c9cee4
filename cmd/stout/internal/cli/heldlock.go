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

// How long an ended command waits to give its lock back, and how long if the
// cell could not be reached before either. Past that, the lock is free when the
// ttl is over.
const (
	closeTimeout     = 5 * time.Second
	closeLostTimeout = time.Second
)

// heldLock is the lock of stout lock. It is the lease of its command, which may run
// on for a moment to clean up when the lock was taken away.
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

// Remaining returns the rest of the lease. A hold that was taken away has an endless
// one: what ends it is revoked.
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

// says puts what happens to the running command into words.
func (h *heldLock) says(e child.Event) string {
	path := clean(h.flags.path)
	why := fmt.Sprintf("the lease on %s was not renewed", path)
	switch is := h.why(); {
	case errors.Is(is, client.ErrLockLost):
		why = fmt.Sprintf("the hold of %s was released by somebody else", path)
	case errors.Is(is, client.ErrSessionExpired):
		why = fmt.Sprintf("the session that held %s was ended (closed or expired)", path)
	case e == child.Killed:
		why = fmt.Sprintf("the lease on %s is over or about to end", path)
	}
	return happened(e, h.flags.command[0], why, fmt.Sprintf("%s is lost in %s", path, human(h.flags.ttl)))
}

// lost reports a lock that was lost early.
func (h *heldLock) lost(why error) *failure {
	const meanwhile = "somebody else may have held it meanwhile"
	reason, hint := "its lease was not renewed in time", "stout status shows whether the cell is well"
	switch {
	case errors.Is(why, client.ErrLockLost):
		reason, hint = "it was released by somebody else", meanwhile
	case errors.Is(why, client.ErrSessionExpired):
		reason, hint = "the session that held it was ended (closed or expired)", meanwhile
	}
	return (&failure{code: h.flags.lostCode, message: fmt.Sprintf("lost %s: %s", clean(h.flags.path), reason)}).
		hint("%s; what was done under token %d may be half done", hint, h.Token())
}

// giveBack releases the lock and ends the session, within a bound of our own:
// the client would try for longer. It returns why the lock was not ours to give
// back any more, nil where it was or where nobody says.
//
// A session that the cell does not know any more was ended under the command if
// the lease that the command ended under still ran when the cell said so. Past
// its end it may just have expired, while we tried to tell the cell.
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
		a.noteUntold(h.session)
		return nil
	}
	// The lock is free; that the session ends, too, matters to nobody else.
	_ = wait.Do(ctx, func() error { return h.session.Close(context.Background()) })
	return err
}

// closeSession ends a session that got no lock, if there is one. What it wanted
// is gone with it, or else when its ttl is over.
func (a *app) closeSession(ctx context.Context, session *client.Session) {
	if session == nil {
		return
	}
	err := wait.Do(ctx, func() error { return session.Close(context.Background()) })
	if err != nil && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrSessionNotFound) {
		a.ui.note("could not tell the cell that we stopped waiting; it will know in at most %s%s", human(session.TTL()), onceInOffice)
	}
}

// onceInOffice is what bounds of a session's end rest on: nothing expires without a
// master, and a new one gives each session its whole ttl.
const onceInOffice = ", counted from when the cell has a master again if it has none now"

func closePatience(session *client.Session) time.Duration {
	if session.Remaining() < session.TTL()/5 { // long past the last keepalive that came through
		return closeLostTimeout
	}
	return closeTimeout
}

func (a *app) noteUntold(session *client.Session) {
	a.ui.note("could not tell the cell that we are done; the lock is free in at most %s%s", human(session.TTL()), onceInOffice)
}
