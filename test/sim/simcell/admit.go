package simcell

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/membership"
)

// Directories come and go: machines found the cell together, lose their disks,
// get old ones back, and an operator has new ones take the place of old ones.

// seek is what command stoutd does before a replica runs: it waits until the
// directory is a member's, and opens what is in it. It reports false where the
// process died before.
func (p *process) seek(log zerolog.Logger) (stores datadir.Stores, peers replica.Peers, ok bool) {
	m, disk := p.m, p.disk
	err := disk.claim(log)
	if err == nil && !p.dead() {
		seeker := admission.Seeker{
			Self: admission.Self{Identity: disk.who, RaftAddr: m.id, Names: m.names(), Joins: m.joins, NewDirectory: admission.NewDirectory},
			Ask:  p.ask, Save: disk.save,
			Note: func(d admission.Decision) {
				p.point()
				p.stranger = d.Step == admission.Stranger
				m.w.trace.note(m.id, "%v: %s", d.Step, d.Why)
			},
		}
		if m.joins {
			seeker.Others = p.others
		}
		_, err = seeker.Run(p.gone)
	}
	if err == nil && !p.dead() {
		ctx, cancel := context.WithTimeout(p.gone, 250*time.Millisecond)
		names := m.names()
		if m.joins {
			names, _ = p.others(ctx)
		}
		known := admission.AskLeader(ctx, m.id, disk.who.CellID, names, p.ask)
		cancel()
		stores, err = disk.open()
		peers = replica.Peers{Transport: p.wire, Ask: p.ask, Known: known}
		if m.joins {
			peers.Others = p.others
		}
	}
	if p.dead() {
		if err == nil && stores.Close != nil {
			_ = stores.Close() // the process is dead
		}
		return stores, peers, false
	}
	if err != nil {
		m.w.fail("replica %s does not start: %v", m.id, err)
	}
	return stores, peers, err == nil
}

// names are those of the machine's founding list, sorted.
func (m *machine) names() []string {
	var names []string
	for _, one := range m.settings() {
		names = append(names, one.ID)
	}
	slices.Sort(names)
	return names
}

// others are whom a machine asks that is to join: it knows all machines by their
// addresses, and is told by those that answer who the members are.
func (p *process) others(ctx context.Context) (names []string, err error) {
	var all []string
	for _, m := range p.m.w.machines {
		all = append(all, m.id)
	}
	names, err = []string{p.m.id}, errNobody
	for _, a := range admission.AskAll(ctx, p.m.id, all, p.ask) {
		for _, server := range a.Card.Members {
			err = nil
			if name, _ := admission.Split(server); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, err
}

var errNobody = errors.New("none of the machines tells who the members are")

// card is what the process tells of itself to a directory that asks.
func (p *process) card(asks string) admission.Card {
	if p.replica != nil {
		card := p.replica.CardFor(asks)
		card.Level = min(card.Level, p.level)
		return card
	}
	who := p.disk.who
	return admission.Card{Cell: who.Cell, ID: who.ID, Directory: who.Directory, RaftAddr: who.ID,
		Names: p.m.names(), Founding: who.Founding, CellID: who.CellID}
}

// ask asks another machine for its card, over the network.
func (p *process) ask(ctx context.Context, id string) (admission.Card, error) {
	name, _ := admission.Split(id)
	type answer struct {
		card admission.Card
		err  error
	}
	w, from := p.m.w, p.m.id
	got := make(chan answer, 1)
	go func() {
		if !w.net.arrives(from, name) {
			return
		}
		other := w.machine(name).process
		if other == nil || other.disk.who.Directory == "" {
			got <- answer{err: errRefused}
			return
		}
		if other.awake(); other.dead() {
			return
		}
		card := other.card(p.disk.who.ServerID())
		if w.net.arrives(name, from) {
			got <- answer{card: card}
		}
	}()
	select {
	case a := <-got:
		if a.err == nil {
			p.hears(admission.ServerID(a.card.ID, a.card.Directory))
		}
		p.point()
		return a.card, a.err
	case <-ctx.Done():
		return admission.Card{}, ctx.Err()
	case <-p.gone.Done():
		return admission.Card{}, errReset
	}
}

// hears notes that a directory has answered a leader.
func (p *process) hears(server string) {
	if p.m.process == p && p.m.leads() {
		p.m.w.judge.roster.heard[server] = p.m.w.now()
	}
}

// errOther is the answer of a replica that is not the one that was wanted.
var errOther = errors.New("refused: this is another replica")

// opens is the opening of a connection between replicas: it reports whether the
// receiver is the very member of the very cell that the sender means, and believes
// the sender.
func (p *process) opens(from *process, wanted string) bool {
	return p.replica != nil && p.disk.who.Refuses(from.disk.who.CellID, wanted) == nil && p.believes(from)
}

// voters are the server ids of the directories that vote, as the latest
// configuration has it; false while one is not committed, or those that run know
// none, or a former one only: old disks may be all that runs.
func (w *world) voters() (ids []string, ok bool) {
	w.judge.looking = true
	defer func() { w.judge.looking = false }()
	var latest membership.Membership
	committed := uint64(0)
	for _, m := range w.machines {
		p := m.process
		if p == nil || p.replica == nil || m.disk.hangs { // its answer would wait for the disk, and the judge with it
			continue
		}
		committed = max(committed, p.replica.Card().ConfigIndex)
		if now, err := p.replica.Membership(); err == nil && now.Index > latest.Index {
			latest = now
		}
	}
	for _, s := range latest.Members {
		if s.Voter {
			ids = append(ids, admission.ServerID(s.ID, s.Directory))
		}
	}
	return ids, latest.Index > 0 && committed == latest.Index && latest.Index >= w.judge.roster.latest().index
}

// mayLose reports whether a machine's disk may be taken away: nobody can hold
// the cell to what a majority of its disks has forgotten. While no cell is
// founded any disk may go.
func (w *world) mayLose(m *machine) bool {
	if !w.founded() {
		return true
	}
	if w.steward != nil && !w.steward.mayLose(m) {
		return false
	}
	voters, ok := w.voters()
	kept := 0
	for _, o := range w.machines {
		if o != m && slices.Contains(voters, o.disk.who.ServerID()) && o.disk.who.Founded {
			kept++
		}
	}
	return ok && kept > len(voters)/2
}

// founded reports whether any directory is one of a cell.
func (w *world) founded() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool { return m.disk.who.CellID != "" })
}

// swap has a machine come back with another disk.
func (m *machine) swap(other *disk, after time.Duration) {
	m.crash()
	m.attic = append(m.attic, m.disk)
	m.disk = other
	m.w.later(after, func() { m.restart(false) })
}

// wipeOne has one machine come back with an empty data directory.
func (w *world) wipeOne() {
	m, after := w.anyMachine(), between(w.script, time.Millisecond, 3*time.Second)
	if w.mayLose(m) {
		w.stats.check("wiped disk")
		w.trace.note(m.id, "has lost its disk")
		m.swap(newDisk(w), after)
	}
}

// oldDisk has one machine come back with a disk that it had before.
func (w *world) oldDisk() {
	m, after := w.anyMachine(), between(w.script, time.Millisecond, 3*time.Second)
	n := len(m.attic)
	if n == 0 || !w.mayLose(m) {
		return
	}
	i := w.script.IntN(n)
	old := m.attic[i]
	m.attic = slices.Delete(m.attic, i, i+1)
	w.stats.check("old disk")
	w.trace.note(m.id, "has an old disk again")
	m.swap(old, after)
}

// replaceOne is an operator who has a new directory take the place of an old
// one, as its replica asks for.
func (w *world) replaceOne() {
	for _, i := range w.script.Perm(len(w.machines)) {
		if m := w.machines[i]; w.wants(m) {
			w.replace(m)
			if ids, _ := w.voters(); w.script.IntN(3) == 0 {
				w.thinkBetter(m.id, ids)
			}
			return
		}
	}
	// Nobody asks for it: a directory that never comes, or the master's own.
	if w.script.IntN(4) == 0 {
		m := w.anyMachine()
		go w.command(m.id, admission.NewDirectory())
	}
}

// thinkBetter is an operator who wants to keep the old directory after all, and says
// so again and again.
func (w *world) thinkBetter(id string, voters []string) {
	for _, server := range voters {
		name, directory := admission.Split(server)
		if name != id {
			continue
		}
		for range 20 {
			w.later(between(w.script, 300*time.Millisecond, 1500*time.Millisecond), func() { w.command(id, directory) })
		}
	}
}

// secondThoughts: an operator has a new directory take the place of a lost one, and
// wants that back while it is taken out. What the others tell the master comes late,
// so that each look at the members takes a while.
func (w *world) secondThoughts() {
	old, next := w.well()
	if old == nil || !w.mayLose(next) {
		return
	}
	lost := next.disk.who.Directory
	next.swap(newDisk(w), time.Millisecond)
	if !w.soon(func() bool { return w.wants(next) }) {
		return
	}
	late := between(w.script, 50*time.Millisecond, 250*time.Millisecond)
	for _, m := range w.machines {
		w.net.lag[[2]string{m.id, old.id}] = late
	}
	w.replace(next)
	for range 40 {
		w.until(between(w.script, 20*time.Millisecond, 150*time.Millisecond))
		go w.command(next.id, lost)
	}
	w.until(time.Second)
	w.heal()
}

func (w *world) replace(m *machine) { go w.command(m.id, m.disk.who.Directory) }

// command goes to each replica, until the master has taken it. A copy may come late.
func (w *world) command(id, directory string) {
	q := lockapi.ReplaceMemberRequest{Directory: directory, InPlaceOf: w.judge.roster.latest().directory(id)}
	if q.InPlaceOf == "" {
		return // the cell has no such member, as stout says then
	}
	if w.chance(3) {
		w.later(between(w.rng, 100*time.Millisecond, 20*time.Second), func() {
			if !w.mended {
				w.stats.check("late replacement")
				w.send(id, q)
			}
		})
	}
	w.send(id, q)
}

// send sends a command.
func (w *world) send(id string, q lockapi.ReplaceMemberRequest) {
	d := &demand{kind: replaces, name: id, directory: q.Directory, inPlaceOf: q.InPlaceOf}
	w.judge.demanded(d)
	if s := w.steward; s != nil {
		s.begun++
		s.sending++
		defer func() { s.sending-- }()
	}
	for _, m := range w.machines {
		p := m.process
		if p == nil || p.master == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(p.gone, 5*time.Second)
		_, err := p.master.ReplaceMember(ctx, w.operator(), &lockapi.ReplaceMember{ID: id, ReplaceMemberRequest: q})
		cancel()
		w.trace.note("operator", "replace %s by %s in place of %s through %s: %v", id, q.Directory, q.InPlaceOf, m.id, err)
		switch {
		case err == nil:
			w.judge.look()
			d.over = true
			return
		case p.dead(), isUnknown(err):
			return
		case !errors.Is(err, lockapi.CodeNoMaster):
			w.judge.declined(d, err)
			return
		}
	}
}

// whole makes the cell well, has whoever waits for it admitted, and reports
// whether every directory votes.
func (w *world) whole() bool {
	w.well()
	for n := 0; n < 10 && !w.allVote(); n++ {
		for _, m := range w.machines {
			if w.wants(m) {
				w.replace(m)
			}
		}
		w.until(500 * time.Millisecond)
	}
	return w.allVote()
}

// tend is the operator at the end, when nothing fails any more: whoever asks for the
// place of its name is admitted, a machine with settings that name no member any more is
// started to join, and a founding that came to nothing is begun anew.
func (w *world) tend() {
	for w.steward != nil && w.steward.mixes {
		w.steward.upgrades()
	}
	for ; !w.isOver(); w.until(time.Second) {
		for _, m := range w.machines {
			if m.strays() {
				w.stats.check("machine whose settings name no member")
				m.crash()
				m.joins = true
				m.restart(false)
			}
			if w.wants(m) {
				w.replace(m)
			}
		}
		w.beginAnew()
	}
}

// strays reports whether a machine waits for an answer of a cell of which its settings
// name no other member.
func (m *machine) strays() bool {
	if m.w.steward == nil || m.joins || m.process == nil || !m.process.stranger {
		return false
	}
	return !slices.ContainsFunc(m.names(), func(name string) bool {
		return name != m.id && m.w.judge.roster.latest().hasServer(m.w.machine(name).disk.who.ServerID())
	})
}

// wants reports whether a machine waits for the place that a directory of its name
// has.
func (w *world) wants(m *machine) bool {
	return m.process != nil && m.process.stranger && (w.steward == nil || w.judge.roster.latest().has(m.id))
}

// allVote: every machine's directory is a voter's.
func (w *world) allVote() bool {
	voters, ok := w.voters()
	for _, m := range w.machines {
		if m.process == nil || m.process.replica == nil || !slices.Contains(voters, m.disk.who.ServerID()) {
			return false
		}
	}
	return ok && len(voters) == len(w.machines)
}
