package simcell

import (
	"crypto/sha256"
	"reflect"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/test/model"
)

// oracle watches the whole cell from outside, at every step. It replays the
// committed log by itself and checks what each replica has applied against the
// result.
type oracle struct {
	w       *world
	looking bool
	instant time.Duration
	points  int // number of steps at that instant

	revisions *revisions // by revision; history is by index
	causes    *causes    // the causes of the changes; nil if no program reads histories
	watchers  map[string]*watcher
	followers map[string]*follower

	history []*state.State // by index; nil if the entry has no batch
	model   *model.Model   // after the last entry
	hashed  struct {       // see hash
		of  *state.State
		sum [sha256.Size]byte
	}
	tokens   map[uint64]grant
	reported uint64                   // index of the latest entry with a reported effect
	reports  []reportedAt             // the times of its changes
	stored   map[uint64]raft.Log      // entries on disks at each index, of the highest term
	holders  holders                  // of entries that no replica has applied
	ended    map[string]end           // by session
	delays   map[string]time.Duration // by path: end of the lock-delay
	refused  map[pair]string          // acquires answered as without effect: why
	known    map[uint64]string        // by token: the user that got the grant
	offered  map[uint64]offer         // by token: users that were shown the grant as one to claim
	early    map[uint64]string        // by raft term: the machine with a lease when an office was to be opened in it
	signs    map[string]time.Duration // by session: time of the last answer to its client
	master   *process                 // the one with a valid lease
	steady   time.Duration            // since when, without a gap; the same for no master

	reviewed time.Duration // time of the last search for sessions that do not end

	ranks     map[pair]map[int]bool // requested priorities; see rank
	copies    map[pair]bool         // a copy of a call for the pair arrives late
	occupied  map[string]uint64     // by path: the latest entry with a new hold or wait
	untouched map[pair]string       // pairs with one release, answered as without effect: why
	denied    map[place][]pair      // by entry: pairs with a release that was answered before the entry but followed it

	limited map[string]limited // by guest
	opened  uint64             // the entry that opened the present office
	permits *permits
	roster  roster
}

// grant is one hold and its end.
type grant struct {
	hold    *state.Hold
	index   uint64
	freed   uint64 // index of its end; 0 while it lasts
	given   bool   // it was released
	revoked bool   // it was revoked before it was reported
}

type end struct {
	index   uint64
	expired bool
}

// pair identifies a hold or wait.
type pair struct{ session, path, handle string }

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, revisions: newRevisions(w), watchers: map[string]*watcher{}, followers: map[string]*follower{}, history: []*state.State{state.New()}, model: model.New(), tokens: map[uint64]grant{}, stored: map[uint64]raft.Log{}, holders: holders{}, ended: map[string]end{},
		delays: map[string]time.Duration{}, refused: map[pair]string{}, known: map[uint64]string{}, offered: map[uint64]offer{}, early: map[uint64]string{}, signs: map[string]time.Duration{}, untouched: map[pair]string{}, ranks: map[pair]map[int]bool{}, copies: map[pair]bool{}, occupied: map[string]uint64{}, denied: map[place][]pair{},
		limited: map[string]limited{}, permits: newPermits(), roster: newRoster(),
	}
}

// look is called at every step. It takes in the newly committed entries and
// checks what must hold at any instant.
func (o *oracle) look() {
	if o.looking || o.w.failed() {
		return
	}
	o.looking = true
	defer func() { o.looking = false }()
	for _, m := range o.w.machines {
		if p := m.process; p != nil && p.replica != nil {
			o.follow(p)
		}
	}
	o.leases()
	o.overdue()
	o.noteReported()
}

// checks is called before a check of an answer, which the stats count.
func (o *oracle) checks(what string) {
	o.look()
	o.w.stats.check(what)
}

// mostPoints is the number of steps allowed at one instant. More mean that a
// process repeats something without waiting.
const mostPoints = 100_000

// spins fails the run if time does not pass.
func (o *oracle) spins(p *process) {
	if now := o.w.now(); now != o.instant {
		o.instant, o.points = now, 0
	}
	if o.points++; o.points == mostPoints {
		o.w.fail("%s repeats itself without waiting: %d steps at one instant", p.m.id, mostPoints)
		select {} // otherwise it would continue
	}
}

// follow takes in what a replica knows to be committed, and what it has applied
// since the last look.
func (o *oracle) follow(p *process) {
	h := p.replica.Health()
	for committed := h.Applied + h.Behind; uint64(len(o.history)) <= committed; {
		if _, there := p.m.disk.logs[uint64(len(o.history))]; !there || !o.replay(p) {
			break
		}
	}
	s := p.replica.State()
	o.goesForward(p, h.Applied, s)
	if s == p.seen {
		return
	}
	p.seen = s
	for uint64(len(o.history)) <= s.Index {
		if !o.replay(p) {
			return
		}
	}
	p.knows(o.roster.upTo(s.Index))
	o.advance(p)
	own := o.history[s.Index]
	o.w.stats.check("applied state")
	switch {
	case own == nil:
		o.w.fail("%s reports entry %d as applied, which has no batch", p.m.id, s.Index)
	case own.Epoch != s.Epoch || own.Seq != s.Seq || own.Counter != s.Counter || own.Term != s.Term:
		o.w.fail("%s has a different state at entry %d than the log: epoch %d seq %d counter %d term %d, not %d %d %d %d",
			p.m.id, s.Index, s.Epoch, s.Seq, s.Counter, s.Term, own.Epoch, own.Seq, own.Counter, own.Term)
	case s.Index%8 == 0 && o.hash(own) != s.Hash():
		o.w.fail("%s has a different state at entry %d than the log", p.m.id, s.Index)
	}
}

// hash returns the hash of a state of the log. The replicas reach the same
// state one after the other, so the last hash is kept.
func (o *oracle) hash(own *state.State) [sha256.Size]byte {
	if o.hashed.of != own {
		o.hashed.of, o.hashed.sum = own, own.Hash()
	}
	return o.hashed.sum
}

// replay applies the next entry of the log to the oracle's own state. p has
// applied it, so it is committed.
func (o *oracle) replay(p *process) bool {
	index := uint64(len(o.history))
	l, ok := o.entry(p, index)
	if !ok {
		o.w.fail("no disk ever had entry %d, which %s has applied", index, p.m.id)
		return false
	}
	if l.Type == raft.LogConfiguration {
		o.configured(l)
	}
	o.committed(p, l)
	if l.Type != raft.LogCommand {
		o.history = append(o.history, nil)
		o.permits.skip()
		return true
	}
	batch, err := state.DecodeBatch(l.Data)
	if err != nil {
		o.w.fail("entry %d: %v", index, err)
		return false
	}
	before := o.latest()
	after, out := before.Apply(index, l.Term, batch)
	o.history = append(o.history, after)
	o.w.stats.Entries++
	o.w.trace.mark("entry", index)
	if o.w.opts.Trace {
		o.w.trace.note("log", "entry %d, term %d: %s", index, l.Term, describe(batch, out))
	}
	o.entitled(batch, out, o.modelled(after, batch, out))
	o.quotasKept(before, after, out)
	o.transition(before, after, batch, out)
	o.tabled(before, after)
	o.revisions.add(after, out)
	o.revisions.endedAsCalled(index, batch, out)
	o.causes.add(before, after, out)
	o.denials(place{index, l.Term}, batch, out)
	return !o.w.failed()
}

// entry returns a committed entry. p has applied it, and some disk has it or
// had it. A leader applies an entry before its own disk has it. Then the entry
// counts that most disks have: another one may have an entry of another term
// that was never committed.
func (o *oracle) entry(p *process, index uint64) (raft.Log, bool) {
	if l, ok := p.m.disk.logs[index]; ok {
		return l, true
	}
	best, most, disks := o.stored[index], 0, map[uint64]int{} // stored: all have a snapshot in its place
	for _, m := range o.w.machines {
		if l, ok := m.disk.logs[index]; ok {
			if disks[l.Term]++; disks[l.Term] > most {
				best, most = l, disks[l.Term]
			}
		}
	}
	return best, best.Index == index
}

// wrote records an entry written to a disk.
func (o *oracle) wrote(l raft.Log) {
	if l.Term >= o.stored[l.Index].Term {
		o.stored[l.Index] = l
	}
}

// modelled applies an entry to the model and compares the outcomes. It returns
// the steps in which the rights changed.
func (o *oracle) modelled(after *state.State, b state.Batch, out state.Outcome) (steps []*rights) {
	m, last := o.model, o.permits.latest()
	m.Each = func() {
		if now := rightsOf(m); !now.same(last) {
			steps, last = append(steps, now), now
		}
	}
	o.w.stats.check("model")
	if want := m.Apply(out.Index, out.Term, b); !reflect.DeepEqual(out, want) {
		o.w.fail("entry %d results in %s; by the model it results in %s", out.Index, describe(b, out), describe(b, want))
	}
	if after.Epoch != m.Epoch || after.Office != m.Office || after.Counter != m.Counter || after.Seq != m.Seq || after.Revision != m.Revision ||
		after.Level != m.Level || after.Now != m.Now || after.FileCount() != len(m.Files) || after.SessionCount() != len(m.Sessions) {
		o.w.fail("entry %d leads to a different state than the model's", out.Index)
	}
	if len(steps) > 0 {
		n := 0
		for r := range after.Policy().Rules("", "") {
			if want := m.Access.Rules[r.Path]; want != nil && want.Same(r) {
				n++
			}
		}
		if n != len(m.Access.Rules) || n != after.Policy().RuleCount() {
			o.w.fail("entry %d leads to different rules than the model's", out.Index)
		}
	}
	return steps
}

// leases checks that there is at most one valid master lease.
func (o *oracle) leases() {
	var holder *process
	for _, m := range o.w.machines {
		p := m.process
		if p == nil || p.master == nil || !p.master.Lease().Held {
			continue
		}
		o.w.stats.check("lease")
		if holder != nil {
			o.w.fail("%s and %s both hold a valid master lease", holder.m.id, m.id)
		}
		holder = p
	}
	if holder != o.master {
		o.master, o.steady = holder, o.w.now()
	}
}
