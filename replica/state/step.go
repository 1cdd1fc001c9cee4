package state

import (
	"strings"

	"github.com/stoutlock/stout/replica/state/access"
)

// Step is one step of a transaction. Each type has a row in the table of steps
// (transactioncode.go).
type Step interface {
	// sound reports whether the step keeps the bounds on which the state
	// relies.
	sound(op *Transaction) bool
	// take executes the step for a session, or returns why it cannot.
	apply(e *editor, session string) (StepResult, *Failure)
	size() int
}

// StepResult is the result of a step. The part that is set shows what the step
// did. All parts are empty if the file does not exist.
type StepResult struct {
	File    *File `cbor:"1,keyasint,omitempty"` // Write, Get; only Get includes the content
	Hold    *Hold `cbor:"2,keyasint,omitempty"` // Take
	Deleted int   `cbor:"3,keyasint,omitempty"` // Delete, DeleteBelow: number of files
	Freed   bool  `cbor:"4,keyasint,omitempty"` // Free

	Revision uint64 `cbor:"5,keyasint,omitempty"` // Delete, DeleteBelow: of the last deletion
}

// Owner selects the session with which a file ends.
type Owner uint8

// Values of Owner.
const (
	SameOwner Owner = 0 // unchanged; a new file is permanent
	Permanent Owner = 1
	OwnedBy   Owner = 2 // the file ends with the transaction's session
)

// When is the condition of a write or a deletion.
type When uint8

// Values of When.
const (
	Always     When = 0
	IfAbsent   When = 1 // there is no file
	IfRevision When = 2 // its revision is Write.Revision or Delete.Revision
)

// Write writes a whole file.
type Write struct {
	Path        string `cbor:"1,keyasint"`
	Content     []byte `cbor:"-"`          // after the body, see transactioncode.go
	Sum         []byte `cbor:"3,keyasint"` // SHA-256 of Content, computed by the master
	Owner       Owner  `cbor:"4,keyasint,omitempty"`
	When        When   `cbor:"5,keyasint,omitempty"`
	Revision    uint64 `cbor:"6,keyasint,omitempty"` // for IfRevision
	Sequential  bool   `cbor:"7,keyasint,omitempty"` // append the revision of the write to Path
	WithContent bool   `cbor:"8,keyasint,omitempty"` // if When does not hold, the answer has the file's content
	// CheckedFor is the principal that needs the right to write the name that
	// Sequential makes, while access is on: a user or access.Anonymous. It is
	// empty if no check is needed, and below levelRights.
	CheckedFor string `cbor:"9,keyasint,omitempty"`
}

func (w *Write) size() int { return 96 + len(w.Path) + len(w.Content) + len(w.CheckedFor) }

func (w *Write) sound(op *Transaction) bool {
	return w.Path != "" && plain(w.Path) && soundFile(w.Content, w.Sum) && w.Owner <= OwnedBy && w.When <= IfRevision &&
		(w.Owner != OwnedBy || op.Session != "") && (!w.Sequential || w.When == Always) && (w.CheckedFor == "" || w.Sequential)
}

func (w *Write) apply(e *editor, session string) (StepResult, *Failure) {
	path := w.Path
	if w.Sequential {
		path += sequenceName(e.Revision + 1)
	}
	if w.CheckedFor != "" && e.AccessOn && !e.policy.May(w.CheckedFor, access.Write, path).Allowed {
		return StepResult{}, &Failure{Why: Denied, Path: path}
	}
	old, there := e.File(path)
	if failure := w.When.fails(old, w.Revision); failure != nil {
		return StepResult{}, failure
	}
	if there && w.Sequential { // another writer has used the sequential name
		return StepResult{}, &Failure{Why: Failed, Current: old.stat()}
	}
	f := &File{Path: path, Content: w.Content, Sum: w.Sum, Size: len(w.Content)}
	if there {
		f.Session, f.Flags, f.Locks = old.Session, old.Flags, old.Locks
	}
	switch w.Owner {
	case Permanent:
		f.Session = ""
	case OwnedBy:
		f.Session = session
	}
	return StepResult{File: e.changeFile(f, old, e.caller)}, nil
}

// fails returns a failure if the condition does not hold for a file, which may
// be nil.
func (w When) fails(f *File, revision uint64) *Failure {
	switch {
	case w == IfAbsent && f == nil, w == Always, w == IfRevision && f != nil && f.Revision == revision:
		return nil
	}
	return &Failure{Why: Failed, Current: f.stat()}
}

// stat returns a copy of the file without its content; nil for nil.
func (f *File) stat() *File {
	if f == nil {
		return nil
	}
	s := *f
	s.Content = nil
	return &s
}

// SequenceDigits is the fixed width of the number in a sequential name. It
// makes the names sort in the log's order.
const SequenceDigits = 16

func sequenceName(revision uint64) string {
	digits := [SequenceDigits]byte{}
	for i := SequenceDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + revision%10)
		revision /= 10
	}
	return string(digits[:])
}

// Delete deletes a file. Deleting a missing file succeeds, unless it requires a
// revision.
type Delete struct {
	Path     string `cbor:"1,keyasint"`
	When     When   `cbor:"2,keyasint,omitempty"` // Always or IfRevision
	Revision uint64 `cbor:"3,keyasint,omitempty"`
}

func (d *Delete) size() int { return 32 + len(d.Path) }

func (d *Delete) sound(*Transaction) bool {
	return d.Path != "" && plain(d.Path) && (d.When == Always || d.When == IfRevision)
}

func (d *Delete) apply(e *editor, _ string) (StepResult, *Failure) {
	f, there := e.File(d.Path)
	if failure := d.When.fails(f, d.Revision); failure != nil {
		return StepResult{}, failure
	}
	if !there {
		return StepResult{}, nil
	}
	e.dropFile(f, Deleted)
	return StepResult{Deleted: 1, Revision: e.Revision}, nil
}

// MaxDeleted bounds the files that one step deletes.
const MaxDeleted = 10_000

// DeleteBelow deletes all files below a directory. It fails if there are more
// than MaxDeleted.
type DeleteBelow struct {
	Prefix string `cbor:"1,keyasint"` // ends in a slash
}

func (d *DeleteBelow) size() int { return 16 + len(d.Prefix) }

func (d *DeleteBelow) sound(*Transaction) bool {
	return len(d.Prefix) > 1 && strings.HasSuffix(d.Prefix, "/") && plain(d.Prefix)
}

func (d *DeleteBelow) apply(e *editor, _ string) (StepResult, *Failure) {
	var all []*File
	for f := range e.Files(d.Prefix, "") {
		if all = append(all, f); len(all) > MaxDeleted {
			return StepResult{}, &Failure{Why: Busy}
		}
	}
	r := StepResult{Deleted: len(all)}
	for _, f := range all {
		e.dropFile(f, Deleted)
		r.Revision = e.Revision
	}
	return r, nil
}

// Get reads a file.
type Get struct {
	Path string `cbor:"1,keyasint"`
}

func (g *Get) size() int               { return 16 + len(g.Path) }
func (g *Get) sound(*Transaction) bool { return plain(g.Path) }

func (g *Get) apply(e *editor, _ string) (StepResult, *Failure) {
	f, _ := e.File(g.Path)
	return StepResult{File: f}, nil
}

// Take acquires a lock for the transaction's session, without waiting.
type Take struct {
	Path    string `cbor:"1,keyasint"`
	Handle  string `cbor:"2,keyasint,omitempty"`
	Mode    Mode   `cbor:"3,keyasint"`
	Limit   int64  `cbor:"4,keyasint,omitempty"`
	DelayMS int64  `cbor:"5,keyasint,omitempty"`
}

func (t *Take) size() int { return 48 + len(t.Path) + len(t.Handle) }

func (t *Take) acquire(session string) *Acquire {
	return &Acquire{Session: session, Path: t.Path, Handle: t.Handle, Mode: t.Mode, Limit: t.Limit, DelayMS: t.DelayMS}
}

func (t *Take) sound(op *Transaction) bool {
	return op.Session != "" && t.acquire(op.Session).wellFormed()
}

func (t *Take) apply(e *editor, session string) (StepResult, *Failure) {
	op := t.acquire(session)
	found, changes := op.would(e.State)
	if changes {
		found = op.do(e, found)
	}
	r := found.(AcquireResult)
	if r.Verdict != Held {
		return StepResult{}, &Failure{Why: r.Verdict, Mismatch: r.Mismatch}
	}
	return StepResult{Hold: r.Hold}, nil
}

// Free releases a hold or wait of the transaction's session.
type Free struct {
	Path   string `cbor:"1,keyasint"`
	Handle string `cbor:"2,keyasint,omitempty"`
	Token  uint64 `cbor:"3,keyasint,omitempty"` // release only this grant; 0 = any
}

func (f *Free) size() int { return 32 + len(f.Path) + len(f.Handle) }

func (f *Free) sound(op *Transaction) bool { return op.Session != "" && plain(f.Path) }

func (f *Free) apply(e *editor, session string) (StepResult, *Failure) {
	op := &Release{Session: session, Path: f.Path, Handle: f.Handle, Token: f.Token}
	_, changes := op.would(e.State)
	if changes {
		op.end(e, LostByTransaction)
	}
	return StepResult{Freed: changes}, nil
}
