package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/lockapi"
)

// Bounds of a lag, in entries: a healthy replica is a few behind while the cell is
// busy, and one that is too far is of no help.
const (
	lagWarn = 64
	lagBad  = 10_000
)

func office(s *Seen) []Finding {
	switch c := s.Cell; {
	case c == nil && isDenial(s.CellErr):
		return one(AreaCell, "master", Unknown, "Ask with a credential of one who may observe.", "the cell does not tell us of its master: %v", s.CellErr)
	case c == nil:
		return one(AreaCell, "master", Unknown, "", "no replica tells of the cell: %s", orNothing(s.CellErr))
	case c.Master == nil:
		return one(AreaCell, "master", Bad, "A master needs a majority of the voters that see each other. Start those that are down; stout status shows which.", "there is none")
	case !c.Lease.Held:
		return one(AreaCell, "master", Bad, "If it stays so, stout transfer makes another replica the master. See its log, and look at its disk and its network: it can't reach a majority, or its disk hangs.", "%s is named, and does not hold its lease", c.Master.ID)
	default:
		return one(AreaCell, "master", OK, "", "%s in epoch %d; its lease of %s has %s left", c.Master.ID, c.Epoch, ms(c.Lease.TermMS), ms(c.Lease.RemainingMS))
	}
}

func ms(n int64) string { return took(time.Duration(n) * time.Millisecond) }

// lostChanges reports replicas that have acknowledged changes which the master lacks.
func lostChanges(s *Seen) []Finding {
	g := gathered{area: AreaCell, check: "acknowledged changes"}
	if s.Cell == nil {
		return nil
	}
	for _, r := range s.Cell.Replicas {
		if r.Fault != "" {
			g.add(Bad, `Keep every data directory as it is; see "When acknowledged changes are lost" in docs/operations.md.`, "%s does not follow the master: %s", r.ID, r.Fault)
		}
	}
	return g.all()
}

// spare is how many more failures the cell bears.
func spare(s *Seen) []Finding {
	if s.Members == nil {
		return one(AreaCell, "failures borne", Unknown, "", "the cell does not tell of its members: %s", orNothing(s.MembersErr))
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
	bears, could := s.Members.Tolerates, (voters-1)/2
	const area, check = AreaCell, "failures borne"
	switch {
	case voters < 3:
		return one(area, check, Warn, "Have three replicas: one of them may then fail.", "none: %s has a vote", format.Plural(voters, "replica"))
	case bears == 0:
		return one(area, check, Bad, "Bring back the members that are down, or replace them: stout status has the command.", "none, where it could be %d: %d of %d voters are well. The next failure may stop the cell", could, well, voters)
	case bears < could:
		return one(area, check, Warn, "Bring back the members that are down, or replace them: stout status has the command.", "%d more, where it could be %d: %d of %d voters are well", bears, could, well, voters)
	case voters%2 == 0:
		return one(area, check, Warn, "An even number of voters bears no more failures than one less. Add one, or take the vote from one.", "%d more, of %d voters", bears, voters)
	}
	return one(area, check, OK, "", "%d more, of %d voters", bears, voters)
}

func membership(s *Seen) []Finding {
	if s.Members == nil {
		return nil
	}
	g := gathered{area: AreaCell, check: "members"}
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
	return g.all()
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

func lag(s *Seen) []Finding {
	if s.Members == nil {
		return nil
	}
	g := gathered{area: AreaCell, check: "lag"}
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
	return g.all()
}

func versions(s *Seen) []Finding {
	runs := map[string][]string{}
	var order []string
	if s.Members != nil {
		for _, m := range s.Members.Members {
			if m.Version == "" {
				continue
			}
			if runs[m.Version] == nil {
				order = append(order, m.Version)
			}
			runs[m.Version] = append(runs[m.Version], m.ID)
		}
	}
	level := uint64(0)
	if s.Cell != nil {
		level = s.Cell.Level
	}
	switch len(order) {
	case 0:
		return nil
	case 1:
		return one(AreaCell, "releases", OK, "", "all run %s, at level %d", order[0], level)
	}
	var words []string
	for _, v := range order {
		words = append(words, list(runs[v])+" run "+v)
	}
	return one(AreaCell, "releases", Warn, "Finish the upgrade: what is new is off until all members know it (docs/operations.md, Upgrades).", "%s; the level is %d", strings.Join(words, ", "), level)
}

// urls is whether what members tell clients can be used from here.
func urls(s *Seen) []Finding {
	g := gathered{area: AreaCell, check: "members' URLs"}
	named := 0
	for _, at := range s.Servers {
		if len(at.Members) == 0 {
			continue
		}
		who := list(at.Members)
		switch {
		case len(at.Members) > 1:
			g.add(Bad, "Give each its own: stout member set ID --url URL.", "%s tell one and the same URL, %s", who, at.URL)
		case at.Replica != nil && at.Replica.ID != at.Members[0]:
			g.add(Bad, "Correct it: stout member set ID --url URL.", "%s tells %s, where %s answers", who, at.URL, at.Replica.ID)
		case at.Err != nil && !at.Named && !isDenial(at.Err):
			g.add(Warn, "Where a master can't be reached from here, another replica passes calls on, which takes longer. If it is up, is its URL one of another network? stout member set ID --url URL changes it.", "%s tells %s, which can't be reached from here: %v", who, at.URL, at.Err)
		case at.Err == nil:
			g.ok("%s", at.URL)
		}
		if at.Named {
			named++
		}
	}
	if members := countMembers(s); named == 1 && members > 1 {
		g.add(Warn, "Name all of them, so that the cell is found while any of them is up: --server or STOUT_SERVER, parted by commas.", "one of %d members was named", members)
	}
	return g.all()
}

func countMembers(s *Seen) int {
	all := map[string]bool{}
	for _, at := range s.Servers {
		for _, m := range at.Members {
			all[m] = true
		}
	}
	return len(all)
}

func accessOn(s *Seen) []Finding {
	if s.Cell == nil {
		return nil
	}
	away := slices.ContainsFunc(s.Servers, func(at *Server) bool { return at.Err == nil && !at.loopback() })
	switch {
	case s.Cell.Access:
		return one(AreaCell, "access", OK, "", "on")
	case away:
		return one(AreaCell, "access", Warn, "stout access enable turns it on; docs/settings.md, Access, says what to do before.", "off: whoever reaches the cell may do everything")
	}
	return one(AreaCell, "access", OK, "", "off, and the replicas listen on this machine only as far as can be seen")
}

func deadlocks(s *Seen) []Finding {
	for _, at := range s.answered() {
		if is, _ := at.Figures.value(metricMaster); is != 1 {
			continue
		}
		if n, ok := at.Figures.value(metricDeadlocks); ok && n > 0 {
			return one(AreaCell, "deadlocks", Warn, "stout deadlocks shows them; stout session kill SESSION ends one.", "%s of sessions that wait for each other", format.Plural(int(n), "circle"))
		} else if ok {
			return one(AreaCell, "deadlocks", OK, "", "no sessions wait for each other")
		}
	}
	return nil
}
