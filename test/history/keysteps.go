package history

import (
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// dirOf returns the directory of a path, with its last slash.
func dirOf(path string) string { return path[:strings.LastIndex(path, "/")+1] }

// keyDirs returns the directories with keys that the door was asked for.
func keyDirs(attempts []*Attempt) map[string]bool {
	dirs := map[string]bool{}
	for _, a := range attempts {
		if a.Keys != nil {
			dirs[dirOf(a.Path)] = true
		}
	}
	return dirs
}

// splitKeys separates the attempts about keys, by directory, from the others.
// The API's calls for the files and locks in these directories are among them.
func splitKeys(attempts []*Attempt) (keys map[string][]*Attempt, others []*Attempt) {
	dirs := keyDirs(attempts)
	keys = map[string][]*Attempt{}
	for _, a := range attempts {
		if dir := dirOf(a.Path); dirs[dir] {
			keys[dir] = append(keys[dir], a)
		} else {
			others = append(others, a)
		}
	}
	return keys, others
}

// keyBuilder turns the attempts on one directory into porcupine operations.
type keyBuilder struct {
	sessions map[string]*life
	seen     map[string]int64           // by checksum of a content: the first answer with it
	locked   map[string]map[string]bool // by session: the paths that it may lock
	ops      []porcupine.Operation
	unseen   bool // include possible effects that no answer showed
}

// keyOperations returns the steps of a directory's attempts. All writes have
// different contents. As with files, an attempt of unknown outcome happened if
// its content was seen.
func keyOperations(attempts []*Attempt, sessions map[string]*life, unseen bool) []porcupine.Operation {
	b := &keyBuilder{sessions: sessions, seen: map[string]int64{}, locked: map[string]map[string]bool{}, unseen: unseen}
	for _, a := range attempts {
		for _, content := range a.contentsSeen() {
			if first, known := b.seen[content]; !known || a.Return < first {
				b.seen[content] = a.Return
			}
		}
	}
	for _, a := range attempts {
		b.attempt(a)
	}
	for id, paths := range b.locked {
		b.sessionEnds(id, paths)
	}
	return finish(b.ops, &keyStep{kind: keyOver}, func(input any) string { return input.(*keyStep).session })
}

// contentsSeen returns the checksums of the contents in an answer. A replica may
// show in a stale read what the master has not applied yet.
func (a *Attempt) contentsSeen() (all []string) {
	if a.Keys != nil && !a.Keys.Stale {
		for i := range a.Keys.Found {
			all = append(all, sum(a.Keys.Found[i].Content))
		}
	}
	if a.Files != nil {
		for f := range a.Files.files() {
			all = append(all, f.SHA256)
		}
	}
	return all
}

func (b *keyBuilder) attempt(a *Attempt) {
	b.involve(a.Session, a.Path, false)
	at := int64(forever)
	reads := a.Kind != KeyChange && a.Kind != Acquire && a.Kind != Release
	if a.Keys != nil {
		for i := range a.Keys.Operations {
			op := &a.Keys.Operations[i]
			b.involve(op.Session, op.Path, op.Verb == lockapi.KeyLock)
			if first, shown := b.seen[sum(op.Content)]; shown && len(op.Content) > 0 {
				at = min(at, first)
			}
		}
	}
	s := keyStep{kind: keyCalled, session: a.Session, attempt: a}
	switch {
	case a.Outcome == NoEffect, a.Outcome == Wrong, a.Keys != nil && a.Keys.Stale, a.Outcome == Unknown && reads:
	case a.Outcome == Gone:
		b.add(a.Call, a.Return, keyStep{kind: keyGone, session: a.Session})
	case a.Outcome != Unknown:
		b.add(a.Call, a.Return, s)
	case at < forever:
		b.add(a.Call, at, s)
	case b.unseen:
		s.unsure = true
		b.add(a.Call, forever, s)
	}
}

func (b *keyBuilder) involve(session, path string, locks bool) {
	if session == "" {
		return
	}
	if b.locked[session] == nil {
		b.locked[session] = map[string]bool{}
	}
	if locks {
		b.locked[session][path] = true
	}
}

func (b *keyBuilder) add(call, end int64, s keyStep) {
	s.sessions = b.sessions
	b.ops = append(b.ops, porcupine.Operation{Input: &s, Call: call, Return: end})
}

// sessionEnds adds the steps in which a session, and the lock-delays after it,
// may end.
func (b *keyBuilder) sessionEnds(id string, paths map[string]bool) {
	l := b.sessions[id]
	if l == nil {
		return
	}
	earliest := l.leaseEnd
	for _, c := range l.closes {
		earliest = min(earliest, c.Call)
		s := keyStep{kind: keyClosed, session: id, unsure: c.Outcome == Unknown}
		if c.Delays {
			s.kind = keyExpired
		}
		end := c.Return
		if s.unsure {
			end = forever
		}
		b.add(c.Call, end, s)
	}
	if s := (keyStep{kind: keyExpired, session: id}); len(l.closes) == 0 && l.missed != forever {
		b.add(l.leaseEnd, max(l.leaseEnd, l.missed), s)
	} else {
		s.unsure = true
		b.add(l.leaseEnd, forever, s)
	}
	for path := range paths {
		if l.delayMS > 0 {
			b.add(earliest+l.delayMS*1e6, forever, keyStep{kind: keyDelayOver, session: id, path: path, unsure: true})
		}
	}
}
