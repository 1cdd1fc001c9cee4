package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/stoutlock/stout/replica/state"
)

func TestUnreadableBatches(t *testing.T) {
	encoded := func(b state.Batch) []byte {
		data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	// command is a batch of the one command with these fields.
	command := func(fields item) []byte {
		body, err := cbor.Marshal(item{1: 1, 2: 1, 3: []item{fields}})
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{1}, body...)
	}
	good := encoded(fullBatch())
	tests := []struct {
		name    string
		data    []byte
		version bool // the error is ErrVersion
		want    string
	}{
		{"empty", nil, false, "empty entry"},
		{"newer version", append([]byte{2}, good[1:]...), true, "version 2"},
		{"version zero", append([]byte{0}, good[1:]...), true, "version 0"},
		{"only a version", good[:1], false, "EOF"},
		{"cut short", good[:len(good)-1], false, "EOF"},
		{"bytes behind", append(slices.Clone(good), 0), false, "extraneous"},
		{"unknown kind", command(item{1: 13}), true, "kind-13"},
		{"no kind", command(item{2: 1}), true, "kind-0"},
		{"unknown mode", command(item{1: 6, 6: 3}), true, "mode 3"},
		{"unknown wait", command(item{1: 6, 8: 3}), true, "wait 3"},
		{"unknown field", command(item{1: 1, 99: 1}), false, "unknown field"},
		{"kind out of range", command(item{1: 256}), false, "overflow"},
		{"same field twice", []byte{1, 0xa2, 1, 1, 1, 2}, false, "duplicate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := state.DecodeBatch(tt.data)
			if err == nil {
				t.Fatalf("it was read as %+v", b)
			}
			if errors.Is(err, state.ErrVersion) != tt.version || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q; ErrVersion: %v, want it to say %q", err, tt.version, tt.want)
			}
		})
	}
}

func TestUnreadableSnapshots(t *testing.T) {
	good := snapshot(t, richState(t))
	newer := slices.Clone(good)
	newer[len("stout-state")]++
	tests := []struct {
		name    string
		data    []byte
		version bool
		want    string
	}{
		{"empty", nil, false, "EOF"},
		{"another file", bytes.Repeat([]byte("x"), 100), false, "not the bytes of a Stout snapshot"},
		{"newer version", newer, true, "version 3"},
		{"bytes behind", append(slices.Clone(good), 0), false, "behind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := state.Restore(bytes.NewReader(tt.data))
			if err == nil || s != nil {
				t.Fatalf("it was read as %v, %v", s, err)
			}
			if errors.Is(err, state.ErrVersion) != tt.version || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q; ErrVersion: %v, want it to say %q", err, tt.version, tt.want)
			}
		})
	}
	for n := range len(good) {
		if s, err := state.Restore(bytes.NewReader(good[:n])); err == nil || s != nil {
			t.Fatalf("the first %d of %d bytes were read without an error", n, len(good))
		}
	}
}

// failAfter is a writer that takes n bytes.
type failAfter int

var errFull = errors.New("disk full")

func (n *failAfter) Write(p []byte) (int, error) {
	if len(p) > int(*n) {
		return 0, errFull
	}
	*n -= failAfter(len(p))
	return len(p), nil
}

func TestSnapshotReportsWriteErrors(t *testing.T) {
	small, large := richState(t), opened(t, 5000) // less and more than is buffered
	for _, s := range []*state.State{small, large} {
		room := failAfter(10)
		if err := s.Snapshot(&room); !errors.Is(err, errFull) {
			t.Errorf("snapshot to a full disk: %v", err)
		}
	}
}

// TestEncodeRefusesWhatCannotBeRead: such an entry would stop every replica.
func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	tests := []struct {
		name     string
		commands []state.Command
		version  bool
	}{
		{"no kind", []state.Command{{}}, true},
		{"unknown kind", []state.Command{{Kind: state.CloseSession}, {Kind: state.NoteMembers + 1}}, true},
		{"unknown mode", []state.Command{{Kind: state.Acquire, Mode: state.Shared + 1}}, true},
		{"unknown wait", []state.Command{{Kind: state.Acquire, Wait: state.Keep + 1}}, true},
		{"too many", slices.Repeat([]state.Command{{Kind: state.EndDelay}}, state.MaxCommands+1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := state.Batch{Epoch: 1, LeaseMS: 2000, Commands: tt.commands}
			if _, err := b.Encode(); err == nil || errors.Is(err, state.ErrVersion) != tt.version {
				t.Errorf("error %v; ErrVersion: %v", err, tt.version)
			}
		})
	}
	most := state.Batch{Commands: slices.Repeat([]state.Command{{Kind: state.EndDelay}}, state.MaxCommands)}
	data, err := most.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.DecodeBatch(data); err != nil {
		t.Fatal(err)
	}
}

// TestMalformedCommandsAreRefused: what no door lets pass changes nothing, above
// all where names with a NUL would make one key of two.
func TestMalformedCommandsAreRefused(t *testing.T) {
	s := opened(t, 0)
	s = applied(t, s,
		state.Command{Kind: state.OpenSession, Session: "s1", TTLMS: 1000},
		state.Command{Kind: state.Acquire, Session: "s1", Path: "/a", Handle: "h\x00", Mode: state.Exclusive},
		state.Command{Kind: state.Acquire, Session: "s1", Path: "/a", Handle: "w\x00", Mode: state.Exclusive, Wait: state.WhileHot},
	)
	before := dumpText(s)
	for _, c := range []state.Command{
		{Kind: state.OpenSession},
		{Kind: state.OpenSession, Session: "s1\x00/a"},
		{Kind: state.CloseSession, Session: "s1\x00"},
		{Kind: state.Acquire, Session: "s1", Mode: state.Exclusive},
		{Kind: state.Acquire, Session: "s1", Path: "/a\x00b", Mode: state.Exclusive},
		{Kind: state.Acquire, Session: "s1", Path: "/b"},
		{Kind: state.Acquire, Session: "s1", Path: "/b", Mode: state.Shared + 1},
		{Kind: state.Acquire, Session: "s1", Path: "/b", Mode: state.Shared, Limit: -1},
		{Kind: state.Acquire, Session: "s1", Path: "/b", Mode: state.Exclusive, Limit: 1},
		{Kind: state.Release, Session: "s1", Path: "/a\x00h"},
		{Kind: state.Release, Session: "s1", Path: "/a\x00w"},
		{Kind: state.Withdraw, Session: "s1", Path: "/a\x00w", Seq: 1},
		{Kind: state.Withdraw, Session: "s1\x00/a", Path: "w", Seq: 1},
		{Kind: state.EndDelay, Path: "\x00"},
		{Kind: state.TellSum, Seq: 1},
		{Kind: state.TellSum, Seq: 1, Digest: make([]byte, 31)},
		{Kind: state.TellSum, Digest: make([]byte, 32)},
		{Kind: state.TellSum, Seq: s.Index + 1, Digest: make([]byte, 32)}, // its own entry
		{Kind: state.OpenOffice, Master: "r2", Term: 1, Path: "/not/alone\x00"},
	} {
		next, out := s.Apply(s.Index+1, s.Office.Term, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: []state.Command{c, {Kind: state.EndDelay, Path: "/a", Seq: 1}}})
		if !out.Accepted || out.Results[0].Verdict != state.Refused || out.Results[1].Verdict != state.Nothing {
			t.Errorf("%v %+v: %s", c.Kind, c, outcomeText(out))
		}
		if after := dumpText(next); after != before || next.Check() != nil {
			t.Errorf("%v %+v: %v\n%s", c.Kind, c, next.Check(), after)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		state.OpenOffice: "open-office", state.EndDelay: "end-delay", state.TellSum: "tell-sum", state.Kind(0): "kind-0", state.Kind(77): "kind-77",
		state.Exclusive: "exclusive", state.Shared: "shared",
		state.Refused: "refused", state.Nothing: "nothing", state.Verdict(99): "verdict-99",
	} {
		if got.String() != want {
			t.Errorf("%#v is called %q, want %q", got, got, want)
		}
	}
}
