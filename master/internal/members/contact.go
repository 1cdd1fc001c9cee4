package members

import (
	"context"
	"math"
	"time"

	"github.com/stoutlock/stout/replica/admission"
)

// Contact records how long each member's directory has been silent, within one
// office. Every office starts from zero: earlier silence proves nothing about
// the others, because this replica may itself have been cut off. So a member
// may be replaced later than necessary, but never sooner.
type Contact struct {
	at      time.Duration            // of the last poll
	unheard map[string]time.Duration // server id → for how long
	answers map[string]uint64        // server id → membership.MemberStatus.Answers at the last poll
}

// note records one poll of all members at an instant of the office's clock. A
// directory is present if it answered a message of Raft's since the previous
// poll, or answers now. Silence counts only while all other voters are well,
// poll by poll. Each poll adds at most the given time: a master that was
// paused, by itself or with its machine, asked no member in the meantime.
func (a *Contact) note(now, most time.Duration, v View) {
	since := min(now-a.at, most)
	unheard, answers := make(map[string]time.Duration, len(v.members)), make(map[string]uint64, len(v.members))
	for _, m := range v.members {
		id := admission.ServerID(m.ID, m.Directory)
		answers[id] = m.Answers
		if v.has(func(o member) bool { return o.ID != m.ID && o.Voter && !o.well }) {
			continue // silence counts from the first poll at which they are well
		}
		heard := m.there || m.Answers != a.answers[id]
		unheard[id] = 0
		if was, known := a.unheard[id]; known && !heard {
			unheard[id] = was + since
		}
	}
	a.at, a.unheard, a.answers = now, unheard, answers
}

// of returns how long all directories of a name have been silent: the present
// one, and any that an operator has added to replace it.
func (a *Contact) of(id string, v View) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, m := range v.members {
		if m.ID == id {
			least = min(least, a.unheard[admission.ServerID(m.ID, m.Directory)])
		}
	}
	return least
}

// gone returns a member to replace and the new directory for it. The member was
// silent for the given time while all other voters were well. The new directory
// answers at the member's address, belongs to no cell and is not yet a member.
// If the name has a voter, the voter's entry decides. Chubby's replacement
// (section 2) waits for some hours.
func (a *Contact) gone(after time.Duration, v View) (old int, directory string, ok bool) {
	for i, m := range v.members {
		if m.stranger != "" && a.of(m.ID, v) >= after && !v.has(func(o member) bool {
			return o.Directory == m.stranger || o.ID == m.ID && o.Voter && !m.Voter
		}) {
			return i, m.stranger, true
		}
	}
	return 0, "", false
}

// replaceGone replaces a member that is gone by a new directory, as an operator
// would with Replace. It reports whether it did.
func (t *Table) replaceGone(ctx context.Context, o Office, a *Contact, seen View) bool {
	a.note(t.opts.Clock(), t.autoReplacePace()+2*AskTimeout, seen)
	old, directory, ok := a.gone(t.opts.AutoReplace, seen)
	if !ok {
		return false
	}
	m := seen.members[old]
	t.opts.Logger.Warn().Str("member", m.ID).Str("lost", m.Directory).Str("directory", directory).
		Dur("unheard_ms", a.of(m.ID, seen)).Msg("auto-replace: a new directory replaces one that is gone")
	return t.quietly(ctx, o, func(ctx context.Context) error { return t.admit(ctx, seen, m.Member, directory) }) == nil
}

// autoReplacePace returns the interval between polls for members that are gone.
func (t *Table) autoReplacePace() time.Duration {
	return max(pace, min(rest, t.opts.AutoReplace/4))
}
