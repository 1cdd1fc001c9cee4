package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is the result of asking one replica for its card.
type Answer struct {
	Info Info
	Err  error // why there is no card
}

// Step is the next step to take.
type Step int

// The steps of a replica.
const (
	Wait     Step = iota // only ask again
	Save                 // store Decision.Identity, durably, and ask again
	Go                   // store Decision.Identity; the directory is a member's
	Outsider             // wait to be admitted, and ask again
)

func (s Step) String() string {
	return [...]string{"wait", "save", "go", "stranger"}[s]
}

// Decision is the result of Decide.
type Decision struct {
	Step     Step
	Identity Identity // for Save and Go, the identity to store
	Why      string   // the reason for waiting, for people
	CellID   string   // the cell to which the directory is a stranger
	Member   bool     // whether that cell has a member of the same name, as far as known
}

// Self is the input of a decision about the replica itself.
type Self struct {
	Identity
	RaftAddr    string
	Names       []string // of the founding list, including its own
	Addrs       []string // the Raft addresses of the founding list, in the order of Names
	ConfigIndex uint64   // of the latest configuration in its log, committed or not; only for FindReplaced
	Access      string   // digest of the secret for founding a cell with access on; empty for off
	// Joins is set if the replica is to join an existing cell, and founds none.
	// Unanswered is the error if the members of that cell are unknown.
	Joins      bool
	Unanswered error
	// NewDirectory makes an id for a directory that gives up its founding.
	NewDirectory func() string
}

// Decide returns the next step of a replica that does not run yet. The answers
// are by name, from the founding list or the cell to join.
func Decide(self Self, answers map[string]Answer) Decision {
	if self.CellID != "" {
		return self.comeBack(answers)
	}
	if d, ok := self.belong(answers); ok {
		return d
	}
	if self.Joins {
		return self.awaitCell(answers)
	}
	return self.found(answers)
}

// settled reports whether the directory certainly belongs to a member. It needs
// no answers from others, so a host that is down does not keep the rest from
// starting.
func (s Self) settled() bool { return s.CellID != "" && s.Replaced == 0 }

// comeBack decides for a directory that belongs to a cell. It starts regardless
// of the answers, so that all can start at once. Only a directory that was
// found to be replaced waits until it is a member again. It does not believe
// replicas that the cell had removed.
func (s Self) comeBack(answers map[string]Answer) Decision {
	if s.settled() {
		return Decision{Step: Go, Identity: s.Identity}
	}
	latest, _ := newest(s.Known.Without(answers), s.CellID)
	if latest.ConfigIndex > s.Replaced && latest.lists(s.ServerID()) {
		next := s.Identity
		next.Admitted, next.Replaced = latest.ConfigIndex, 0
		next.Known = *s.Known.Note(latest.ConfigIndex, latest.Members, latest.Removed)
		return Decision{Step: Go, Identity: next}
	}
	if latest.CellID == "" {
		return s.cellUnreachable()
	}
	return s.stranger(latest, gone)
}

// cellUnreachable decides for a directory that is no longer a member, when no
// member of the cell answers. It is unknown whether another directory has taken
// its place.
func (s Self) cellUnreachable() Decision {
	why := fmt.Sprintf("data directory %s of replica %s is not a member of cell %q (id %s) any more: it was removed or replaced, and no member of the cell answers at %s",
		s.Directory, s.ID, s.Cell, s.CellID, list(s.Names))
	if !s.Joins {
		why += "; if these are no longer the members, start it with --join and the URL of a member"
	}
	return Decision{Step: Outsider, CellID: s.CellID, Member: !s.Joins, Why: why}
}

// awaitCell decides for a directory that is to join a cell, when no member of
// the cell answers.
func (s Self) awaitCell(answers map[string]Answer) Decision {
	var missing []string
	if s.Unanswered != nil {
		missing = append(missing, s.Unanswered.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if err := answers[name].Err; err != nil {
			missing = append(missing, fmt.Sprintf("%s (%v)", name, err))
		} else {
			missing = append(missing, fmt.Sprintf("%s (it belongs to no cell yet)", name))
		}
	}
	return wait("to join cell %q, waiting for a member of it to answer: %s", s.Cell, list(missing))
}

// gone makes stranger derive the reason from the card.
const gone = ""

// FindReplaced reports whether the others know that this directory is no longer
// a member. A running replica without a leader calls it. The newest answer
// decides. Its configuration must not list this directory. It must have reached
// the last configuration in this replica's log, which may be uncommitted. It
// must also have reached the index at which this directory was admitted: a
// replica that has restarted may not know yet that the entries up to there are
// committed. The caller must store the returned identity durably, and end the
// replica.
func FindReplaced(self Self, answers map[string]Answer) (Decision, bool) {
	latest, ok := newest(answers, self.CellID)
	seen := max(latest.Applied, latest.ConfigIndex)
	if !ok || latest.ConfigIndex == 0 || seen < max(self.ConfigIndex, self.Admitted) || latest.lists(self.ServerID()) {
		return Decision{}, false
	}
	d := self.stranger(latest, gone)
	d.Identity = self.Identity
	d.Identity.Replaced = latest.ConfigIndex
	return d, true
}

// belong decides for a directory without a cell, if others have one.
func (s Self) belong(answers map[string]Answer) (Decision, bool) {
	var latest Info
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		theirs := answers[name].Info
		if theirs.CellID == "" {
			continue
		}
		latest, _ = newest(answers, theirs.CellID)
		founder := theirs.Founding.Has(s.ServerID())
		prepared := s.Founding.CellID(s.Cell) == theirs.CellID
		switch {
		case founder && !prepared, !prepared && latest.votes(s.ServerID()):
			return s.afresh("this directory was a member of cell " + theirs.CellID +
				" but does not know it: an older copy of it was put back; it continues as a new directory"), true
		case prepared && (latest.ConfigIndex == 0 || latest.lists(s.ServerID())):
			return s.begin(s.Founding, theirs.CellID, 0), true
		case !prepared && latest.lists(s.ServerID()):
			d := s.begin(theirs.Founding, theirs.CellID, latest.ConfigIndex)
			d.Identity.Known = *new(Roster).Note(latest.ConfigIndex, latest.Members, latest.Removed)
			return d, true
		}
	}
	if latest.CellID == "" {
		return Decision{}, false
	}
	return s.stranger(latest, "it is new, or was emptied"), true
}

// afresh continues with a new directory id. Under the old id the directory may
// have shown a founding to others, or voted, and may have forgotten that.
func (s Self) afresh(why string) Decision {
	next := s.Identity
	next.Founding, next.Directory = nil, s.NewDirectory()
	next.Access = ""
	return Decision{Step: Save, Identity: next, Why: why}
}

// begin makes the directory part of a cell.
func (s Self) begin(f Founding, cellID string, admitted uint64) Decision {
	next := s.Identity
	next.Founding, next.CellID, next.Admitted = f, cellID, admitted
	return Decision{Step: Go, Identity: next}
}

func (s Self) stranger(card Info, happened string) Decision {
	member := "has no member of that name"
	if card.ConfigIndex == 0 {
		member = "gives its members only after it has a master"
	}
	// If the card has no configuration, assume that the cell has a member of
	// this name, unless the replica joins.
	known := card.ConfigIndex == 0 && !s.Joins
	for _, m := range card.Members {
		if name, directory := Split(m); name == s.ID {
			known = true
			member = fmt.Sprintf("knows %s by directory %s", s.ID, directory)
		}
	}
	switch {
	case happened == gone && known:
		happened = "another was put in its place"
	case happened == gone:
		happened = "it was removed"
	}
	return Decision{Step: Outsider, CellID: card.CellID, Member: known, Why: fmt.Sprintf(
		"data directory %s of replica %s is not a member of cell %q: %s, and the cell (id %s, as %s reports) %s",
		s.Directory, s.ID, s.Cell, happened, card.CellID, card.ID, member)}
}

// newest returns the card of a member of the cell with the latest
// configuration, and among several the one that has applied most.
func newest(answers map[string]Answer, cellID string) (best Info, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		c := answers[name].Info
		if c.CellID == cellID && (!ok || c.newer(best)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// Foreign lists the replicas that answered as members of another cell, for
// people. Without any it is empty. A running replica without a master may have
// been given the wrong data directory.
func Foreign(answers map[string]Answer, cellID string) string {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if c := answers[name].Info; c.CellID != "" && c.CellID != cellID {
			others = append(others, name+" belongs to cell id "+c.CellID)
		}
	}
	return list(others)
}

// Known returns what the others know a directory to have stored. If the others
// differ, the record of the highest term counts.
func Known(answers map[string]Answer, cellID string) (latest Stored) {
	for _, a := range answers {
		if s := a.Info.Stored; a.Info.CellID == cellID && s.Term > latest.Term {
			latest = s
		}
	}
	return latest
}

// Forgotten returns an error if a directory has lost something that the others
// know it had. term must be read after last, the index of the last entry.
// Entries that a leader knows of may only give way to entries of a later term.
func (s Stored) Forgotten(last, term uint64) error {
	switch {
	case term < s.Term:
		return fmt.Errorf("it is in term %d, but was in term %d, as the master of that term reports", term, s.Term)
	case term == s.Term && s.Lost:
		return fmt.Errorf("it had stored every entry up to %d, but its log was found to end before that, as the master reports", s.Index)
	case term == s.Term && last < s.Index:
		return fmt.Errorf("its log ends at entry %d, but it had stored every entry up to %d, as the master reports", last, s.Index)
	}
	return nil
}

// found decides for a directory without a cell, if no answering replica has
// one.
func (s Self) found(answers map[string]Answer) Decision {
	proposed := Founding{{ID: s.ID, Directory: s.Directory, RaftAddr: s.RaftAddr}}
	var missing []string
	for _, name := range s.Names {
		a, asked := answers[name]
		switch {
		case name == s.ID:
		case !asked:
			missing = append(missing, name)
		case a.Err != nil:
			missing = append(missing, fmt.Sprintf("%s (%v)", name, a.Err))
		case !slices.Equal(a.Info.Names, s.Names):
			return wait("the founding list of %s is %s, but the list of %s is %s: configure the same list on every replica", name, list(a.Info.Names), s.ID, list(s.Names))
		case a.Info.Access != s.Access:
			return wait("%s: configure the same found-token-file on every replica, or on none", differ(name, a.Info.Access, s.ID, s.Access))
		default:
			proposed = append(proposed, Founder{ID: name, Directory: a.Info.Directory, RaftAddr: a.Info.RaftAddr})
		}
	}
	if missing != nil {
		// A directory that was lost cannot found anything here. But it waits
		// forever if the cell to which it belonged has other members by now.
		return wait("a new cell is founded by all of %s together; waiting for %s%s; to join a running cell that has none of them as a member any more, start with join instead", list(s.Names), list(missing), s.otherAddrs(answers))
	}
	slices.SortFunc(proposed, func(a, b Founder) int { return strings.Compare(a.ID, b.ID) })
	return s.settle(proposed, answers)
}

// differ describes how the founding secrets of two replicas differ.
func differ(one, ones, other, others string) string {
	switch {
	case ones == "":
		return fmt.Sprintf("%s has a found-token-file, and %s has none", other, one)
	case others == "":
		return fmt.Sprintf("%s has a found-token-file, and %s has none", one, other)
	}
	return fmt.Sprintf("the found-token-files of %s and %s have different secrets", one, other)
}

// settle decides after all others have answered: it prepares a founding, gives
// one up, waits, or founds.
func (s Self) settle(proposed Founding, answers map[string]Answer) Decision {
	if s.Founding != nil && !slices.Equal(s.Founding, proposed) {
		return s.afresh("the prepared founding cannot complete: " + s.changed(proposed))
	}
	var unprepared []string
	for _, name := range s.Names {
		if name == s.ID {
			continue
		}
		theirs := answers[name].Info.Founding
		if theirs != nil && !slices.Equal(theirs, proposed) {
			return wait("%s has prepared another founding, and is about to give it up", name)
		}
		if theirs == nil {
			unprepared = append(unprepared, name)
		}
	}
	if s.Founding == nil {
		next := s.Identity
		next.Founding, next.Access = proposed, s.Access
		return Decision{Step: Save, Identity: next, Why: "preparing to found the cell"}
	}
	if unprepared != nil {
		return wait("a new cell is founded by all of %s together; waiting until %s has prepared for it%s", list(s.Names), list(unprepared), s.otherAddrs(answers))
	}
	return s.begin(s.Founding, s.Founding.CellID(s.Cell), 0)
}

// otherAddrs names the addresses in which another founding list differs from
// this replica's. Such lists may work, so they are no reason to wait.
func (s Self) otherAddrs(answers map[string]Answer) string {
	var differ []string
	for _, other := range s.Names {
		theirs := answers[other].Info.Addrs
		for i, name := range s.Names {
			if len(theirs) == len(s.Names) && i < len(s.Addrs) && theirs[i] != s.Addrs[i] {
				differ = append(differ, fmt.Sprintf("the founding list of %s has %s at %s, that of %s at %s", other, name, theirs[i], s.ID, s.Addrs[i]))
			}
		}
	}
	if differ == nil {
		return ""
	}
	return " (" + list(differ) + ": correct the wrong one)"
}

func (s Self) changed(now Founding) string {
	var what []string
	for _, m := range now {
		if was := s.Founding.directory(m.ID); was != m.Directory {
			what = append(what, fmt.Sprintf("%s has directory %s and had %s", m.ID, m.Directory, was))
		}
	}
	if what == nil {
		what = []string{"an address has changed"}
	}
	return list(what)
}

func wait(format string, args ...any) Decision {
	return Decision{Step: Wait, Why: fmt.Sprintf(format, args...)}
}

func list(of []string) string { return strings.Join(of, ", ") }
