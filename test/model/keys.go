package model

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/stoutlock/stout/replica/state"
)

// Key returns the key at a path: its file, which may be nil, and the session of
// the first holder of its lock.
func (m *Model) Key(path string) state.Key {
	k := state.Key{File: m.Files[path]}
	if l := m.Lock(path); len(l.Holders) > 0 && k.File != nil {
		k.Session, k.Locked = l.Holders[0].Session, l.Holders[0].Key != state.NoKey
	}
	return k
}

func (m *Model) changeKeys(op *state.ChangeKeys) state.Result {
	before := m.copied()
	r := state.KeysResult{Verdict: state.Done}
	for i := range op.Steps {
		keys, why := m.keyStep(&op.Steps[i])
		r.Steps = append(r.Steps, keys)
		if why != 0 {
			failure, now := state.KeyFailure{Step: i, Why: why}, m.Key(op.Steps[i].Path)
			if now.File != nil {
				failure.Revision, failure.Session = now.File.Revision, now.Session
			}
			r.Failures = append(r.Failures, failure)
		}
	}
	if r.Failures != nil {
		*m = before
		r.Verdict, r.Steps = state.Failed, nil
	}
	r.Revision = m.Revision
	return r
}

func (m *Model) keyStep(k *state.KeyStep) ([]state.Key, state.Verdict) {
	f, locks, revision := m.Files[k.Path], uint64(0), uint64(0)
	if f != nil {
		locks, revision = f.Locks, f.Revision
	}
	one := func() []state.Key { return []state.Key{m.Key(k.Path)} }
	own, waits := m.HoldOrWait(k.Session, k.Path, "")
	switch k.Verb {
	case state.KeySet, state.KeyCAS:
		if k.Verb == state.KeyCAS && k.Index != revision {
			return nil, state.Failed
		}
		m.writeKey(k, locks, false)
		return one(), 0
	case state.KeyLock:
		switch {
		case m.Session(k.Session) == nil:
			return nil, state.NoSession
		case waits != nil, own != nil && own.Key == 0:
			return nil, state.Busy
		case own == nil:
			r := m.decide(k.Path, state.Exclusive, 0)
			if r.Verdict == state.Delayed {
				return nil, state.Delayed
			}
			if r.Verdict != state.Held {
				return nil, state.Busy
			}
			h := m.grant(&state.Wait{Path: k.Path, Session: k.Session, Mode: state.Exclusive, DelayMS: k.DelayMS}, nil)
			h.Key = k.Ending
			locks++
		case f == nil:
			locks = 1
		}
		m.writeKey(k, max(locks, 1), false)
		return one(), 0
	case state.KeyUnlock:
		if own == nil || own.Key == 0 {
			return nil, state.NotHeld
		}
		why := state.GivenBack
		if owner := m.Session(k.Session).Principal; m.caller != "" && owner != "" && owner != m.caller {
			why = state.Forced
		}
		m.endHold(own, why)
		m.writeKey(k, locks, true)
		m.handOn(k.Path)
		return one(), 0
	case state.KeyGet, state.KeyGetOrEmpty:
		if k.Verb == state.KeyGet && f == nil {
			return nil, state.Nothing
		}
		return one(), 0
	case state.KeyCheckRevision, state.KeyCheckSession:
		switch {
		case f == nil:
			return nil, state.Nothing
		case k.Verb == state.KeyCheckRevision && k.Index != revision, k.Verb == state.KeyCheckSession && m.Key(k.Path).Session != k.Session:
			return nil, state.Failed
		}
		return one(), 0
	case state.KeyCheckAbsent:
		if f != nil {
			return nil, state.Failed
		}
		return nil, 0
	case state.KeyDelete, state.KeyDeleteCAS:
		if f != nil && k.Verb == state.KeyDeleteCAS && k.Index != revision {
			return nil, state.Failed
		}
		if f != nil {
			m.deleteKey(f)
		}
		return nil, 0
	}
	var tree []state.Key
	for _, path := range slices.Sorted(maps.Keys(m.Files)) {
		if strings.HasPrefix(path, k.Path) {
			tree = append(tree, m.Key(path))
		}
	}
	if k.Verb == state.KeyGetTree {
		return tree, 0
	}
	for _, one := range tree {
		m.deleteKey(one.File)
	}
	return nil, 0
}

func (m *Model) writeKey(k *state.KeyStep, locks uint64, always bool) {
	old := m.Files[k.Path]
	if old != nil && !always && old.Flags == k.Flags && old.Locks == locks && bytes.Equal(old.Content, k.Content) {
		return
	}
	m.changeFile(&state.File{Path: k.Path, Content: k.Content, Sum: k.Sum, Size: len(k.Content), Flags: k.Flags, Locks: locks, Principal: m.caller})
}

// changeFile writes a file and continues the numbers of the one before.
func (m *Model) changeFile(f *state.File) {
	changed := state.FileChanged{File: f}
	f.Revision, f.ModifiedAt = m.number(), m.Now
	f.Instance, f.Generation, f.CreatedAt = f.Revision, 1, m.Now
	if old := m.Files[f.Path]; old != nil {
		f.Instance, f.Generation, f.CreatedAt, f.Session = old.Instance, old.Generation+1, old.CreatedAt, old.Session
		changed.OldPrincipal, changed.OldSize = old.Principal, old.Size
	}
	m.Files[f.Path] = f
	changed.Stat = without(f)
	m.emit(changed)
}

// deleteKey deletes a file, and takes the hold on it back if it is one of a key.
func (m *Model) deleteKey(f *state.File) {
	m.deleteFile(f, state.Deleted)
	for _, h := range m.Lock(f.Path).Holders {
		if h.Key != 0 {
			m.endHold(h, state.Forced)
			m.lose(h, state.LostByTransaction)
			m.handOn(f.Path)
			return
		}
	}
}

// endKey changes or deletes the file of a hold that has ended.
func (m *Model) endKey(h *state.Hold, why state.Reason) {
	f := m.Files[h.Path]
	switch {
	case h.Key == 0 || f == nil:
	case h.Key == state.KeyDeleted && (why == state.Closed || why == state.Expired):
		m.deleteFile(f, why)
	default:
		same := *f
		m.changeFile(&same)
	}
}
