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

// fileBuilder turns the attempts on one group into porcupine operations.
type fileBuilder struct {
	group    *groupOf
	sessions map[string]*life
	seen     map[string]*seenFile
	stats    map[string]*lockapi.FileStat
	involved map[string]bool
	ops      []porcupine.Operation
	unseen   bool // include possible effects that no answer showed
}

// fileOperations returns the steps of a group's attempts. Attempts with the
// same key are one write, however often it was sent. Without unseen, an attempt
// of unknown outcome has no effect unless an answer showed one, as with locks.
func fileOperations(g *groupOf, sessions map[string]*life, unseen bool) []porcupine.Operation {
	b := &fileBuilder{
		group: g, sessions: sessions, seen: sightings(g.attempts), unseen: unseen,
		stats: map[string]*lockapi.FileStat{}, involved: map[string]bool{},
	}
	for content, s := range b.seen {
		b.stats[content] = s.stat
	}
	for _, tries := range calls(g.attempts) {
		b.call(tries)
	}
	for id := range b.involved {
		b.sessionEnds(id)
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
func (b *fileBuilder) call(tries []*Attempt) {
	var answered, lost *Attempt
	first, last := tries[0].Call, int64(forever)
	for _, a := range tries {
		b.involve(a)
		switch a.Outcome {
		case Gone:
			b.add(a.Call, a.Return, fileStep{kind: sessionMissing, session: a.Session})
		case Unknown:
			lost = cmp.Or(lost, a)
		default:
			answered, last = cmp.Or(answered, a), min(last, a.Return)
		}
	}
	s := fileStep{kind: callMade, session: tries[0].Session, attempt: answered}
	switch {
	case answered != nil:
		b.add(first, last, s)
	case lost != nil:
		s.attempt = lost
		b.lost(s)
	}
}

// lost adds the step of a call that was never answered. It happened before any
// answer showed its content.
func (b *fileBuilder) lost(s fileStep) {
	at := int64(forever)
	for content := range s.attempt.Files.contents() {
		if seen := b.seen[content]; seen != nil {
			at = min(at, seen.at)
		}
	}
	if at == forever {
		if s.unsure = true; !b.unseen || s.attempt.Kind == Get || s.attempt.Kind == List {
			return
		}
	}
	b.add(s.attempt.Call, at, s)
}

// involve records the sessions that the attempt involves.
func (b *fileBuilder) involve(a *Attempt) {
	b.involved[a.Session] = true
	for _, c := range a.Files.If {
		b.involved[c.Session] = true
	}
}

func (b *fileBuilder) add(call, end int64, s fileStep) {
	s.locks, s.seen = b.group.locks, b.stats
	b.ops = append(b.ops, porcupine.Operation{Input: &s, Call: call, Return: end})
}

// sessionEnds adds the steps in which a session may end.
func (b *fileBuilder) sessionEnds(id string) {
	l := b.sessions[id]
	if l == nil {
		return
	}
	s := fileStep{kind: sessionEnded, session: id}
	for _, c := range l.closes {
		s.unsure = c.Outcome == Unknown
		if s.unsure {
			b.add(c.Call, forever, s)
		} else {
			b.add(c.Call, c.Return, s)
		}
	}
	if s.unsure = len(l.closes) > 0 || l.missed == forever; s.unsure {
		b.add(l.leaseEnd, forever, s)
	} else {
		b.add(l.leaseEnd, max(l.leaseEnd, l.missed), s)
	}
}

// finish adds the end of the record after everything.
func (b *fileBuilder) finish() []porcupine.Operation {
	return finish(b.ops, &fileStep{kind: recordOver}, func(input any) string { return input.(*fileStep).session })
}
