package client

import (
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// Condition is a condition of a transaction: see the functions When….
type Condition struct {
	lockapi.Condition
	err  error
	held *Held // that has to be good here, too
}

// WhenRevision holds while the file's revision is this one.
func WhenRevision(path string, revision uint64) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Revision: &revision}, err: lockapi.ValidatePath(path)}
}

// WhenPresent holds while there is such a file.
func WhenPresent(path string) Condition { return whenFile(path, true) }

// WhenAbsent holds while there is no such file.
func WhenAbsent(path string) Condition { return whenFile(path, false) }

func whenFile(path string, exists bool) Condition {
	return Condition{Condition: lockapi.Condition{File: path, Exists: &exists}, err: lockapi.ValidatePath(path)}
}

// WhenHeld holds while the cell counts that very hold as held. Where the hold
// is over here when it is to be sent, Commit returns ErrNotHeld and sends nothing; Else is for what
// only the cell can tell.
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

// WhenAlive holds while the session with that id lives.
func WhenAlive(session string) Condition {
	return Condition{Condition: lockapi.Condition{Session: session}}
}

// WhenFree holds while nobody holds the lock, and it is not delayed.
func WhenFree(path string) Condition {
	return Condition{Condition: lockapi.Condition{Lock: path, State: lockapi.StateFree}, err: lockapi.ValidatePath(path)}
}

// Operation is an operation of a transaction: see the functions Op….
type Operation struct {
	lockapi.Operation
	err error
}

// OpPut writes a whole file. Of the options it takes Ephemeral and Permanent.
func OpPut(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Put: w}, err}
}

// OpCreate is OpPut of a file that must not be there.
func OpCreate(path string, content []byte, opts ...WriteOption) Operation {
	w, err := writeOperation(path, content, opts)
	return Operation{lockapi.Operation{Create: w}, err}
}

// OpCreateSequential is OpPut of a file whose name is the prefix and 16 digits:
// the revision that makes it.
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

// OpDelete deletes a file, if it is there.
func OpDelete(path string) Operation {
	return Operation{lockapi.Operation{Delete: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpGet reads a file.
func OpGet(path string) Operation {
	return Operation{lockapi.Operation{Get: &lockapi.FileOperation{Path: path}}, lockapi.ValidatePath(path)}
}

// OpAcquire takes a lock, which has to be had at once. Of the options it takes
// Shared, Limit and LockDelay.
func OpAcquire(path, handle string, opts ...LockOption) Operation {
	o := makeLockOptions(opts)
	req := o.request("transaction", handle)
	err := lockapi.ValidatePath(path)
	if err == nil {
		err = req.Validate()
	}
	return Operation{lockapi.Operation{Acquire: &lockapi.AcquireOperation{
		Path: path, Handle: handle, Mode: req.Mode, Limit: req.Limit, LockDelayMS: req.LockDelayMS,
	}}, err}
}

// OpRelease gives back the lock that the session holds under the handle; with a
// token other than 0, only that very grant.
func OpRelease(path, handle string, token uint64) Operation {
	return Operation{lockapi.Operation{Release: &lockapi.ReleaseOperation{Path: path, Handle: handle, Token: token}}, lockapi.ValidatePath(path)}
}
