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
	"github.com/stoutlock/stout/replica/state"
)

// Directories come and go: machines found the cell together, lose their disks
// and get old ones back, and an operator replaces old directories by new ones.

// seek does what command stoutd does before a replica runs: it waits until the
// directory is a member's and opens its stores. It returns false if the process
// died first.
func (p *process) seek(log zerolog.Logger) (stores datadir.Stores, peers replica.Peers, ok bool) {
	m, disk := p.m, p.disk
	err := disk.openDir(log)
	if err == nil && !p.dead() {
		seeker := admission.Finder{
			Self: admission.Self{Identity: disk.who, RaftAddr: m.id, Names: m.names(), Joins: m.joins, NewDirectory: admission.NewDirectory},
			Ask:  p.ask, Save: disk.save,
			Note: func(d admission.Decision) {
				p.point()
				p.stranger = d.Step == admission.Outsider
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

// names returns the names in the machine's founding list, sorted.
func (m *machine) names() []string {
	var names []string
	for _, one := range m.settings() {
		names = append(names, one.ID)
	}
	slices.Sort(names)
	return names
}

// others returns the replicas that a joining machine asks. It knows all
// machines by their addresses, and the answers list the members.
func (p *process) others(ctx context.Context) (names []string, err error) {
	var all []string
	for _, m := range p.m.w.machines {
		all = append(all, m.id)
	}
	names, err = []string{p.m.id}, errNobody
	for _, a := range admission.AskAll(ctx, p.m.id, all, p.ask) {
		for _, server := range a.Info.Members {
			err = nil
			if name, _ := admission.Split(server); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, err
}

var errNobody = errors.New("no machine returned a list of the members")

// card returns the process's description of itself to a directory that asks.
func (p *process) card(asks string) admission.Info {
	if p.replica != nil {
		card := p.replica.InfoFor(asks)
		card.Level = min(card.Level, p.level)
		return card
	}
	who := p.disk.who
	return admission.Info{Cell: who.Cell, ID: who.ID, Directory: who.Directory, RaftAddr: who.ID,
		Names: p.m.names(), Founding: who.Founding, CellID: who.CellID}
}

// ask asks another machine for its card, over the network.
func (p *process) ask(ctx context.Context, id string) (admission.Info, error) {
	name, _ := admission.Split(id)
	type answer struct {
		card admission.Info
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
			p.noteAnswer(admission.ServerID(a.card.ID, a.card.Directory))
		}
		p.point()
		return a.card, a.err
	case <-ctx.Done():
		return admission.Info{}, ctx.Err()
	case <-p.gone.Done():
		return admission.Info{}, errReset
	}
}

// noteAnswer records that a directory has answered a leader.
func (p *process) noteAnswer(server string) {
	if p.m.process == p && p.m.leads() {
		p.m.w.oracle.roster.answeredAt[server] = p.m.w.now()
	}
}

// errOther is the answer of a replica other than the wanted one.
var errOther = errors.New("refused: this is another replica")

// opens reports whether a process accepts a connection from another: it must be
// the member and the cell that the sender means, and believe the sender.
func (p *process) opens(from *process, wanted string) bool {
	return p.replica != nil && p.disk.who.Refuses(from.disk.who.CellID, wanted) == nil && p.believes(from)
}

// voters returns the server ids of the voting directories in the latest
// configuration. It returns false if that is not committed, or if the running
// processes know none or only a former one: perhaps only old disks run.
func (w *world) voters() (ids []string, ok bool) {
	w.oracle.looking = true
	defer func() { w.oracle.looking = false }()
	var latest membership.Membership
	committed := uint64(0)
	for _, m := range w.machines {
		p := m.process
		if p == nil || p.replica == nil || m.disk.hangs { // its answer would wait for the disk and block the oracle
			continue
		}
		committed = max(committed, p.replica.Info().ConfigIndex)
		if now, err := p.replica.Membership(); err == nil && now.Index > latest.Index {
			latest = now
		}
	}
	for _, s := range latest.Members {
		if s.Voter {
			ids = append(ids, admission.ServerID(s.ID, s.Directory))
		}
	}
	return ids, latest.Index > 0 && committed == latest.Index && latest.Index >= w.oracle.roster.latest().index
}

// mayLose reports whether a machine's disk may be removed. The cell makes no
// promise about what a majority of its disks has lost. Before the founding any
// disk may go.
func (w *world) mayLose(m *machine) bool {
	if !w.founded() {
		return true
	}
	if w.memberOperator != nil && !w.memberOperator.mayLose(m) {
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

// founded reports whether any directory belongs to a cell.
func (w *world) founded() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool { return m.disk.who.CellID != "" })
}

// swap makes a machine return with another disk.
func (m *machine) swap(other *disk, after time.Duration) {
	m.crash()
	m.attic = append(m.attic, m.disk)
	m.disk = other
	m.w.later(after, func() { m.restart(false) })
}

// wipeOne makes one machine return with an empty data directory.
func (w *world) wipeOne() {
	m, after := w.anyMachine(), between(w.script, time.Millisecond, 3*time.Second)
	if w.mayLose(m) {
		w.stats.check("wiped disk")
		w.trace.note(m.id, "has lost its disk")
		m.swap(newDisk(w), after)
	}
}

// oldDisk makes one machine return with a former disk.
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

// replaceOne is an operator replacing an old directory by a new one, as its
// replica requests.
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
	// This one was not requested: a directory that never starts, or the
	// master's own.
	if w.script.IntN(4) == 0 {
		m := w.anyMachine()
		go w.command(m.id, admission.NewDirectory())
	}
}

// thinkBetter is an operator that decides to keep the old directory after all,
// and repeats the command.
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

// secondThoughts: an operator replaces a lost directory by a new one, and wants
// the lost one back while it is being removed. The other replicas' answers to
// the master are late, so that each check of the members takes a while.
func (w *world) secondThoughts(old, next *machine) {
	if !w.mayLose(next) {
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

// command sends the operator's command to each replica until the master accepts
// it. A copy may arrive late.
func (w *world) command(id, directory string) {
	q := lockapi.ReplaceMemberRequest{Directory: directory, InPlaceOf: w.oracle.roster.latest().directory(id)}
	if q.InPlaceOf == "" {
		return // the cell has no such member, and stout reports that
	}
	if w.chance(3) {
		w.later(between(w.rng, 100*time.Millisecond, 20*time.Second), func() {
			if !w.faultsOver {
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
	w.oracle.demanded(d)
	if s := w.memberOperator; s != nil {
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
			w.oracle.look()
			d.over = true
			return
		case p.dead(), isUnknown(err):
			return
		case !errors.Is(err, lockapi.CodeNoMaster):
			w.oracle.declined(d, err)
			return
		}
	}
}

// whole repairs the cell, admits waiting machines, and reports whether every
// directory votes.
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

// tend is the operator at the end of the faults. It admits every machine that
// waits for the place of its name. It starts a machine to join if its settings
// name no present member. It restarts a failed founding.
func (w *world) tend() {
	for w.memberOperator != nil && w.memberOperator.mixes {
		w.memberOperator.upgrades()
	}
	for ; !w.isOver(); w.until(time.Second) {
		for _, m := range w.machines {
			if m.strays() {
				w.stats.check("machine without a present member in its settings")
				m.crash()
				m.joins = true
				m.restart(false)
			}
			if w.wants(m) || w.holdsBack(m) {
				w.replace(m)
			}
			if m.knowsNobody() {
				w.stats.check("member that knows no other member")
				m.swap(newDisk(w), time.Second)
			}
		}
		w.beginAnew()
	}
}

// strays reports whether a machine waits for answers of a cell although its
// settings name no other member of it.
func (m *machine) strays() bool {
	if m.w.memberOperator == nil || m.joins || m.process == nil || !m.process.stranger {
		return false
	}
	return !slices.ContainsFunc(m.names(), func(name string) bool {
		return name != m.id && m.w.oracle.roster.latest().hasServer(m.w.machine(name).disk.who.ServerID())
	})
}

// knowsNobody reports whether a machine has waited for long although its own
// directory is a member: it saw all present members removed, and none of those that
// it knows is left. It must be replaced (docs/guarantees.md, 48).
func (m *machine) knowsNobody() bool {
	if m.w.memberOperator == nil || m.process == nil || !m.process.stranger || !m.w.oracle.roster.latest().hasServer(m.disk.who.ServerID()) {
		m.waiting = 0
		return false
	}
	m.waiting++ // a second each
	return m.waiting%20 == 0
}

// wants reports whether a machine waits to replace the directory of its name.
func (w *world) wants(m *machine) bool {
	return m.process != nil && m.process.stranger && (w.memberOperator == nil || w.oracle.roster.latest().has(m.id))
}

// holdsBack reports whether a directory of the machine's name was added and never
// started. The cell's level waits for it.
func (w *world) holdsBack(m *machine) bool {
	now := w.oracle.roster.latest()
	return w.oracle.latest().Level < state.Level && m.runs() && now.hasServer(m.disk.who.ServerID()) && now.directory(m.id) != m.disk.who.Directory
}

// allVote reports whether every machine's directory votes.
func (w *world) allVote() bool {
	voters, ok := w.voters()
	for _, m := range w.machines {
		if m.process == nil || m.process.replica == nil || !slices.Contains(voters, m.disk.who.ServerID()) {
			return false
		}
	}
	return ok && len(voters) == len(w.machines)
}
