package state_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/replica/state"
)

// FuzzDecodeBatch: no bytes make it panic. A decoded batch can be encoded and decoded
// again without a change. Applying it gives the same result each time, also on a
// restored state. The new state passes Check and can be restored.
func FuzzDecodeBatch(f *testing.F) {
	full := fullBatch()
	for _, b := range []state.Batch{{}, full, {Epoch: 1, LeaseMS: 2000, Commands: full.Commands[4:5]}} {
		data, err := b.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	odd := state.Batch{Epoch: 1, LeaseMS: 2000, Commands: commands(
		&state.Acquire{Session: "s1", Mode: state.Exclusive}, // without a path
		&state.Acquire{Session: "s1", Path: "/a\x00b", Mode: state.Exclusive},
		&state.OpenSession{Session: "s9", Meta: map[string]string{}},
		&state.OpenOffice{Master: "r1", Term: 1}, // not alone
		&state.ReportSum{Entry: 1, Sum: []byte{1, 2, 3}},
	)}
	data, err := odd.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, head := range []string{
		"\xa0", "\x83\x01\x01", "\x83\xf9\x3c\x00\x01\x00", "\x83\x20\x01\x00", // a map, cut short, a float, below zero
		"\x9f\x01\x01\x00\xff", "\x83\x01\x01\x01\x83\x00\x00\x60\xa0", // indefinite length, no kind
	} {
		f.Add([]byte("\x02" + head))
	}
	f.Add([]byte{2, 0xf6})
	f.Add([]byte{2, 0x83, 1, 1, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0}) // claims 2^32 commands
	start := richState(f)
	twin, err := state.Restore(bytes.NewReader(snapshot(f, start)))
	if err != nil {
		f.Fatal(err)
	}
	hash := start.Hash()
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		b, err := state.DecodeBatch(data)
		if err != nil {
			return
		}
		clear(data) // which the batch does not alias
		checkEncoding(t, b)
		b.Epoch, b.LeaseMS = start.Epoch, 2000
		checkApply(t, start, twin, b)
		if start.Hash() != hash {
			t.Fatalf("%s changed the state that it was applied to", batchText(b))
		}
	})
}

// checkEncoding checks that a decoded batch can be encoded, and that encoding is
// deterministic.
func checkEncoding(t *testing.T, b state.Batch) {
	t.Helper()
	written, err := b.Encode()
	if err != nil {
		t.Fatalf("what was read cannot be written: %v", err)
	}
	again, err := state.DecodeBatch(written)
	if err != nil {
		t.Fatal(err)
	}
	if batchText(b) != batchText(again) {
		t.Fatalf("%s\nwas written and read as\n%s", batchText(b), batchText(again))
	}
	if third, err := again.Encode(); err != nil || !bytes.Equal(written, third) {
		t.Fatalf("%x was read and written as %x, %v", written, third, err)
	}
}

// checkApply applies a batch to a state twice and to its restored twin.
func checkApply(t *testing.T, start, twin *state.State, b state.Batch) {
	t.Helper()
	next, out := start.Apply(start.Index+1, start.Term, b)
	if err := next.Check(); err != nil {
		t.Fatalf("%s\n%s\n%v", batchText(b), outcomeText(out), err)
	}
	for _, s := range []*state.State{start, twin} {
		next2, out2 := s.Apply(s.Index+1, s.Term, b)
		if !next2.Equal(next) || !reflect.DeepEqual(out2, out) {
			t.Fatalf("%s\nresulted in %s\nand in      %s", batchText(b), outcomeText(out), outcomeText(out2))
		}
	}
	restored, err := state.Restore(bytes.NewReader(snapshot(t, next)))
	if err != nil || !restored.Equal(next) {
		t.Fatalf("the state after %s is not restored: %v", batchText(b), err)
	}
}

// FuzzRestore: no bytes make it panic. A restored state passes Check, writes a snapshot
// that restores to the same bytes, and accepts further batches.
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
		written := snapshot(t, s)
		again, err := state.Restore(bytes.NewReader(written))
		if err != nil {
			t.Fatal(err)
		}
		if third := snapshot(t, again); !bytes.Equal(third, written) || dumpText(again) != dumpText(s) {
			t.Fatalf("restored:\n%s\nagain:\n%s", dumpText(s), dumpText(again))
		}
		checkFileEnds(t, written)
		checkEnding(t, again)
	})
}

// checkFileEnds checks that a snapshot that is too short or too long is refused.
func checkFileEnds(t *testing.T, written []byte) {
	t.Helper()
	for _, data := range [][]byte{written[:len(written)-1], written[:len(written)/2], append(slices.Clone(written), 0)} {
		if _, err := state.Restore(bytes.NewReader(data)); err == nil {
			t.Fatalf("%d bytes of a snapshot of %d were restored", len(data), len(written))
		}
	}
}

// checkEnding checks that a state is empty once all sessions have ended.
func checkEnding(t *testing.T, s *state.State) {
	t.Helper()
	for v := range s.Sessions("") {
		s, _ = s.Apply(s.Index+1, 1, state.Batch{LeaseMS: 1, Commands: []state.Command{{Operation: &state.OpenOffice{Master: "r", Term: 1}}}})
		s = applied(t, s, state.Command{Operation: &state.CloseSession{Session: v.ID}})
	}
	for l := range s.Locks("", "") {
		s = applied(t, s, state.Command{Operation: &state.EndDelay{Path: l.Path, ID: l.DelayID}})
	}
	if s.SessionCount()+s.LockCount()+s.HoldCount()+s.WaitCount() != 0 {
		t.Fatalf("left behind:\n%s", dumpText(s))
	}
}

// FuzzAgainstModel is TestAgainstModel with logs that coverage guides.
func FuzzAgainstModel(f *testing.F) {
	for seed := range uint64(8) {
		random := rand.NewChaCha8([32]byte{byte(seed)})
		data := make([]byte, 1<<(8+seed)) // each draw takes eight bytes or more
		_, _ = random.Read(data)
		f.Add(data)
	}
	f.Fuzz(rapid.MakeFuzz(againstModel))
}
