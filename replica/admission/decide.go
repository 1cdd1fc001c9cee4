package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Answer is what became of asking one replica for its card.
type Answer struct {
	Card Card
	Err  error // why there is no card
}

// Step is what to do next.
type Step int

// The steps.
const (
	Wait     Step = iota // nothing, but to ask again
	Save                 // keep Decision.Identity, durably, and ask again
	Go                   // keep Decision.Identity; the directory is a member's
	Stranger             // wait to be admitted, and ask again
)

func (s Step) String() string {
	return [...]string{"wait", "save", "go", "stranger"}[s]
}

// Decision is what Decide came to.
type Decision struct {
	Step     Step
	Identity Identity // where it is to be kept
	Why      string   // what is waited for, for people
	CellID   string   // of the cell that the directory is a stranger to
	Member   bool     // whether that cell has a member of the same name, as far as is known
}

// Self is what a replica brings to a decision.
type Self struct {
	Identity
	RaftAddr    string
	Names       []string // of the founding list, its own among them
	ConfigIndex uint64   // of the latest configuration in its log, committed or not; FindReplaced only
	Access      string   // digest of the secret with which it founds a cell with access on; empty for off
	// Joins says that it is to be a member of a cell that is there: it founds none.
	// Unanswered is why the members of that cell are not known, if they are not.
	Joins      bool
	Unanswered error
	// NewDirectory makes an id for a directory that gives its founding up.
	NewDirectory func() string
}

// Decide looks at the answers of the others in the founding list, by name, and
// says what a replica that does not run yet does next.
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

// settled reports whether the directory is a member's, whatever others say: a
// host that is down does not keep the others from starting.
func (s Self) settled() bool { return s.CellID != "" && s.Replaced == 0 }

// comeBack is for a directory that belongs to a cell. It goes on, whoever
// answers: all may start at once. Only one that was found to be replaced waits
// until it is a member again.
func (s Self) comeBack(answers map[string]Answer) Decision {
	if s.settled() {
		return Decision{Step: Go, Identity: s.Identity}
	}
	latest, _ := newest(answers, s.CellID)
	if latest.ConfigIndex > s.Replaced && latest.lists(s.ServerID()) {
		who := s.Identity
		who.Admitted, who.Replaced = latest.ConfigIndex, 0
		who.Known = *s.Known.Note(latest.ConfigIndex, latest.Members, latest.Removed)
		return Decision{Step: Go, Identity: who}
	}
	if latest.CellID == "" {
		return s.nobodyTells()
	}
	return s.stranger(latest, gone)
}

// nobodyTells is for a directory that is no member any more where no member of the
// cell answers: whether another has its place, or there is none, is not known.
func (s Self) nobodyTells() Decision {
	why := fmt.Sprintf("data directory %s of replica %s is not a member of cell %q (id %s) any more: it was removed or replaced, and no member of the cell answers at %s",
		s.Directory, s.ID, s.Cell, s.CellID, list(s.Names))
	if !s.Joins {
		why += "; where these are not the members any more, start it with --join and the URL of one that is"
	}
	return Decision{Step: Stranger, CellID: s.CellID, Member: !s.Joins, Why: why}
}

// awaitCell is for a directory that is to join a cell of which nobody answers.
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

// gone is for stranger to say how a member has come not to be one.
const gone = ""

// FindReplaced is for a running replica that hears of no leader. It reports
// whether the others know that this directory is no member any more: the latest
// configuration up to the place of the last one in its log, or behind that,
// does not list it. (The last one in its log may never have been committed, and
// be behind all that were.) Nor do those count who have not come to where it
// was admitted: its own log may not have come there either, and they may have
// been restarted, and not know yet what is committed. The identity that comes with it is to be kept,
// durably, and the replica to end.
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

// belong is for a directory without a cell where others have one.
func (s Self) belong(answers map[string]Answer) (Decision, bool) {
	var latest Card
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		theirs := answers[name].Card
		if theirs.CellID == "" {
			continue
		}
		latest, _ = newest(answers, theirs.CellID)
		founder := theirs.Founding.Has(s.ServerID())
		prepared := s.Founding.CellID(s.Cell) == theirs.CellID
		switch {
		case founder && !prepared, !prepared && latest.votes(s.ServerID()):
			return s.afresh("this directory was a member of cell " + theirs.CellID +
				" and does not know it: it was put back as it was before, and goes on as a new one"), true
		case prepared && (latest.ConfigIndex == 0 || latest.lists(s.ServerID())):
			return s.begin(s.Founding, theirs.CellID, 0), true
		case !prepared && latest.lists(s.ServerID()):
			d := s.begin(theirs.Founding, theirs.CellID, latest.ConfigIndex)
			d.Identity.Known = *new(Roll).Note(latest.ConfigIndex, latest.Members, latest.Removed)
			return d, true
		}
	}
	if latest.CellID == "" {
		return Decision{}, false
	}
	return s.stranger(latest, "it is new, or was emptied"), true
}

// afresh has a directory go on as a new one. Under its old id it may have shown
// a founding to others, or voted, and does not know it any more.
func (s Self) afresh(why string) Decision {
	who := s.Identity
	who.Founding, who.Directory = nil, s.NewDirectory()
	who.Access = ""
	return Decision{Step: Save, Identity: who, Why: why}
}

// begin makes the directory one of a cell.
func (s Self) begin(f Founding, cellID string, admitted uint64) Decision {
	who := s.Identity
	who.Founding, who.CellID, who.Admitted = f, cellID, admitted
	return Decision{Step: Go, Identity: who}
}

func (s Self) stranger(card Card, happened string) Decision {
	member := "has no member of that name"
	if card.ConfigIndex == 0 {
		member = "does not tell its members before it has a master"
	}
	// Who joins is new, until the cell says otherwise.
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
	return Decision{Step: Stranger, CellID: card.CellID, Member: known, Why: fmt.Sprintf(
		"data directory %s of replica %s is not a member of cell %q: %s, and the cell (id %s, as %s tells) %s",
		s.Directory, s.ID, s.Cell, happened, card.CellID, card.ID, member)}
}

// newest is the card of a cell's member with the latest configuration, and of
// those the one that has applied most.
func newest(answers map[string]Answer, cellID string) (best Card, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		c := answers[name].Card
		if c.CellID == cellID && (!ok || c.newer(best)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// Foreign is whose answers are those of another cell's members, for people; it
// is empty where there is nobody. A running replica that hears of no master may
// have been given the wrong data directory.
func Foreign(answers map[string]Answer, cellID string) string {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		if c := answers[name].Card; c.CellID != "" && c.CellID != cellID {
			others = append(others, name+" belongs to cell id "+c.CellID)
		}
	}
	return list(others)
}

// Known is what the others know a directory to have stored: the latest leader's
// word counts.
func Known(answers map[string]Answer, cellID string) (latest Stored) {
	for _, a := range answers {
		if s := a.Card.Stored; a.Card.CellID == cellID && s.Term > latest.Term {
			latest = s
		}
	}
	return latest
}

// Forgotten says what a directory has forgotten of what the others know, or
// nil. Its term is to be read after the index of its last entry: entries that a
// leader knows of may give way to those of a later term, and to nothing else.
func (s Stored) Forgotten(last, term uint64) error {
	switch {
	case term < s.Term:
		return fmt.Errorf("it knows of term %d, and was in term %d, as the master of that term tells", term, s.Term)
	case term == s.Term && s.Lost:
		return fmt.Errorf("it had stored all up to entry %d, and its log was found to end before, as the master tells", s.Index)
	case term == s.Term && last < s.Index:
		return fmt.Errorf("its log ends at entry %d, and it had stored all up to entry %d, as the master tells", last, s.Index)
	}
	return nil
}

// found is for a directory without a cell where nobody that answers has one.
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
		case !slices.Equal(a.Card.Names, s.Names):
			return wait("the founding list of %s is %s, and that of %s is %s: give all the same", name, list(a.Card.Names), s.ID, list(s.Names))
		case a.Card.Access != s.Access:
			return wait("%s: give all the same found-token-file, or none", differ(name, a.Card.Access, s.ID, s.Access))
		default:
			proposed = append(proposed, Founder{ID: name, Directory: a.Card.Directory, RaftAddr: a.Card.RaftAddr})
		}
	}
	if missing != nil {
		// A directory that was lost founds nothing by this, but waits for ever where
		// the cell that it was of has other members by now.
		return wait("a new cell is founded by all of %s together; waiting for %s; a replica of a cell that runs, with none of these as a member any more, is started with join instead", list(s.Names), list(missing))
	}
	slices.SortFunc(proposed, func(a, b Founder) int { return strings.Compare(a.ID, b.ID) })
	return s.settle(proposed, answers)
}

// differ says how two replicas differ in what they would found the cell with.
func differ(one, ones, other, others string) string {
	switch {
	case ones == "":
		return fmt.Sprintf("%s has a found-token-file, and %s has none", other, one)
	case others == "":
		return fmt.Sprintf("%s has a found-token-file, and %s has none", one, other)
	}
	return fmt.Sprintf("the found-token-file of %s and that of %s have different secrets", one, other)
}

// settle prepares, founds or gives up, where all others answered.
func (s Self) settle(proposed Founding, answers map[string]Answer) Decision {
	if s.Founding != nil && !slices.Equal(s.Founding, proposed) {
		return s.afresh("a founding that was prepared cannot come about: " + s.changed(proposed))
	}
	prepared := true
	for _, name := range s.Names {
		if name == s.ID {
			continue
		}
		theirs := answers[name].Card.Founding
		if theirs != nil && !slices.Equal(theirs, proposed) {
			return wait("%s has prepared another founding, and is about to give it up", name)
		}
		prepared = prepared && theirs != nil
	}
	if s.Founding == nil {
		who := s.Identity
		who.Founding, who.Access = proposed, s.Access
		return Decision{Step: Save, Identity: who, Why: "preparing to found the cell"}
	}
	if !prepared {
		return wait("waiting until all of %s have prepared to found the cell", list(s.Names))
	}
	return s.begin(s.Founding, s.Founding.CellID(s.Cell), 0)
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
