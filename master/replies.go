package master

import (
	"iter"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// Locks in replies, and the size of replies. A session's metadata may have 64
// KiB, and appears beside each of its holds and waits. So the metadata in one
// reply is bounded, as are holders and pages. The quotas bound what exists, not
// how often a reply repeats it.

// metaBudget is how many bytes are left for the metadata of sessions in one
// reply.
type metaBudget int

// fit returns the metadata if it fits into the budget, else nil. Metadata that
// does not fit uses no budget.
func (r *metaBudget) fit(meta map[string]string) map[string]string {
	raw := 0
	for k, v := range meta {
		raw += len(k) + len(v)
	}
	if raw > int(*r) { // a cheap check first: in long replies most metadata fails it
		return nil
	}
	size := metaSize(meta)
	if size > int(*r) {
		return nil
	}
	*r -= metaBudget(size)
	return meta
}

// lockOf returns a lock with its first holders, at most so many. o is nil in a
// stale read, which knows only the whole length of a lock-delay and not its
// rest.
func lockOf(o *office, s *state.State, path string, most int, room *metaBudget) lockapi.Lock {
	out := lockapi.Lock{Path: path, State: lockapi.StateFree, Holders: []lockapi.Holder{}}
	l, ok := s.Lock(path)
	if !ok {
		return out
	}
	for h := range s.Holders(path) {
		if len(out.Holders) == most {
			out.MoreHolders = l.Holders - most
			break
		}
		holder := holderOf(h)
		if v, ok := s.Session(h.Session); ok {
			holder.SessionName, holder.SessionMeta, holder.Principal = v.Name, room.fit(v.Meta), v.Principal
		}
		out.Holders = append(out.Holders, holder)
	}
	out.Waiters = l.Waiters
	if l.DelayID != 0 {
		out.State, out.DelayRemainingMS = lockapi.StateDelayed, l.DelayMS
		if o != nil {
			out.DelayRemainingMS = min(l.DelayMS, o.delayRemaining(path).Milliseconds())
		}
	}
	if l.Holders > 0 {
		out.State, out.Mode = lockapi.StateHeld, mode(l.Mode)
		if l.Mode == state.Shared {
			out.Limit = l.Limit
		}
	}
	return out
}

// queueOf returns the first waits in a queue, at most so many. now is a wall
// clock, and may be behind that of the master that queued a wait: the state's
// own time counts if it is later.
func queueOf(s *state.State, path string, most int, now time.Time, room *metaBudget) []lockapi.Waiter {
	out := []lockapi.Waiter{}
	present := max(now.UnixNano(), s.Now)
	for w := range s.Queue(path) {
		if len(out) == most {
			break
		}
		waiter := lockapi.Waiter{Session: w.Session, Handle: w.Handle, Mode: mode(w.Mode), Position: len(out) + 1,
			Since: time.Unix(0, w.Since).UTC(), WaitingMS: time.Duration(present - w.Since).Milliseconds(), Priority: int64(w.Priority), Set: len(w.Set)}
		if v, ok := s.Session(w.Session); ok {
			waiter.SessionName, waiter.SessionMeta, waiter.Principal = v.Name, room.fit(v.Meta), v.Principal
		}
		out = append(out, waiter)
	}
	return out
}

// manyItems is the number of holders, or of holds and waits, from which a reply
// about one lock or session takes as long as a list.
const manyItems = lockapi.DefaultListLimit

// isCrowdedLock reports whether a lock has very many holders, as this replica
// knows. It never blocks.
func (m *Master) isCrowdedLock(path string) bool {
	l, ok := m.log.State().Lock(path)
	return ok && l.Holders > manyItems
}

// isCrowdedSession reports whether a session has very many holds and waits, as this
// replica knows. It never blocks.
func (m *Master) isCrowdedSession(id string) bool {
	n := 0
	for range m.log.State().HoldsAndWaits(id) {
		if n++; n > manyItems {
			return true
		}
	}
	return false
}

// pageOf returns the first items of a list, and the name of the last one if more
// follow. It ends at the limit, or with the item that makes the page
// lockapi.PageBytes long. show returns an item with its name and its size.
func pageOf[R, T any](all iter.Seq[R], limit int, show func(R) (one T, name string, size int)) (page []T, next string) {
	page, size, last := []T{}, 0, ""
	for v := range all {
		if len(page) == limit || size >= lockapi.PageBytes {
			return page, last
		}
		one, name, n := show(v)
		page, last, size = append(page, one), name, size+n
	}
	return page, ""
}

// only returns the items of a list that a caller may see.
func only[T any](all iter.Seq[T], sees func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range all {
			if sees(v) && !yield(v) {
				return
			}
		}
	}
}

// Sizes of the parts of replies, in bytes of JSON. Parts that are not text are
// estimated from above.
const (
	lockFrame    = 150
	holderFrame  = 208
	sessionFrame = 186
	fileFrame    = 296
	handleFrame  = 130
	linkFrame    = 230
	pastFrame    = 450
	tokenFrame   = 200
	eventFrame   = 130
	pairFrame    = len(`"":"",`)
)

func lockSize(l *lockapi.Lock) int {
	n := lockFrame + textSize(l.Path)
	for i := range l.Holders {
		h := &l.Holders[i]
		n += holderFrame + textSize(h.Session, h.SessionName, h.Handle) + metaSize(h.SessionMeta) + textSize(h.Principal)
	}
	return n
}

func sessionSize(v *lockapi.SessionState) int {
	n := sessionFrame + textSize(v.ID, v.Name) + metaSize(v.Meta) + textSize(v.Principal)
	for i := range v.Holds {
		h := &v.Holds[i]
		n += handleFrame + textSize(h.Path, h.Handle, h.Sequencer)
	}
	for i := range v.Waits {
		w := &v.Waits[i]
		n += handleFrame + textSize(w.Path, w.Handle)
	}
	return n
}

func fileSize(f *lockapi.File) int {
	n := fileFrame + textSize(f.Path, f.Session, f.Principal) + (len(f.ContentBase64)+2)/3*4
	if f.Content != nil {
		n += textSize(*f.Content)
	}
	return n
}

func deadlockSize(d *lockapi.Deadlock) int {
	n := 0
	for i := range d.Links {
		l := &d.Links[i]
		n += linkFrame + textSize(l.Session, l.SessionName, l.Principal, l.Path, l.Handle)
	}
	return n
}

func metaSize(meta map[string]string) int {
	n := 0
	for k, v := range meta {
		n += pairFrame + textSize(k, v)
	}
	return n
}

// textSize returns the maximum length of texts in JSON: a control character
// takes up to six bytes.
func textSize(texts ...string) (n int) {
	for _, text := range texts {
		n += len(text)
		for i := range len(text) {
			switch c := text[i]; {
			case c < ' ':
				n += 5
			case c == '"', c == '\\':
				n++
			}
		}
	}
	return n
}

// Every reply shows a hold through one of the functions below.

func mode(m state.Mode) lockapi.Mode {
	if m == state.Shared {
		return lockapi.Shared
	}
	return lockapi.Exclusive
}

func stateMode(m lockapi.Mode) state.Mode {
	if m == lockapi.Shared {
		return state.Shared
	}
	return state.Exclusive
}

func sequencer(h *state.Hold) string {
	return lockapi.Sequencer{Mode: mode(h.Mode), Token: h.Token, Path: h.Path}.String()
}

// grantOf returns the answer of an acquire that got its lock.
func grantOf(h *state.Hold) lockapi.Grant {
	return lockapi.Grant{Path: h.Path, State: lockapi.StateHeld, Session: h.Session, Handle: h.Handle,
		Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h), GrantedAt: new(time.Unix(0, h.GrantedAt).UTC())}
}

// holderOf returns a hold as a lock lists it. The caller fills in what belongs
// to the session: its name, metadata and principal.
func holderOf(h *state.Hold) lockapi.Holder {
	return lockapi.Holder{Session: h.Session, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token,
		GrantedAt: time.Unix(0, h.GrantedAt).UTC(), LockDelayMS: h.DelayMS}
}

// sessionHoldOf returns a hold as its session lists it.
func sessionHoldOf(h *state.Hold) lockapi.Hold {
	return lockapi.Hold{Path: h.Path, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token, Sequencer: sequencer(h)}
}

// eventHoldOf returns a hold as an event of the cell shows it.
func eventHoldOf(h *state.Hold, sessionName string) *lockapi.EventHold {
	return &lockapi.EventHold{Session: h.Session, SessionName: sessionName, Handle: h.Handle, Mode: mode(h.Mode), Token: h.Token}
}

// queuedOf returns the answer of an acquire that waits, at a position from 1.
func queuedOf(w *state.Wait, position int) lockapi.Grant {
	return lockapi.Grant{Path: w.Path, State: lockapi.StateQueued, Session: w.Session, Handle: w.Handle,
		Mode: mode(w.Mode), Position: max(1, position)}
}
