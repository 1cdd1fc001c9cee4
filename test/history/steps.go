package history

import (
	"cmp"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/stoutlock/stout/lockapi"
)

// forever is the return time of a step that may happen at any time after its
// call.
const forever = math.MaxInt64

// builder turns the attempts on one path into porcupine operations.
type builder struct {
	sessions map[string]*life
	attempts []*Attempt
	ops      []porcupine.Operation
	pairs    map[string]*pairRecord
	involved map[string]bool // sessions
	unseen   bool            // include possible effects that no answer showed
}

// pairRecord is what the record shows of one pair on the path.
type pairRecord struct {
	granted []*Attempt       // answered with a grant
	open    []*Attempt       // 202, or of unknown outcome, in the order of their call
	lost    []*Attempt       // releases of unknown outcome
	seen    map[uint64]int64 // tokens in answers, and the time by which each was certainly granted
	waits   bool             // some acquire may have waited
	delayMS int64            // requested lock-delay
	mode    lockapi.Mode
	limit   int64
	session string
}

// operations returns the steps of a path's attempts, which are in the order of
// their calls. Without unseen, an attempt of unknown outcome has no effect
// unless an answer showed one. That is one possible course, and it usually
// explains a correct record. Otherwise the many other courses must be tried.
func operations(attempts []*Attempt, sessions map[string]*life, unseen bool) []porcupine.Operation {
	b := &builder{sessions: sessions, attempts: attempts, unseen: unseen, pairs: map[string]*pairRecord{}, involved: map[string]bool{}}
	for _, a := range attempts {
		b.note(a)
	}
	for _, a := range attempts {
		b.observe(a)
	}
	for who, c := range b.pairs {
		b.grants(who, c)
	}
	for id := range b.involved {
		b.sessionEnds(id)
	}
	return b.finish()
}

// note collects what an attempt shows of pairs.
func (b *builder) note(a *Attempt) {
	for _, h := range a.Holders {
		b.pair(h.Session, h.Handle).see(h.Token, a.Return)
	}
	if a.Kind != Acquire && a.Kind != Release {
		return
	}
	b.involved[a.Session] = true
	c := b.pair(a.Session, a.Handle)
	if a.Kind == Release {
		if a.Outcome == Unknown {
			c.lost = append(c.lost, a)
		}
		return
	}
	c.waits, c.delayMS = c.waits || a.waits() && a.Outcome != NoEffect, a.DelayMS
	c.mode, c.limit = a.Mode, a.Limit
	switch a.Outcome {
	case Done:
		c.granted = append(c.granted, a)
		c.see(a.Token, a.Return)
	case Queued, Unknown:
		c.open = append(c.open, a)
	}
}

func (b *builder) pair(session, handle string) *pairRecord {
	who := pair(session, handle)
	c := b.pairs[who]
	if c == nil {
		c = &pairRecord{session: session, seen: map[uint64]int64{}}
		b.pairs[who] = c
	}
	return c
}

func (c *pairRecord) see(token uint64, at int64) {
	if first, known := c.seen[token]; !known || at < first {
		c.seen[token] = at
	}
}

// add adds a step that happened between call and end.
func (b *builder) add(call, end int64, s step) {
	b.ops = append(b.ops, porcupine.Operation{Input: &s, Call: call, Return: end})
}

// maybe adds a step that may have happened at any time after call, or not at
// all.
func (b *builder) maybe(call int64, s step) {
	s.maybe = true
	b.add(call, forever, s)
}

// observe adds the steps in which an attempt read or changed something. Grants
// follow in grants.
func (b *builder) observe(a *Attempt) {
	in := func(s step) {
		if s.session == "" {
			s.session = a.Session
		}
		b.add(a.Call, a.Return, s)
	}
	if a.Outcome == Gone && (a.Kind == Acquire || a.Kind == Release) {
		in(step{kind: gone})
		return
	}
	switch a.Kind {
	case Acquire:
		if a.Outcome == Queued {
			in(step{kind: place, who: a.who()})
		}
		if a.Outcome != Refused {
			return
		}
		for _, h := range a.Holders {
			in(step{kind: confirm, session: h.Session, who: pair(h.Session, h.Handle), token: h.Token})
		}
		if a.waits() {
			in(step{kind: leave, who: a.who()})
			return
		}
		in(step{kind: refuse, who: a.who(), mode: a.Mode, limit: a.Limit, queued: a.Mode == lockapi.Shared && b.mayWait(a)})
	case Release:
		s := step{kind: release, session: a.Session, who: a.who(), token: a.Token, queued: b.pair(a.Session, a.Handle).waits}
		switch a.Outcome {
		case Done:
			in(s)
		case Nothing:
			s.kind = releaseNone
			in(s)
		}
	case Read:
		if a.Outcome == Done {
			in(step{kind: read, state: a.State, holders: holdersOf(a)})
		}
	case Sequencer:
		switch a.Outcome {
		case Done:
			in(step{kind: valid, token: a.Token, mode: a.Mode})
		case Nothing:
			in(step{kind: invalid, token: a.Token, mode: a.Mode})
		}
	}
}

func holdersOf(a *Attempt) []holder {
	var all []holder
	for _, h := range a.Holders {
		all = append(all, holder{pair(h.Session, h.Handle), h.Token, h.Mode})
	}
	slices.SortFunc(all, func(x, y holder) int { return cmp.Compare(x.who, y.who) })
	return all
}

// mayWait reports whether a queue position may have blocked a shared request:
// one that overlaps it in time.
func (b *builder) mayWait(refused *Attempt) bool {
	return slices.ContainsFunc(b.attempts, func(a *Attempt) bool {
		end := a.Return
		if a.Outcome == Queued || a.Outcome == Unknown {
			end = forever
		}
		return a.waits() && a.Outcome != NoEffect && a.Call < refused.Return && end > refused.Call && a.who() != refused.who()
	})
}

// sessionEnds adds the steps in which a session may end.
func (b *builder) sessionEnds(id string) {
	l := b.sessions[id]
	if l == nil {
		return // opened before the record began, and no call found it closed or ended
	}
	for _, c := range l.closes {
		if c.Outcome == Unknown {
			b.maybe(c.Call, step{kind: closing, session: id})
		} else {
			b.add(c.Call, c.Return, step{kind: closing, session: id})
		}
	}
	if expired := (step{kind: expiry, session: id}); len(l.closes) == 0 && l.missed != forever {
		b.add(l.leaseEnd, max(l.leaseEnd, l.missed), expired)
	} else {
		b.maybe(l.leaseEnd, expired)
	}
	for who, c := range b.pairs {
		if c.session == id && c.delayMS > 0 {
			b.maybe(l.leaseEnd+c.delayMS*1e6, step{kind: delayOver, session: id, who: who})
		}
	}
}

// finish adds the end of the record after everything.
func (b *builder) finish() []porcupine.Operation {
	return finish(b.ops, &step{kind: end}, func(input any) string { return input.(*step).session })
}

// finish adds the end of a record after all its steps, and gives each session a
// row of its own in the picture. It drops effects that an answer showed before
// their request: that answer does not fit without them.
func finish(ops []porcupine.Operation, theEnd any, sessionOf func(input any) string) []porcupine.Operation {
	ops = slices.DeleteFunc(ops, func(op porcupine.Operation) bool { return op.Return < op.Call })
	last := int64(0)
	rows := map[string]int{}
	for i := range ops {
		op := &ops[i]
		last = max(last, op.Call)
		if op.Return != forever {
			last = max(last, op.Return)
		}
		session := sessionOf(op.Input)
		if _, ok := rows[session]; !ok {
			rows[session] = len(rows)
		}
		op.ClientId = rows[session]
	}
	ops = append(ops, porcupine.Operation{Input: theEnd, Call: last + 1, Return: last + 2})
	for i := range ops {
		ops[i].Return = min(ops[i].Return, last+3)
	}
	slices.SortStableFunc(ops, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
	return ops
}
