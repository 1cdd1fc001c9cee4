package history

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// answers finds answers that contradict the history of events.
func (l *eventLog) answers(record []Attempt) {
	granted, released := l.grants()
	for i := range record {
		a := &record[i]
		if a.Outcome != Done {
			continue
		}
		switch {
		case a.Files != nil:
			l.answer(a)
		case a.Kind == Acquire:
			l.granted(a, granted, &lockapi.Grant{Path: a.Path, Session: a.Session, Handle: a.Handle, Mode: a.Mode, Token: a.Token})
		case a.Kind == Release && a.Token > 0 && released[a.Token] == nil:
			l.bad("no event reports the release %v", a)
		}
		for _, g := range a.grants() {
			l.granted(a, granted, g)
		}
	}
}

// grants returns the events of locks by token.
func (l *eventLog) grants() (granted, released map[uint64]*lockapi.CellEvent) {
	granted, released = map[uint64]*lockapi.CellEvent{}, map[uint64]*lockapi.CellEvent{}
	for _, e := range l.events {
		switch e.Type {
		case lockapi.EventLockAcquired:
			granted[e.Hold.Token] = e
		case lockapi.EventLockReleased:
			released[e.Hold.Token] = e
		}
	}
	return granted, released
}

func (l *eventLog) granted(a *Attempt, granted map[uint64]*lockapi.CellEvent, g *lockapi.Grant) {
	e := granted[g.Token]
	mode := g.Mode
	if mode == "" {
		mode = lockapi.Exclusive
	}
	if e == nil || e.Path != g.Path || e.Hold.Session != g.Session || e.Hold.Handle != g.Handle || e.Hold.Mode != mode {
		l.bad("no event reports the grant of token %d: %v", g.Token, a)
	}
}

// answer finds an answer about files that the events do not confirm.
func (l *eventLog) answer(a *Attempt) {
	for f := range a.Files.files() {
		if e := l.events[f.Revision]; e == nil || e.File == nil || e.Type == lockapi.EventFileDeleted || !sameFile(&e.File.FileStat, f) {
			l.bad("%v reports revision %d of %s (%.8s), the events report %s", a, f.Revision, f.Path, f.SHA256, l.texts[f.Revision])
		}
	}
	if a.Kind == DeleteBelow {
		l.emptied(a)
	}
	for op, r := range a.Files.taken() {
		if d := r.Deleted; op.Delete != nil && d != nil && d.Revision > 0 {
			e := l.events[d.Revision]
			if e == nil || e.Type != lockapi.EventFileDeleted || e.Path != op.Delete.Path || e.Reason != lockapi.ReasonDeleted {
				l.bad("%v reports the deletion %d, the events report %s", a, d.Revision, l.texts[d.Revision])
			}
		}
	}
}

// emptied finds a deletion of a directory's files that the events contradict.
// There must be as many deletion events, at consecutive revisions.
func (l *eventLog) emptied(a *Attempt) {
	last := a.Files.Result.Revision
	for r := last - uint64(a.Files.Deleted); r < last; r++ {
		e := l.events[r+1]
		if e == nil || e.Type != lockapi.EventFileDeleted || !strings.HasPrefix(e.Path, a.Files.Below) || e.Reason != lockapi.ReasonDeleted {
			l.bad("%v reports %d deletions up to %d, the events report %s", a, a.Files.Deleted, last, l.texts[r+1])
		}
	}
}

func sameFile(x, y *lockapi.FileStat) bool {
	f := file{x.Path, x.Revision, x.Instance, x.Generation, x.SHA256, x.Session}
	return f.is(y)
}

// written finds writes that happened although they cannot have, more than once,
// or under a guard that was not held at the time.
func (l *eventLog) written(record []Attempt) {
	askers := map[string][]*Attempt{} // by checksum of the content
	for i := range record {
		if a := &record[i]; a.Files != nil {
			for content := range a.Files.contents() {
				askers[content] = append(askers[content], a)
			}
		}
	}
	granted, released := l.grants()
	last := map[string]uint64{}
	for r, e := range l.events {
		if e.File == nil || e.Type == lockapi.EventFileDeleted {
			continue
		}
		content := e.File.SHA256
		if other := last[content]; other != 0 {
			l.bad("one write happened at revision %d and at %d: %s", min(r, other), max(r, other), l.texts[r])
		}
		last[content] = r
		if !slices.ContainsFunc(askers[content], mayHaveHappened) {
			l.bad("%s was not requested, or was answered to have had no effect", l.texts[r])
			continue
		}
		l.guarded(askers[content][0], r, granted, released)
	}
	for i := range record {
		if a := &record[i]; a.Files != nil && (a.Kind == Delete || a.Kind == DeleteBelow) {
			for _, r := range a.changes() {
				l.guarded(a, r, granted, released)
			}
		}
	}
}

func mayHaveHappened(a *Attempt) bool { return a.Outcome == Done || a.Outcome == Unknown }

// guarded finds a change that was made while its guard was not held.
func (l *eventLog) guarded(a *Attempt, revision uint64, granted, released map[uint64]*lockapi.CellEvent) {
	guards := slices.Clone(a.Files.Guards)
	if len(a.Files.Else) == 0 { // so Then was executed
		for i := range a.Files.If {
			guards = append(guards, a.Files.If[i].Sequencer)
		}
	}
	for _, guard := range guards {
		q, err := lockapi.ParseSequencer(guard)
		if err != nil {
			continue
		}
		from, until := granted[q.Token], released[q.Token]
		if from == nil || from.Path != q.Path || from.Revision > revision {
			l.bad("revision %d happened before its guard %s was granted: %v", revision, guard, a)
		}
		if until != nil && until.Revision < revision {
			l.bad("revision %d happened after its guard %s had ended with revision %d: %v", revision, guard, until.Revision, a)
		}
	}
}
