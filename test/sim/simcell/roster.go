package simcell

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/state"
)

// The oracle takes in every committed configuration and every table of members,
// and requires a reason for each change: a call that may still take effect, a
// rule of replacements, or the second entry of a change of two. A refused call
// is not a reason, and an acknowledged change stays until another call changes
// it.

// conf is one committed configuration.
type conf struct {
	index uint64
	raft.Configuration
}

// roster is the oracle's knowledge of the members.
type roster struct {
	confs      []conf // in the log's order
	demands    []*demand
	came       map[string]*demand       // by server id: the call that added it
	ran        map[string]bool          // by server id: it has run
	gone       map[string]bool          // by server id: it ended because it was removed
	left       map[string]time.Duration // by server id: when its last process ended
	away       map[string]outage        // by server id: its last outage
	answeredAt map[string]time.Duration // by server id: its last answer to a leader
	since      time.Duration            // when the present office was opened
}

func newRoster() roster {
	return roster{came: map[string]*demand{}, ran: map[string]bool{}, gone: map[string]bool{}, left: map[string]time.Duration{}, away: map[string]outage{}, answeredAt: map[string]time.Duration{}}
}

// runs and leaves record that a process with a directory starts or ends.
func (r *roster) runs(server string, now time.Duration) {
	if r.ran[server] {
		r.away[server] = outage{r.left[server], now}
	}
	r.ran[server] = true
}

func (r *roster) leaves(server string, now time.Duration) { r.left[server] = now }

func (r *roster) latest() conf {
	if len(r.confs) == 0 {
		return conf{}
	}
	return r.confs[len(r.confs)-1]
}

// all returns the server ids, and whether each votes.
func (c conf) all() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for _, s := range c.Servers {
			if !yield(string(s.ID), s.Suffrage == raft.Voter) {
				return
			}
		}
	}
}

func (c conf) voters() (n int) {
	for _, voter := range c.all() {
		if voter {
			n++
		}
	}
	return n
}

// has reports whether a member has a name.
func (c conf) has(name string) bool {
	return slices.ContainsFunc(c.Servers, func(s raft.Server) bool { n, _ := admission.Split(string(s.ID)); return n == name })
}

// directory returns the directory of a name that was added last, or "".
func (c conf) directory(name string) (directory string) {
	for id := range c.all() {
		if n, d := admission.Split(id); n == name {
			directory = d
		}
	}
	return directory
}

func (c conf) server(id string) (raft.Server, bool) {
	i := slices.IndexFunc(c.Servers, func(s raft.Server) bool { return string(s.ID) == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return c.Servers[i], true
}

func (c conf) hasServer(id string) bool { _, ok := c.server(id); return ok }

// votes reports whether a directory of that name votes.
func (c conf) votes(name string) bool {
	return slices.ContainsFunc(c.Servers, func(s raft.Server) bool {
		n, _ := admission.Split(string(s.ID))
		return n == name && s.Suffrage == raft.Voter
	})
}

// These are the kinds of demands.
const (
	adds      = "add"
	removes   = "remove"
	votes     = "promote"
	demotes   = "demote"
	relocates = "move"
	replaces  = "replace"
)

// demand is one call for a change of the members.
type demand struct {
	kind, name, directory string
	inPlaceOf             string // the member's directory as the caller has seen it
	addr, url             string
	stays                 bool
	over                  bool // it can have no further effect
	done                  bool // it has had an effect
	begun                 bool // see meant
}

func (d *demand) String() string {
	return fmt.Sprintf("%s %s %s (%s)", d.kind, d.name, d.directory, d.inPlaceOf)
}

// meant reports whether a call names the member's latest directory. A removal
// without a directory, of a name that was no member, may arrive late and removes any.
// A removal that has begun continues.
func (d *demand) meant(before conf) bool {
	now := d.inPlaceOf == before.directory(d.name) || d.kind == removes && d.inPlaceOf == ""
	d.begun = d.begun || now && d.kind == removes
	return now || d.begun
}

// demanded records a call.
func (o *oracle) demanded(d *demand) { o.roster.demands = append(o.roster.demands, d) }

// declined records that a call was refused: it had no effect and will have
// none.
func (o *oracle) declined(d *demand, err error) {
	o.checks("refused change of the members")
	if d.over = true; d.done {
		o.w.fail("%v was refused, but took effect: %v", d, err)
	}
}

// agreed records that a call was acknowledged, and checks its effect if no
// other call is under way.
func (o *oracle) agreed(d *demand, alone bool) {
	o.checks("change of the members: " + d.kind)
	d.over = true
	if !alone || o.w.failed() {
		return
	}
	now, table := o.roster.latest(), o.latest()
	put, noted := table.MemberNamed(d.name)
	so := true
	switch d.kind {
	case adds:
		so = now.hasServer(admission.ServerID(d.name, d.directory)) && noted && put.RaftAddr == d.addr && put.URL == d.url && put.Stays == d.stays
	case removes:
		so = !now.has(d.name)
	case votes:
		so = noted && !put.Stays
	case demotes:
		so = noted && put.Stays && !now.votes(d.name)
	case relocates:
		so = noted && put.RaftAddr == d.addr && put.URL == d.url
		for _, s := range now.Servers {
			name, _ := admission.Split(string(s.ID))
			at := addressIn(s)
			so = so && (name != d.name || at == d.addr)
		}
	}
	if !so {
		o.w.fail("%v was acknowledged but is not in effect: the table has %+v, and the configuration %v", d, put, now.Servers)
	}
}

// asked returns the matching calls that may still take effect.
func (r *roster) asked(fits func(*demand) bool) (found []*demand) {
	for _, d := range r.demands {
		if !d.over && fits(d) {
			found = append(found, d)
		}
	}
	return found
}

// open reports whether some matching call may take effect. If there is only
// one, open records that it did.
func (r *roster) open(fits func(*demand) bool) bool {
	found := r.asked(fits)
	if len(found) == 1 {
		found[0].done = true
	}
	return len(found) > 0
}

// configured checks a new configuration in the log.
func (o *oracle) configured(l raft.Log) {
	next := conf{l.Index, raft.DecodeConfiguration(l.Data)}
	before := o.roster.latest()
	o.roster.confs = append(o.roster.confs, next)
	if o.w.opts.Trace {
		o.w.trace.note("log", "entry %d, term %d: the members are %v", l.Index, l.Term, next.Servers)
	}
	if before.index == 0 {
		return
	}
	o.w.stats.check("configuration")
	if next.voters() == 0 {
		o.w.fail("entry %d leaves no voter", l.Index)
	}
	changes := 0
	for _, s := range next.Servers {
		was, there := before.server(string(s.ID))
		if there && was == s {
			continue
		}
		changes++
		name, directory := admission.Split(string(s.ID))
		why := ""
		switch {
		case !there:
			why = o.mayCome(name, directory, s)
		case was.Suffrage != s.Suffrage && s.Suffrage == raft.Voter:
			why = o.mayVote(next, name, s)
		case was.Suffrage != s.Suffrage:
			if !o.roster.open(func(d *demand) bool { return d.kind == demotes && d.name == name }) {
				why = "no call asked to take its vote"
			}
		default:
			why = o.mayMove(name, s)
		}
		if why != "" {
			o.w.fail("entry %d has %v where it was %v: %s", l.Index, s, was, why)
		}
	}
	for _, was := range before.Servers {
		if next.hasServer(string(was.ID)) {
			continue
		}
		changes++
		if name, _ := admission.Split(string(was.ID)); !o.mayGo(before, next, name, was) {
			o.w.fail("entry %d removes %s, and no call asked for it", l.Index, was.ID)
		}
	}
	for id, voter := range before.all() {
		name, _ := admission.Split(id)
		now, there := next.server(id)
		if office := o.latest().Office; voter && office.Open && office.Term == l.Term && office.Master == name && (!there || now.Suffrage != raft.Voter) {
			o.w.fail("entry %d takes the vote of %s, which is the master and has not handed over", l.Index, id)
		}
	}
	if changes > 1 {
		o.w.fail("entry %d makes %d changes of the members: %v → %v", l.Index, changes, before.Servers, next.Servers)
	}
}

// mayCome returns why a directory may not become a member, or "". If a master
// may also add it unasked, a matching call need not be the reason: it may still
// be refused.
func (o *oracle) mayCome(name, directory string, s raft.Server) string {
	if s.Suffrage == raft.Voter {
		return "a new member must not have a vote"
	}
	before := o.roster.confs[len(o.roster.confs)-2]
	asked := o.roster.asked(func(d *demand) bool {
		fits := d.kind == adds || d.kind == replaces && d.inPlaceOf == before.directory(name)
		return fits && d.name == name && d.directory == directory
	})
	delete(o.roster.came, string(s.ID))
	delete(o.roster.gone, string(s.ID))
	unasked := o.mayReplaceUnasked(name, string(s.ID))
	switch {
	case len(asked) == 0 && unasked == "":
		o.w.stats.check("replaced unasked")
	case len(asked) == 0:
		return unasked
	case len(asked) == 1 && unasked != "":
		asked[0].done = true
		o.roster.came[string(s.ID)] = asked[0]
	}
	return ""
}

// runsAs reports whether the process runs with a member's directory.
func (p *process) runsAs(server string) bool {
	return p.replica != nil && p.disk.who.ServerID() == server
}

// mayVote returns why a directory may not get a vote, or "".
func (o *oracle) mayVote(next conf, name string, s raft.Server) string {
	if put, ok := o.latest().MemberNamed(name); ok && put.Stays {
		return "it is to stay without a vote"
	}
	for id, voter := range next.all() {
		if other, _ := admission.Split(id); voter && other == name && id != string(s.ID) {
			return "two directories of its name vote"
		}
	}
	if by := o.roster.came[string(s.ID)]; by != nil && by.stays && !o.roster.promoted(by) {
		return "it was added to stay without a vote"
	}
	if !o.roster.ran[string(s.ID)] {
		return "it has not run yet"
	}
	m := o.w.machine(name)
	got := max(m.disk.high, m.disk.snapshot.index)
	if p := m.process; p != nil && p.runsAs(string(s.ID)) {
		got = max(got, p.replica.State().Index)
	}
	if m.disk.who.ServerID() == string(s.ID) && got+mostBehind < next.index {
		return fmt.Sprintf("it has reached only entry %d", got)
	}
	return ""
}

// promoted reports whether a call asked for a vote since a member was added.
func (r *roster) promoted(added *demand) bool {
	i := slices.Index(r.demands, added)
	return slices.ContainsFunc(r.demands[i:], func(d *demand) bool { return d.kind == votes && d.name == added.name })
}

// mostBehind is how far behind a directory may be that gets a vote: the
// product's bound, plus the entries that arrive during the check.
const mostBehind = 256 + 100

// mayMove returns why a member may not have another address, or "".
func (o *oracle) mayMove(name string, s raft.Server) string {
	at := addressIn(s)
	if put, ok := o.latest().MemberNamed(name); !ok || !put.Put || put.RaftAddr != at {
		return fmt.Sprintf("the table of members has it at %q", put.RaftAddr)
	}
	return ""
}

// mayGo reports whether a directory may be removed: its name was to be removed,
// a newer directory of its name is a member, or an older one is to keep the
// place.
func (o *oracle) mayGo(before, next conf, name string, was raft.Server) bool {
	_, directory := admission.Split(string(was.ID))
	if next.has(name) && before.directory(name) != directory {
		return true
	}
	return o.roster.open(func(d *demand) bool {
		keeps := d.kind == replaces && next.hasServer(admission.ServerID(name, d.directory))
		return d.name == name && (d.kind == removes || keeps) && d.meant(before)
	})
}

// tabled checks a change of the table of members. A member's entries change
// only by a call.
func (o *oracle) tabled(before, after *state.State) {
	if before.Epoch != after.Epoch {
		o.roster.since = o.w.now()
	}
	for _, was := range before.Members {
		if _, there := after.Member(was.ID, was.Directory); !there && o.roster.latest().hasServer(admission.ServerID(was.ID, was.Directory)) {
			o.w.fail("entry %d drops %s with directory %s from the table of members, but the configuration has it", after.Index, was.ID, was.Directory)
		}
	}
	if after.Level > before.Level {
		o.raised(after)
	}
	for _, now := range after.Members {
		was, there := before.Member(now.ID, now.Directory)
		if !there || was == now {
			continue
		}
		o.w.stats.check("table of members")
		moved := was.RaftAddr != now.RaftAddr || was.URL != now.URL
		if moved && was.Put && !o.roster.open(func(d *demand) bool {
			return (d.kind == relocates || d.kind == adds) && d.name == now.ID && d.addr == now.RaftAddr && d.url == now.URL
		}) {
			o.w.fail("entry %d has %s at %s and %s instead of %s and %s, and no call asked for it", after.Index, now.ID, now.RaftAddr, now.URL, was.RaftAddr, was.URL)
		}
		if was.Stays != now.Stays && !o.roster.open(func(d *demand) bool {
			return (d.kind == votes || d.kind == demotes || d.kind == adds) && d.name == now.ID && d.stays == now.Stays
		}) {
			o.w.fail("entry %d has %s stay without a vote: %v, and no call asked for it", after.Index, now.ID, now.Stays)
		}
	}
}

// raised checks that every member's release knows the cell's new level.
func (o *oracle) raised(after *state.State) {
	o.w.stats.check("level raised")
	for id := range o.roster.latest().all() {
		name, _ := admission.Split(id)
		if m := o.w.machine(name); m.level < after.Level {
			o.w.fail("entry %d raises the cell's level to %d, but %s runs a release that knows level %d", after.Index, after.Level, name, m.level)
		}
	}
}

// counted checks that a list of the members is consistent.
func (o *oracle) counted(by string, got lockapi.Members) {
	o.w.stats.check("list of the members")
	all, well := 0, 0
	for _, m := range got.Members {
		if m.Suffrage == lockapi.SuffrageVoter {
			if all++; m.Healthy {
				well++
			}
		}
	}
	if most := max(0, well-(all/2+1)); got.Tolerates > most {
		o.w.fail("%s reports that the cell survives %d more failures; %d of %d voters are well", by, got.Tolerates, well, all)
	}
}

// lacked reports whether a directory was a member and then was not.
func (r *roster) lacked(server string) bool {
	had := false
	for _, c := range r.confs {
		if has := c.hasServer(server); had && !has {
			return true
		} else if has {
			had = true
		}
	}
	return false
}

// settled reports whether the table of members equals Raft's configuration,
// every member runs and votes (unless it is to stay without a vote), and every
// other machine waits to become a member.
func (w *world) settled() bool {
	if w.memberOperator == nil {
		return w.allVote()
	}
	w.lacks = w.unsettled()
	return w.lacks == ""
}

// unsettled returns what prevents that, or "".
func (w *world) unsettled() string {
	if _, ok := w.voters(); !ok || w.memberOperator.calling > 0 {
		return "a change of the members is under way"
	}
	now, s := w.oracle.roster.latest(), w.oracle.latest()
	for _, in := range now.Servers {
		name, directory := admission.Split(string(in.ID))
		at := addressIn(in)
		row, noted := s.Member(name, directory)
		m := w.machine(name)
		switch {
		case in.Suffrage == raft.Nonvoter && now.directory(name) != directory:
			return fmt.Sprintf("%s is a member although a newer directory of its name is one", in.ID)
		case in.Suffrage == raft.Nonvoter && now.votes(name): // a replacement that never comes blocks nothing
		case !noted || row.RaftAddr != at || row.Stays != (in.Suffrage == raft.Nonvoter):
			return fmt.Sprintf("the configuration has %v, but the table %+v", in, row)
		case m.disk.who.ServerID() != string(in.ID) || m.process == nil || m.process.replica == nil:
			return fmt.Sprintf("%s is a member but does not run", in.ID)
		}
	}
	for _, m := range w.machines {
		if !now.has(m.id) && (m.process == nil || !m.process.stranger) {
			return fmt.Sprintf("%s does not wait to become a member", m.id)
		}
	}
	if len(s.Members) != len(now.Servers) {
		return fmt.Sprintf("the table of members has %+v, but the configuration %v", s.Members, now.Servers)
	}
	return ""
}

// addressIn returns a member's address in a configuration, which follows the
// server's id.
func addressIn(s raft.Server) string {
	_, at, _ := strings.Cut(string(s.Address), "@")
	return at
}
