package state

import "slices"

// An Acquire of several locks. It waits in the queue of each with one number.
// Queues are ordered by priority and number, so two sets are in the same order
// wherever they meet, and never wait for each other. A set that is next at one
// lock and not yet admitted at another keeps both: those behind it wait.

// Paths returns all paths of the request.
func (op *Acquire) Paths() []string { return append([]string{op.Path}, op.With...) }

// one returns the request for one of the locks.
func (op *Acquire) one(path string) *Acquire {
	single := *op
	single.Path, single.With = path, nil
	return &single
}

func (op *Acquire) wouldSet(s *State) (Result, bool) {
	paths := op.Paths()
	if r, changes, exists := op.againSet(s, paths); exists {
		return r, changes
	}
	all := AcquireResult{Verdict: Held}
	for _, path := range paths {
		found, _ := op.one(path).would(s)
		r := found.(AcquireResult)
		switch r.Verdict {
		case Queued:
			all.Verdict, all.Position = Queued, max(all.Position, r.Position)
		case Held:
		case NoSession:
			return r, false
		default:
			r.Set = &SetResult{Path: path}
			return r, false
		}
	}
	return all, true
}

// againSet is again for a set. A session that has some of the locks must
// release them first, so that it never holds part of a set.
func (op *Acquire) againSet(s *State, paths []string) (r AcquireResult, changes, exists bool) {
	first, exists := s.handles.Get(HandleKey{op.Session, op.Path, op.Handle})
	if w := first.wait; w != nil && sameSet(w.Set, paths) {
		found, changes := op.again(first)
		return found.(AcquireResult), changes, true
	}
	holds := make([]*Hold, 0, len(paths))
	for _, path := range paths {
		has, ok := s.handles.Get(HandleKey{op.Session, path, op.Handle})
		switch {
		case !ok && !exists:
			continue
		case !ok, !exists, has.hold == nil:
			return AcquireResult{Verdict: Conflict, Mismatch: MismatchSet, Set: &SetResult{Path: path}, Hold: has.hold, Wait: has.wait}, false, true
		}
		if clash := op.clash(has.hold.Mode, has.hold.Limit); clash != NoMismatch {
			return AcquireResult{Verdict: Conflict, Mismatch: clash, Set: &SetResult{Path: path}, Hold: has.hold}, false, true
		}
		holds = append(holds, has.hold)
	}
	return AcquireResult{Verdict: Held, Hold: first.hold, Set: &SetResult{Holds: holds}}, false, exists
}

// sameSet reports whether two lists have the same paths; neither has one twice.
func sameSet(a, b []string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(path string) bool { return !slices.Contains(b, path) })
}

func (op *Acquire) doSet(e *editor, r AcquireResult) Result {
	switch paths := op.Paths(); {
	case r.Verdict == Held:
		r.Set = &SetResult{}
		for _, path := range paths {
			n := e.node(path)
			r.Set.Holds = append(r.Set.Holds, e.grant(&n, op.wait(n.Path, 0, nil, 0), false))
		}
		r.Hold = r.Set.Holds[0]
	case r.Wait != nil:
		for _, w := range slices.Collect(e.parts(r.Wait)) {
			e.keep(w)
		}
		_, r.Wait = e.HoldOrWait(op.Session, op.Path, op.Handle)
	default:
		seq := e.nextSeq()
		for _, path := range paths {
			n := e.node(path)
			e.enqueue(op.wait(n.Path, seq, paths, e.Now), n, op.one(path).position(e.State, n.Waiters))
		}
		_, r.Wait = e.HoldOrWait(op.Session, op.Path, op.Handle)
	}
	return r
}

// stored returns a wait in the form that a snapshot has. The wait for the first
// path of a set lists all paths; the others list only the first path.
func (w *Wait) stored() *Wait {
	if w.Set == nil || w.Path == w.Set[0] {
		return w
	}
	part := *w
	part.Set = w.Set[:1]
	return &part
}

// restoreSets gives each wait of a set the list of the first one, so that they
// share it.
func (e *editor) restoreSets() {
	for w := range e.Waits() {
		if len(w.Set) == 1 {
			if _, first := e.HoldOrWait(w.Session, w.Set[0], w.Handle); first != nil {
				w.Set = first.Set
			}
		}
	}
}
