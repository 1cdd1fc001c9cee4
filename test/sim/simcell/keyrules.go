package simcell

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle checks here what calls make of keys. What an entry makes of them is
// the model's (package model).

// keyHolds are the holds of keys.
type keyHolds struct {
	held map[string]string         // by path: the session
	ends map[string]state.Released // by path: ended in the entry under way

	meta map[string]map[string]string // metadata of the live sessions
	ways map[string]map[bool]bool     // by session: how calls end it, with lock-delays or without
}

func newKeyHolds() keyHolds {
	return keyHolds{
		map[string]string{}, map[string]state.Released{},
		map[string]map[string]string{}, map[string]map[bool]bool{},
	}
}

// keyGranted checks the grant of a key.
func (y *revisions) keyGranted(index uint64, h *state.Hold) {
	y.w.stats.check("grant of a key")
	y.keys.held[h.Path] = h.Session
	meta, end := y.keys.meta[h.Session], state.KeyStays
	delay, err := time.ParseDuration(cmp.Or(meta[lockapi.MetaKeyDelay], lockapi.DefaultKeyDelay))
	if meta[lockapi.MetaKeyBehavior] == lockapi.KeysDeleted {
		end = state.KeyDeleted
	}
	if ms := delay.Milliseconds(); err != nil || h.Key != end || h.DelayMS != ms {
		y.w.fail("entry %d: key %s is granted with end %d and a lock-delay of %d ms; the session has %v", index, h.Path, h.Key, h.DelayMS, meta)
	}
}

// endsBy records a request that ends a session.
func (y *revisions) endsBy(q *http.Request) {
	id, closes := strings.CutPrefix(q.URL.Path, lockapi.RouteSessions+"/")
	closes = closes && q.Method == http.MethodDelete
	destroyed, destroys := strings.CutPrefix(q.URL.Path, "/v1/session/destroy/")
	if destroys {
		id = destroyed
	}
	if !closes && !destroys {
		return
	}
	if y.keys.ways[id] == nil {
		y.keys.ways[id] = map[bool]bool{}
	}
	y.keys.ways[id][destroys] = true
}

// endedAsCalled checks that a call ended each closed session, and that the
// lock-delays are left if it was one of the door.
func (y *revisions) endedAsCalled(index uint64, b state.Batch, out state.Outcome) {
	for i := range b.Commands {
		op, ok := b.Commands[i].Operation.(*state.CloseSession)
		if ok && out.Results[i] == state.Done && !y.keys.ways[op.Session][op.Delays] {
			y.w.fail("entry %d: session %s is closed with lock-delays %v; the calls have %v", index, op.Session, op.Delays, y.keys.ways[op.Session])
		}
	}
}

// keyReleased records the end of a hold, which changes its file if that exists.
func (y *revisions) keyReleased(r state.Released) {
	delete(y.keys.held, r.Hold.Path)
	y.keys.ends[r.Hold.Path] = r
}

// endedKey reports whether a new version of a file is the one that a hold's end
// makes.
func (y *revisions) endedKey(f *state.File, old version) bool {
	if _, ended := y.keys.ends[f.Path]; !ended || old.file == nil || string(f.Content) != string(old.file.Content) {
		return false
	}
	y.w.stats.check("file of a key changed")
	delete(y.keys.ends, f.Path)
	return true
}

// wrongKey returns what is wrong with a write for the key at its path, or "".
func (y *revisions) wrongKey(w *write, f *state.File) string {
	r, ended := y.keys.ends[f.Path]
	switch {
	case w.locks == f.Path && y.keys.held[f.Path] != w.session:
		return fmt.Sprintf("it acquires the key, which is held by %q", y.keys.held[f.Path])
	case w.unlocks == f.Path && (!ended || r.Hold.Session != w.session):
		return "it releases the key, which its session did not hold"
	}
	return ""
}

// wroteKey checks the answer that a write through the door succeeded.
func (o *oracle) wroteKey(w *write) {
	o.checks("reported change of a key")
	if w.index == 0 {
		o.w.fail("%s got that its write %s of %v is done; the log does not have it", w.who, w.content, w.paths)
	}
	o.reported = max(o.reported, w.index)
}

// notHolder checks the answer that a session does not hold a key.
func (o *oracle) notHolder(who string, floor uint64, session, path string) {
	o.checks("reported key of others")
	if !o.since(floor, func(s *state.State) bool {
		h, _ := s.HoldOrWait(session, path, "")
		return h == nil
	}) {
		o.w.fail("%s got that session %s does not hold key %s, which it has held since before the call (entry %d)", who, session, path, floor)
	}
}

// otherIndex checks the answer that a key did not have the required index. It
// had another one at some moment since the call began.
func (o *oracle) otherIndex(w *write, floor uint64) {
	o.checks("reported index")
	for path, want := range w.when {
		all := o.revisions.files[path]
		now := uint64(0)
		if f := o.revisions.now(path).file; f != nil {
			now = f.Revision
		}
		if now == want && (len(all) == 0 || all[len(all)-1].index <= floor) {
			o.w.fail("%s got that key %s did not have the index %d, which it has had since before the call (entry %d)", w.who, path, want, floor)
		}
	}
}

// keyRead checks a read of a key; nil means that it was not found.
func (o *oracle) keyRead(who string, floor, revision uint64, path string, got *shownKey) {
	if !o.readAt(who, floor, revision) {
		return
	}
	o.w.stats.check("read of a key")
	if wrong := o.wrongShown(revision, path, got); wrong != "" {
		o.w.fail("%s %s", who, wrong)
	}
}

// wrongShown returns what is wrong with a key that was read, or "".
func (o *oracle) wrongShown(revision uint64, path string, got *shownKey) string {
	f, session := o.revisions.at(path, revision).file, ""
	for h := range o.before(o.revisions.events[revision].index).Holders(path) {
		session = h.Session
		break
	}
	switch {
	case got == nil && f != nil:
		return fmt.Sprintf("found no key %s at revision %d; it had %s", path, revision, statLine(f))
	case got == nil:
	case f == nil, got.ModifyIndex != f.Revision, got.CreateIndex != f.Instance, got.LockIndex != f.Locks, got.Flags != f.Flags,
		string(got.Value) != string(f.Content), got.Session != session, "/"+got.Key != path:
		return fmt.Sprintf("read key %s at revision %d as %+v; it was %v, held by %q", path, revision, *got, f, session)
	}
	return ""
}
