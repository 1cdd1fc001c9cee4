package simcell

import (
	"context"
	"fmt"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
)

// Some runs with changes of members start with a cell of five, and one member
// is away. Then another member loses its disk, and a new directory waits to
// replace it. The master replaces it unasked only after all other voters were
// well for the configured time. An operator may replace it earlier. Or a sixth
// member is added without a vote, and promoted or removed.

// absentee plays this before any other fault.
func (s *memberOperator) absentee() {
	if s == nil || !s.five {
		return
	}
	w := s.w
	defer func() { s.five, s.resting = false, false }()
	master := w.leader()
	if ids, ok := w.voters(); !ok || len(ids) < 5 || master == nil {
		return // a fault disturbed the founding
	}
	var others []*machine
	for _, i := range s.rng.Perm(len(w.machines)) {
		if m := w.machines[i]; m != master && m.process != nil {
			others = append(others, m)
		}
	}
	if len(others) < 2 || !w.mayLose(others[1]) {
		return
	}
	away, lost := others[0], others[1]
	away.crash()
	w.until(lookedAgo)
	if s.rng.IntN(4) == 0 {
		s.admitsAnother(context.Background())
	} else {
		s.losesAnother(lost)
	}
	away.restart(false)
	w.until(between(s.rng, s.after, 2*s.after))
}

// losesAnother makes a second member return without its disk. It returns when
// the absent member is to return.
func (s *memberOperator) losesAnother(lost *machine) {
	w := s.w
	w.stats.check("member away while another is replaced")
	lost.swap(newDisk(w), between(s.rng, time.Millisecond, time.Second))
	if s.rng.IntN(2) == 0 { // shortly before the time is over
		w.until(s.after - between(s.rng, time.Millisecond, 3*time.Second))
		return
	}
	w.until(s.after + between(s.rng, time.Second, s.after))
	if w.wants(lost) && s.rng.IntN(2) == 0 {
		w.replace(lost)
		w.until(5 * time.Second)
	}
}

// admitsAnother starts another machine and adds it without a vote.
func (s *memberOperator) admitsAnother(ctx context.Context) {
	s.arrives()
	if !s.w.soon(func() bool { return s.waits() != nil }) {
		return
	}
	s.w.stats.check("member away while another is added")
	m := s.waits()
	s.add(ctx, m, lockapi.SuffrageNonvoter)
	s.w.until(between(s.rng, time.Millisecond, 5*time.Second))
	switch s.rng.IntN(3) {
	case 0:
		s.set(ctx, m.id, lockapi.SuffrageVoter, false)
	case 1:
		s.remove(ctx, m.id)
	}
	s.w.until(between(s.rng, time.Millisecond, 10*time.Second))
}

// mayReplaceUnasked returns why a master may not replace a directory with this
// one unasked, or "". A former member's directory is an operator's decision,
// unless it was removed before it ran. So is a cell with another absent member.
// The silence must be observed by one office.
func (o *oracle) mayReplaceUnasked(name, server string) string {
	before := o.roster.confs[len(o.roster.confs)-2]
	if o.w.memberOperator.autoReplace() == 0 || !before.has(name) {
		return "it was added unasked"
	}
	now, after := o.w.now(), o.w.memberOperator.after
	least := time.Duration(float64(after) / (1 + drift*o.w.opts.Skew))
	if now-o.roster.since < least {
		return fmt.Sprintf("it was added unasked, and the office is %v old, of %v", now-o.roster.since, after)
	}
	for _, c := range o.roster.confs[:len(o.roster.confs)-1] {
		if c.hasServer(server) && o.roster.ran[server] {
			return "it was added unasked, and it was a member before"
		}
	}
	for id, voter := range before.all() {
		other, _ := admission.Split(id)
		m := o.w.machine(other)
		up := m.process != nil && m.process.runsAs(id)
		switch {
		case !voter:
		case other == name && !up && now-o.roster.answeredAt[id] < least: // it may have run but been cut off
			return fmt.Sprintf("it was added unasked, and %s last answered %v ago, of %v", id, now-o.roster.answeredAt[id], after)
		case other != name:
			if why := o.roster.missed(id, up, now, least); why != "" {
				return "it was added unasked, and " + why
			}
		}
	}
	return ""
}

// lookedAgo is longer than a master's check of the members and the following
// change take.
const lookedAgo = 8 * time.Second

// outage is the time during which a directory did not run.
type outage struct{ from, to time.Duration }

// missed returns why a voter beside a member that is replaced unasked was not
// well for long enough, or "" if it may have been. The master need not notice
// an outage shorter than a few of its checks.
func (r *roster) missed(id string, up bool, now, least time.Duration) string {
	last := r.away[id]
	switch {
	case !up && now-r.left[id] > lookedAgo:
		return fmt.Sprintf("%s has been away for %v", id, now-r.left[id])
	case up && last.to-last.from > 2*lookedAgo && now-last.to < least-time.Second:
		return fmt.Sprintf("%s was away for %v, and has been back for %v, of %v", id, last.to-last.from, now-last.to, least)
	}
	return ""
}
