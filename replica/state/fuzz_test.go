package state_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stoutlock/stout/replica/state"
)

// FuzzDecodeBatch: no bytes make it panic, and what is read can be written, read
// again as the same, and applied without breaking an invariant.
func FuzzDecodeBatch(f *testing.F) {
	full := fullBatch()
	for _, b := range []state.Batch{{}, full, {Epoch: 1, LeaseMS: 2000, Commands: full.Commands[:1]}} {
		data, err := b.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{1, 0xf6})
	f.Add([]byte{1, 0xa1, 3, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0}) // promises 2^32 commands
	start := richState(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := state.DecodeBatch(data)
		if err != nil {
			return
		}
		again, err := b.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		b2, err := state.DecodeBatch(again)
		if err != nil {
			t.Fatal(err)
		}
		if third, err := b2.Encode(); err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%x was read and written as %x, %v", again, third, err)
		}
		b.Epoch, b.LeaseMS = start.Epoch, 2000 // so that it is accepted
		next, out := start.Apply(start.Index+1, start.Term, b)
		if err := next.Check(); err != nil {
			t.Fatalf("%s\n%s\n%v", batchText(b), outcomeText(out), err)
		}
		restored, err := state.Restore(bytes.NewReader(snapshot(t, next)))
		if err != nil || !restored.Equal(next) {
			t.Fatalf("the state after %s is not restored: %v", batchText(b), err)
		}
	})
}

// FuzzRestore: no bytes make it panic, and a state that it returns passes Check,
// is restored from its own snapshot, and goes on.
func FuzzRestore(f *testing.F) {
	f.Add(snapshot(f, state.New()))
	f.Add(snapshot(f, opened(f, 1)))
	f.Add(snapshot(f, richState(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := state.Restore(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := state.Restore(bytes.NewReader(snapshot(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		if !again.Equal(s) || !reflect.DeepEqual(dumpText(again), dumpText(s)) {
			t.Fatalf("restored:\n%s\nagain:\n%s", dumpText(s), dumpText(again))
		}
		// Ending everything leaves nothing behind.
		for v := range s.Sessions("") {
			again, _ = again.Apply(again.Index+1, 1, state.Batch{LeaseMS: 1, Commands: []state.Command{{Kind: state.OpenOffice, Master: "r", Term: 1}}})
			again = applied(t, again, state.Command{Kind: state.CloseSession, Session: v.ID})
		}
		for l := range again.Locks("", "") {
			again = applied(t, again, state.Command{Kind: state.EndDelay, Path: l.Path, Seq: l.DelayID})
		}
		if again.SessionCount()+again.LockCount()+again.HoldCount()+again.WaitCount() != 0 {
			t.Fatalf("left behind:\n%s", dumpText(again))
		}
	})
}
