package client

import (
	"strconv"
	"strings"
	"sync"

	"time"

	"github.com/stoutlock/stout/lockapi"
)

// acquisitions are those of one session.
type acquisitions struct {
	prefix string // of the handles made up here

	// mu guards the following, and what is said so of in acquisition.
	mu       sync.Mutex
	serial   uint64 // of the last handle made up
	byHandle map[string]*acquisition
	over     error // why there are no more, once the session is over
}

// enter adds an acquisition under a fresh handle.
func (t *acquisitions) enter(a *acquisition) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	t.serial++
	a.handle = t.prefix + strconv.FormatUint(t.serial, 36)
	t.byHandle[a.handle] = a
	return nil
}

// remove drops an acquisition.
func (t *acquisitions) remove(a *acquisition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.phase = gone
	delete(t.byHandle, a.handle)
}

// endHolds cancels the contexts of all holds.
func (t *acquisitions) endHolds(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.byHandle {
		if a.phase == holding {
			a.held.cancel(reason)
		}
	}
}

// end ends all holds and calls, since the session is over.
func (t *acquisitions) end(reason error) {
	t.endHolds(reason)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = reason
	for _, a := range t.byHandle {
		a.cutOff()
	}
	clear(t.byHandle)
}

// askAgain cuts off the calls under way, so that they are made again where the
// master is now; positions in queues are kept. A release may be there already,
// and is given time to be answered: of one that was cut off nobody can tell any
// more whether it found the lock held.
func (t *acquisitions) askAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.byHandle {
		if a.phase == leaving && a.cut != nil {
			time.AfterFunc(lateAnswer, a.cut)
			continue
		}
		a.cutOff()
	}
}

// lateAnswer is how long a waiting call may take to tell of a grant itself,
// or a refusal itself, after the event that told of it has come.
const lateAnswer = 200 * time.Millisecond

// news takes in that a lock was granted, or a place in its queue taken away. That
// is a hint only: it is believed of the answer to the call that asks for it. It
// reports whether anybody here wanted or has it.
func (t *acquisitions) news(path, handle string) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.byHandle[handle]
	if known && a.path == path && a.phase == waiting && a.cut != nil {
		// The call that waits for it is about to be answered, unless it waits
		// at a replica that is gone: then it is made again.
		time.AfterFunc(lateAnswer, a.cut)
	}
	return known
}

// lost ends the hold with that token, and reports whether the handle is in use here.
// The event may arrive before the answer that grants the lock: then the hold ends as
// it begins.
func (t *acquisitions) lost(path, handle string, token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byHandle[handle]
	if a == nil || a.path != path {
		return false
	}
	a.lost = max(a.lost, token)
	t.lose(a, token)
	return true
}

// heldTokens are those of what is held, by handle.
func (t *acquisitions) heldTokens() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := make(map[string]uint64)
	for handle, a := range t.byHandle {
		if a.phase == holding {
			held[handle] = a.token
		}
	}
	return held
}

// compare takes in what the cell says that the session has, when it was asked
// after held was read. Holds that the cell does not know of are lost. It
// returns what nobody here knows of, and the acquisitions whose holds the cell
// may take back.
func (t *acquisitions) compare(held map[string]uint64, state *lockapi.SessionState) (orphans []orphan, unclaimed []*acquisition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := make(map[string]uint64)
	for _, h := range state.Holds {
		if a := t.byHandle[h.Handle]; a != nil && a.path == h.Path {
			there[h.Handle] = h.Token
			switch {
			case h.UnclaimedMS == 0:
			case a.phase == waiting:
				a.cutOff() // to be asked for again
			case a.phase == holding && a.token == h.Token:
				unclaimed = append(unclaimed, a)
			}
		}
		if t.isOrphan(h.Path, h.Handle) {
			orphans = append(orphans, orphan{h.Path, h.Handle})
		}
	}
	for _, w := range state.Waits {
		if t.isOrphan(w.Path, w.Handle) {
			orphans = append(orphans, orphan{w.Path, w.Handle})
		}
	}
	for handle, token := range held {
		if a := t.byHandle[handle]; a != nil && there[handle] != token {
			t.lose(a, token)
			if there[handle] != 0 { // another grant of the same handle
				orphans = append(orphans, orphan{a.path, handle})
			}
		}
	}
	return orphans, unclaimed
}

// isOurs says whether a handle was made up here.
func (t *acquisitions) isOurs(handle string) bool { return strings.HasPrefix(handle, t.prefix) }

// isOrphan says whether a handle was made up here and has no acquisition any
// more, at what can be a lock's path. mu is held.
func (t *acquisitions) isOrphan(path, handle string) bool {
	_, known := t.byHandle[handle]
	return !known && t.isOurs(handle) && lockapi.ValidatePath(path) == nil && lockapi.ValidateHandle(handle) == nil
}

// lose ends the hold of a grant that the cell no longer knows of, if it is not
// done yet. mu is held.
func (t *acquisitions) lose(a *acquisition, token uint64) {
	if a.phase != holding || a.token != token {
		return
	}
	a.s.c.log.Warn("stout: lock lost", "session_name", a.s.name, "path", a.path, "token", a.token, "epoch", a.s.Epoch())
	a.phase = gone
	delete(t.byHandle, a.handle)
	a.held.cancel(ErrLockLost)
}
