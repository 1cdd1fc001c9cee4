package master

import (
	"context"
	"time"
)

// absences knows for how long each member's directory has not been heard of, in one
// office. It begins anew with each: what a replica heard before it was master, or
// while it could not reach anybody, says nothing of the others. A member is so
// replaced later than it might be, and never sooner.
type absences struct {
	heard map[string]time.Duration // server id (name/directory) → when it last answered
}

// note takes in what became of asking all, at an instant of the office's clock.
func (a *absences) note(now time.Duration, r roll) {
	heard := make(map[string]time.Duration, len(r.members))
	for _, v := range r.members {
		id := v.ID + "/" + v.Directory
		was, known := a.heard[id]
		if v.there || !known {
			was = now
		}
		heard[id] = was
	}
	a.heard = heard
}

// gone is a member whose place is to go to another directory of its name, and that
// directory: it was not heard of for so long, the other one answers in its place,
// belongs to no cell and is on its way to no place, and all other members that vote
// are well. Chubby's replacement (section 2) waits for some hours.
func (a *absences) gone(now, after time.Duration, r roll) (old int, directory string, ok bool) {
	for i, v := range r.members {
		if v.stranger == "" || now-a.heard[v.ID+"/"+v.Directory] < after || r.isMember(v.stranger) {
			continue
		}
		if r.hasVoter(v.ID) && !v.Voter {
			continue // it is about the one that votes
		}
		if all, well := r.voters(i); well < all || r.mayRemove(i) != nil {
			continue
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
	now := m.opts.Clock()
	a.note(now, seen)
	old, directory, ok := a.gone(now, m.opts.AutoReplace, seen)
	if !ok {
		return false
	}
	v := seen.members[old]
	m.opts.Logger.Warn().Str("member", v.ID).Str("lost", v.Directory).Str("directory", directory).
		Dur("unheard_ms", now-a.heard[v.ID+"/"+v.Directory]).Msg("auto-replace: a new directory takes the place of one that was not heard of")
	return m.quietly(ctx, func(ctx context.Context) error { return m.takeIn(ctx, seen, v.Member, directory) }) == nil
}

// autoReplacePace is how often it is looked for members that are gone.
func (m *Master) autoReplacePace() time.Duration {
	return max(memberPace, min(memberRest, m.opts.AutoReplace/4))
}
