package history

import (
	"cmp"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// seenFile is a file that an answer showed, and when it had certainly been
// written.
type seenFile struct {
	stat *lockapi.FileStat
	at   int64
}

// sightings are the files that anybody saw, by the sum of their content. No two
// writes of a record have the same content, but those under one key.
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

// fileBuilder makes porcupine operations of the attempts on one group.
type fileBuilder struct {
	group    *groupOf
	sessions map[string]*life
	seen     map[string]*seenFile
	stats    map[string]*lockapi.FileStat
	involved map[string]bool
	ops      []porcupine.Operation
	unseen   bool // have what nobody saw happen, too
}

// fileOperations are the steps of a group's attempts. Those that carry the same
// key are one write, whatever number of times it was sent. Without unseen an
// attempt of unknown outcome that nobody saw the effect of has none, as with
// locks.
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

// calls are the attempts, those under one key together, in the order of their
// first try. What had no effect for certain is left out.
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

// call makes the steps of one call. What it came to is what any try was
// answered; it happened before the first answer to any.
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

// lost makes the step of a call that was never answered. It happened before
// anybody saw something that it wrote.
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

// involve notes the sessions that the attempt has to do with.
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

// sessionEnds makes the steps in which a session may end.
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

// finish ends the record behind everything.
func (b *fileBuilder) finish() []porcupine.Operation {
	return finish(b.ops, &fileStep{kind: recordOver}, func(input any) string { return input.(*fileStep).session })
}
