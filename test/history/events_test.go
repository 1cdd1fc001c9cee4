package history

import (
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// The history below is about one file and one lock. The lock is granted, the
// file is written under it twice and deleted, the lock is released, and the
// file is created again.

func fileEvent(typ lockapi.EventType, f *lockapi.File, revision uint64) lockapi.CellEvent {
	e := lockapi.CellEvent{Revision: revision, Type: typ, Path: f.Path, File: f}
	if typ == lockapi.EventFileDeleted {
		e.Reason = lockapi.ReasonDeleted
	}
	return e
}

func lockEvent(typ lockapi.EventType, session string, token, revision uint64) lockapi.CellEvent {
	return lockapi.CellEvent{Revision: revision, Type: typ, Path: "/k",
		Hold: &lockapi.EventHold{Session: session, Mode: lockapi.Exclusive, Token: token}}
}

var (
	x2, y3, z6 = stat("/f", "x", 2, 2, 1), stat("/f", "y", 3, 2, 2), stat("/f", "z", 6, 6, 1)

	happened = []lockapi.CellEvent{
		lockEvent(lockapi.EventLockAcquired, "A", 1, 1),
		fileEvent(lockapi.EventFileCreated, x2, 2),
		fileEvent(lockapi.EventFileChanged, y3, 3),
		fileEvent(lockapi.EventFileDeleted, y3, 4),
		lockEvent(lockapi.EventLockReleased, "A", 1, 5),
		fileEvent(lockapi.EventFileCreated, z6, 6),
	}
)

// answered returns a record that agrees with it.
func answered() []Attempt {
	return []Attempt{take("A", 1), put("x", x2, guard(1)), put("y", nil, guard(1), came(Unknown)), get(y3, 3), del(4, guard(1)), giveBack("A", 1, 5), put("z", z6)}
}

// scene is the events that two watchers received, and the answers.
type scene struct {
	told   []Told
	record []Attempt
}

func upright() *scene {
	return &scene{[]Told{{Watcher: "w1", Events: slices.Clone(happened)}, {Watcher: "w2", Events: slices.Clone(happened), UpTo: 6}}, dated(answered())}
}

func (s *scene) without(watcher int, revision uint64) {
	s.told[watcher].Events = slices.DeleteFunc(s.told[watcher].Events, func(e lockapi.CellEvent) bool { return e.Revision == revision })
}

func (s *scene) everybody(change func(events []lockapi.CellEvent) []lockapi.CellEvent) {
	for i := range s.told {
		s.told[i].Events = change(s.told[i].Events)
	}
}

// noEffect makes an attempt one that certainly had no effect.
func noEffect(a *Attempt) { a.Outcome, a.Files.Result = NoEffect, nil }

func ofF(a *Attempt) { a.Path, a.Keys.Operations[0].Path = "/f", "/f" }
func ofK(a *Attempt) { a.Path, a.Keys.Operations[0].Path = "/k", "/k" }

func TestRightEvents(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"as it was":         func(*scene) {},
		"one is behind":     func(s *scene) { s.told[0].Events = s.told[0].Events[:3] },
		"a lost grant":      func(s *scene) { s.record[0] = dated([]Attempt{acquire("A/", on("/k"), unknown)})[0] },
		"a missed grant":    func(s *scene) { s.record[0] = dated([]Attempt{acquire("A/", on("/k"), waiting, refused)})[0] },
		"a grant to others": func(s *scene) { s.record = slices.Delete(s.record, 0, 1) },
		"a lost deletion":   func(s *scene) { s.record[4].Outcome, s.record[4].Files.Result = Unknown, nil },
		"a lost emptying": func(s *scene) {
			s.record[4] = dated([]Attempt{empty(0, 0, unknown, func(a *Attempt) { a.Files.Below = "/" })})[0]
		},
		"a key's deletion":   func(s *scene) { s.record[4] = dated([]Attempt{keyDelete(ofF)})[0] },
		"one reported a gap": func(s *scene) { s.without(0, 3); s.told[0].Missed = []Span{{2, 3}} },
		"both missed it":     func(s *scene) { s.record = nil; s.told = []Told{{UpTo: 9, Missed: []Span{{0, 9}}}} },
	} {
		s := upright()
		change(s)
		if problems := CheckEvents(s.record, s.told); len(problems) > 0 {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

// TestBrokenEvents: every kind of fault is found by the part meant for it.
func TestBrokenEvents(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		says   string
	}{
		"a gap":            {func(s *scene) { s.without(0, 3) }, "w1 did not receive {"},
		"a gap at the end": {func(s *scene) { s.without(1, 6) }, "w2 did not receive {"},
		"a gap for all":    {func(s *scene) { s.without(0, 3); s.without(1, 3) }, "did not receive the event of revision 3"},
		"told twice":       {func(s *scene) { s.told[0].Events = slices.Insert(s.told[0].Events, 2, s.told[0].Events[1]) }, "revision 2 after 2"},
		"out of order":     {func(s *scene) { e := s.told[0].Events; e[1], e[2] = e[2], e[1] }, "revision 2 after 3"},
		"two histories": {func(s *scene) {
			s.told[0].Events[1] = fileEvent(lockapi.EventFileCreated, stat("/f", "other", 2, 2, 1), 2)
		}, "another watcher"},
		"another content":         {func(s *scene) { s.record[1].Files.Result.Results[0].File = stat("/f", "q", 2, 2, 1) }, "reports revision 2"},
		"another revision":        {func(s *scene) { s.record[1].Files.Result.Results[0].File = stat("/f", "x", 9, 9, 1) }, "reports revision 9"},
		"read a missing revision": {func(s *scene) { s.record[3].Files.Result.Results[0].File = stat("/f", "y", 4, 2, 2) }, "reports revision 4"},
		"no deletion":             {func(s *scene) { s.record[4].Files.Result.Results[0].Deleted.Revision = 5 }, "reports the deletion 5"},
		"no grant":                {func(s *scene) { s.record[0] = take("A", 7) }, "no event reports the grant of token 7"},
		"another's grant":         {func(s *scene) { s.record[0] = take("B", 1) }, "no event reports the grant of token 1"},
		"no release":              {func(s *scene) { s.record = append(s.record, free("A/1", token(8))) }, "no event reports the release"},
		"nobody asked":            {func(s *scene) { s.record = s.record[:6] }, "was not requested"},
		"had no effect":           {func(s *scene) { s.record[6].Outcome = NoEffect }, "answered to have had no effect"},
		"a grant without effect":  {func(s *scene) { noEffect(&s.record[0]) }, `"token":1} was answered to have had no effect`},
		"a wait without effect": {func(s *scene) {
			s.record[0] = dated([]Attempt{acquire("A/", on("/k"), waiting, came(NoEffect))})[0]
		}, `"token":1} was answered to have had no effect`},
		"a refusal with a grant": {func(s *scene) {
			s.record[0] = dated([]Attempt{acquire("A/", on("/k"), refused)})[0]
		}, `"token":1} was answered to have had no effect`},
		"a deletion without effect": {func(s *scene) { noEffect(&s.record[4]) }, "file_deleted"},
		"an emptying without effect": {func(s *scene) {
			s.record[4] = dated([]Attempt{empty(0, 0, came(NoEffect), func(a *Attempt) { a.Files.Below = "/" })})[0]
		}, "file_deleted"},
		"a key's deletion without effect": {func(s *scene) { s.record[4] = dated([]Attempt{keyDelete(ofF, refused)})[0] }, "file_deleted"},
		"a key's lock without effect":     {func(s *scene) { s.record[0] = dated([]Attempt{keyLock("A", "x", goneAnswer, ofK)})[0] }, `"token":1} was`},
		"a deletion elsewhere": {func(s *scene) {
			s.record[4] = dated([]Attempt{empty(0, 0, unknown), delOf(0, "/g")})[0]
		}, "file_deleted"},
		"written twice": {func(s *scene) {
			s.everybody(func(all []lockapi.CellEvent) []lockapi.CellEvent {
				return append(all, fileEvent(lockapi.EventFileChanged, stat("/f", "z", 7, 6, 2), 7))
			})
		}, "one write happened at revision 6 and at 7"},
		"a late holder":      {func(s *scene) { guard(1)(&s.record[6]) }, "after its guard exclusive:1:/k had ended with revision 5"},
		"a late transaction": {func(s *scene) { s.record[6].Files.If = []lockapi.Condition{{Sequencer: "exclusive:1:/k"}} }, "after its guard"},
		"an early holder":    {func(s *scene) { guard(9)(&s.record[1]) }, "before its guard exclusive:9:/k was granted"},
		"a late deletion": {func(s *scene) {
			s.everybody(func(all []lockapi.CellEvent) []lockapi.CellEvent {
				all[3], all[4] = lockEvent(lockapi.EventLockReleased, "A", 1, 4), fileEvent(lockapi.EventFileDeleted, y3, 5)
				return all
			})
			s.record[4] = dated([]Attempt{del(5, guard(1))})[0]
		}, "revision 5 happened after its guard"},
		"created twice": {func(s *scene) {
			s.everybody(func(all []lockapi.CellEvent) []lockapi.CellEvent { all[2].Type = lockapi.EventFileCreated; return all })
		}, "cannot follow"},
		"two holders": {func(s *scene) {
			s.everybody(func(all []lockapi.CellEvent) []lockapi.CellEvent {
				return slices.Insert(all[:4:4], 4, lockEvent(lockapi.EventLockAcquired, "B", 2, 5))
			})
		}, "is held"},
		"a deletion of nothing": {func(s *scene) {
			s.everybody(func(all []lockapi.CellEvent) []lockapi.CellEvent {
				return append(all, fileEvent(lockapi.EventFileDeleted, stat("/h", "x", 7, 7, 1), 7))
			})
		}, "cannot follow"},
	} {
		s := upright()
		c.change(s)
		if all := strings.Join(CheckEvents(s.record, s.told), "; "); !strings.Contains(all, c.says) {
			t.Errorf("%s: found %q, want %q", name, all, c.says)
		}
	}
}
