package simcell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/state"
)

// In some runs members come and go. Machines outside the founding list join. An
// operator adds and removes members, gives and takes votes, and changes
// addresses, in the middle of all other faults. The oracle checks the promise of
// each of these calls against the log (roster.go).

// memberOperator is that operator.
type memberOperator struct {
	w       *world
	rng     *rand.Rand
	late    []*machine    // machines that join later
	after   time.Duration // the silence after which a directory is replaced unasked; 0 = never
	ports   int           // number of ports given to machines
	calling int           // calls under way, or with a change that may be
	sending int           // replacements under way
	begun   int           // number of calls and replacements
	resting bool          // it makes no calls
	mixes   bool          // the machines start with several releases
	five    bool          // a cell of five starts with an absent member: see absentee
}

// newMemberOperator draws whether there is one. It has a random stream of its
// own, so that other runs stay the same.
func newMemberOperator(w *world) *memberOperator {
	rng := rand.New(rand.NewPCG(w.opts.Seed, 5))
	if rng.IntN(4) > 0 && !w.opts.Members && !w.profile.members {
		return nil
	}
	s := &memberOperator{w: w, rng: rng, after: pick(rng, 0, 0, 3*time.Second, 12*time.Second), mixes: rng.IntN(3) == 0}
	if s.five = rng.IntN(3) == 0 || w.profile.five; s.five {
		s.after, s.resting = 12*time.Second, true
	}
	return s
}

func (s *memberOperator) autoReplace() time.Duration {
	if s == nil {
		return 0
	}
	return s.after
}

// start starts the operator.
func (s *memberOperator) start() {
	if s == nil {
		return
	}
	for range 1 + s.rng.IntN(2) {
		m := newMachine(s.w, len(s.w.machines)+len(s.late))
		m.joins = true
		s.late = append(s.late, m)
	}
	if s.mixes {
		for _, m := range s.w.machines {
			m.level = pick(s.rng, 1, 2, uint64(state.Level))
		}
	}
	go s.serve()
}

// everyMachine returns all present and future machines.
func (w *world) everyMachine() []*machine {
	if w.memberOperator == nil {
		return w.machines
	}
	return slices.Concat(w.machines, w.memberOperator.late)
}

// upgrades upgrades a machine's release.
func (s *memberOperator) upgrades() {
	for _, i := range s.rng.Perm(len(s.w.machines)) {
		if m := s.w.machines[i]; m.level < state.Level {
			s.w.stats.check("upgrade")
			m.crash()
			m.level = min(state.Level, m.level+1+s.rng.Uint64N(2))
			m.restart(false)
			return
		}
	}
	s.mixes = false
}

// leavesBehind upgrades all machines to the latest release except one of the
// earliest. That one is down during the upgrade and can't report its level.
func (s *memberOperator) leavesBehind() {
	var last *machine
	for _, m := range s.w.machines {
		if m.level < state.Level && (last == nil || m.level < last.level) {
			last = m
		}
	}
	if last == nil {
		s.mixes = false
		return
	}
	s.w.stats.check("release left behind")
	last.crash()
	for _, m := range slices.Clone(s.w.machines) {
		if m == last || m.level == state.Level {
			continue
		}
		if s.w.faultsOver || s.w.isOver() {
			return
		}
		m.crash()
		m.level = state.Level
		m.restart(false)
		s.w.until(between(s.rng, time.Second, 3*time.Second))
	}
	s.w.until(between(s.rng, 2*time.Second, 12*time.Second))
	last.restart(false)
}

func (s *memberOperator) serve() {
	for (!s.w.hasMaster() || s.five) && !s.w.isOver() {
		s.w.until(100 * time.Millisecond)
	}
	for pace := pick(s.rng, 200*time.Millisecond, 2*time.Second, 8*time.Second); !s.w.faultsOver && !s.w.isOver(); {
		s.w.until(between(s.rng, 5*time.Millisecond, pace))
		if s.w.faultsOver || s.w.isOver() {
			return
		}
		if len(s.late) > 0 && s.rng.IntN(4) == 0 {
			s.arrives()
			continue
		}
		if s.mixes && s.rng.IntN(3) == 0 {
			pick(s.rng, s.upgrades, s.upgrades, s.leavesBehind)()
			continue
		}
		if s.rng.IntN(6) == 0 {
			s.rushes()
		}
		s.act(context.Background())
	}
}

// arrives starts another machine, which waits until it is added.
func (s *memberOperator) arrives() {
	m := s.late[0]
	s.late = s.late[1:]
	s.w.machines = append(s.w.machines, m)
	s.w.stats.check("machine that joins")
	m.start()
}

// rushes starts something else in parallel with the next call.
func (s *memberOperator) rushes() {
	switch s.rng.IntN(4) {
	case 0:
		go s.act(context.Background())
	case 1:
		if m := s.w.leader(); m != nil {
			s.w.later(between(s.rng, time.Millisecond, 500*time.Millisecond), func() {
				if !s.w.faultsOver {
					m.crash()
					s.w.later(between(s.rng, time.Millisecond, 2*time.Second), func() { m.restart(false) })
				}
			})
		}
	case 2:
		m := s.w.machines[s.rng.IntN(len(s.w.machines))]
		s.w.later(between(s.rng, time.Millisecond, 500*time.Millisecond), func() {
			if !s.w.faultsOver {
				s.w.campaign(m)
			}
		})
	case 3:
		m := s.w.leader()
		if m == nil {
			return
		}
		m.fatal, m.afterCrash, m.reboots = 1+s.rng.IntN(6), between(s.rng, time.Millisecond, time.Second), false
	}
}

// rests stops the operator's calls and reports whether none is under way. While
// one member's disk is repaired, the other members must not change.
func (s *memberOperator) rests() bool {
	if s == nil {
		return true
	}
	s.resting = true
	if s.w.soon(func() bool { return s.calling == 0 }) {
		return true
	}
	s.resting = false
	return false
}

func (s *memberOperator) goesOn() {
	if s != nil {
		s.resting = false
	}
}

// act makes one change.
func (s *memberOperator) act(ctx context.Context) {
	if s.resting {
		return
	}
	conf := s.w.oracle.roster.latest()
	switch n := s.rng.IntN(20); {
	case n < 7:
		if m := s.waits(); m != nil {
			s.add(ctx, m, pick(s.rng, "", lockapi.SuffrageVoter, lockapi.SuffrageNonvoter))
			return
		}
	case n < 10 && conf.voters() > 2:
		s.remove(ctx, s.member(conf, ""))
		return
	case n < 11: // the master
		if m := s.w.leader(); m != nil {
			s.remove(ctx, m.id)
			return
		}
	case n < 14:
		if id := s.member(conf, lockapi.SuffrageNonvoter); id != "" {
			s.set(ctx, id, lockapi.SuffrageVoter, false)
			return
		}
	case n < 16:
		s.set(ctx, s.member(conf, lockapi.SuffrageVoter), lockapi.SuffrageNonvoter, false)
		return
	case n < 18:
		s.set(ctx, s.member(conf, ""), "", true)
		return
	}
	s.list(ctx)
}

// waits returns a machine that waits to be added.
func (s *memberOperator) waits() *machine {
	for _, i := range s.rng.Perm(len(s.w.machines)) {
		if m := s.w.machines[i]; m.process != nil && m.process.stranger && !s.w.oracle.roster.latest().has(m.id) {
			return m
		}
	}
	return nil
}

// member draws the name of a member with or without a vote, or "".
func (s *memberOperator) member(of conf, suffrage string) string {
	var ids []string
	for id, voter := range of.all() {
		name, _ := admission.Split(id)
		if suffrage == "" || voter == (suffrage == lockapi.SuffrageVoter) {
			ids = append(ids, name)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return ids[s.rng.IntN(len(ids))]
}

func (s *memberOperator) add(ctx context.Context, m *machine, suffrage string) {
	s.ports++
	port := s.ports
	if s.rng.IntN(4) > 0 {
		m.port = port
	}
	q := lockapi.AddMemberRequest{
		ID: m.id, Directory: m.disk.who.Directory, RaftAddr: fmt.Sprintf("%s:%d", m.id, port), URL: fmt.Sprintf("http://%s:%d", m.id, port), Suffrage: suffrage,
	}
	d := &demand{kind: adds, name: q.ID, directory: q.Directory, addr: q.RaftAddr, url: q.URL, stays: suffrage == lockapi.SuffrageNonvoter}
	s.call(ctx, d, func(ctx context.Context, m *master.Master) error {
		_, err := m.AddMember(ctx, s.w.operator(), &lockapi.AddMember{AddMemberRequest: q})
		return err
	})
	m.settles(port)
}

// settles moves the machine to the address that the cell has for it.
func (m *machine) settles(port int) {
	if m.port != port {
		m.w.later(between(m.w.memberOperator.rng, time.Millisecond, time.Second), func() {
			m.crash()
			m.port = port
			m.restart(false)
		})
	}
}

func (s *memberOperator) remove(ctx context.Context, name string) {
	if name == "" {
		return
	}
	directory := s.w.oracle.roster.latest().directory(name)
	remove := func(ctx context.Context, m *master.Master) error {
		_, err := m.RemoveMember(ctx, s.w.operator(), &lockapi.RemoveMember{ID: name, RemoveMemberRequest: lockapi.RemoveMemberRequest{Directory: directory}})
		return err
	}
	if s.rng.IntN(3) == 0 { // a copy arrives late
		s.w.later(between(s.rng, 100*time.Millisecond, 20*time.Second), func() {
			if !s.resting && !s.w.faultsOver {
				s.w.stats.check("late removal")
				s.call(ctx, &demand{kind: removes, name: name, inPlaceOf: directory}, remove)
			}
		})
	}
	s.call(ctx, &demand{kind: removes, name: name, inPlaceOf: directory}, remove)
}

// set gives or takes a vote, or changes an address.
func (s *memberOperator) set(ctx context.Context, name, suffrage string, moves bool) {
	if name == "" {
		return
	}
	q := &lockapi.SetMember{ID: name}
	d := &demand{kind: votes, name: name}
	if suffrage != "" {
		q.Suffrage = &suffrage
		if suffrage == lockapi.SuffrageNonvoter {
			d.kind, d.stays = demotes, true
		}
	}
	if moves {
		s.ports++
		addr, url := fmt.Sprintf("%s:%d", name, s.ports), fmt.Sprintf("http://%s:%d", name, s.ports)
		q.RaftAddr, q.URL = &addr, &url
		d.kind, d.addr, d.url = relocates, addr, url
		port := s.ports
		defer func() {
			if d.done {
				s.w.machine(name).settles(port)
			}
		}()
	}
	s.call(ctx, d, func(ctx context.Context, m *master.Master) error {
		_, err := m.SetMember(ctx, s.w.operator(), q)
		return err
	})
}

// call makes a call through each replica until one accepts it, and reports the
// result to the oracle. Sometimes it repeats a call with an unknown outcome at once,
// while the change may still be undone.
func (s *memberOperator) call(ctx context.Context, d *demand, do func(context.Context, *master.Master) error) {
	s.calling++
	defer func() { s.calling-- }()
	s.begun++
	before := s.begun
	alone := s.calling == 1 && s.sending == 0
	s.w.oracle.demanded(d)
	repeats := false
	for range 3 {
		for _, m := range s.w.machines {
			p := m.process
			if p == nil || p.master == nil || s.w.isOver() {
				continue
			}
			within, cancel := context.WithTimeout(ctx, 6*time.Second)
			stop := context.AfterFunc(p.gone, cancel)
			err := do(within, p.master)
			stop()
			cancel()
			s.w.trace.note("steward", "%v through %s: %v", d, m.id, err)
			switch {
			case repeats && !p.dead() && (err == nil || d.kind == removes && errors.Is(err, lockapi.CodeNotFound)):
				s.w.stats.check("repeated change of the members")
				s.w.oracle.agreed(d, alone && s.begun == before)
				d.over = false
				s.w.until(6 * time.Second) // the first attempt may still take effect
				d.over = true
				return
			case repeats && !errors.Is(err, lockapi.CodeNoMaster), p.dead(), err != nil && isUnknown(err):
				s.w.oracle.look()
				if repeats = !repeats && s.rng.IntN(2) == 0; repeats {
					continue
				}
				s.w.until(6 * time.Second) // it may still take effect
				return
			case err == nil:
				s.w.oracle.agreed(d, alone && s.begun == before)
				return
			case !errors.Is(err, lockapi.CodeNoMaster):
				s.w.oracle.declined(d, err)
				return
			}
		}
		s.w.until(300 * time.Millisecond)
	}
	if repeats {
		s.w.until(6 * time.Second) // as above
		return
	}
	s.w.oracle.declined(d, errors.New("no master"))
}

// list reads the list of members at the master.
func (s *memberOperator) list(ctx context.Context) {
	m := s.w.leader()
	if m == nil || m.process.master == nil {
		return
	}
	got, err := m.process.master.ListMembers(ctx, &master.Read{Caller: s.w.operator()}, &lockapi.ListMembers{})
	if err == nil {
		s.w.oracle.counted(m.id, got)
	}
}

// removed handles the end of a process with a removed replica. It is restarted
// to join again, perhaps with an emptied disk.
func (m *machine) removed() {
	w := m.w
	w.stats.check("end of a removed replica")
	if w.oracle.look(); !w.oracle.roster.lacked(m.disk.who.ServerID()) {
		w.fail("%s ends as removed, but was never removed", m.id)
	}
	w.oracle.roster.gone[m.disk.who.ServerID()] = true
	m.crash()
	m.joins = true
	if w.chance(3) {
		m.swap(newDisk(w), between(w.rng, time.Millisecond, 2*time.Second))
		return
	}
	w.later(between(w.rng, time.Millisecond, 2*time.Second), func() { m.restart(false) })
}

// mayLose is the world's mayLose in runs where members change. The cell also
// makes no promise about what a majority of a coming configuration has lost. So
// no call may be under way, and no disk may have an entry of a configuration
// that is not known to be committed.
func (s *memberOperator) mayLose(m *machine) bool {
	now := s.w.oracle.roster.latest()
	if s.calling > 0 {
		return false
	}
	for _, o := range s.w.machines {
		for index, l := range o.disk.logs {
			if l.Type == raft.LogConfiguration && index > now.index {
				return false
			}
		}
	}
	sound := func(server string) bool {
		name, _ := admission.Split(server)
		o := s.w.machine(name)
		return o != m && o.disk.who.ServerID() == server && o.disk.who.Founded
	}
	enough := func(with, without string) bool {
		all, kept := 0, 0
		for id, voter := range now.all() {
			if id != without && (voter || id == with) {
				if all++; sound(id) {
					kept++
				}
			}
		}
		return kept > all/2
	}
	for id, voter := range now.all() {
		name, _ := admission.Split(id)
		switch {
		case !voter && !enough(id, ""): // it may get a vote
			return false
		case voter && !enough("", id) && s.replaced(now, name, id): // or another directory has its place
			return false
		}
	}
	return enough("", "")
}

// replaced reports whether another directory is about to replace one.
func (s *memberOperator) replaced(now conf, name, by string) bool {
	for id := range now.all() {
		if other, _ := admission.Split(id); other == name && id != by {
			return true
		}
	}
	return false
}
