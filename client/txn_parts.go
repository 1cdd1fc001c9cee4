package client

import (
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// Condition is a condition of a transaction; see the functions When….
type Condition struct {
	lockapi.Condition
	err  error
	held *Held // must be good here, too
}

// WhenRevision holds while the file has this revision.
func WhenRevision(path string, revision uint64) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Revision: &revision}, err: lockapi.ValidatePath(path)}
}

// WhenPresent holds while the file exists.
func WhenPresent(path string) Condition { return whenFile(path, true) }

// WhenAbsent holds while the file does not exist.
func WhenAbsent(path string) Condition { return whenFile(path, false) }

func whenFile(path string, exists bool) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Exists: &exists}, err: lockapi.ValidatePath(path)}
}

// WhenHeld holds while the cell counts that very hold as held. If the hold is
// over here before sending, Commit returns ErrNotHeld and sends no request;
// Else runs only if the cell finds it over. A hold of several locks is one
// condition for each.
func WhenHeld(held *Held) Condition {
	if held == nil {
		return Condition{err: errNoHold}
	}
	return Condition{Condition: lockapi.Condition{Sequencer: held.sequencer}, held: held}
}

// WhenSequencer holds while the very grant that the sequencer describes is
// held.
func WhenSequencer(sequencer string) Condition {
	_, err := lockapi.ParseSequencer(sequencer)
	return Condition{Condition: lockapi.Condition{Sequencer: sequencer}, err: err}
}

// WhenAlive holds while the session with that id is alive.
func WhenAlive(session string) Condition {
	return Condition{Condition: lockapi.Condition{Session: session}}
}

// WhenFree holds while the lock has no holder, no waiter and no lock-delay.
func WhenFree(path string) Condition {
	return Condition{Condition: lockapi.Condition{Lock: path, State: lockapi.StateFree}, err: lockapi.ValidatePath(path)}
}

// Operation is an operation of a transaction; see the functions Op….
type Operation struct {
	lockapi.Operation
	err error
}

// OpPut writes a whole file. It accepts the options Ephemeral and Permanent.
func OpPut(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Put: w}, err}
}

// OpCreate is OpPut of a file that must not exist.
func OpCreate(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Create: w}, err}
}

// OpCreateSequential is OpPut of a file named by the prefix and 16 digits: the
// revision that creates it.
func OpCreateSequential(prefix string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(prefix, content, opts)
	return Operation{lockapi.Operation{CreateSequential: w}, err}
}

func writeOperation(path string, content []byte, opts []WriteOption) (*lockapi.WriteOperation, error) {
	o := makeWriteOptions(opts)
	w := &lockapi.WriteOperation{Path: path, Ephemeral: o.ephemeral}
	if utf8.Valid(content) {
		text := string(content)
		w.Content = &text
	} else {
		content = append([]byte{}, content...)
		w.ContentBase64 = &content
	}
	if o.ifRevision || o.ifAbsent || o.tell || o.holds != nil {
		return w, lockapi.Invalid("if", "an operation has no conditions of its own: give them to If")
	}
	return w, nil
}

// OpDelete deletes a file, if it exists.
func OpDelete(path string) Operation {
	return Operation{lockapi.Operation{Delete: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpGet reads a file.
func OpGet(path string) Operation {
	return Operation{lockapi.Operation{Get: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpAcquire acquires a lock, which must be available at once. It accepts the
// options Shared, Limit and LockDelay.
func OpAcquire(path, handle string, opts ...LockOption) Operation {
	o := makeLockOptions(opts)
	req := o.request("transaction", handle)
	err := lockapi.ValidatePath(path)
	if err == nil {
		err = req.Validate()
	}
	if err == nil && len(o.with) > 0 {
		err = lockapi.Invalid("with", "OpAcquire takes one lock; add an OpAcquire for each other one instead of With")
	}
	return Operation{lockapi.Operation{Acquire: &lockapi.AcquireOperation{
		Path: path, Handle: handle, Mode: req.Mode, Limit: req.Limit, LockDelayMS: req.LockDelayMS,
	}}, err}
}

// OpRelease releases the lock that the session holds under the handle; with a
// token other than 0, only that very grant.
func OpRelease(path, handle string, token uint64) Operation {
	return Operation{lockapi.Operation{Release: &lockapi.ReleaseOperation{Path: path, Handle: handle, Token: token}}, lockapi.ValidatePath(path)}
}
