package simcell

import (
	"fmt"
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// revisions holds every change in the cell by revision, taken from the
// committed log: changes of files, of locks and of the master. It does not use
// the state, so that the oracle can check the state's files, sessions and grants
// against it.
type revisions struct {
	w       *world
	events  []expectedEvent      // by revision; the first is a placeholder
	files   map[string][]version // versions of each file, in the order of revisions
	names   map[string]string    // of the live sessions
	held    map[uint64]bool      // tokens
	writes  map[string]*write    // by content, which is unique to each write
	deleted map[string]int       // by path: number of calls that deleted it
	asked   map[string]int       // by path or directory: number of calls that may delete
	keyed   map[string]int       // by session: number of answered keyed calls
	answers map[[2]string]int    // by session and key: keyed at the call's last effect
	late    int                  // copies of calls that took effect after their keys were forgotten
	touched []*write             // in the entry under way
	keys    keyHolds
}

// version is a file between two of its revisions.
type version struct {
	revision, index uint64
	file            *state.File // nil: the file does not exist
}

func newRevisions(w *world) *revisions {
	return &revisions{
		w: w, events: make([]expectedEvent, 1), files: map[string][]version{}, names: map[string]string{}, held: map[uint64]bool{},
		writes: map[string]*write{}, deleted: map[string]int{}, asked: map[string]int{}, keyed: map[string]int{},
		answers: map[[2]string]int{}, keys: newKeyHolds(),
	}
}

// revision returns the present one.
func (y *revisions) revision() uint64 { return uint64(len(y.events) - 1) }

// add adds the changes of an entry.
func (y *revisions) add(after *state.State, out state.Outcome) {
	y.touched = nil
	y.answered(after.Index, out.Changes)
	for _, c := range out.Changes {
		y.note(after.Index, c)
		if h, ok := y.eventOf(after.Index, c); ok {
			y.w.stats.check("revision")
			if r := revisionOf(c); r != uint64(len(y.events)) {
				y.w.fail("entry %d: %s has revision %d; the previous change has %d", after.Index, h.line, r, y.revision())
			}
			y.events = append(y.events, h)
		}
	}
	if after.Revision != y.revision() {
		y.w.fail("entry %d leads to revision %d; there were %d changes", after.Index, after.Revision, y.revision())
	}
	clear(y.keys.ends)
	for _, w := range y.touched {
		y.w.stats.check("write")
		if len(w.done) != len(w.paths) {
			y.w.fail("entry %d: of %s's write %s to %q only %v is done", after.Index, w.who, w.content, w.paths, w.done)
		}
	}
}

// note updates the live sessions and held tokens in the order of the changes.
func (y *revisions) note(index uint64, c state.Change) {
	switch c := c.(type) {
	case state.SessionOpened:
		y.names[c.Session.ID] = c.Session.Name
		y.keys.meta[c.Session.ID] = c.Session.Meta
	case state.SessionEnded:
		delete(y.names, c.Session.ID)
		delete(y.keys.meta, c.Session.ID)
	case state.Granted:
		y.held[c.Hold.Token] = true
		if c.Hold.Key != state.NoKey {
			y.keyGranted(index, c.Hold)
		}
	case state.Released:
		delete(y.held, c.Hold.Token)
		if c.Hold.Key != state.NoKey {
			y.keyReleased(c)
		}
	case state.Answered:
		y.keyed[c.Session]++
	case state.FileChanged:
		y.written(index, c.File)
	case state.FileDeleted:
		y.gone(index, c)
	}
}

// keysKept is the number of keyed calls that a session remembers (guarantee
// 35).
const keysKept = 128

// answered checks that keyed calls took effect. A copy of one may do so again
// only if its key may be forgotten.
func (y *revisions) answered(index uint64, all []state.Change) {
	here := map[string]int{} // by session: number in this entry so far
	for _, c := range all {
		c, ok := c.(state.Answered)
		if !ok {
			continue
		}
		here[c.Session]++
		call, n := [2]string{c.Session, c.Answer.Key}, y.keyed[c.Session]+here[c.Session]
		switch before, again := y.answers[call]; {
		case again && n-before <= keysKept:
			y.w.fail("entry %d: the call with key %q of session %s takes effect again, %d keyed calls later", index, c.Answer.Key, c.Session, n-before)
		case again:
			y.late++
		}
		y.answers[call] = n
	}
}

// written checks a change of a file: it must be the effect of a user's write,
// as requested, and happen once.
func (y *revisions) written(index uint64, f *state.File) {
	old := y.now(f.Path)
	y.files[f.Path] = append(y.files[f.Path], version{f.Revision, index, f})
	if y.endedKey(f, old) {
		return
	}
	w := y.writes[string(f.Content)]
	if w == nil {
		y.w.fail("entry %d: %s is written with %q, which no user has sent", index, f.Path, f.Content)
		return
	}
	wrong := y.wrong(w, index, f, old)
	if key := y.wrongKey(w, f); wrong == "" {
		wrong = key
	}
	if wrong != "" {
		y.w.fail("entry %d: %s's write %s of %s, revision %d: %s", index, w.who, w.content, f.Path, f.Revision, wrong)
	}
	if !slices.Contains(y.touched, w) {
		y.touched = append(y.touched, w)
	}
	if w.index != index { // a copy with a forgotten key makes another sequential file
		clear(w.done)
	}
	w.done[f.Path], w.index = f.Revision, index
	w.answers = y.keyed[w.session]
}

// wrong returns what is wrong with the effect of a write on a file, or "".
func (y *revisions) wrong(w *write, index uint64, f *state.File, old version) string {
	_, lives := y.names[w.session]
	switch {
	case w.refused != "" && !w.repeated: // a late copy may find its key forgotten
		return "its caller was answered " + w.refused
	case w.index != 0 && w.index != index && y.keyed[w.session]-w.answers >= keysKept:
		return "" // its key may be forgotten
	case w.index != 0 && w.index != index:
		return fmt.Sprintf("it was done by entry %d", w.index)
	case w.guestCall != nil && !y.w.oracle.permitted(w.guestCall, index):
		return fmt.Sprintf("its caller was never allowed to since entry %d, before its call", w.guestCall.floor)
	case w.session != "" && !lives:
		return "its session has ended"
	case !w.names(f):
		return "it was for another path"
	case w.guestCall != nil && w.sequential && !y.w.oracle.mayName(w, index, f.Path):
		return "its caller may not write at that name"
	}
	for _, token := range w.guards {
		if !y.held[token] {
			return fmt.Sprintf("token %d, which guards it, is not held", token)
		}
	}
	if len(w.done) == 0 {
		for path, revision := range w.when {
			if has := y.at(path, f.Revision-1).file; (has == nil) != (revision == 0) || has != nil && has.Revision != revision {
				return fmt.Sprintf("it was to happen only at revision %d of %s", revision, path)
			}
		}
	}
	return wrongOwner(w, f, old.file)
}

// wrongOwner returns what is wrong with the session of a written file, or "".
func wrongOwner(w *write, f, old *state.File) string {
	owner := ""
	if old != nil {
		owner = old.Session
	}
	if w.ephemeral != nil {
		owner = ""
		if *w.ephemeral {
			owner = w.session
		}
	}
	if f.Session != owner {
		return fmt.Sprintf("session %q; want %q", f.Session, owner)
	}
	return ""
}

// gone checks a deletion by a call: that deleted the file once.
func (y *revisions) gone(index uint64, c state.FileDeleted) {
	f := y.now(c.File.Path).file
	if f == nil || f.Revision != c.File.Revision {
		y.w.fail("entry %d: %s is deleted, but was not there as %v", index, c.File.Path, c.File)
		return
	}
	y.files[f.Path] = append(y.files[f.Path], version{revision: c.Revision, index: index})
	if c.Reason == state.Deleted {
		y.deleted[f.Path]++
		y.countDeletions(f.Path)
	}
}

// countDeletions checks that calls deleted a file at most as often as they may.
func (y *revisions) countDeletions(path string) {
	if n, most := y.deleted[path], y.deletions(path); n > most {
		y.w.fail("revision %d: %s is deleted by a call for the %dth time, of %d calls", y.revision(), path, n, most)
	}
}

// notDeleted records the answer that a call did not delete a file.
func (y *revisions) notDeleted(path string) {
	y.asked[path]--
	y.countDeletions(path)
}

// deletions returns the number of calls that may have deleted a file. A copy
// with a forgotten key may do so again.
func (y *revisions) deletions(path string) int {
	n := y.asked[path] + y.late
	for i := range path {
		if path[i] == '/' {
			n += y.asked[path[:i+1]]
		}
	}
	return n
}

// now returns the latest version of a file.
func (y *revisions) now(path string) version {
	if all := y.files[path]; len(all) > 0 {
		return all[len(all)-1]
	}
	return version{}
}

// at returns the version of a file at a revision of the cell.
func (y *revisions) at(path string, revision uint64) version {
	all := y.files[path]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].revision <= revision {
			return all[i]
		}
	}
	return version{}
}

// whole reports whether a revision is the last one of its entry: reads never
// see the state in the middle of an entry.
func (y *revisions) whole(revision uint64) bool {
	next := revision + 1
	return revision <= y.revision() && (next == uint64(len(y.events)) || y.events[next].index != y.events[revision].index)
}
