package history

import (
	"cmp"
	"fmt"
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
	for op, r := range a.Files.executed() {
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
		a := &record[i]
		if a.Files != nil {
			for content := range a.Files.contents() {
				askers[content] = append(askers[content], a)
			}
		}
		if a.Keys != nil {
			for j := range a.Keys.Operations {
				content := sum(a.Keys.Operations[j].Content)
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
		if other := last[content]; other != 0 && !l.keys[dirOf(e.Path)] { // the end of a hold writes a key again
			l.bad("one write happened at revision %d and at %d: %s", min(r, other), max(r, other), l.texts[r])
		}
		last[content] = r
		if !slices.ContainsFunc(askers[content], mayHaveHappened) {
			l.bad("%s was not requested, or was answered to have had no effect", l.texts[r])
			continue
		}
		if askers[content][0].Files == nil {
			continue
		}
		l.checkGuards(askers[content][0], r, granted, released)
	}
	for i := range record {
		if a := &record[i]; a.Files != nil && (a.Kind == Delete || a.Kind == DeleteBelow) {
			for _, r := range a.changes() {
				l.checkGuards(a, r, granted, released)
			}
		}
	}
}

// requested finds grants and deletions that no call asked for, or only calls
// without effect. Others than the recorded clients acquire locks, but they
// delete no files.
func (l *eventLog) requested(record []Attempt) {
	acquired, deleted := map[string]bool{}, map[string]bool{} // whether a call may have done it
	for i := range record {
		a := &record[i]
		may := mayHaveHappened(a)
		if a.Kind == Acquire {
			hold := a.Path + " " + a.who()
			// A waiting call may miss a short hold.
			acquired[hold] = acquired[hold] || may || a.Outcome == Queued || a.waits() && a.Outcome != NoEffect
		}
		if a.Files != nil {
			for _, hold := range a.acquires() {
				acquired[hold] = acquired[hold] || may
			}
			for op := range a.Files.operations() {
				if op.Delete != nil {
					deleted[op.Delete.Path] = deleted[op.Delete.Path] || may
				}
			}
			if a.Kind == DeleteBelow {
				deleted[a.Files.Below] = deleted[a.Files.Below] || may
			}
		}
		if a.Keys == nil {
			continue
		}
		for _, op := range a.Keys.Operations {
			switch op.Verb {
			case lockapi.KeyLock:
				hold := op.Path + " " + pair(op.Session, "")
				acquired[hold] = acquired[hold] || may
			case lockapi.KeyDelete, lockapi.KeyDeleteCAS:
				deleted[op.Path] = deleted[op.Path] || may
			}
		}
	}
	for r, e := range l.events {
		if e.Type == lockapi.EventLockAcquired {
			if may, asked := acquired[e.Path+" "+pair(e.Hold.Session, e.Hold.Handle)]; asked && !may {
				l.bad("%s was answered to have had no effect", l.texts[r])
			}
		}
		if e.Type != lockapi.EventFileDeleted || e.Reason != lockapi.ReasonDeleted {
			continue
		}
		path := e.Path
		for path != "" && !deleted[path] {
			path = dirOf(strings.TrimSuffix(path, "/"))
		}
		if path == "" {
			l.bad("%s was not requested, or was answered to have had no effect", l.texts[r])
		}
	}
}

func mayHaveHappened(a *Attempt) bool { return a.Outcome == Done || a.Outcome == Unknown }

// checkGuards finds a change that was made while its guard was not held.
func (l *eventLog) checkGuards(a *Attempt, revision uint64, granted, released map[uint64]*lockapi.CellEvent) {
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

// keysShown finds answers about keys that differ from the state that the events
// describe at the index of the answer: stale ones, too.
func (l *eventLog) keysShown(record []Attempt) {
	var read []*Attempt
	for i := range record {
		if a := &record[i]; a.Kind == KeyRead && a.Outcome == Done {
			read = append(read, a)
		}
	}
	slices.SortStableFunc(read, func(x, y *Attempt) int { return cmp.Compare(x.Keys.Index, y.Keys.Index) })
	if n := len(read); n > 0 && l.upTo > 0 && read[n-1].Keys.Index > l.upTo {
		l.bad("a read shows the index %d, but the events end at %d: %v", read[n-1].Keys.Index, l.upTo, read[n-1])
	}
	files, holders, at := map[string]*lockapi.CellEvent{}, map[string]string{}, uint64(0)
	for _, a := range read {
		for ; at < a.Keys.Index; at++ {
			e := l.events[at+1]
			switch {
			case e == nil:
				return // a gap: the state after it is unknown
			case e.Type == lockapi.EventFileDeleted:
				delete(files, e.Path)
			case e.File != nil && l.keys[dirOf(e.Path)]:
				files[e.Path] = e
			case e.Type == lockapi.EventLockAcquired:
				holders[e.Path] = e.Hold.Session
			case e.Type == lockapi.EventLockReleased:
				delete(holders, e.Path)
			}
		}
		op, want := &a.Keys.Operations[0], []string{}
		for path := range files {
			if path == op.Path || op.Verb == lockapi.KeyGetTree && strings.HasPrefix(path, op.Path) {
				f := files[path].File
				want = append(want, fmt.Sprint(path, f.SHA256, f.Instance, f.Revision, holders[path]))
			}
		}
		slices.Sort(want)
		if !slices.EqualFunc(a.Keys.Found, want, func(k lockapi.Key, want string) bool {
			return fmt.Sprint(k.Path, sum(k.Content), k.CreateIndex, k.ModifyIndex, k.Session) == want
		}) {
			l.bad("a read at the index %d shows what the events do not: %v; the events have %q", a.Keys.Index, a, want)
		}
	}
}
