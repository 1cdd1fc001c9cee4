package client

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// acquisitions are the acquisitions of one session.
type acquisitions struct {
	prefix string // of this session's handles

	// mu guards the following, and the fields of acquisition marked so.
	mu       sync.Mutex
	serial   uint64 // of the last handle
	byHandle map[string]*acquisition
	over     error // the session's error, once it is over
}

// enter adds an acquisition under a fresh handle, which replaces its present
// one.
func (t *acquisitions) enter(a *acquisition) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	delete(t.byHandle, a.handle)
	t.serial++
	a.handle = t.prefix + strconv.FormatUint(t.serial, 36)
	t.byHandle[a.handle] = a
	return nil
}

// isUsed reports whether there has been an acquisition.
func (t *acquisitions) isUsed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.serial > 0
}

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

// askAgain cuts off the calls under way, so that they are repeated at the new
// master; queue positions are kept. A release may have arrived already, and
// gets time for its answer. After a cut, it would be unknown whether that
// release found the lock held.
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

// lateAnswer bounds how long after the event of a grant or refusal the waiting
// call's own answer may come.
const lateAnswer = 200 * time.Millisecond

// news processes the event that a lock was granted, or a queue position
// removed. The event is a hint only: the answer to the acquire call decides.
// news reports whether the handle is known here.
func (t *acquisitions) news(path, handle string) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, known := t.byHandle[handle]
	if known && a.names(path) && a.phase == waiting && a.cut != nil {
		// The waiting call is about to be answered, unless it waits at a replica
		// that is gone: then it is repeated.
		time.AfterFunc(lateAnswer, a.cut)
	}
	return known
}

// lost ends the hold with that token, and reports whether the handle is in use
// here. The event may arrive before the answer that grants the lock: then the
// hold ends as it begins.
func (t *acquisitions) lost(path, handle string, token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byHandle[handle]
	if a == nil || !a.names(path) {
		return false
	}
	a.lost = max(a.lost, token)
	t.lose(a, token)
	return true
}

// heldTokens returns the tokens of the present holds.
func (t *acquisitions) heldTokens() map[heldAt]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := make(map[heldAt]uint64)
	for handle, a := range t.byHandle {
		if a.phase == holding {
			a.each(func(path string, token uint64) { held[heldAt{path, handle}] = token })
		}
	}
	return held
}

// compare processes the session's state in the cell, read after held. Holds
// that the cell does not know are lost. It returns the orphans, and the
// acquisitions of holds that the cell may revoke.
func (t *acquisitions) compare(held map[heldAt]uint64, state *lockapi.SessionState) (orphans []heldAt, unclaimed []*acquisition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := make(map[heldAt]uint64)
	for _, h := range state.Holds {
		if a := t.byHandle[h.Handle]; a != nil && a.names(h.Path) {
			there[heldAt{h.Path, h.Handle}] = h.Token
			switch {
			case h.UnclaimedMS == 0:
			case a.phase == waiting:
				a.cutOff() // the request is repeated
			case a.phase == holding && a.has(h.Token) && !slices.Contains(unclaimed, a):
				unclaimed = append(unclaimed, a)
			}
		}
		if t.isOrphan(h.Path, h.Handle) {
			orphans = append(orphans, heldAt{h.Path, h.Handle})
		}
	}
	for _, w := range state.Waits {
		if t.isOrphan(w.Path, w.Handle) {
			orphans = append(orphans, heldAt{w.Path, w.Handle})
		}
	}
	for c, token := range held {
		if a := t.byHandle[c.handle]; a != nil && there[c] != token {
			t.lose(a, token)
			if there[c] != 0 { // another grant of the same handle
				orphans = append(orphans, c)
			}
		}
	}
	return orphans, unclaimed
}

// isOurs reports whether this session made a handle.
func (t *acquisitions) isOurs(handle string) bool { return strings.HasPrefix(handle, t.prefix) }

// isOrphan reports whether a handle is this session's but has no acquisition,
// at a valid path. mu is held.
func (t *acquisitions) isOrphan(path, handle string) bool {
	_, known := t.byHandle[handle]
	return !known && t.isOurs(handle) && lockapi.ValidatePath(path) == nil && lockapi.ValidateHandle(handle) == nil
}

// lose ends the hold of a grant that the cell no longer knows, if it has not
// ended. mu is held.
func (t *acquisitions) lose(a *acquisition, token uint64) {
	if a.phase != holding || a.short || !a.has(token) {
		return
	}
	if a.short = len(a.with) > 0; !a.short {
		a.phase = gone
		delete(t.byHandle, a.handle)
	}
	a.held.cancel(ErrLockLost)
	a.s.logs(slog.LevelWarn, "stout: lock lost", "path", a.path, "token", token, "epoch", a.s.Epoch())
}
