package world

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/cell"
	"github.com/stoutlock/stout/replica/datadir"
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
			Self: admission.Self{Identity: disk.who, RaftAddr: m.id, Names: m.w.names(), NewDirectory: admission.NewDirectory},
			Ask:  p.ask, Save: disk.save,
			Note: func(d admission.Decision) {
				p.point()
				p.stranger = d.Step == admission.Stranger
				m.w.trace.note(m.id, "%v: %s", d.Step, d.Why)
			},
		}
		_, err = seeker.Run(p.gone)
	}
	if err == nil && !p.dead() {
		ctx, cancel := context.WithTimeout(p.gone, 250*time.Millisecond)
		known := admission.AskLeader(ctx, m.id, disk.who.CellID, m.w.names(), p.ask)
		cancel()
		stores, err = disk.open()
		peers = replica.Peers{Transport: p.wire, Ask: p.ask, Known: known}
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

func (w *world) names() []string {
	var names []string
	for _, m := range w.machines {
		names = append(names, m.id)
	}
	slices.Sort(names)
	return names
}

// card is what the process tells of itself to a directory that asks.
func (p *process) card(asks string) admission.Card {
	if p.replica != nil {
		return p.replica.CardFor(asks)
	}
	who := p.disk.who
	return admission.Card{Cell: who.Cell, ID: who.ID, Directory: who.Directory, RaftAddr: who.ID,
		Names: p.m.w.names(), Founding: who.Founding, CellID: who.CellID}
}

// ask asks another machine for its card, over the network.
func (p *process) ask(ctx context.Context, name string) (admission.Card, error) {
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
		p.point()
		return a.card, a.err
	case <-ctx.Done():
		return admission.Card{}, ctx.Err()
	case <-p.gone.Done():
		return admission.Card{}, errReset
	}
}

// errOther is the answer of a replica that is not the one that was wanted.
var errOther = errors.New("refused: this is another replica")

// opens is the opening of a connection between replicas: it reports whether the
// receiver is the very member of the very cell that the sender means.
func (p *process) opens(from *process, wanted string) bool {
	return p.replica != nil && p.disk.who.Refuses(from.disk.who.CellID, wanted) == nil
}

// voters are the server ids of the directories that vote, as the latest
// configuration has it; false while one is not committed, or none is known.
func (w *world) voters() (ids []string, ok bool) {
	w.judge.looking = true
	defer func() { w.judge.looking = false }()
	var latest cell.Membership
	committed := uint64(0)
	for _, m := range w.machines {
		p := m.process
		if p == nil || p.replica == nil {
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
	return ids, latest.Index > 0 && committed == latest.Index
}

// mayLose reports whether a machine's disk may be taken away: nobody can hold
// the cell to what a majority of its disks has forgotten. While no cell is
// founded any disk may go.
func (w *world) mayLose(m *machine) bool {
	if !w.founded() {
		return true
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

// disturbFounding has machines crash, lose their disks and get old ones back
// while they found the cell.
func (w *world) disturbFounding() {
	w.stats.check("disturbed founding")
	for range 2 + w.script.IntN(8) {
		w.until(between(w.script, time.Millisecond, 200*time.Millisecond))
		switch w.script.IntN(5) {
		case 0:
			w.crashOne()
		case 1:
			w.crashInWrite()
		case 2:
			w.cutOneWay()
		case 3:
			w.wipeOne()
		case 4:
			w.oldDisk()
		}
	}
	w.heal()
}

// shortFounding: one machine is down while the others might found the cell
// without it. Of those, one loses its disk, and the others are down.
func (w *world) shortFounding() {
	w.stats.check("short founding")
	late, wiped, others := w.machines[0], w.machines[1], w.machines[2:]
	late.crash()
	w.until(between(w.script, time.Second, 4*time.Second))
	for _, m := range others {
		m.crash()
	}
	w.trace.note(wiped.id, "has lost its disk")
	wiped.swap(newDisk(w), time.Millisecond) // no cell is founded yet
	late.restart(false)
	w.until(between(w.script, time.Second, 4*time.Second))
	for _, m := range others {
		m.restart(false)
	}
}

// tornFounding: of a founding that all have prepared, one alone goes on. It has
// another disk until the others have given that founding up.
func (w *world) tornFounding() {
	first := w.firstFounder()
	if first == nil {
		return
	}
	w.stats.check("torn founding")
	founded := first.disk
	for _, m := range w.machines {
		if m.crash(); m != first {
			m.restart(false)
		}
	}
	first.disk = newDisk(w)
	first.restart(false)
	w.soon(func() bool {
		return w.founded() || !slices.ContainsFunc(w.machines, func(m *machine) bool {
			return m.disk.who.Founding.Has(founded.who.ServerID())
		})
	})
	if !w.founded() {
		w.trace.note(first.id, "has its disk again")
		first.crash()
		first.disk = founded
		first.restart(false)
		w.soon(w.cameToNothing)
		w.beginAnew()
	}
}

// firstFounder waits until one machine alone has founded the cell.
func (w *world) firstFounder() (first *machine) {
	for end := w.now() + 5*time.Second; w.now() < end && first == nil && !w.isOver(); w.until(20 * time.Microsecond) {
		for _, m := range w.machines {
			switch {
			case m.disk.who.CellID == "":
			case first != nil:
				return nil
			default:
				first = m
			}
		}
	}
	return first
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
		if m := w.machines[i]; m.process != nil && m.process.stranger {
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

func (w *world) replace(m *machine) { go w.command(m.id, m.disk.who.Directory) }

// command goes to each replica, until the master has taken it.
func (w *world) command(id, directory string) {
	for _, m := range w.machines {
		p := m.process
		if p == nil || p.master == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(p.gone, 5*time.Second)
		err := p.master.Replace(ctx, master.ReplaceRequest{Caller: w.operator(), ID: id, ReplaceMemberRequest: lockapi.ReplaceMemberRequest{Directory: directory}})
		cancel()
		w.trace.note("operator", "replace %s by %s through %s: %v", id, directory, m.id, err)
		if err == nil || !errors.Is(err, lockapi.CodeNoMaster) {
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
			if m.process != nil && m.process.stranger {
				w.replace(m)
			}
		}
		w.until(500 * time.Millisecond)
	}
	return w.allVote()
}

// laggingVoter: one machine gets a new directory, and the last voter that was there
// before does not hear of its promotion. Then the master loses its disk: the two that
// are left are a majority. It needs the three of them to be all.
func (w *world) laggingVoter() {
	if len(w.machines) != 3 {
		return
	}
	if !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	next.swap(newDisk(w), between(w.script, time.Millisecond, 100*time.Millisecond))
	w.soon(func() bool { return next.process != nil && next.process.stranger })
	w.replace(next)
	for _, m := range w.machines { // what is sent to the third takes long, and then does not arrive
		if m != old && m != next {
			w.net.lag[[2]string{old.id, m.id}] = between(w.script, 50*time.Millisecond, 300*time.Millisecond)
		}
	}
	promoted := false
	for end := w.now() + 5*time.Second; w.now() < end && !promoted && !w.isOver(); w.until(200 * time.Microsecond) {
		ids, ok := w.voters()
		promoted = ok && slices.Contains(ids, next.disk.who.ServerID())
	}
	if promoted && w.mayLose(old) {
		w.stats.check("lagging voter")
		w.part(old)
		w.trace.note(old.id, "has lost its disk")
		old.swap(newDisk(w), between(w.script, time.Millisecond, 3*time.Second))
	}
	w.heal()
}

// hungryVoter: one machine gets a new directory and becomes a voter before it
// has anything of the log. Then the master loses its disk, and the third is
// restarted: it does not know yet that the new directory was committed.
func (w *world) hungryVoter() {
	if len(w.machines) != 3 || !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	next.swap(newDisk(w), time.Millisecond)
	if w.soon(func() bool { return next.process != nil && next.process.stranger }) {
		w.replace(next)
	}
	w.net.lag[[2]string{old.id, next.id}] = 300 * time.Millisecond
	if w.soon(next.runs) {
		next.disk.hangs = true
	}
	promoted := w.soon(func() bool {
		ids, ok := w.voters()
		return ok && slices.Contains(ids, next.disk.who.ServerID())
	})
	w.part(old)
	next.disk.hangs = false
	if promoted && w.mayLose(old) {
		w.stats.check("hungry voter")
		for _, m := range w.machines {
			if m != old && m != next {
				m.crash()
				m.restart(false)
				// Votes come too late, and what is asked about members does not.
				late := between(w.script, 350*time.Millisecond, 490*time.Millisecond)
				w.net.lag[[2]string{m.id, next.id}], w.net.lag[[2]string{next.id, m.id}] = late, late
			}
		}
		w.trace.note(old.id, "has lost its disk")
		old.swap(newDisk(w), between(w.script, time.Millisecond, 3*time.Second))
		w.until(between(w.script, 3*time.Second, 6*time.Second))
	}
	w.heal()
}

// tooLate: an operator wants the old directory back, and what the master asks
// the members for takes so long that the old one is taken out meanwhile.
func (w *world) tooLate() {
	if !w.whole() {
		return
	}
	old, next := w.rivals()
	if old == nil || !w.mayLose(next) {
		return
	}
	before := next.disk.who.Directory
	next.swap(newDisk(w), time.Millisecond)
	if w.soon(func() bool { return next.process != nil && next.process.stranger }) {
		w.replace(next)
	}
	if !w.soon(next.runs) {
		return
	}
	w.stats.check("taken back too late")
	w.until(between(w.script, time.Millisecond, 100*time.Millisecond))
	for _, m := range w.machines {
		if m != old && m != next {
			w.net.lag[[2]string{m.id, old.id}] = 800 * time.Millisecond
		}
	}
	go w.command(next.id, before)
	w.until(3 * time.Millisecond) // what is sent from now on does not take as long
	clear(w.net.lag)
	w.until(2 * time.Second)
}

// tend is the operator at the end, when nothing fails any more: whoever asks is
// admitted, and a founding that came to nothing is begun anew.
func (w *world) tend() {
	for ; !w.isOver(); w.until(time.Second) {
		for _, m := range w.machines {
			if m.process != nil && m.process.stranger {
				w.replace(m)
			}
		}
		w.beginAnew()
	}
}

// cameToNothing reports whether disks were lost while the cell was founded, so
// that a founder is left alone.
func (w *world) cameToNothing() bool {
	strangers := 0
	for _, m := range w.machines {
		if m.process != nil && m.process.stranger {
			strangers++
		}
	}
	return strangers > len(w.machines)/2 && len(w.judge.history) == 1
}

// beginAnew is the operator's way out of that: nothing was ever served, and no
// disk is kept.
func (w *world) beginAnew() {
	if w.cameToNothing() {
		w.trace.note("operator", "a founding came to nothing: all begin anew")
		w.stats.check("founding begun anew")
		for _, m := range w.machines {
			m.swap(newDisk(w), time.Millisecond)
			m.attic = nil
		}
		w.until(5 * time.Second)
	}
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
