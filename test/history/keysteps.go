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

// keyOperations returns the steps of a directory's attempts. All writes have
// different contents. As with files, an attempt of unknown outcome happened if
// its content was seen.
func keyOperations(attempts []*Attempt, sessions map[string]*life, unseen bool) []porcupine.Operation {
	b, seen := newBuilder(sessions, unseen), map[string]int64{} // by checksum of a content: the first answer with it
	for _, a := range attempts {
		for _, content := range a.contentsSeen() {
			if first, known := seen[content]; !known || a.Return < first {
				seen[content] = a.Return
			}
		}
	}
	for _, a := range attempts {
		b.keyAttempt(a, seen)
	}
	return b.finish()
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

func (b *builder) keyAttempt(a *Attempt, seen map[string]int64) {
	b.involve(a.Session)
	shown := int64(forever)
	if a.Keys != nil {
		for i := range a.Keys.Operations {
			op := &a.Keys.Operations[i]
			delays := b.involve(op.Session)
			if l := b.sessions[op.Session]; l != nil && op.Verb == lockapi.KeyLock {
				delays[op.Path+" "+op.Session] = l.delayMS
			}
			if first, known := seen[sum(op.Content)]; known && len(op.Content) > 0 {
				shown = min(shown, first)
			}
		}
	}
	switch {
	case a.Outcome == NoEffect, a.Outcome == Wrong, a.Keys != nil && a.Keys.Stale:
	case a.Outcome == Gone:
		b.add(a.Call, a.Return, step{kind: gone, session: a.Session})
	case a.Outcome == Unknown:
		b.lost(a, shown)
	default:
		b.add(a.Call, a.Return, step{kind: called, session: a.Session, attempt: a})
	}
}
