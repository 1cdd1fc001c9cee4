package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
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
	// command returns a batch of one command with the given kind and fields.
	command := func(kind any, fields item) []byte {
		var out bytes.Buffer
		out.WriteByte(2)
		for _, v := range []any{[]any{1, 1, 1}, []any{kind, 0, ""}, fields} {
			body, err := cbor.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(body)
		}
		return out.Bytes()
	}
	good := encoded(fullBatch())
	tests := []struct {
		name    string
		data    []byte
		version bool // the error is ErrVersion
		want    string
	}{
		{"empty", nil, false, "empty entry"},
		{"newer version", append([]byte{3}, good[1:]...), true, "version 3"},
		{"older version", append([]byte{1}, good[1:]...), true, "version 1"},
		{"only a version", good[:1], false, "EOF"},
		{"cut short", good[:len(good)-1], false, "EOF"},
		{"bytes behind", append(slices.Clone(good), 0), false, "extraneous"},
		{"unknown kind", command(200, item{}), true, "kind-200"},
		{"no kind", command(0, item{}), true, "kind-0"},
		{"unknown mode", command(6, item{4: 3}), true, "mode 3"},
		{"unknown wait", command(6, item{6: 3}), true, "wait 3"},
		{"later level", command(13, item{1: state.Level + 1}), true, fmt.Sprint("level ", state.Level+1)},
		{"unknown field", command(1, item{99: 1}), false, "unknown field"},
		{"kind out of range", command(256, item{}), false, "overflow"},
		{"kind that is no number", command("acquire", item{}), false, "cannot unmarshal"},
		{"same field twice", []byte{2, 0x83, 1, 1, 1, 0x83, 1, 0, 0x60, 0xa2, 2, 1, 2, 2}, false, "duplicate"},
		{"more commands than are allowed", []byte{2, 0x83, 1, 1, 0x19, 0x40, 0x01}, false, "at most"},
		{"nested deep", append([]byte{2}, bytes.Repeat([]byte{0x81}, 100)...), false, "nested"},
		{"more commands than there are", []byte{2, 0x83, 1, 1, 2, 0x83, 2, 0, 0x60, 0xa0}, false, "EOF"},
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
	for n := range len(good) {
		if b, err := state.DecodeBatch(good[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were read as %+v", n, len(good), b)
		}
	}
}

func TestUnreadableSnapshots(t *testing.T) {
	good := snapshot(t, richState(t))
	newer := slices.Clone(good)
	newer[len("stout-state")]++
	later, none := richState(t), richState(t)
	later.Level, none.Level = state.Level+1, 0
	tests := []struct {
		name    string
		data    []byte
		version bool
		want    string
	}{
		{"empty", nil, false, "EOF"},
		{"another file", bytes.Repeat([]byte("x"), 100), false, "not a Stout snapshot"},
		{"newer version", newer, true, "version 4"},
		{"later level", snapshot(t, later), true, fmt.Sprint("level ", state.Level+1)},
		{"no level", snapshot(t, none), false, "no level"},
		{"bytes behind", append(slices.Clone(good), 0), false, "after the last record"},
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

// failAfter is a writer that accepts n bytes.
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
	small, large := richState(t), opened(t, 5000) // below and above the size of the buffer
	for _, s := range []*state.State{small, large} {
		room := failAfter(10)
		if err := s.Snapshot(&room); !errors.Is(err, errFull) {
			t.Errorf("snapshot to a full disk: %v", err)
		}
	}
}

// TestEncodeRefusesWhatCannotBeRead: an entry that cannot be decoded would stop every
// replica.
func TestEncodeRefusesWhatCannotBeRead(t *testing.T) {
	tests := []struct {
		name     string
		commands []state.Command
		version  bool
	}{
		{"no operation", []state.Command{{}}, false},
		{"later level", commands(&state.CloseSession{}, &state.RaiseLevel{Level: state.Level + 1}), true},
		{"unknown mode", []state.Command{{Operation: &state.Acquire{Mode: state.Shared + 1}}}, true},
		{"unknown wait", []state.Command{{Operation: &state.Acquire{Wait: state.Persistent + 1}}}, true},
		{"too many", slices.Repeat([]state.Command{{Operation: &state.EndDelay{}}}, state.MaxCommands+1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := state.Batch{Epoch: 1, LeaseMS: 2000, Commands: tt.commands}
			if _, err := b.Encode(); err == nil || errors.Is(err, state.ErrVersion) != tt.version {
				t.Errorf("error %v; ErrVersion: %v", err, tt.version)
			}
		})
	}
	most := state.Batch{Commands: slices.Repeat([]state.Command{{Operation: &state.EndDelay{}}}, state.MaxCommands)}
	data, err := most.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.DecodeBatch(data); err != nil {
		t.Fatal(err)
	}
}

// TestMalformedCommandsAreRefused: malformed commands, which no endpoint lets through,
// change nothing. In particular, names with a NUL could make two keys equal.
func TestMalformedCommandsAreRefused(t *testing.T) {
	s := opened(t, 0)
	s = applied(t, s,
		state.Command{Operation: &state.OpenSession{Session: "s1", TTLMS: 1000}},
		state.Command{Operation: &state.Acquire{Session: "s1", Path: "/a", Handle: "h\x00", Mode: state.Exclusive}},
		state.Command{Operation: &state.Acquire{Session: "s1", Path: "/a", Handle: "w\x00", Mode: state.Exclusive, Wait: state.WhileConnected}},
	)
	before := dumpText(s)
	for _, tt := range []struct {
		op   state.Operation
		want state.Result
	}{
		{&state.OpenSession{}, nil},
		{&state.OpenSession{Session: "s1\x00/a"}, nil},
		{&state.CloseSession{Session: "s1\x00"}, state.NoSession},
		{&state.ExpireSession{Session: "s1\x00"}, state.NoSession},
		{&state.Acquire{Session: "s1\x00/a", Path: "/b", Mode: state.Exclusive}, state.AcquireResult{Verdict: state.NoSession}},
		{&state.Release{Session: "s1\x00/a", Path: "h"}, state.NoSession},
		{&state.Acquire{Session: "s1", Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/a\x00b", Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b"}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", With: []string{"/c", "/b"}, Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", With: []string{"/c", "/c"}, Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", With: []string{""}, Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", With: []string{"/a\x00b"}, Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", With: paths(state.MaxSet), Mode: state.Exclusive}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", Mode: state.Shared + 1}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", Mode: state.Shared, Limit: -1}, nil},
		{&state.Acquire{Session: "s1", Path: "/b", Mode: state.Exclusive, Limit: 1}, nil},
		{&state.Release{Session: "s1", Path: "/a\x00h"}, nil},
		{&state.Release{Session: "s1", Path: "/a\x00w"}, nil},
		{&state.Withdraw{Session: "s1", Path: "/a\x00w", Seq: 1}, nil},
		{&state.Withdraw{Session: "s1\x00/a", Path: "w", Seq: 1}, state.AcquireResult{Verdict: state.Nothing}},
		{&state.EndDelay{Path: "\x00"}, nil},
		{&state.ReportSum{Entry: 1}, nil},
		{&state.ReportSum{Entry: 1, Sum: make([]byte, 31)}, nil},
		{&state.ReportSum{Sum: make([]byte, 32)}, nil},
		{&state.ReportSum{Entry: s.Index + 1, Sum: make([]byte, 32)}, nil}, // its own entry
		{&state.OpenOffice{Master: "r2", Term: 1}, nil},                    // not alone
	} {
		next, out := s.Apply(s.Index+1, s.Office.Term, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: commands(tt.op, &state.EndDelay{Path: "/a", ID: 1})})
		if !out.Accepted || !reflect.DeepEqual(out.Results[0], tt.want) || out.Results[1] != state.Nothing {
			t.Errorf("%s %+v: %s", state.Name(tt.op), tt.op, outcomeText(out))
		}
		if after := dumpText(next); after != before || next.Check() != nil {
			t.Errorf("%s %+v: %v\n%s", state.Name(tt.op), tt.op, next.Check(), after)
		}
	}
}

// paths returns n paths.
func paths(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("/with/%d", i))
	}
	return all
}

func TestNames(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		state.Kind(1): "open-office", state.Kind(11): "tell-sum", state.Kind(0): "kind-0", state.Kind(77): "kind-77",
		state.Exclusive: "exclusive", state.Shared: "shared",
		state.Done: "done", state.Nothing: "nothing", state.Verdict(0): "verdict-0", state.Verdict(99): "verdict-99",
	} {
		if got.String() != want {
			t.Errorf("%#v is called %q, want %q", got, got, want)
		}
	}
}

// TestLevels: operations of a level are refused before the cell has reached the level.
func TestLevels(t *testing.T) {
	s := opened(t, 1)
	op := &state.CloseSession{Session: sessionID(0)}
	if !s.Knows(op) {
		t.Fatal("the first level does not know how to close a session")
	}
	defer state.NewLevel(op)()
	if s.Knows(op) {
		t.Error("an operation of a later level is reported as known")
	}
	if r, changes := s.Would(op); r != nil || changes {
		t.Errorf("before its level: predicted %v", r)
	}
	next, out := s.Apply(s.Index+1, s.Office.Term, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: commands(op)})
	if !out.Accepted || out.Results[0] != nil || len(out.Changes) > 0 || next.SessionCount() != 1 {
		t.Errorf("before its level: got %s", outcomeText(out))
	}
}
