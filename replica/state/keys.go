package state

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"iter"
)

// levelKeys is the first level with keys: files that are changed together with
// the lock at their path. It is also the first at which a session records the
// revision at which it was opened, and can be closed with lock-delays.
const levelKeys = 7

// MaxKeyValue bounds the content that a KeyStep writes, in bytes.
const MaxKeyValue = 512 << 10

// MaxKeySteps bounds the steps of a ChangeKeys.
const MaxKeySteps = 128

// ChangeKeys changes and reads keys, all or none. A key is the file at a path,
// together with the lock there. If a step fails, no step happens, and the
// result has each step that failed. The result is a KeysResult.
type ChangeKeys struct {
	Steps []KeyStep `cbor:"1,keyasint,omitempty"`
}

// KeyVerb is what a KeyStep does.
type KeyVerb uint8

// The numbers are written to disk.
const (
	KeySet           KeyVerb = 1  // write the file; it keeps its lock
	KeyCAS           KeyVerb = 2  // write the file if its revision is Index; 0 = if it does not exist
	KeyLock          KeyVerb = 3  // acquire the lock for Session and write the file
	KeyUnlock        KeyVerb = 4  // release the lock of Session and write the file
	KeyGet           KeyVerb = 5  // read the key; it must exist
	KeyGetOrEmpty    KeyVerb = 6  // read the key, which may be missing
	KeyGetTree       KeyVerb = 7  // read the keys with the prefix Path
	KeyCheckRevision KeyVerb = 8  // the revision of the file must be Index
	KeyCheckSession  KeyVerb = 9  // the session that holds the lock must be Session, empty = none
	KeyCheckAbsent   KeyVerb = 10 // there must be no such key
	KeyDelete        KeyVerb = 11 // delete the file and release its lock
	KeyDeleteCAS     KeyVerb = 12 // delete it if its revision is Index
	KeyDeleteTree    KeyVerb = 13 // delete the keys with the prefix Path
)

// KeyStep is one step of a ChangeKeys.
type KeyStep struct {
	Verb    KeyVerb `cbor:"1,keyasint"`
	Path    string  `cbor:"2,keyasint"` // for trees, a prefix of paths
	Content []byte  `cbor:"3,keyasint,omitempty"`
	Sum     []byte  `cbor:"4,keyasint,omitempty"` // SHA-256 of Content, for the verbs that write
	Flags   uint64  `cbor:"5,keyasint,omitempty"`
	Index   uint64  `cbor:"6,keyasint,omitempty"`
	Session string  `cbor:"7,keyasint,omitempty"`
	DelayMS int64   `cbor:"8,keyasint,omitempty"` // KeyLock: of the hold
	Ending  KeyEnd  `cbor:"9,keyasint,omitempty"` // KeyLock
}

// KeyEnd is what happens to a key's file when a hold on the key ends.
type KeyEnd uint8

// Values of KeyEnd. The numbers are written to disk.
const (
	NoKey      KeyEnd = 0 // the hold is not one of a key
	KeyStays   KeyEnd = 1 // the file stays, with a new revision
	KeyDeleted KeyEnd = 2 // the file is deleted if the session ends, otherwise as KeyStays
)

// Key is the file at a path and the session that holds the lock there, or the
// first of them; Session is empty if the lock has no holder. Locked reports that
// the session acquired it by a KeyLock: it is the only holder, and the grant came
// before the file's revision.
type Key struct {
	File    *File
	Session string
	Locked  bool
}

// KeysResult is the result of ChangeKeys: Done with the result of each step, or
// Failed with the failures.
type KeysResult struct {
	Verdict  Verdict
	Steps    [][]Key // the keys that each step wrote, checked or read
	Failures []KeyFailure
	Revision uint64 // of the state after the operation
}

// KeyFailure is why a step failed. Why is NoSession, Busy or Delayed for
// KeyLock, NotHeld for KeyUnlock, Nothing if there is no such key, TooLong if the
// steps read or delete too much, and Failed if a condition does not hold.
type KeyFailure struct {
	Step     int
	Why      Verdict
	Revision uint64 // of the key after the steps before; 0 if it does not exist
	Session  string // of the key
}

// Key finds the key at a path.
func (s *State) Key(path string) (Key, bool) {
	n, ok := s.nodes.Get(path)
	if !ok || n.File == nil {
		return Key{}, false
	}
	return s.keyOf(n), true
}

// Keys walks the keys with paths that have the given prefix, in bytewise order.
func (s *State) Keys(prefix string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for n := range s.nodesBelow(prefix, "") {
			if n.File != nil && !yield(s.keyOf(n)) {
				return
			}
		}
	}
}

// keyOf returns the key of a node with a file.
func (s *State) keyOf(n *Node) Key {
	k := Key{File: n.File}
	if n.Holders > 0 {
		for h := range s.Holders(n.Path) {
			k.Session, k.Locked = h.Session, h.Key != NoKey
			break
		}
	}
	return k
}

// writes reports whether a step with this verb writes a file.
func (v KeyVerb) writes() bool { return v >= KeySet && v <= KeyUnlock }

func (op *ChangeKeys) unknown() string {
	for i := range op.Steps {
		if v := op.Steps[i].Verb; v > KeyDeleteTree {
			return fmt.Sprintf("verb %d of a key", v)
		}
		if end := op.Steps[i].Ending; end > KeyDeleted {
			return fmt.Sprintf("end %d of a key", end)
		}
	}
	return ""
}

func (op *ChangeKeys) wellFormed() bool {
	for i := range op.Steps {
		if !op.Steps[i].sound() {
			return false
		}
	}
	return len(op.Steps) > 0 && len(op.Steps) <= MaxKeySteps
}

func (k *KeyStep) sound() bool {
	if k.Path == "" || !plain(k.Path) || !plain(k.Session) || k.Verb == 0 || k.DelayMS < 0 {
		return false
	}
	if k.Verb.writes() {
		return len(k.Content) <= MaxKeyValue && len(k.Sum) == sha256.Size && (k.Verb != KeyLock) == (k.Ending == NoKey)
	}
	return len(k.Content)+len(k.Sum) == 0 && k.Ending == NoKey
}

func (op *ChangeKeys) size() int {
	n := 32
	for i := range op.Steps {
		k := &op.Steps[i]
		n += 128 + len(k.Path) + len(k.Content) + len(k.Session)
	}
	return n
}

func (op *ChangeKeys) would(s *State) (Result, bool) {
	if op.certain(s) {
		return KeysResult{Verdict: Done}, true
	}
	e := edit(s, 0)
	r := op.try(e)
	return r, len(e.changes) > 0
}

// certain reports whether the operation is one step that surely changes the key
// and need not be tried.
func (op *ChangeKeys) certain(s *State) bool {
	if len(op.Steps) != 1 {
		return false
	}
	k := &op.Steps[0]
	hold, wait := s.HoldOrWait(k.Session, k.Path, "")
	switch k.Verb {
	case KeySet:
		f, there := s.File(k.Path)
		return !there || !f.has(k, f.Locks)
	case KeyLock:
		return hold == nil && wait == nil && k.acquire().verdict(s) == Held
	case KeyUnlock:
		return hold != nil && hold.Key != NoKey
	case KeyDeleteTree:
		all, why := k.tree(s, &keyRoom{keys: MaxDeleted})
		return why == 0 && len(all) > 0
	}
	return false
}

// acquire returns the request for the lock that a KeyLock makes.
func (k *KeyStep) acquire() *Acquire {
	return &Acquire{Session: k.Session, Path: k.Path, Mode: Exclusive, DelayMS: k.DelayMS}
}

func (op *Acquire) verdict(s *State) Verdict {
	r, _ := op.would(s)
	return r.(AcquireResult).Verdict
}

func (op *ChangeKeys) do(e *editor, _ Result) Result { return op.try(e) }

// try executes the steps. Later steps are tried after a failure, too: the caller
// gets all failures.
func (op *ChangeKeys) try(e *editor) Result {
	r := KeysResult{Verdict: Done}
	all := func() bool {
		left := keyRoom{keys: MaxDeleted, bytes: MaxResults}
		for i := range op.Steps {
			keys, why := op.Steps[i].apply(e, &left)
			if why != 0 {
				k, _ := e.Key(op.Steps[i].Path)
				r.Failures = append(r.Failures, KeyFailure{Step: i, Why: why, Revision: k.revision(), Session: k.Session})
			}
			r.Steps = append(r.Steps, keys)
		}
		return r.Failures == nil
	}
	if len(op.Steps) == 1 { // a step that fails changes nothing
		all()
	} else {
		e.attempt(all)
	}
	if r.Failures != nil {
		r.Verdict, r.Steps = Failed, nil
	}
	r.Revision = e.Revision
	return r
}

// apply executes a step. It changes nothing if it returns why the step failed.
func (k *KeyStep) apply(e *editor, left *keyRoom) (keys []Key, why Verdict) {
	now, there := e.Key(k.Path)
	switch k.Verb {
	case KeySet:
		return e.writeKey(k, now.locks(), false), 0
	case KeyCAS:
		if now.revision() != k.Index {
			return nil, Failed
		}
		return e.writeKey(k, now.locks(), false), 0
	case KeyLock:
		return k.lock(e, now)
	case KeyUnlock:
		h, _ := e.HoldOrWait(k.Session, k.Path, "")
		if h == nil || h.Key == NoKey {
			return nil, NotHeld
		}
		e.removeHold(h, e.gives(k.Session))
		e.writeKey(k, now.locks(), true)
		e.settle(k.Path)
		return e.keyAt(k.Path), 0
	case KeyGet, KeyGetOrEmpty:
		switch {
		case !there && k.Verb == KeyGet:
			return nil, Nothing
		case there && !left.reads(now.File):
			return nil, TooLong
		}
	case KeyGetTree:
		return k.tree(e.State, left)
	case KeyCheckRevision, KeyCheckSession:
		switch {
		case !there:
			return nil, Nothing
		case k.Verb == KeyCheckRevision && now.File.Revision != k.Index, k.Verb == KeyCheckSession && now.Session != k.Session:
			return nil, Failed
		}
	case KeyCheckAbsent:
		if there {
			return nil, Failed
		}
		return nil, 0
	case KeyDeleteCAS, KeyDelete:
		switch {
		case !there:
			return nil, 0
		case k.Verb == KeyDeleteCAS && now.File.Revision != k.Index:
			return nil, Failed
		}
		e.dropKey(now.File)
		return nil, 0
	case KeyDeleteTree:
		all, why := k.tree(e.State, left)
		for _, one := range all {
			e.dropKey(one.File)
		}
		return nil, why
	}
	return []Key{now}, 0
}

// lock acquires the lock without waiting, unless the session has it by an
// earlier KeyLock, and writes the file.
func (k *KeyStep) lock(e *editor, now Key) (keys []Key, why Verdict) {
	if _, lives := e.sessions.Get(k.Session); !lives {
		return nil, NoSession
	}
	hold, wait := e.HoldOrWait(k.Session, k.Path, "")
	if wait != nil || hold != nil && hold.Key == NoKey {
		return nil, Busy
	}
	locks := max(now.locks(), 1)
	if hold == nil {
		op := k.acquire()
		switch op.verdict(e.State) {
		case Held:
		case Delayed:
			return nil, Delayed
		default:
			return nil, Busy
		}
		n := e.node(k.Path)
		e.grant(&n, op.wait(n.Path, 0, nil, 0), false).Key = k.Ending // no reader has this new hold yet, so it may be changed
		locks = now.locks() + 1
	}
	return e.writeKey(k, locks, false), 0
}

// keyRoom is what the steps of a ChangeKeys may still read and delete: keys of
// trees, and bytes of paths and contents that they read. A short request then
// has no huge result, and no entry deletes more files than a DeleteBelow.
type keyRoom struct{ keys, bytes int }

// reads takes the room for reading a file. It returns false if there is none.
func (l *keyRoom) reads(f *File) bool {
	l.bytes -= len(f.Path) + len(f.Content)
	return l.bytes >= 0
}

// tree returns the keys with the prefix Path, if there is room.
func (k *KeyStep) tree(s *State, left *keyRoom) (all []Key, why Verdict) {
	for one := range s.Keys(k.Path) {
		if left.keys--; left.keys < 0 || k.Verb == KeyGetTree && !left.reads(one.File) {
			return nil, TooLong
		}
		all = append(all, one)
	}
	return all, 0
}

// locks returns how often the key was locked.
func (k *Key) locks() uint64 {
	if k.File == nil {
		return 0
	}
	return k.File.Locks
}

// revision returns the revision of the key's file, or 0 without one.
func (k *Key) revision() uint64 {
	if k.File == nil {
		return 0
	}
	return k.File.Revision
}

// has reports whether the file is what a step would write.
func (f *File) has(k *KeyStep, locks uint64) bool {
	return f.Flags == k.Flags && f.Locks == locks && bytes.Equal(f.Sum, k.Sum) && bytes.Equal(f.Content, k.Content)
}

// keyAt returns the key at a path as a list.
func (e *editor) keyAt(path string) []Key {
	k, _ := e.Key(path)
	return []Key{k}
}

// writeKey writes the file of a key. It leaves a file that has these contents
// already, unless always is set.
func (e *editor) writeKey(k *KeyStep, locks uint64, always bool) []Key {
	old, there := e.File(k.Path)
	if there && !always && old.has(k, locks) {
		return e.keyAt(k.Path)
	}
	f := &File{Path: k.Path, Content: k.Content, Sum: k.Sum, Size: len(k.Content), Flags: k.Flags, Locks: locks}
	if there {
		f.Session = old.Session
	}
	e.changeFile(f, old, e.caller)
	return e.keyAt(k.Path)
}

// changeFile stores f in place of old, which may be nil, and reports it. It
// returns f without its content.
func (e *editor) changeFile(f, old *File, by string) *File {
	changed := FileChanged{File: f}
	f.Revision, f.ModifiedAt, f.Principal = e.nextRevision(), e.Now, by
	if old != nil {
		f.Instance, f.Generation, f.CreatedAt = old.Instance, old.Generation+1, old.CreatedAt
		changed.OldPrincipal, changed.OldSize = old.Principal, old.Size
	} else {
		f.Instance, f.Generation, f.CreatedAt = f.Revision, 1, e.Now
	}
	e.putFile(f)
	changed.Stat = f.stat()
	e.record(changed)
	return changed.Stat
}

// dropKey deletes the file of a key and releases its lock. Its session loses
// the hold.
func (e *editor) dropKey(f *File) {
	e.dropFile(f, Deleted)
	var h *Hold
	for h = range e.Holders(f.Path) {
		break
	}
	if h != nil && h.Key != NoKey { // it is exclusive, so the lock has no other hold
		e.removeHold(h, Forced)
		e.lose(h, LostByTransaction)
		e.settle(f.Path)
	}
}

// endKey changes the file of a key because a hold on it has ended.
func (e *editor) endKey(h *Hold, why Reason) {
	old, there := e.File(h.Path)
	if h.Key == NoKey || !there {
		return
	}
	if h.Key == KeyDeleted && (why == Closed || why == Expired) {
		e.dropFile(old, why)
		return
	}
	f := *old
	e.changeFile(&f, old, old.Principal)
}
