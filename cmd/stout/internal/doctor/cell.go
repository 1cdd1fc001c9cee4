package doctor

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Limits of a lag, in entries. A healthy replica is a few entries behind on a
// busy cell; one beyond lagBad could not help after a failure.
const (
	lagWarn = 64
	lagBad  = 10_000
)

func office(s *Seen, g *gathered) {
	switch c := s.Cell; {
	case c == nil && ask.IsDenial(s.CellErr):
		g.add(Unknown, "Use a credential with the right to observe the cell.", "the cell does not show its master to us: %v", s.CellErr)
	case c == nil:
		g.add(Unknown, "", "no replica describes the cell: %s", orNothing(s.CellErr))
	case c.Master == nil:
		g.add(Bad, "A master needs a majority of the voters that reach each other. Start the replicas that are down; stout status shows which.", "the cell has no master")
	case !c.Lease.Held:
		g.add(Bad, "If this lasts, make another replica the master with stout transfer. Check the log, disk and network of the master: it cannot reach a majority, or its disk hangs.", "%s is master but does not hold its lease", c.Master.ID)
	default:
		g.ok("%s in epoch %d; its lease of %s has %s left", c.Master.ID, c.Epoch, ms(c.Lease.TermMS), ms(c.Lease.RemainingMS))
	}
}

func ms(n int64) string { return took(time.Duration(n) * time.Millisecond) }

// lostChanges reports replicas that have acknowledged changes missing on the
// master.
func lostChanges(s *Seen, g *gathered) {
	if s.Cell == nil {
		return
	}
	for _, r := range s.Cell.Replicas {
		if r.Fault != "" {
			g.add(Bad, `Keep every data directory as it is; see "When acknowledged changes are lost" in docs/operations.md.`, "%s does not follow the master: %s", r.ID, r.Fault)
		}
	}
}

// spare reports how many more failures the cell tolerates.
func spare(s *Seen, g *gathered) {
	if s.Members == nil {
		g.add(Unknown, "", "the cell does not show its members: %s", orNothing(s.MembersErr))
		return
	}
	voters, well := 0, 0
	for _, m := range s.Members.Members {
		if m.Suffrage == lockapi.SuffrageVoter {
			voters++
			if m.Healthy {
				well++
			}
		}
	}
	const bringBack = "Bring back the members that are down, or replace them: stout status shows the command."
	switch tolerates, could := s.Members.Tolerates, (voters-1)/2; {
	case voters < 3:
		g.add(Warn, "Run three replicas: one of them may then fail.", "none: the cell has %s with a vote", format.Plural(voters, "replica"))
	case tolerates == 0:
		g.add(Bad, bringBack, "none, but %d with all voters: %d of %d voters are healthy. The next failure may stop the cell", could, well, voters)
	case tolerates < could:
		g.add(Warn, bringBack, "%d more, but %d with all voters: %d of %d voters are healthy", tolerates, could, well, voters)
	case voters%2 == 0:
		g.add(Warn, "An even number of voters tolerates no more failures than one voter less. Add a voter or remove one.", "%d more, with %d voters", tolerates, voters)
	default:
		g.ok("%d more, with %d voters", tolerates, voters)
	}
}

func membership(s *Seen, g *gathered) {
	if s.Members == nil {
		return
	}
	count := map[string]int{}
	for _, m := range s.Members.Members {
		count[m.ID]++
		if !m.Healthy && count[m.ID] == 1 {
			g.add(Warn, "stout status shows the reason, and the command to repair it if there is one.", "the master does not reach %s", m.ID)
		}
		if m.Suffrage == lockapi.SuffrageNonvoter && count[m.ID] == 1 {
			g.add(Warn, "It gets a vote when it has caught up, unless it was added as a nonvoter (stout member set).", "%s has no vote", m.ID)
		}
		if count[m.ID] == 2 {
			g.replacement(s, m.ID)
		}
	}
	if len(g.findings) == 0 {
		g.ok("%s, no change under way", format.Plural(len(count), "member"))
	}
}

// replacement reports a member with two directories. If the voter is healthy
// but the new directory is not reached, the new one may never come, for example
// because the old directory came back. Then an operator decides which one
// stays.
func (g *gathered) replacement(s *Seen, id string) {
	var old, next *lockapi.Member
	for i, m := range s.Members.Members {
		switch {
		case m.ID != id:
		case m.Suffrage == lockapi.SuffrageVoter && old == nil:
			old = &s.Members.Members[i]
		default:
			next = &s.Members.Members[i]
		}
	}
	plain := old != nil && lockapi.ValidateMemberID(id) == nil && lockapi.ValidateDirectory(old.Directory) == nil
	if plain && next != nil && old.Healthy && !next.Healthy {
		g.add(Warn, "If the new directory will not come, cancel: stout member replace "+id+" --directory "+old.Directory+". Else start its replica.",
			"the new directory %s of %s is not reached, while the old one, %s, is healthy", next.Directory, id, old.Directory)
		return
	}
	g.add(Warn, "Wait for its end before another change; stout member list shows the progress.", "the directory of %s is being replaced", id)
}

func lag(s *Seen, g *gathered) {
	if s.Members == nil {
		return
	}
	failed, master := s.failedSnapshots(), ""
	if s.Cell != nil && s.Cell.Master != nil {
		master = s.Cell.Master.ID
	}
	for _, m := range s.Members.Members {
		switch {
		case !m.Healthy:
		case m.Behind > lagWarn && failed[master] && !failed[m.ID]:
			g.add(Bad, "The problem is the master, "+master+": its log has the reason. Make another replica the master with stout transfer, then check the disk of "+master+".",
				"%s is %d entries behind, and %s fails to send it a snapshot", m.ID, m.Behind, master)
		case m.Behind > lagBad:
			g.add(Bad, "It would not help after a failure of another replica. Check its disk, its network and its log.", "%s is %d entries behind", m.ID, m.Behind)
		case m.Behind > lagWarn:
			g.add(Warn, "If it does not catch up in a minute, check its disk and its network.", "%s is %d entries behind", m.ID, m.Behind)
		default:
			g.ok("%s %d", m.ID, m.Behind)
		}
	}
}

func versions(s *Seen, g *gathered) {
	if s.Members == nil {
		return
	}
	runs := bySame{}
	for _, m := range s.Members.Members {
		runs.add(m.Version, m.ID)
	}
	level := uint64(0)
	if s.Cell != nil {
		level = s.Cell.Level
	}
	switch len(runs) {
	case 0:
	case 1:
		g.ok("all run %s, at level %d", runs[0].what, level)
	default:
		g.add(Warn, "Finish the upgrade: new features are off until all members support them (docs/operations.md, Upgrades).", "%s; the level is %d", runs.text(" run "), level)
	}
}

// bySame groups names with the same property, in the order of first appearance.
type bySame []struct {
	what string
	who  []string
}

func (b *bySame) add(what, who string) {
	if what == "" {
		return
	}
	for i := range *b {
		if one := &(*b)[i]; one.what == what {
			one.who = append(one.who, who)
			return
		}
	}
	*b = append(*b, struct {
		what string
		who  []string
	}{what, []string{who}})
}

// text names each group with its property behind a word.
func (b bySame) text(word string) string {
	var all []string
	for _, one := range b {
		all = append(all, list(one.who)+word+one.what)
	}
	return list(all)
}

// urls checks that the members' URLs can be used from here.
func urls(s *Seen, g *gathered) {
	named, members := 0, map[string]bool{}
	for _, at := range s.Servers {
		if len(at.Members) == 0 {
			continue
		}
		for _, m := range at.Members {
			members[m] = true
		}
		who := list(at.Members)
		switch {
		case len(at.Members) > 1:
			g.add(Bad, "Give each member its own URL: stout member set ID --url URL.", "%s have the same URL, %s", who, at.URL)
		case at.Replica != nil && at.Replica.ID != at.Members[0]:
			g.add(Bad, "Correct it: stout member set ID --url URL.", "%s has the URL %s, but %s answers there", who, at.URL, at.Replica.ID)
		case at.Err != nil && !at.Named && !ask.IsDenial(at.Err):
			g.add(Warn, "If a master cannot be reached from here, another replica forwards calls, which takes longer. If the replica is up, its URL may belong to another network: change it with stout member set ID --url URL.", "%s has the URL %s, which cannot be reached from here: %v", who, at.URL, at.Err)
		case at.Err == nil:
			g.ok("%s", at.URL)
		}
		if at.Named {
			named++
		}
	}
	if named == 1 && len(members) > 1 {
		g.add(Warn, "Name all of them, separated by commas, with --server or STOUT_SERVER: the cell is then found while any of them is up.", "only one of %d members was named", len(members))
	}
}

func accessOn(s *Seen, g *gathered) {
	away := slices.ContainsFunc(s.Servers, func(at *Server) bool { return at.Err == nil && !at.loopback() })
	switch {
	case s.Cell == nil:
	case s.Cell.Access:
		g.ok("on")
	case away:
		g.add(Warn, "Turn it on with stout access enable; docs/settings.md, Access, describes the preparation.", "off: every caller may do everything")
	default:
		g.ok("off; as far as can be seen, the replicas listen only on this machine")
	}
}

func waitCycles(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		is, _ := at.Figures.Value("stout_is_master")
		switch n, ok := at.Figures.Value("stout_wait_cycles"); {
		case is != 1 || !ok:
		case n > 0:
			g.ok("%s of waits, which need not be deadlocks (stout deadlocks)", format.Plural(int(n), "cycle"))
		default:
			g.ok("no sessions wait for each other")
		}
	}
}
