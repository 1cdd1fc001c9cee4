package model

import (
	"slices"

	"github.com/stoutlock/stout/replica/state"
)

// acquireSet acquires several locks at once, or queues for all of them.
func (m *Model) acquireSet(c *state.Acquire) state.Result {
	if m.Session(c.Session) == nil {
		return state.AcquireResult{Verdict: state.NoSession}
	}
	paths := append([]string{c.Path}, c.With...)
	if r, known := m.againSet(c, paths); known {
		return r
	}
	result := state.AcquireResult{Verdict: state.Held}
	ahead := make([]int, len(paths))
	for i, path := range paths {
		var r state.AcquireResult
		r, ahead[i] = m.attempt(c, path)
		switch {
		case r.Verdict == state.Held:
		case r.Verdict == state.Conflict || c.Wait == state.NoWait:
			r.Set = &state.SetResult{Path: path}
			return r
		default:
			result.Verdict = state.Queued
		}
		result.Position = max(result.Position, ahead[i]+1)
	}
	if result.Verdict == state.Held {
		result.Position = 0
		result.Set = &state.SetResult{}
		for _, path := range paths {
			result.Set.Holds = append(result.Set.Holds, m.grant(newWait(c, path), nil))
		}
		result.Hold = result.Set.Holds[0]
		return result
	}
	m.Seq++
	seq := m.Seq
	for i, path := range paths {
		w := newWait(c, path)
		w.Seq, w.Set = seq, paths
		m.enqueue(c, w, ahead[i])
		if i == 0 {
			result.Wait = w
		}
	}
	return result
}

// againSet answers a request of a session that has holds or waits on the paths.
func (m *Model) againSet(c *state.Acquire, paths []string) (state.Result, bool) {
	var holds []*state.Hold
	var waits []*state.Wait
	for _, path := range paths {
		h, w := m.HoldOrWait(c.Session, path, c.Handle)
		holds, waits = append(holds, h), append(waits, w)
	}
	if slices.Equal(waits, make([]*state.Wait, len(paths))) && slices.Equal(holds, make([]*state.Hold, len(paths))) {
		return nil, false
	}
	if w := waits[0]; w != nil && len(w.Set) == len(paths) && !slices.ContainsFunc(waits, func(o *state.Wait) bool { return o == nil || o.Seq != w.Seq }) {
		switch {
		case w.Mode != c.Mode:
			return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchMode, Wait: w}, true
		case w.Limit != c.Limit:
			return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchLimit, Wait: w}, true
		case c.Wait == state.Persistent && !w.Keep:
			for _, path := range w.Set {
				_, part := m.HoldOrWait(c.Session, path, c.Handle)
				m.keep(part)
			}
			_, w = m.HoldOrWait(c.Session, c.Path, c.Handle)
		}
		return state.AcquireResult{Verdict: state.Queued, Wait: w}, true
	}
	for i, h := range holds {
		switch {
		case h == nil && (holds[0] != nil || waits[i] != nil), h != nil && holds[0] == nil:
			return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchSet, Set: &state.SetResult{Path: paths[i]}, Hold: h, Wait: waits[i]}, true
		case h == nil:
		case h.Mode != c.Mode:
			return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchMode, Set: &state.SetResult{Path: paths[i]}, Hold: h}, true
		case h.Limit != c.Limit:
			return state.AcquireResult{Verdict: state.Conflict, Mismatch: state.MismatchLimit, Set: &state.SetResult{Path: paths[i]}, Hold: h}, true
		}
	}
	return state.AcquireResult{Verdict: state.Held, Hold: holds[0], Set: &state.SetResult{Holds: holds}}, true
}

// ready reports whether the head of the queue at path is granted: at each path
// of its set it is the head, and there is room.
func (m *Model) ready(path string) bool {
	head := m.Lock(path).Queue[0]
	for _, other := range append([]string{path}, head.Set...) {
		l := m.Lock(other)
		if l.DelayID != 0 || l.Queue[0].Seq != head.Seq || !l.hasRoom(head.Mode, head.Limit) {
			return false
		}
	}
	return true
}

// grantSet grants all locks of a set, or ends its wait if one of them is
// forbidden. The caller hands on each lock of the set.
func (m *Model) grantSet(w *state.Wait) {
	var parts []*state.Wait
	for _, path := range w.Set {
		_, part := m.HoldOrWait(w.Session, path, w.Handle)
		parts = append(parts, part)
	}
	if i := slices.IndexFunc(parts, func(part *state.Wait) bool { return !m.mayLock(part) }); i >= 0 {
		m.end(parts[i])
	} else {
		for _, part := range parts {
			m.Lock(part.Path).Queue = slices.Clone(m.Lock(part.Path).Queue[1:])
			m.grant(part, part)
		}
	}
}

func (m *Model) handOnAll(w *state.Wait) {
	if w.Set == nil {
		m.handOn(w.Path)
	}
	for _, path := range w.Set {
		m.handOn(path)
	}
}

// dropWaits ends a wait with all of its set.
func (m *Model) dropWaits(w *state.Wait) {
	if w.Set == nil {
		m.dropWait(w)
	}
	for _, path := range w.Set {
		_, part := m.HoldOrWait(w.Session, path, w.Handle)
		m.dropWait(part)
	}
}
