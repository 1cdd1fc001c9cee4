package master

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stoutlock/stout/replica/admission"
)

// absences knows for how long each member's directory has not been heard of, in one
// office. It begins anew with each: what a replica heard before it was master, or
// while it could not reach anybody, says nothing of the others. A member is so
// replaced later than it might be, and never sooner.
type absences struct {
	at      time.Duration            // when it was looked last
	unheard map[string]time.Duration // server id → for how long
	answers map[string]uint64        // server id → cell.MemberStatus.Answers at the last look
}

// note records a look at all members, at an instant of the office's clock. A directory
// was heard of if it has answered a message of Raft's since the look before, or answers
// now. The time counts only while all others that vote are well, look by look. At most
// the given time counts since the look before: a master that was paused, or its machine,
// has asked nobody meanwhile.
func (a *absences) note(now, most time.Duration, r roll) {
	since := min(now-a.at, most)
	unheard, answers := make(map[string]time.Duration, len(r.members)), make(map[string]uint64, len(r.members))
	for _, v := range r.members {
		id := admission.ServerID(v.ID, v.Directory)
		answers[id] = v.Answers
		if !r.othersAreWell(v.ID) {
			continue // the time begins with the first look at which they are
		}
		heard := v.there || v.Answers != a.answers[id]
		unheard[id] = 0
		if was, known := a.unheard[id]; known && !heard {
			unheard[id] = was + since
		}
	}
	a.at, a.unheard, a.answers = now, unheard, answers
}

// othersAreWell reports whether all members of other names that vote are well.
func (r roll) othersAreWell(id string) bool {
	return !slices.ContainsFunc(r.members, func(v member) bool { return v.ID != id && v.Voter && !v.well })
}

// of is for how long no directory of a name was heard of: neither the one that has
// the place, nor one that an operator wants to have it.
func (a *absences) of(id string, r roll) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, v := range r.members {
		if v.ID == id {
			least = min(least, a.unheard[admission.ServerID(v.ID, v.Directory)])
		}
	}
	return least
}

// gone is a member whose place is to go to another directory of its name, and that
// directory. The member was not heard of for so long, while all others that vote were
// well. The directory answers in its place, belongs to no cell and is on its way to no
// place. Chubby's replacement (section 2) waits for some hours.
func (a *absences) gone(after time.Duration, r roll) (old int, directory string, ok bool) {
	for i, v := range r.members {
		if v.stranger == "" || a.of(v.ID, r) < after || r.isMember(v.stranger) {
			continue
		}
		if r.hasVoter(v.ID) && !v.Voter {
			continue // it is about the one that votes
		}
		return i, v.stranger, true
	}
	return 0, "", false
}

// isMember reports whether a directory is a member's, or is to become one.
func (r roll) isMember(directory string) bool {
	for _, v := range r.members {
		if v.Directory == directory {
			return true
		}
	}
	return false
}

// hasVoter reports whether a name votes.
func (r roll) hasVoter(id string) bool {
	for _, v := range r.members {
		if v.ID == id && v.Voter {
			return true
		}
	}
	return false
}

// replaceGone has a new directory take the place of one that is gone, as an operator
// would by Replace. It reports whether there was one.
func (m *Master) replaceGone(ctx context.Context, a *absences, seen roll) bool {
	a.note(m.opts.Clock(), m.autoReplacePace()+2*askTimeout, seen)
	old, directory, ok := a.gone(m.opts.AutoReplace, seen)
	if !ok {
		return false
	}
	v := seen.members[old]
	m.opts.Logger.Warn().Str("member", v.ID).Str("lost", v.Directory).Str("directory", directory).
		Dur("unheard_ms", a.of(v.ID, seen)).Msg("auto-replace: a new directory takes the place of one that was not heard of")
	return m.quietly(ctx, func(ctx context.Context) error { return m.takeIn(ctx, seen, v.Member, directory) }) == nil
}

// autoReplacePace is how often it is looked for members that are gone.
func (m *Master) autoReplacePace() time.Duration {
	return max(memberPace, min(memberRest, m.opts.AutoReplace/4))
}
