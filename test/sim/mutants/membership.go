package mutants

import "github.com/stoutlock/stout/test/internal/overlay"

// membership are faults of adding, removing, promoting, demoting and moving members,
// and of who joins.
func membership() []Mutant {
	const (
		section = "A member is a name and a directory"
		change  = "master/changemembers.go"
		keep    = "master/keepmembers.go"
		roll    = "master/members.go"
		auto    = "master/autoreplace.go"
		decide  = "replica/admission/decide.go"
	)
	return []Mutant{
		{"half-changes-stay", section, "every master puts the table and the configuration right",
			"a member is removed, or a master is lost between the two entries of a change",
			overlay.Edit{File: keep,
				Old: "m.quietly(ctx, func(ctx context.Context) error { return m.settleMembers(ctx, o) }) != nil || m.raiseLevel(ctx, o) != nil",
				New: "m.raiseLevel(ctx, o) != nil"}},
		{"added-behind-the-table", section, "add: first the table, then the configuration",
			"a master is lost after it has taken in a member that is to stay without a vote",
			overlay.Edit{File: change,
				Old: "\t\tif err := m.putMember(o, row); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn m.change(ctx, now.Index, cell.AddNonvoter, cell.MemberStatus{\n\t\t\tMember: cell.Member{ID: req.ID, RaftAddr: req.RaftAddr, APIURL: req.URL}, Directory: req.Directory})\n",
				New: "\t\tif err := m.change(ctx, now.Index, cell.AddNonvoter, cell.MemberStatus{\n\t\t\tMember: cell.Member{ID: req.ID, RaftAddr: req.RaftAddr, APIURL: req.URL}, Directory: req.Directory}); err != nil {\n\t\t\treturn err\n\t\t}\n\t\treturn m.putMember(o, row)\n"}},
		{"removed-from-the-table-first", section, "remove: first the configuration, then the table",
			"a member is removed",
			overlay.Edit{File: change,
				Old: "\t\tif err == nil && next >= 0 {\n",
				New: "\t\tif o := m.inOffice(); err == nil && next >= 0 && o != nil && len(now.Members) > 1 {\n\t\t\terr = m.noteMembers(o, slices.Delete(slices.Clone(now.Members), next, next+1))\n\t\t}\n\t\tif err == nil && next >= 0 {\n"}},
		{"added-with-a-vote", section, "a replica is added without a vote",
			"a replica joins",
			overlay.Edit{File: change, Old: "m.change(ctx, now.Index, cell.AddNonvoter, cell.MemberStatus{", New: "m.change(ctx, now.Index, cell.MakeVoter, cell.MemberStatus{"}},
		{"vote-before-it-runs", section, "a replica gets its vote when it has caught up",
			"a replica is added that does not come",
			overlay.Edit{File: keep, Old: "|| !v.well || v.card.Applied+caughtUpWithin < r.applied {", New: "{"}},
		{"nonvoter-gets-a-vote", section, "who is to stay without a vote stays so",
			"a replica is added to stay without a vote",
			overlay.Edit{File: keep, Old: "return !s.Voter && !put.Stays", New: "return !s.Voter && (put.Stays || !put.Stays)"}},
		{"two-of-a-name-vote", section, "two of one name never vote",
			"a new directory has caught up that is to take the place of another",
			overlay.Edit{File: keep, Old: "return r.make(cell.RemoveMember, r.members[old])", New: "return r.make(cell.MakeVoter, v)"}},
		{"moved-with-a-vote", section, "a move leaves the vote as it is",
			"a member without a vote moves",
			overlay.Edit{File: "replica/membership.go",
				Old: "\t\t// Both leave the suffrage as it is.\n\t\tfuture = r.raft.AddNonvoter(",
				New: "\t\tfuture = r.raft.AddVoter("}},
		{"moved-in-the-table-only", section, "move: the table, then the configuration",
			"a member moves",
			overlay.Edit{File: change, Old: "\treturn halfway(m.move(ctx))\n", New: "\treturn nil\n"}},
		{"master-keeps-its-office", section, "a master that is to lose its vote hands over first",
			"the master is removed or demoted",
			overlay.Edit{File: change, Old: "v.ID != m.opts.ID || v.Directory != m.members.Directory()", New: "v.ID != \"\" || v.Directory != m.members.Directory()"}},
		{"removal-judged-by-all", section, "a change that would leave too few healthy members is refused",
			"one of three is removed while another is gone",
			overlay.Edit{File: roll, Old: "\tif well > all/2 && all > 0 {", New: "\tif all+well > all/2 && all > 0 {"}},
		{"nonvoters-count", section, "how many failures the cell survives is counted by those that vote",
			"the members are listed while one has no vote",
			overlay.Edit{File: roll, Old: "\t\tif v.Voter && i != but {", New: "\t\tif i != but {"}},
		{"note-forgets-what-was-put", section, "what an operator has put into the table stays when it is noted anew",
			"a member is removed while another stays without a vote",
			overlay.Edit{File: "replica/state/members.go", Old: "; ok && was.Put {", New: "; ok && was.Put && !ok {"}},
		{"removed-goes-on", section, "a directory that was removed waits at its next start to be admitted again",
			"a replica is removed and started again",
			overlay.Edit{File: decide, Old: "return s.CellID != \"\" && s.Replaced == 0 }", New: "return s.CellID != \"\" }"}},
		{"joiner-founds", section, "a replica that joins founds nothing, whoever answers it or not",
			"a replica is started to join while nobody answers",
			overlay.Edit{File: decide, Old: "\tif self.Joins {\n", New: "\tif self.Joins && self.Unanswered == nil {\n"}},
		{"level-of-who-answers", "docs/operations.md", "the level is raised when all members run a release that knows it",
			"one member is down while all others are upgraded",
			overlay.Edit{File: "master/levels.go",
				Old: "\t\tmost = min(most, v.card.Level)",
				New: "\t\tif v.there {\n\t\t\tmost = min(most, v.card.Level)\n\t\t}"}},
		{"silence-of-before", section, "for how long a directory was not heard of is counted by one office alone",
			"a master is elected while a member's directory is gone",
			overlay.Edit{File: auto,
				Old: "known && !heard {\n\t\t\tunheard[id] = was + since",
				New: "!heard {\n\t\t\tunheard[id] = was + since\n\t\t\tif !known {\n\t\t\t\tunheard[id] = now\n\t\t\t}"}},
	}
}
