package doctor

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Bounds of a lag, in entries: a healthy replica is a few behind while the cell is
// busy, and one that is too far is of no help.
const (
	lagWarn = 64
	lagBad  = 10_000
)

func office(s *Seen, g *gathered) {
	switch c := s.Cell; {
	case c == nil && ask.IsDenial(s.CellErr):
		g.add(Unknown, "Ask with a credential of one who may observe.", "the cell does not tell us of its master: %v", s.CellErr)
	case c == nil:
		g.add(Unknown, "", "no replica tells of the cell: %s", orNothing(s.CellErr))
	case c.Master == nil:
		g.add(Bad, "A master needs a majority of the voters that see each other. Start those that are down; stout status shows which.", "there is none")
	case !c.Lease.Held:
		g.add(Bad, "If it stays so, stout transfer makes another replica the master. See its log, and look at its disk and its network: it can't reach a majority, or its disk hangs.", "%s is named, and does not hold its lease", c.Master.ID)
	default:
		g.ok("%s in epoch %d; its lease of %s has %s left", c.Master.ID, c.Epoch, ms(c.Lease.TermMS), ms(c.Lease.RemainingMS))
	}
}

func ms(n int64) string { return took(time.Duration(n) * time.Millisecond) }

// lostChanges reports replicas that have acknowledged changes which the master lacks.
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

// spare is how many more failures the cell bears.
func spare(s *Seen, g *gathered) {
	if s.Members == nil {
		g.add(Unknown, "", "the cell does not tell of its members: %s", orNothing(s.MembersErr))
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
	const bringBack = "Bring back the members that are down, or replace them: stout status has the command."
	switch bears, could := s.Members.Tolerates, (voters-1)/2; {
	case voters < 3:
		g.add(Warn, "Have three replicas: one of them may then fail.", "none: %s has a vote", format.Plural(voters, "replica"))
	case bears == 0:
		g.add(Bad, bringBack, "none, where it could be %d: %d of %d voters are well. The next failure may stop the cell", could, well, voters)
	case bears < could:
		g.add(Warn, bringBack, "%d more, where it could be %d: %d of %d voters are well", bears, could, well, voters)
	case voters%2 == 0:
		g.add(Warn, "An even number of voters bears no more failures than one less. Add one, or take the vote from one.", "%d more, of %d voters", bears, voters)
	default:
		g.ok("%d more, of %d voters", bears, voters)
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
			g.add(Warn, "stout status says why, and has the command where one repairs it.", "%s is not heard by the master", m.ID)
		}
		if m.Suffrage == lockapi.SuffrageNonvoter && count[m.ID] == 1 {
			g.add(Warn, "It gets a vote when it has caught up, unless it was added without (stout member set).", "%s has no vote", m.ID)
		}
		if count[m.ID] == 2 {
			g.replacement(s, m.ID)
		}
	}
	if len(g.findings) == 0 {
		g.ok("%s, no change under way", format.Plural(len(count), "member"))
	}
}

// replacement is about a member with two directories. Where the one with the vote is
// well and the other is not heard, the new one may never come, as when the old
// directory came back: who has it so says which stays.
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
		g.add(Warn, "If the new one is not to come, take it back: stout member replace "+id+" --directory "+old.Directory+". Else start its replica.",
			"a new directory, %s, is to take the place of %s's and is not heard, while the old one, %s, is well", next.Directory, id, old.Directory)
		return
	}
	g.add(Warn, "Wait until it is through before anything else is changed; stout member list shows how far it is.", "a new directory is taking the place of %s's", id)
}

func lag(s *Seen, g *gathered) {
	if s.Members == nil {
		return
	}
	master := s.masterWithoutSnapshots()
	for _, m := range s.Members.Members {
		switch {
		case !m.Healthy:
		case m.Behind > lagWarn && master != "" && master != m.ID && !s.failsSnapshots(m.ID):
			g.add(Bad, "The fault is "+master+"'s, the master's: its log has the reason. stout transfer makes another replica the master, which sends its own; then look at "+master+"'s disk.",
				"%s is %d entries behind, and snapshots of %s, which would fill it, fail", m.ID, m.Behind, master)
		case m.Behind > lagBad:
			g.add(Bad, "It is of no help should another fail. Is its disk or its network slow? See its log.", "%s is %d entries behind", m.ID, m.Behind)
		case m.Behind > lagWarn:
			g.add(Warn, "If it does not catch up in a minute, look at its disk and its network.", "%s is %d entries behind", m.ID, m.Behind)
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
		var words []string
		for _, r := range runs {
			words = append(words, list(r.who)+" run "+r.what)
		}
		g.add(Warn, "Finish the upgrade: what is new is off until all members know it (docs/operations.md, Upgrades).", "%s; the level is %d", list(words), level)
	}
}

// bySame groups what has the same property, in the order in which it was met.
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

// urls is whether what members tell clients can be used from here.
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
			g.add(Bad, "Give each its own: stout member set ID --url URL.", "%s tell one and the same URL, %s", who, at.URL)
		case at.Replica != nil && at.Replica.ID != at.Members[0]:
			g.add(Bad, "Correct it: stout member set ID --url URL.", "%s tells %s, where %s answers", who, at.URL, at.Replica.ID)
		case at.Err != nil && !at.Named && !ask.IsDenial(at.Err):
			g.add(Warn, "Where a master can't be reached from here, another replica passes calls on, which takes longer. If it is up, is its URL one of another network? stout member set ID --url URL changes it.", "%s tells %s, which can't be reached from here: %v", who, at.URL, at.Err)
		case at.Err == nil:
			g.ok("%s", at.URL)
		}
		if at.Named {
			named++
		}
	}
	if named == 1 && len(members) > 1 {
		g.add(Warn, "Name all of them, so that the cell is found while any of them is up: --server or STOUT_SERVER, parted by commas.", "one of %d members was named", len(members))
	}
}

func accessOn(s *Seen, g *gathered) {
	away := slices.ContainsFunc(s.Servers, func(at *Server) bool { return at.Err == nil && !at.loopback() })
	switch {
	case s.Cell == nil:
	case s.Cell.Access:
		g.ok("on")
	case away:
		g.add(Warn, "stout access enable turns it on; docs/settings.md, Access, says what to do before.", "off: whoever reaches the cell may do everything")
	default:
		g.ok("off, and the replicas listen on this machine only as far as can be seen")
	}
}

func deadlocks(s *Seen, g *gathered) {
	for _, at := range s.answered() {
		is, _ := at.Figures.Value(metricMaster)
		switch n, ok := at.Figures.Value(metricDeadlocks); {
		case is != 1 || !ok:
		case n > 0:
			g.add(Warn, "stout deadlocks shows them; stout session kill SESSION ends one.", "%s of sessions that wait for each other", format.Plural(int(n), "circle"))
		default:
			g.ok("no sessions wait for each other")
		}
	}
}
