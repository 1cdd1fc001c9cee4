package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// Told is the stream of all of the cell's events that a watcher received, from
// whichever replicas and after any number of resumptions.
type Told struct {
	Watcher string              `json:"watcher"`
	UpTo    uint64              `json:"up_to"` // every event up to it was received
	Events  []lockapi.CellEvent `json:"events"`
	Missed  []Span              `json:"missed,omitempty"` // revisions that were no longer kept
}

// Span is the revisions after After up to and including UpTo.
type Span struct {
	After uint64 `json:"after"`
	UpTo  uint64 `json:"up_to"`
}

// mustHave reports whether the watcher must have received a revision.
func (t *Told) mustHave(revision uint64) bool {
	return revision <= t.UpTo && !slices.ContainsFunc(t.Missed, func(s Span) bool { return s.After < revision && revision <= s.UpTo })
}

// CheckEvents compares the events that watchers received from revision 1 on.
// They must be one history, the same for all, with an event for each revision.
// The record's answers must agree with it.
func CheckEvents(record []Attempt, told []Told) (problems []string) {
	log := &eventLog{events: map[uint64]*lockapi.CellEvent{}, texts: map[uint64]string{}, keys: map[string]bool{}}
	for i := range record {
		if a := &record[i]; a.Keys != nil {
			log.keys[dirOf(a.Path)] = true
		}
	}
	for i := range told {
		log.add(&told[i])
	}
	for i := range told {
		log.compare(&told[i])
	}
	log.chain()
	log.answers(record)
	log.written(record)
	log.requested(record)
	log.keysShown(record)
	return log.problems
}

// eventLog is every event that any watcher received, by revision.
type eventLog struct {
	events   map[uint64]*lockapi.CellEvent
	texts    map[uint64]string
	upTo     uint64
	keys     map[string]bool // directories of keys
	problems []string
}

func (l *eventLog) bad(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// add adds the events of a watcher. They must be in order and agree with the
// events of the other watchers.
func (l *eventLog) add(t *Told) {
	last := uint64(0)
	for i := range t.Events {
		e := &t.Events[i]
		if e.Revision <= last {
			l.bad("%s received revision %d after %d", t.Watcher, e.Revision, last)
		}
		last = max(last, e.Revision)
		text, err := json.Marshal(e)
		if err != nil {
			l.bad("%s received something that is not an event: %v", t.Watcher, err)
		}
		if other, known := l.texts[e.Revision]; known && other != string(text) {
			l.bad("%s received %s, another watcher %s", t.Watcher, text, other)
		} else if !known {
			l.events[e.Revision], l.texts[e.Revision] = e, string(text)
		}
	}
	t.UpTo = max(t.UpTo, last)
	l.upTo = max(l.upTo, t.UpTo)
}

// compare finds events that a watcher missed. The contract promises an event
// for every revision.
func (l *eventLog) compare(t *Told) {
	has := map[uint64]bool{}
	for i := range t.Events {
		has[t.Events[i].Revision] = true
	}
	for r := uint64(1); r <= t.UpTo; r++ {
		if has[r] || !t.mustHave(r) {
			continue
		}
		if other, known := l.texts[r]; known {
			l.bad("%s did not receive %s", t.Watcher, other)
		} else {
			l.bad("%s did not receive the event of revision %d", t.Watcher, r)
		}
	}
}

// chain finds events that cannot follow each other: each must fit the state
// that the earlier ones left. It stops at a gap, since the state after it is
// unknown.
func (l *eventLog) chain() {
	files, holds := map[string]*lockapi.FileStat{}, map[string]map[uint64]lockapi.Mode{}
	last := uint64(0)
	for _, r := range slices.Sorted(maps.Keys(l.events)) {
		if r != last+1 {
			return
		}
		last = r
		e := l.events[r]
		switch {
		case e.File != nil:
			if before := files[e.Path]; !follows(e, before, l.keys[dirOf(e.Path)]) {
				l.bad("%s cannot follow %+v", l.texts[r], before)
			}
			if files[e.Path] = &e.File.FileStat; e.Type == lockapi.EventFileDeleted {
				delete(files, e.Path)
			}
		case e.Hold != nil:
			held := holds[e.Path]
			if held == nil {
				held = map[uint64]lockapi.Mode{}
				holds[e.Path] = held
			}
			if !admitted(e, held) {
				l.bad("%s cannot happen while %v is held", l.texts[r], held)
			}
			switch e.Type {
			case lockapi.EventLockAcquired:
				held[e.Hold.Token] = e.Hold.Mode
			case lockapi.EventLockReleased:
				delete(held, e.Hold.Token)
			}
		}
	}
}

// follows reports whether a file in the state before can have that event. The
// file of a key may end with a session that is not its own.
func follows(e *lockapi.CellEvent, before *lockapi.FileStat, ofKey bool) bool {
	switch e.Type {
	case lockapi.EventFileCreated:
		return before == nil && e.File.Instance == e.Revision && e.File.Generation == 1
	case lockapi.EventFileChanged:
		return before != nil && e.File.Instance == before.Instance && e.File.Generation == before.Generation+1
	}
	return before != nil && e.File.Instance == before.Instance && (ofKey || e.Reason != lockapi.ReasonSessionEnded || e.File.Session == before.Session && before.Session != "")
}

// admitted reports whether a lock with these holds can have that event.
func admitted(e *lockapi.CellEvent, held map[uint64]lockapi.Mode) bool {
	switch e.Type {
	case lockapi.EventLockAcquired:
		for token, mode := range held {
			if token >= e.Hold.Token || mode == lockapi.Exclusive || e.Hold.Mode == lockapi.Exclusive {
				return false
			}
		}
	case lockapi.EventLockReleased:
		return held[e.Hold.Token] == e.Hold.Mode
	}
	return true
}
