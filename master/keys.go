package master

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/master/internal/rights"
	"github.com/stoutlock/stout/replica/state"
)

// The calls for keys. Only the API for Consul's clients makes them
// (lockapi/server/internal/consul).

var keyCalls = []entry{
	asking(change(Undecided, AuditChanges, pathOfKeys, (*Master).ChangeKeys), func(c *lockapi.ChangeKeys, by *Caller) {
		by.Ask.Right, by.Also = KnownCaller, rights.OfKeys(c, by.Also)
	}),
	query(ReadAt, func(c *lockapi.GetKey) string { return c.Path }, (*Master).GetKey),
	list(Reader, func(c *lockapi.ListKeys) string { return rights.ListPath(c.Prefix) }, (*Master).ListKeys),
	asking(remove(Operate, AuditOthers, nil, (*Master).EndSession), func(c *lockapi.EndSession, by *Caller) { by.about(c.Session, true) }).
		set(func(r *Row) { r.Frees = true }),
}

// pathOfKeys returns the path of the only operation, which the audit log shows.
func pathOfKeys(c *lockapi.ChangeKeys) string {
	if len(c.Operations) != 1 {
		return ""
	}
	return rights.ListPath(c.Operations[0].Path)
}

// ChangeKeys changes and reads keys, all or none. The answer has each operation
// that prevents it. The errors are too_many and the errors of every call.
func (m *Master) ChangeKeys(ctx context.Context, by *Caller, c *lockapi.ChangeKeys) (lockapi.KeysChanged, error) {
	return serve(m, by, func(o *office) (lockapi.KeysChanged, error) {
		var none lockapi.KeysChanged
		op := &state.ChangeKeys{Steps: make([]state.KeyStep, len(c.Operations))}
		if err := o.ReadyFor(op); err != nil {
			return none, err
		}
		s := o.log.State()
		for i := range c.Operations {
			op.Steps[i] = keyStep(s, &c.Operations[i])
		}
		found, ok := o.fromMemory(op)
		if !ok {
			reserved, err := o.reserveKeys(op, by.Principal)
			for _, r := range reserved {
				defer o.quotas.Release(r)
			}
			if err != nil {
				return none, err
			}
			var below []string
			for i := range op.Steps {
				if k := &op.Steps[i]; k.Verb == state.KeyDeleteTree {
					below = append(below, k.Path)
				}
			}
			turn, err := o.turnToDelete(ctx, by, below)
			if err != nil {
				return none, err
			}
			defer o.deletions.finish(turn)
			if found, err = o.propose(by, op); err != nil {
				return none, err
			}
		}
		r, _ := found.(state.KeysResult)
		return keysChanged(o.log.State(), by, r), nil
	})
}

// keyVerbs maps the contract's verbs to the state's.
var keyVerbs = map[lockapi.KeyVerb]state.KeyVerb{
	lockapi.KeySet: state.KeySet, lockapi.KeyCAS: state.KeyCAS, lockapi.KeyLock: state.KeyLock, lockapi.KeyUnlock: state.KeyUnlock,
	lockapi.KeyGet: state.KeyGet, lockapi.KeyGetOrEmpty: state.KeyGetOrEmpty, lockapi.KeyGetTree: state.KeyGetTree,
	lockapi.KeyCheckIndex: state.KeyCheckRevision, lockapi.KeyCheckSession: state.KeyCheckSession, lockapi.KeyCheckNotExists: state.KeyCheckAbsent,
	lockapi.KeyDelete: state.KeyDelete, lockapi.KeyDeleteCAS: state.KeyDeleteCAS, lockapi.KeyDeleteTree: state.KeyDeleteTree,
}

// keyStep returns an operation as a step of the state. A lock gets its delay
// and its end from the metadata of its session, which never change.
func keyStep(s *state.State, o *lockapi.KeyOperation) state.KeyStep {
	k := state.KeyStep{Verb: keyVerbs[o.Verb], Path: o.Path, Flags: o.Flags, Index: o.Index,
		Session: strings.ReplaceAll(o.Session, "\x00", "?")} // the state refuses a NUL; no session id has a "?"
	switch o.Verb {
	case lockapi.KeySet, lockapi.KeyCAS, lockapi.KeyLock, lockapi.KeyUnlock:
		sum := sha256.Sum256(o.Content)
		k.Content, k.Sum = o.Content, sum[:]
	}
	if o.Verb != lockapi.KeyLock {
		return k
	}
	k.Ending = state.KeyStays
	delay := lockapi.DefaultKeyDelay
	if v, lives := s.Session(o.Session); lives {
		if own, given := v.Meta[lockapi.MetaKeyDelay]; given {
			delay = own
		}
		if v.Meta[lockapi.MetaKeyBehavior] == lockapi.KeysDeleted {
			k.Ending = state.KeyDeleted
		}
	}
	if d, err := time.ParseDuration(delay); err == nil && d > 0 {
		k.DelayMS = min(max(d.Milliseconds(), 1), lockapi.MaxLockDelayMS)
	}
	return k
}

// reserveKeys reserves what an operation may write and hold, as transactions of
// each of its sessions would. The caller releases the reservations, also if
// there is an error.
func (o *office) reserveKeys(op *state.ChangeKeys, principal string) (all []quota.Reservation, err error) {
	var order []string
	writes, locks := &state.Transaction{}, map[string]*state.Transaction{}
	for i := range op.Steps {
		k := &op.Steps[i]
		if k.Sum == nil {
			continue
		}
		writes.Then = append(writes.Then, &state.Write{Path: k.Path, Content: k.Content})
		if k.Verb != state.KeyLock {
			continue
		}
		t := locks[k.Session]
		if t == nil {
			t = &state.Transaction{Session: k.Session}
			locks[k.Session], order = t, append(order, k.Session)
		}
		t.Then = append(t.Then, &state.Take{Path: k.Path})
	}
	reserve := func(t *state.Transaction) bool {
		var r quota.Reservation
		if r, err = o.quotas.Transaction(t, principal); err == nil {
			all = append(all, r)
		}
		return err == nil
	}
	if !reserve(writes) {
		return all, err
	}
	for _, session := range order {
		if session != "" && !reserve(locks[session]) {
			break
		}
	}
	return all, err
}

// obstacles maps the state's reasons of failures to the contract's.
var obstacles = map[state.Verdict]lockapi.KeyReason{
	state.Failed: lockapi.KeyCondition, state.Nothing: lockapi.KeyMissing, state.NoSession: lockapi.KeyNoSession, state.Busy: lockapi.KeyHeld,
	state.Delayed: lockapi.KeyDelayed, state.NotHeld: lockapi.KeyNotHeld, state.TooLong: lockapi.KeyTooLarge,
}

// keysChanged returns a result without what the caller may not read.
func keysChanged(s *state.State, by *Caller, r state.KeysResult) (out lockapi.KeysChanged) {
	for _, f := range r.Failures {
		out.Failures = append(out.Failures, lockapi.KeyFailure{Operation: f.Step, Why: obstacles[f.Why], ModifyIndex: f.Revision, Session: f.Session})
	}
	for _, keys := range r.Steps {
		var shown []lockapi.Key
		for _, k := range keys {
			if k.File != nil && by.who().MayRead(s, k.File.Path) {
				shown = append(shown, keyOf(k, true))
			}
		}
		out.Results = append(out.Results, shown)
	}
	return out
}

// keyOf returns a key with or without its content.
func keyOf(k state.Key, with bool) lockapi.Key {
	f := k.File
	out := lockapi.Key{Path: f.Path, Flags: f.Flags, Locks: f.Locks, CreateIndex: f.Instance, ModifyIndex: f.Revision, Session: k.Session, Locked: k.Locked}
	if with {
		out.Content = f.Content
	}
	return out
}

// GetKey reads a key.
func (m *Master) GetKey(ctx context.Context, q *Read, c *lockapi.GetKey) ([]lockapi.Key, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) ([]lockapi.Key, error) {
		k, there := s.Key(c.Path)
		if !there {
			return nil, nil
		}
		return []lockapi.Key{keyOf(k, true)}, nil
	})
}

// keyOverhead is what a key takes in an answer besides its path and content, in
// bytes.
const keyOverhead = 128

// ListKeys reads keys in bytewise order of their paths. The error is too_large
// if there are more than fit in an answer.
func (m *Master) ListKeys(ctx context.Context, q *Read, c *lockapi.ListKeys) ([]lockapi.Key, error) {
	return read(ctx, m, q, func(_ *office, s *state.State) (all []lockapi.Key, err error) {
		size := 0
		for k := range s.Keys(c.Prefix) {
			if s.AccessOn && !q.Caller.who().MayRead(s, k.File.Path) {
				continue
			}
			one := keyOf(k, !c.Names)
			if size += keyOverhead + len(one.Path) + len(one.Content); size > lockapi.MaxKeysBytes {
				return nil, lockapi.Errorf(lockapi.CodeTooLarge, "the keys with this prefix have more than %d bytes, the most that one answer may have; read them in parts", lockapi.MaxKeysBytes)
			}
			all = append(all, one)
		}
		return all, nil
	})
}

// EndSession ends a session as CloseSession does, but leaves the lock-delays of
// its holds.
func (m *Master) EndSession(_ context.Context, by *Caller, req *lockapi.EndSession) error {
	return m.closeSession(by, &state.CloseSession{Session: req.Session, Delays: true}, false)
}
