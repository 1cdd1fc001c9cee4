package history

import (
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// keyRun is a call under way in the model, with the shelf as its operations
// change it.
type keyRun struct {
	shelf
	attempt *Attempt
	left    []lockapi.Key // of the answer
}

// call makes the call with the outcome of its attempt, and reports whether that
// is possible.
func (t *keyRun) call() bool {
	a := t.attempt
	mine := keyHold{path: a.Path, session: a.Session, handle: a.Handle}
	switch a.Kind {
	case Acquire:
		if ended := contains(t.ended, a.Session); a.Outcome == Refused || ended || !t.lockable(mine) {
			return a.Outcome == Refused && !ended && !t.lockable(mine)
		}
		t.hold(mine)
		return true
	case Release:
		owns := t.holder(a.Path) == mine
		if contains(t.ended, a.Session) || a.Outcome != Unknown && owns != (a.Outcome == Done) {
			return false
		}
		if owns {
			t.release(a.Path)
		}
		return true
	case Read:
		return t.lockIs(a)
	case Get:
		f := a.Files.Result.Results[0].File
		at, found := t.find(a.Path)
		if found != (f != nil) || found && (f.SHA256 != t.keys[at].sum || !t.dates(at, f.Instance, f.Revision)) {
			return false
		}
		return t.reach(a.Files.Result.Revision)
	}
	return t.operations(a)
}

// lockIs reports whether a read of the lock by the API can be answered so.
func (t *keyRun) lockIs(a *Attempt) bool {
	h := t.holder(a.Path)
	switch a.State {
	case lockapi.StateHeld:
		return len(a.Holders) == 1 && h.path != "" && a.Holders[0].Session == h.session && a.Holders[0].Handle == h.handle
	case lockapi.StateDelayed:
		return h.path == "" && t.delays(a.Path)
	}
	return h.path == "" && !t.delays(a.Path)
}

// operations makes the operations of a call for keys.
func (t *keyRun) operations(a *Attempt) bool {
	c, before := a.Keys, t.shelf
	before.keys, before.holds = slices.Clone(t.keys), slices.Clone(t.holds)
	t.left = c.Found
	for i := range c.Operations {
		if !t.operation(&c.Operations[i], slices.Contains(c.Failed, i)) {
			return false
		}
	}
	if a.Outcome == Refused { // no operation happened
		t.shelf = before
		return len(c.Failed) > 0
	}
	return len(t.left) == 0 && (c.Index == 0 || t.reach(c.Index))
}

// operation makes one operation, or none if it fails. It reports whether that
// is possible.
func (t *keyRun) operation(op *lockapi.KeyOperation, fails bool) bool {
	at, found := t.find(op.Path)
	switch can := t.can(op, at, found); {
	case fails:
		return can != yes
	case can == no:
		return false
	case can == either: // so the revision is the one that it names
		t.keys[at].modify.at, t.last = op.Index, max(t.last, op.Index)
	}
	switch op.Verb {
	case lockapi.KeyDelete, lockapi.KeyDeleteCAS:
		if found {
			t.drop(at)
		}
	case lockapi.KeyGetTree:
		for i := range t.keys {
			if strings.HasPrefix(t.keys[i].path, op.Path) && !t.show(i, true) {
				return false
			}
		}
	case lockapi.KeyGet, lockapi.KeyGetOrEmpty:
		return !found || t.show(at, true)
	case lockapi.KeyCheckIndex, lockapi.KeyCheckSession:
		return t.show(at, false)
	case lockapi.KeyCheckNotExists:
	default:
		return t.write(op, at, found)
	}
	return true
}

// can reports whether an operation succeeds.
func (t *keyRun) can(op *lockapi.KeyOperation, at int, found bool) answer {
	mine := keyHold{path: op.Path, session: op.Session, door: true}
	switch op.Verb {
	case lockapi.KeyCAS, lockapi.KeyDeleteCAS, lockapi.KeyCheckIndex:
		if found {
			return t.keys[at].modify.is(op.Index)
		}
		return truth(op.Verb == lockapi.KeyDeleteCAS || op.Verb == lockapi.KeyCAS && op.Index == 0)
	case lockapi.KeyLock:
		return truth(!contains(t.ended, op.Session) && t.lockable(mine))
	case lockapi.KeyUnlock:
		return truth(t.holder(op.Path) == mine)
	case lockapi.KeyGet:
		return truth(found)
	case lockapi.KeyCheckSession:
		return truth(found && t.holder(op.Path).session == op.Session)
	case lockapi.KeyCheckNotExists:
		return truth(!found)
	}
	return yes
}

// write writes a key, and takes or releases its lock.
func (t *keyRun) write(op *lockapi.KeyOperation, at int, found bool) bool {
	k := storedKey{path: op.Path, sum: sum(op.Content), flags: op.Flags, modify: stamp{low: t.last}}
	if found {
		k.create, k.locks = t.keys[at].create, t.keys[at].locks
		t.keys[at] = k
	} else {
		k.create, k.fresh = k.modify, true
		t.keys = slices.Insert(t.keys, at, k)
	}
	switch {
	case op.Verb == lockapi.KeyLock && t.holder(op.Path).path == "":
		t.hold(keyHold{path: op.Path, session: op.Session, door: true})
		t.keys[at].locks++
	case op.Verb == lockapi.KeyUnlock:
		t.release(op.Path)
	}
	return t.show(at, false)
}

// drop deletes a key. A lock that the door took ends with it.
func (t *keyRun) drop(at int) {
	if path := t.keys[at].path; t.holder(path).door {
		t.release(path)
	}
	t.keys = slices.Delete(t.keys, at, at+1)
}

// show compares a key with the next one of the answer. Only a transaction and a
// read show keys.
func (t *keyRun) show(at int, content bool) bool {
	a := t.attempt
	if a.Outcome != Done || a.Kind == KeyChange && len(a.Keys.Found) == 0 && len(a.Keys.Operations) == 1 {
		return true
	}
	if len(t.left) == 0 {
		return false
	}
	f := t.left[0]
	t.left = t.left[1:]
	return t.shows(at, &f, content)
}
