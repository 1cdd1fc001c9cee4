package history

import (
	"cmp"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// seenFile is a file in an answer, and the time by which it was certainly
// written.
type seenFile struct {
	stat *lockapi.FileStat
	at   int64
}

// sightings returns the files in any answer, by the checksum of their content.
// Only writes under one key have the same content.
func sightings(attempts []*Attempt) map[string]*seenFile {
	seen := map[string]*seenFile{}
	for _, a := range attempts {
		if a.Files == nil {
			continue
		}
		for f := range a.Files.files() {
			if s := seen[f.SHA256]; s == nil || a.Return < s.at {
				seen[f.SHA256] = &seenFile{f, a.Return}
			}
		}
	}
	return seen
}

// fileOperations returns the steps of a group's attempts. Attempts with the
// same key are one write, however often it was sent. Without unseen, an attempt
// of unknown outcome has no effect unless an answer showed one, as with locks.
func fileOperations(g *groupOf, sessions map[string]*life, unseen bool) []porcupine.Operation {
	b := newBuilder(sessions, unseen)
	for _, tries := range calls(g.attempts) {
		b.call(tries, g.seen)
	}
	return b.finish()
}

// calls groups the attempts under one key, in the order of their first try.
// Attempts that certainly had no effect are left out.
func calls(attempts []*Attempt) (all [][]*Attempt) {
	keyed := map[string]int{}
	for _, a := range attempts {
		if a.Files == nil || a.Outcome == NoEffect || a.Outcome == Wrong {
			continue
		}
		name := a.Session + "/" + a.Key
		if at, known := keyed[name]; known && a.Key != "" {
			all[at] = append(all[at], a)
			continue
		}
		keyed[name] = len(all)
		all = append(all, []*Attempt{a})
	}
	return all
}

// call adds the steps of one call. Any answered try gives its result; the call
// took effect before the first answer.
func (b *builder) call(tries []*Attempt, seen map[string]*seenFile) {
	var answered, lost *Attempt
	first, last := tries[0].Call, int64(forever)
	for _, a := range tries {
		b.involve(a.Session)
		for _, c := range a.Files.If {
			b.involve(c.Session)
		}
		switch a.Outcome {
		case Gone:
			b.add(a.Call, a.Return, step{kind: gone, session: a.Session})
		case Unknown:
			lost = cmp.Or(lost, a)
		default:
			answered, last = cmp.Or(answered, a), min(last, a.Return)
		}
	}
	switch {
	case answered != nil:
		b.add(first, last, step{kind: called, session: answered.Session, attempt: answered})
	case lost != nil:
		shown := int64(forever)
		for content := range lost.Files.contents() {
			if s := seen[content]; s != nil {
				shown = min(shown, s.at)
			}
		}
		b.lost(lost, shown)
	}
}

// lost adds the step of a call for files or keys that was never answered. It
// happened before the first answer that showed its content; forever if none did.
func (b *builder) lost(a *Attempt, shown int64) {
	s := step{kind: called, session: a.Session, attempt: a}
	switch {
	case shown < forever:
		b.add(a.Call, shown, s)
	case b.unseen && !a.reads():
		b.maybe(a.Call, s)
	}
}
