package simcell

import (
	"crypto/sha256"
	"reflect"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/test/model"
)

// judge watches the whole cell from outside, at every step. It replays the
// committed log by itself and checks what each replica has applied against the
// result.
type judge struct {
	w       *world
	looking bool
	instant time.Duration
	points  int // number of steps at that instant

	annals    *annals    // by revision; history is by index
	chronicle *chronicle // the causes of the changes; nil if no program reads histories
	watchers  map[string]*watcher
	followers map[string]*follower

	history []*state.State // by index; nil if the entry has no batch
	model   *model.Model   // after the last entry
	hashed  struct {       // see hash
		of  *state.State
		sum [sha256.Size]byte
	}
	tokens  map[uint64]grant
	told    uint64                   // index of the latest entry with a reported effect
	telling []toldBy                 // the times of its changes
	stored  map[uint64]raft.Log      // entries on disks at each index, of the highest term
	holders holders                  // of entries that no replica has applied
	ended   map[string]end           // by session
	delays  map[string]time.Duration // by path: end of the lock-delay
	refused map[pair]string          // acquires answered as without effect: why
	known   map[uint64]string        // by token: the user that got the grant
	offered map[uint64]offer         // by token: users that were shown the grant as one to claim
	early   map[uint64]string        // by raft term: the machine with a lease when an office was to be opened in it
	signs   map[string]time.Duration // by session: time of the last answer to its client
	master  *process                 // the one with a valid lease
	steady  time.Duration            // since when, without a gap

	reviewed time.Duration // time of the last search for sessions that do not end

	copies    map[pair]bool     // a copy of a call for the pair arrives late
	claimed   map[string]uint64 // by path: the latest entry with a new hold or wait
	untouched map[pair]string   // pairs with one release, answered as without effect: why
	denied    map[place][]pair  // by entry: pairs with a release that was answered before the entry but followed it

	permits *permits
	roster  roster
}

// grant is one hold and its end.
type grant struct {
	hold  *state.Hold
	index uint64
	freed uint64 // index of its end; 0 while it lasts
	given bool   // it was released
	taken bool   // it was revoked before it was reported
}

type end struct {
	index   uint64
	expired bool
}

// pair identifies a claim.
type pair struct{ session, path, handle string }

func newJudge(w *world) *judge {
	return &judge{
		w: w, annals: newAnnals(w), watchers: map[string]*watcher{}, followers: map[string]*follower{}, history: []*state.State{state.New()}, model: model.New(), tokens: map[uint64]grant{}, stored: map[uint64]raft.Log{}, holders: holders{}, ended: map[string]end{},
		delays: map[string]time.Duration{}, refused: map[pair]string{}, known: map[uint64]string{}, offered: map[uint64]offer{}, early: map[uint64]string{}, signs: map[string]time.Duration{}, untouched: map[pair]string{}, copies: map[pair]bool{}, claimed: map[string]uint64{}, denied: map[place][]pair{},
		permits: newPermits(), roster: newRoster(),
	}
}

// look is called at every step. It takes in the newly committed entries and
// checks what must hold at any instant.
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
	j.overdue()
	j.noteTold()
}

// mostPoints is the number of steps allowed at one instant. More mean that a
// process repeats something without waiting.
const mostPoints = 100_000

// spins fails the run if time does not pass.
func (j *judge) spins(p *process) {
	if now := j.w.now(); now != j.instant {
		j.instant, j.points = now, 0
	}
	if j.points++; j.points == mostPoints {
		j.w.fail("%s repeats itself without waiting: %d steps at one instant", p.m.id, mostPoints)
		select {} // otherwise it would continue
	}
}

// follow takes in what a replica knows to be committed, and what it has applied
// since the last look.
func (j *judge) follow(p *process) {
	h := p.replica.Health()
	for committed := h.Applied + h.Behind; uint64(len(j.history)) <= committed; {
		if _, there := p.m.disk.logs[uint64(len(j.history))]; !there || !j.replay(p) {
			break
		}
	}
	s := p.replica.State()
	j.goesForward(p, h.Applied, s)
	if s == p.seen {
		return
	}
	p.seen = s
	for uint64(len(j.history)) <= s.Index {
		if !j.replay(p) {
			return
		}
	}
	p.knows(j.roster.upTo(s.Index))
	own := j.history[s.Index]
	j.w.stats.check("applied state")
	switch {
	case own == nil:
		j.w.fail("%s reports entry %d as applied, which has no batch", p.m.id, s.Index)
	case own.Epoch != s.Epoch || own.Seq != s.Seq || own.Counter != s.Counter || own.Term != s.Term:
		j.w.fail("%s has a different state at entry %d than the log: epoch %d seq %d counter %d term %d, not %d %d %d %d",
			p.m.id, s.Index, s.Epoch, s.Seq, s.Counter, s.Term, own.Epoch, own.Seq, own.Counter, own.Term)
	case s.Index%8 == 0 && j.hash(own) != s.Hash():
		j.w.fail("%s has a different state at entry %d than the log", p.m.id, s.Index)
	}
}

// hash returns the hash of a state of the log. The replicas reach the same
// state one after the other, so the last hash is kept.
func (j *judge) hash(own *state.State) [sha256.Size]byte {
	if j.hashed.of != own {
		j.hashed.of, j.hashed.sum = own, own.Hash()
	}
	return j.hashed.sum
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
	if l.Type == raft.LogConfiguration {
		j.configured(l)
	}
	j.committed(p, l)
	if l.Type != raft.LogCommand {
		j.history = append(j.history, nil)
		j.permits.skip()
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
	j.entitled(batch, out, j.modelled(after, batch, out))
	j.transition(before, after, batch, out)
	j.tabled(before, after)
	j.annals.take(after, out)
	j.chronicle.take(before, after, out)
	j.denials(place{index, l.Term}, batch, out)
	return !j.w.failed()
}

// entry returns a committed entry. p has applied it, and some disk has it or
// had it.
func (j *judge) entry(p *process, index uint64) (raft.Log, bool) {
	if l, ok := p.m.disk.logs[index]; ok {
		return l, true
	}
	for _, m := range j.w.machines {
		if l, ok := m.disk.logs[index]; ok {
			return l, true
		}
	}
	l, ok := j.stored[index] // all have a snapshot in its place
	return l, ok
}

// wrote records an entry written to a disk.
func (j *judge) wrote(l raft.Log) {
	if l.Term >= j.stored[l.Index].Term {
		j.stored[l.Index] = l
	}
}

// modelled applies an entry to the model and compares the outcomes. It returns
// the steps in which the rights changed.
func (j *judge) modelled(after *state.State, b state.Batch, out state.Outcome) (steps []*rights) {
	m, last := j.model, j.permits.latest()
	m.Each = func() {
		if now := rightsOf(m); !now.same(last) {
			steps, last = append(steps, now), now
		}
	}
	j.w.stats.check("model")
	if want := m.Apply(out.Index, out.Term, b); !reflect.DeepEqual(out, want) {
		j.w.fail("entry %d results in %s; by the model it results in %s", out.Index, describe(b, out), describe(b, want))
	}
	if after.Epoch != m.Epoch || after.Office != m.Office || after.Counter != m.Counter || after.Seq != m.Seq || after.Revision != m.Revision ||
		after.Level != m.Level || after.Now != m.Now || after.FileCount() != len(m.Files) || after.SessionCount() != len(m.Sessions) {
		j.w.fail("entry %d leads to a different state than the model's", out.Index)
	}
	if len(steps) > 0 {
		n := 0
		for r := range after.Policy().Rules("", "") {
			if want := m.Access.Rules[r.Path]; want != nil && want.Same(r) {
				n++
			}
		}
		if n != len(m.Access.Rules) || n != after.Policy().RuleCount() {
			j.w.fail("entry %d leads to different rules than the model's", out.Index)
		}
	}
	return steps
}

// leases checks that there is at most one valid master lease.
func (j *judge) leases() {
	var holder *process
	for _, m := range j.w.machines {
		p := m.process
		if p == nil || p.master == nil || !p.master.Lease().Held {
			continue
		}
		j.w.stats.check("lease")
		if holder != nil {
			j.w.fail("%s and %s both hold a valid master lease", holder.m.id, m.id)
		}
		holder = p
	}
	if holder != j.master {
		j.master, j.steady = holder, j.w.now()
	}
}
