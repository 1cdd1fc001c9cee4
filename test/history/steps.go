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

// builder turns the attempts on a part of the cell into porcupine operations.
type builder struct {
	sessions map[string]*life
	ops      []porcupine.Operation
	involved map[string]map[string]int64 // by session: lock-delays in ms that its end may begin, by hold
	unseen   bool                        // include possible effects that no answer showed
}

func newBuilder(sessions map[string]*life, unseen bool) *builder {
	return &builder{sessions: sessions, unseen: unseen, involved: map[string]map[string]int64{}}
}

// lockBuilder turns the attempts on one path into porcupine operations.
type lockBuilder struct {
	*builder
	attempts []*Attempt
	pairs    map[string]*pairRecord
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
	b := &lockBuilder{newBuilder(sessions, unseen), attempts, map[string]*pairRecord{}}
	for _, a := range attempts {
		b.note(a)
	}
	for _, a := range attempts {
		b.observe(a)
	}
	for who, c := range b.pairs {
		b.grants(who, c)
	}
	return b.finish()
}

// note collects what an attempt shows of pairs.
func (b *lockBuilder) note(a *Attempt) {
	for _, h := range a.Holders {
		b.pair(h.Session, h.Handle).see(h.Token, a.Return)
	}
	if a.Kind != Acquire && a.Kind != Release {
		return
	}
	delays := b.involve(a.Session)
	c := b.pair(a.Session, a.Handle)
	if a.Kind == Release {
		if a.Outcome == Unknown {
			c.lost = append(c.lost, a)
		}
		return
	}
	c.waits, c.delayMS = c.waits || a.waits() && a.Outcome != NoEffect, a.DelayMS
	delays[a.who()] = a.DelayMS
	c.mode, c.limit = a.Mode, a.Limit
	switch a.Outcome {
	case Done:
		c.granted = append(c.granted, a)
		c.see(a.Token, a.Return)
	case Queued, Unknown:
		c.open = append(c.open, a)
	}
}

func (b *lockBuilder) pair(session, handle string) *pairRecord {
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
func (b *lockBuilder) observe(a *Attempt) {
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
func (b *lockBuilder) mayWait(refused *Attempt) bool {
	return slices.ContainsFunc(b.attempts, func(a *Attempt) bool {
		end := a.Return
		if a.Outcome == Queued || a.Outcome == Unknown {
			end = forever
		}
		return a.waits() && a.Outcome != NoEffect && a.Call < refused.Return && end > refused.Call && a.who() != refused.who()
	})
}

// involve notes a session that the attempts involve, and returns its lock-delays.
func (b *builder) involve(session string) map[string]int64 {
	if b.involved[session] == nil {
		b.involved[session] = map[string]int64{}
	}
	return b.involved[session]
}

// sessionEnds adds the steps in which a session, and the lock-delays after it,
// may end.
func (b *builder) sessionEnds(id string, delays map[string]int64) {
	l := b.sessions[id]
	if l == nil {
		return // opened before the record began, and no call found it closed or ended
	}
	delayed := l.leaseEnd // or later
	for _, c := range l.closes {
		s := step{kind: closing, session: id}
		if c.Delays {
			s.kind, delayed = expiry, min(delayed, c.Call)
		}
		if c.Outcome == Unknown {
			b.maybe(c.Call, s)
		} else {
			b.add(c.Call, c.Return, s)
		}
	}
	if expired := (step{kind: expiry, session: id}); len(l.closes) == 0 && l.missed != forever {
		b.add(l.leaseEnd, max(l.leaseEnd, l.missed), expired)
	} else {
		b.maybe(l.leaseEnd, expired)
	}
	for who, ms := range delays {
		if ms > 0 {
			b.maybe(delayed+ms*1e6, step{kind: delayOver, session: id, who: who})
		}
	}
}

// finish adds the ends of the sessions, and the end of the record after all
// steps. It gives each session a row of its own in the picture. It drops effects
// that an answer showed before their request: that answer does not fit without
// them.
func (b *builder) finish() []porcupine.Operation {
	for id, delays := range b.involved {
		b.sessionEnds(id, delays)
	}
	ops := slices.DeleteFunc(b.ops, func(op porcupine.Operation) bool { return op.Return < op.Call })
	last := int64(0)
	rows := map[string]int{}
	for i := range ops {
		op := &ops[i]
		last = max(last, op.Call)
		if op.Return != forever {
			last = max(last, op.Return)
		}
		session := op.Input.(*step).session
		if _, ok := rows[session]; !ok {
			rows[session] = len(rows)
		}
		op.ClientId = rows[session]
	}
	ops = append(ops, porcupine.Operation{Input: &step{kind: end}, Call: last + 1, Return: last + 2})
	for i := range ops {
		ops[i].Return = min(ops[i].Return, last+3)
	}
	slices.SortStableFunc(ops, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
	return ops
}
