package state_test

import (
	"crypto/sha256"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
)

func (r *run) changeKeys(t *rapid.T) state.Operation {
	op := &state.ChangeKeys{}
	for range rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "steps") {
		op.Steps = append(op.Steps, r.keyStep(t))
	}
	return op
}

func (r *run) keyStep(t *rapid.T) state.KeyStep {
	k := state.KeyStep{Path: rapid.SampledFrom(someFiles).Draw(t, "key"), Session: drawSession(t)}
	k.Verb = rapid.SampledFrom([]state.KeyVerb{state.KeySet, state.KeyCAS, state.KeyLock, state.KeyLock, state.KeyLock, state.KeyUnlock, state.KeyUnlock, state.KeyGet,
		state.KeyGetOrEmpty, state.KeyGetTree, state.KeyCheckRevision, state.KeyCheckSession, state.KeyCheckAbsent, state.KeyDelete, state.KeyDeleteCAS, state.KeyDeleteTree}).Draw(t, "verb")
	if k.Verb == state.KeyLock {
		k.Path = drawPath(t) // of those whose locks are checked
	}
	if l := r.model.Locks[k.Path]; l != nil && len(l.Holders) > 0 && rapid.Bool().Draw(t, "of the holder") {
		k.Session = l.Holders[0].Session
	}
	switch k.Verb {
	case state.KeySet, state.KeyCAS, state.KeyLock, state.KeyUnlock:
		k.Content = rapid.SampledFrom([][]byte{nil, []byte("x"), {0, 255}}).Draw(t, "content")
		sum := sha256.Sum256(k.Content)
		k.Sum, k.Flags = sum[:], rapid.Uint64Range(0, 1).Draw(t, "flags")
	case state.KeyGetTree, state.KeyDeleteTree:
		k.Path = rapid.SampledFrom([]string{"/", "/a", "/a/", "/none/"}).Draw(t, "prefix")
	}
	switch k.Verb {
	case state.KeyCAS, state.KeyDeleteCAS, state.KeyCheckRevision:
		if k.Index = r.revisionOf(t, k.Path); rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
			k.Index = 0
		}
	case state.KeyLock:
		k.DelayMS = rapid.SampledFrom([]int64{0, 1000}).Draw(t, "delay")
		k.Ending = rapid.SampledFrom([]state.KeyEnd{state.KeyStays, state.KeyDeleted}).Draw(t, "ending")
	}
	return k
}
