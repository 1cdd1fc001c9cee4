package master

import (
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// rechecking is what must be checked again because rights have changed. Changes
// add to it, and one goroutine works it off. Changes that arrive during a pass
// share the next one. The office's mutex guards it.
type rechecking struct {
	running bool
	below   map[string]bool // the waits at these paths and below them; "/" for all waits and calls
}

// expelledAtOnce is how many waits are ended, or their calls woken, at the same
// time.
const expelledAtOnce = 256

// recheckBelow has the waits at and below a path checked again because rights
// have changed there. Calls check themselves when they are woken, and the log
// ends queue positions. Grants stay until they are released. o.mu is held.
func (o *office) recheckBelow(below string) {
	r := &o.rechecking
	if r.below == nil {
		r.below = map[string]bool{}
	}
	r.below[below] = true
	if !r.running {
		r.running = true
		go o.recheck()
	}
}

// recheck runs until nothing is left to check. If mastership is lost, the next
// office checks everything.
func (o *office) recheck() {
	for {
		o.mu.Lock()
		below := o.rechecking.below
		o.rechecking = rechecking{running: len(below) > 0}
		o.mu.Unlock()
		if len(below) == 0 {
			return
		}
		s := o.log.State()
		if s.AccessOn && !o.recheckAll(s, below) {
			return
		}
	}
}

// recheckAll checks all waits by one state. It returns false if mastership is
// lost.
func (o *office) recheckAll(s *state.State, below map[string]bool) bool {
	if below["/"] {
		o.wakeAll()
		return o.recheckPath(s, "/") == nil
	}
	for _, path := range slices.Sorted(maps.Keys(below)) {
		if !isBelow(below, path) && o.recheckPath(s, path) != nil {
			return false
		}
	}
	return true
}

// isBelow reports whether a path is below one of the others.
func isBelow(paths map[string]bool, path string) bool {
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if paths[path[:i]] {
			return true
		}
	}
	return false
}

// wakeAll makes all waiting calls check their rights again.
func (o *office) wakeAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.waiters.byHandle {
		for _, w := range c.calls {
			w.wakeup.Wake()
		}
	}
	o.sessions.wake()
}

// recheckPath checks the waits at and below a path. It ends a wait if the
// session's principal may not lock there, and wakes the calls of the others. A
// later wait was checked by a later state.
func (o *office) recheckPath(s *state.State, path string) error {
	part := make([]*state.Wait, 0, expelledAtOnce)
	for w := range s.WaitsBelow(path) {
		if part = append(part, w); len(part) == cap(part) {
			if err := o.recheckPart(s, part); err != nil {
				return err
			}
			part = part[:0]
		}
	}
	return o.recheckPart(s, part)
}

func (o *office) recheckPart(s *state.State, waits []*state.Wait) error {
	o.mu.Lock()
	for _, w := range waits {
		if c := o.waiters.byHandle[w.HandleKey()]; c != nil {
			for _, call := range c.calls {
				call.wakeup.Wake()
			}
		}
	}
	o.mu.Unlock()
	var under []func() (state.Result, error)
	for _, w := range waits {
		if !rights.MayWait(s, w) {
			under = append(under, o.begin(&Caller{}, &state.Expel{Session: w.Session, Path: w.Path, Handle: w.Handle, Seq: w.Seq}))
		}
	}
	var err error
	for _, ended := range under {
		if _, e := ended(); e != nil {
			err = e
		}
	}
	return err
}
