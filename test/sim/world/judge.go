package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/state"
)

// judge looks at the whole cell from outside, at every step of it. It has the
// committed log, replayed by itself: what each replica has applied is held
// against that.
type judge struct {
	w       *world
	looking bool
	instant time.Duration
	points  int // steps made at that instant

	history []*state.State // by index; nil where the entry is none of ours
	tokens  map[uint64]grant
	holds   map[pair]uint64          // the last token of each pair
	top     uint64                   // highest token so far
	told    uint64                   // index of the latest entry whose effect somebody was told of
	stored  map[uint64]raft.Log      // what disks had at each index, of the highest term
	ended   map[string]end           // by session
	delays  map[string]time.Duration // by path: until when nobody may be granted
	refused map[pair]string          // told that it had no effect: why
}

// grant is one hold, and what became of it.
type grant struct {
	hold  *state.Hold
	index uint64
	freed uint64 // index of its end, 0 while it lasts
}

type end struct {
	index   uint64
	expired bool
}

// pair is who holds, and where.
type pair struct{ session, path, handle string }

func newJudge(w *world) *judge {
	return &judge{
		w: w, history: []*state.State{state.New()}, tokens: map[uint64]grant{}, holds: map[pair]uint64{}, stored: map[uint64]raft.Log{}, ended: map[string]end{},
		delays: map[string]time.Duration{}, refused: map[pair]string{},
	}
}

// look is called at every step: it takes in what was committed since and checks
// what has to hold at any instant.
func (j *judge) look() {
	if j.looking || j.w.failed() {
		return
	}
	j.looking = true
	defer func() { j.looking = false }()
	for _, m := range j.w.machines {
		if p := m.process; p != nil && p.replica != nil {
			j.follow(p)
		}
	}
	j.leases()
}

// mostPoints is how many steps may be made at one instant: more, and somebody
// does the same again and again without waiting.
const mostPoints = 100_000

// spins fails the run where time stands still.
func (j *judge) spins(p *process) {
	if now := j.w.now(); now != j.instant {
		j.instant, j.points = now, 0
	}
	if j.points++; j.points == mostPoints {
		j.w.fail("%s does something over and over: %d steps at one instant", p.m.id, mostPoints)
		select {} // it would go on
	}
}

// follow takes in what a replica knows to be committed and what it has applied
// since the last look.
func (j *judge) follow(p *process) {
	h := p.replica.Health()
	for committed := h.Applied + h.Behind; uint64(len(j.history)) <= committed; {
		if _, there := p.m.disk.logs[uint64(len(j.history))]; !there || !j.replay(p) {
			break
		}
	}
	s := p.replica.State()
	if s == p.seen {
		return
	}
	p.seen = s
	for uint64(len(j.history)) <= s.Index {
		if !j.replay(p) {
			return
		}
	}
	own := j.history[s.Index]
	j.w.stats.check("applied state")
	switch {
	case own == nil:
		j.w.fail("%s says it has applied entry %d, which is not one of the office's", p.m.id, s.Index)
	case own.Epoch != s.Epoch || own.Seq != s.Seq || own.Counter != s.Counter || own.Term != s.Term:
		j.w.fail("%s has another state at entry %d than the log makes: epoch %d seq %d counter %d term %d, not %d %d %d %d",
			p.m.id, s.Index, s.Epoch, s.Seq, s.Counter, s.Term, own.Epoch, own.Seq, own.Counter, own.Term)
	case s.Index%8 == 0 && own.Hash() != s.Hash():
		j.w.fail("%s has another state at entry %d than the log makes", p.m.id, s.Index)
	}
}

// replay applies the next entry of the log to the judge's own state. p has
// applied it, so it is committed.
func (j *judge) replay(p *process) bool {
	index := uint64(len(j.history))
	l, ok := j.entry(p, index)
	if !ok {
		j.w.fail("no disk ever had entry %d, which %s has applied", index, p.m.id)
		return false
	}
	if l.Type != raft.LogCommand {
		j.history = append(j.history, nil)
		return true
	}
	batch, err := state.DecodeBatch(l.Data)
	if err != nil {
		j.w.fail("entry %d: %v", index, err)
		return false
	}
	before := j.latest()
	after, out := before.Apply(index, l.Term, batch)
	j.history = append(j.history, after)
	j.w.stats.Entries++
	j.w.trace.mark("entry", index)
	if j.w.opts.Trace {
		j.w.trace.note("log", "entry %d, term %d: %s", index, l.Term, describe(batch, out))
	}
	j.admission(before, l.Term, batch, out)
	j.transition(before, after, batch, out)
	return !j.w.failed()
}

// entry finds a committed entry: p has applied it, and it or another has it yet,
// or had it.
func (j *judge) entry(p *process, index uint64) (raft.Log, bool) {
	if l, ok := p.m.disk.logs[index]; ok {
		return l, true
	}
	for _, m := range j.w.machines {
		if l, ok := m.disk.logs[index]; ok {
			return l, true
		}
	}
	l, ok := j.stored[index] // all have a snapshot that stands for it
	return l, ok
}

// wrote notes what was written to a disk.
func (j *judge) wrote(l raft.Log) {
	if l.Term >= j.stored[l.Index].Term {
		j.stored[l.Index] = l
	}
}

// admission: a batch is accepted only in the office and the raft term that it
// was made for.
func (j *judge) admission(before *state.State, term uint64, b state.Batch, out state.Outcome) {
	if !out.Accepted {
		return
	}
	if len(b.Commands) == 1 && b.Commands[0].Kind == state.OpenOffice {
		if b.Commands[0].Term != term {
			j.w.fail("entry %d of term %d opens an office that was meant for term %d", out.Index, term, b.Commands[0].Term)
		}
		return
	}
	if o := before.Office; !o.Open || o.Term != term || before.Epoch != b.Epoch {
		j.w.fail("entry %d of term %d and epoch %d is accepted in an office of term %d and epoch %d (open: %v)",
			out.Index, term, b.Epoch, o.Term, before.Epoch, o.Open)
	}
}

// transition checks one step of the committed state.
func (j *judge) transition(before, after *state.State, b state.Batch, out state.Outcome) {
	j.w.stats.check("transition")
	if err := after.Check(); err != nil {
		j.w.fail("after entry %d: %v", after.Index, err)
	}
	if after.Epoch != before.Epoch {
		j.office(before, after)
	}
	for _, h := range grants(out) {
		j.granted(before, after, h)
	}
	for i := range out.Events {
		j.event(after, &out.Events[i])
	}
	j.releases(before, b)
}

// releases: a release that names a token ends no other grant.
func (j *judge) releases(before *state.State, b state.Batch) {
	for i := range b.Commands {
		c := &b.Commands[i]
		if c.Kind != state.Release || c.Token == 0 || len(b.Commands) != 1 {
			continue
		}
		hold, _ := before.Claim(c.Session, c.Path, c.Handle)
		if hold == nil || hold.Token == c.Token {
			continue
		}
		j.w.stats.check("late release")
		if j.tokens[hold.Token].freed != 0 {
			j.w.fail("a release of token %d ends the hold with token %d of %s/%s at %s", c.Token, hold.Token, c.Session, c.Handle, c.Path)
		}
	}
}

// grants are those that a batch made or told of, in the order of their tokens.
func grants(out state.Outcome) []*state.Hold {
	var all []*state.Hold
	for i := range out.Results {
		if r := &out.Results[i]; r.Verdict == state.Held && r.Hold != nil {
			all = append(all, r.Hold)
		}
	}
	for i := range out.Events {
		if e := &out.Events[i]; e.Kind == state.EventGranted {
			all = append(all, e.Hold)
		}
	}
	slices.SortFunc(all, func(a, b *state.Hold) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

func (j *judge) office(before, after *state.State) {
	j.w.stats.Offices++
	if after.Epoch != before.Epoch+1 || !after.Office.Open {
		j.w.fail("entry %d: epoch %d follows %d", after.Index, after.Epoch, before.Epoch)
	}
	now := j.w.now()
	for l := range after.Locks("", "") {
		if l.DelayID != 0 { // a new office starts each lock-delay anew
			j.delays[l.Path] = now + time.Duration(l.DelayMS)*time.Millisecond
		}
	}
}

// granted checks a grant that is told of in a result or an event.
func (j *judge) granted(before, after *state.State, h *state.Hold) {
	if known, ok := j.tokens[h.Token]; ok {
		if known.freed != 0 || *known.hold != *h {
			j.w.fail("entry %d: token %d is granted to %s/%s at %s; it was %s/%s's at %s from entry %d to %d",
				after.Index, h.Token, h.Session, h.Handle, h.Path, known.hold.Session, known.hold.Handle, known.hold.Path, known.index, known.freed)
		}
		return
	}
	j.w.stats.check("grant")
	who := pair{h.Session, h.Path, h.Handle}
	if other := j.tokens[j.holds[who]]; other.hold != nil && other.freed == 0 {
		j.w.fail("entry %d: %s/%s gets %s with token %d, and holds it with token %d", after.Index, h.Session, h.Handle, h.Path, h.Token, other.hold.Token)
	}
	j.tokens[h.Token], j.holds[who] = grant{hold: h, index: after.Index}, h.Token
	if h.Token <= j.top {
		j.w.fail("entry %d: token %d is granted after %d", after.Index, h.Token, j.top)
	}
	j.top = h.Token
	if e, gone := j.ended[h.Session]; gone {
		j.w.fail("entry %d: %s is granted to session %s, which ended with entry %d", after.Index, h.Path, h.Session, e.index)
	}
	if until := j.delays[h.Path]; j.w.now() < until {
		j.w.fail("entry %d: %s is granted %v before its lock-delay is over", after.Index, h.Path, until-j.w.now())
	}
	if why, no := j.refused[who]; no {
		j.w.fail("entry %d: %s is granted to %s/%s, which was told %s", after.Index, h.Path, h.Session, h.Handle, why)
	}
	j.queueOrder(before, after, h)
}

// queueOrder: nobody who came earlier is left behind.
func (j *judge) queueOrder(before, after *state.State, h *state.Hold) {
	for w := range before.Queue(h.Path) {
		if h.WaitSeq != 0 && w.Seq >= h.WaitSeq {
			return
		}
		if _, still := after.Claim(w.Session, w.Path, w.Handle); still != nil && still.Seq == w.Seq {
			j.w.fail("entry %d: %s is granted to place %d although place %d came earlier and waits", after.Index, h.Path, h.WaitSeq, w.Seq)
			return
		}
	}
}

func (j *judge) event(after *state.State, e *state.Event) {
	switch e.Kind {
	case state.EventReleased:
		g := j.tokens[e.Hold.Token]
		g.freed = after.Index
		j.tokens[e.Hold.Token] = g
	case state.EventEnded:
		j.ended[e.Session.ID] = end{after.Index, e.Expired}
		if e.Expired {
			j.expired(after, e.Session.ID)
		}
	case state.EventDelay:
		j.delays[e.Path] = max(j.delays[e.Path], j.w.now()+time.Duration(e.DelayMS)*time.Millisecond)
	}
}

// expired: no client counts on the session any more.
func (j *judge) expired(after *state.State, id string) {
	j.w.stats.check("expiry")
	for _, u := range j.w.users {
		if left, ok := u.remaining(id); ok && left > 0 {
			j.w.fail("entry %d: session %s of %s expires, whose client counts on it for another %v", after.Index, id, u.name, left)
		}
	}
}

// leases: at most one valid master lease.
func (j *judge) leases() {
	holder := ""
	for _, m := range j.w.machines {
		p := m.process
		if p == nil || p.master == nil || !p.master.Lease().Held {
			continue
		}
		j.w.stats.check("lease")
		if holder != "" {
			j.w.fail("%s and %s both hold a valid master lease", holder, m.id)
		}
		holder = m.id
	}
}
