package simcell

import (
	"context"
	"fmt"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/admission"
)

// Some runs in which members come and go begin with a cell of five, of which one member
// is away. Meanwhile another's disk is lost, and a new directory waits for its place. The
// master gives it the place unasked only when all others that vote were well for as long
// as is set. An operator may give it earlier. Or a sixth member is added without a vote,
// and promoted or removed.

// absentee makes that happen before anything else fails.
func (s *steward) absentee() {
	if s == nil || !s.five {
		return
	}
	w := s.w
	defer func() { s.five, s.resting = false, false }()
	master := w.leader()
	if ids, ok := w.voters(); !ok || len(ids) < 5 || master == nil {
		return // the founding was disturbed
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

// losesAnother has a second member come back without its disk. It returns when the member
// that is away is to come back.
func (s *steward) losesAnother(lost *machine) {
	w := s.w
	w.stats.check("member away while another is replaced")
	lost.swap(newDisk(w), between(s.rng, time.Millisecond, time.Second))
	if s.rng.IntN(2) == 0 { // shortly before the time would be over
		w.until(s.after - between(s.rng, time.Millisecond, 3*time.Second))
		return
	}
	w.until(s.after + between(s.rng, time.Second, s.after))
	if w.wants(lost) && s.rng.IntN(2) == 0 {
		w.replace(lost)
		w.until(5 * time.Second)
	}
}

// admitsAnother has another machine come and be added without a vote.
func (s *steward) admitsAnother(ctx context.Context) {
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

// mayReplaceUnasked says why a directory may not be the one that a master takes in
// unasked. A directory that was a member is an operator's business, and so is a cell
// of which another member is gone. No silence is counted that is not one office's.
func (j *judge) mayReplaceUnasked(name, server string) string {
	before := j.roster.confs[len(j.roster.confs)-2]
	if j.w.steward.autoReplace() == 0 || !before.has(name) {
		return "nobody has asked for it"
	}
	now, after := j.w.now(), j.w.steward.after
	least := time.Duration(float64(after) / (1 + drift*j.w.opts.Skew))
	if now-j.roster.since < least {
		return fmt.Sprintf("nobody has asked for it, and the office is %v old, of %v", now-j.roster.since, after)
	}
	for _, c := range j.roster.confs[:len(j.roster.confs)-1] {
		if c.hasServer(server) {
			return "nobody has asked for it, and it was a member before"
		}
	}
	for id, voter := range before.all() {
		other, _ := admission.Split(id)
		m := j.w.machine(other)
		up := m.process != nil && m.process.runsAs(id)
		switch {
		case !voter:
		case other == name && !up && now-j.roster.heard[id] < least: // it may have run, and been cut off
			return fmt.Sprintf("nobody has asked for it, and %s was heard %v ago, of %v", id, now-j.roster.heard[id], after)
		case other != name:
			if why := j.roster.missed(id, up, now, least); why != "" {
				return "nobody has asked for it, and " + why
			}
		}
	}
	return ""
}

// lookedAgo is more than a master's look at the members and the change after it take.
const lookedAgo = 8 * time.Second

// outage is from when to when a directory did not run.
type outage struct{ from, to time.Duration }

// missed says why a voter beside a member that is replaced unasked was not well for as
// long as that takes; empty where it may have been. The master need not notice an outage
// that is shorter than a few of its looks.
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
