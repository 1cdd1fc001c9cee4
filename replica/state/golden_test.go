package state_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Logs and snapshots outlive the release that wrote them. These tests pin their
// bytes: a difference is either a mistake or needs a new version byte.

// fullBatch returns a batch with each operation, with every field set.
func fullBatch() state.Batch {
	b := state.Batch{Epoch: 3, LeaseMS: 2000}
	for i, op := range []state.Operation{
		&state.OpenOffice{Master: "r2", Term: 7},
		&state.OpenSession{Session: "s1", Name: "billing@host7", TTLMS: 86_400_000,
			Meta: map[string]string{"pid": "811", "a": "", "é": "ü"}, Key: "once", Digest: []byte{0, 1, 255}},
		&state.CloseSession{Session: "s1", Delays: true},
		&state.ExpireSession{Session: "s2", SilentMS: 14_200},
		&state.Acquire{Session: "s1", Path: "/db/migrate", Handle: "h\x00\xff", Mode: state.Shared, Limit: 1_000_000,
			Wait: state.Persistent, DelayMS: 60_000, Priority: state.MaxPriority, With: []string{"/db/other"}},
		&state.Release{Session: "s1", Path: "/db/migrate", Handle: "h\x00\xff", Token: 1<<53 - 1, Forced: true},
		&state.Withdraw{Session: "s1", Path: "/db/migrate", Handle: "h\x00\xff", Seq: 1 << 40, Undo: true},
		&state.EndDelay{Path: "/db/migrate", ID: 1 << 40},
		&state.MarkState{},
		&state.ReportSum{Entry: 1000, Sum: bytes.Repeat([]byte{0xab}, 32)},
		&state.NoteMembers{Members: []state.Member{
			{ID: "r1", Directory: "0123456789abcdef", RaftAddr: "10.0.0.1:7201", URL: "http://10.0.0.1:7101", Since: 5}}},
		&state.RaiseLevel{Level: 1},
		&state.Transaction{Session: "s1", Key: "once", Digest: []byte{0, 1, 255},
			Guards: []state.Sequencer{{Mode: state.Exclusive, Token: 42, Path: "/db/primary"}},
			If: []state.Condition{&state.FileAt{Path: "/a", Revision: 57}, &state.FileExists{Path: "/b", Exists: true},
				&state.GrantHeld{Sequencer: state.Sequencer{Mode: state.Shared, Token: 43, Path: "/c"}},
				&state.SessionLives{Session: "s2"}, &state.LockFree{Path: "/d"}},
			Then: []state.Step{
				&state.Write{Path: "/a", Content: []byte("content\x00\xff"), Sum: make([]byte, 32), Owner: state.OwnedBy, When: state.IfRevision, Revision: 57, Sequential: true, WithContent: true},
				&state.Delete{Path: "/a", When: state.IfRevision, Revision: 57}, &state.DeleteBelow{Prefix: "/a/"}, &state.Get{Path: "/a"}},
			Else: []state.Step{&state.Take{Path: "/x", Handle: "h", Mode: state.Shared, Limit: 2, DelayMS: 1000}, &state.Free{Path: "/x", Handle: "h", Token: 44}}},
		&state.PutRule{Rule: access.Rule{Path: "/a", Lists: map[access.Permission][]string{
			access.Read: {"*", "anonymous"}, access.Lock: {"user:a"}, access.Write: {"group:ops"}, access.Admin: {}}}},
		&state.DropRule{Path: "/a"},
		&state.PutGroup{Group: access.Members{Group: "ops", Members: []string{"user:a", "group:b"}}},
		&state.DropGroup{Group: "ops"},
		&state.PutCellRules{Rules: access.CellRules{Observe: []string{"*"}, Operate: []string{"group:ops"}}},
		&state.AddToken{Token: state.Token{ID: "t1", Sum: make([]byte, 32), Principal: "user:a", Note: "n", CreatedAt: 5, ExpiresAt: 1 << 60}},
		&state.DropToken{ID: "t1"},
		&state.EnableAccess{Token: state.Token{ID: "t2", Sum: make([]byte, 32), Principal: "user:root", Note: "n"}},
		&state.DisableAccess{},
		&state.AdoptSession{Session: "s1", Principal: "user:a"},
		&state.Expel{Session: "s1", Path: "/a", Handle: "h\x00\xff", Seq: 1 << 40},
		&state.PutMember{Member: state.Member{ID: "r4", Directory: "fedcba9876543210", RaftAddr: "10.0.0.4:7201", URL: "http://10.0.0.4:7101", Stays: true}},
		&state.DropRules{Dir: "/a"},
		&state.PutQuota{Quota: access.Quota{Of: "group:ops", Limits: map[access.Resource]int64{
			access.Sessions: 1, access.Holds: 2, access.Waiters: 0, access.Files: 3, access.Bytes: 1<<53 - 1, access.Watches: 4,
			access.CallsPerSecond: 5, access.Burst: 6}}},
		&state.DropQuota{Of: "*"},
		&state.ChangeKeys{Steps: []state.KeyStep{
			{Verb: state.KeyLock, Path: "/k", Content: []byte("content\x00\xff"), Sum: make([]byte, 32), Flags: 1<<64 - 1, Index: 57, Session: "s1", DelayMS: 15_000, Ending: state.KeyDeleted},
			{Verb: state.KeyDeleteTree, Path: "/"}}},
		&state.CloseOffice{},
	} {
		b.Commands = append(b.Commands, state.Command{Time: 1_700_000_000_000_000_000 + int64(i), Caller: "spiffe://cell/billing", Operation: op})
	}
	b.Commands[1].Time, b.Commands[2].Caller = -1, ""
	return b
}

// richState returns a state with at least one record of each kind in a snapshot.
func richState(t testing.TB) *state.State {
	s := opened(t, 0)
	s.Counter = 2 << 43
	s = applied(t, s,
		state.Command{Time: 1_700_000_000_000_000_001, Operation: &state.OpenSession{Session: "s1", Name: "billing@host7", TTLMS: 12_000,
			Meta: map[string]string{"pid": "811", "a": ""}, Key: "once", Digest: []byte{0, 1, 255}}},
		state.Command{Operation: &state.OpenSession{Session: "s2", TTLMS: 1000}},
		state.Command{Operation: &state.OpenSession{Session: "s3", TTLMS: 1000}},
		state.Command{Operation: &state.Acquire{Session: "s1", Path: "/a", Handle: "h\x00\xff", Mode: state.Exclusive, DelayMS: 5000}},
		state.Command{Operation: &state.Acquire{Session: "s2", Path: "/a", Mode: state.Shared, Limit: 2, Wait: state.Persistent, DelayMS: 1}},
		state.Command{Operation: &state.Acquire{Session: "s2", Path: "/a", Handle: "x", Mode: state.Exclusive, Wait: state.WhileConnected, Priority: 7, With: []string{"/set"}}},
		state.Command{Operation: &state.Acquire{Session: "s3", Path: "/sem", Mode: state.Shared, Limit: 2, DelayMS: 60_000}},
		state.Command{Operation: &state.Acquire{Session: "s1", Path: "/sem", Mode: state.Shared, Limit: 2}},
		state.Command{Operation: &state.Acquire{Session: "s2", Path: "/sem", Mode: state.Shared, Limit: 2, Wait: state.Persistent}},
		state.Command{Operation: &state.Acquire{Session: "s3", Path: "/delayed", Mode: state.Exclusive, DelayMS: 700}},
		state.Command{Operation: &state.Acquire{Session: "s3", Path: "/handed", Mode: state.Exclusive}},
		state.Command{Operation: &state.Acquire{Session: "s1", Path: "/handed", Mode: state.Exclusive, Wait: state.Persistent}},
		state.Command{Operation: &state.ExpireSession{Session: "s3"}},
		state.Command{Operation: &state.NoteMembers{Members: []state.Member{
			{ID: "r1", Directory: "0123456789abcdef", RaftAddr: "10.0.0.1:7201", URL: "http://10.0.0.1:7101"}, {ID: "r2", Directory: "d"}}}},
		state.Command{Operation: &state.RaiseLevel{Level: 2}},
		state.Command{Operation: &state.PutRule{Rule: access.Rule{Path: "/", Lists: map[access.Permission][]string{access.Read: {"*"}, access.Admin: {}}}}},
		state.Command{Operation: &state.PutRule{Rule: access.Rule{Path: "/a"}}},
		state.Command{Operation: &state.PutGroup{Group: access.Members{Group: "ops", Members: []string{"user:a", "group:b"}}}},
		state.Command{Operation: &state.PutGroup{Group: access.Members{Group: "b", Members: []string{"user:c"}}}},
		state.Command{Operation: &state.PutCellRules{Rules: access.CellRules{Observe: []string{"*"}, Operate: []string{"group:ops"}}}},
		state.Command{Operation: &state.EnableAccess{Token: state.Token{ID: "t2", Sum: sumOf("root"), Principal: "user:root"}}},
		state.Command{Operation: &state.AddToken{Token: state.Token{ID: "t1", Sum: sumOf("a"), Principal: "user:a", Note: "n", ExpiresAt: 1 << 60}}},
		state.Command{Operation: &state.AdoptSession{Session: "s2", Principal: "user:a"}},
		state.Command{Caller: "user:c", Operation: &state.OpenSession{Session: "s4", TTLMS: 1000}},
		state.Command{Operation: &state.RaiseLevel{Level: 3}},
		state.Command{Operation: &state.PutMember{Member: state.Member{ID: "r4", Directory: "fedcba9876543210", RaftAddr: "10.0.0.4:7201", URL: "http://10.0.0.4:7101", Stays: true}}},
		state.Command{Operation: &state.RaiseLevel{Level: 6}},
		state.Command{Operation: &state.PutQuota{Quota: access.Quota{Of: "*", Limits: map[access.Resource]int64{access.CallsPerSecond: 100, access.Burst: 0}}}},
		state.Command{Operation: &state.PutQuota{Quota: access.Quota{Of: "user:a"}}},
		state.Command{Operation: &state.RaiseLevel{Level: 7}},
		state.Command{Operation: &state.OpenSession{Session: "s5", TTLMS: 1000}},
		state.Command{Operation: &state.ChangeKeys{Steps: []state.KeyStep{
			{Verb: state.KeyLock, Path: "/key", Content: []byte("x"), Sum: sumOf("x"), Flags: 42, Session: "s5", DelayMS: 15_000, Ending: state.KeyDeleted}}}},
	)
	if s.HoldCount() != 4 || s.WaitCount() != 4 || s.LockCount() != 6 {
		t.Fatalf("the rich state is not what it should be:\n%s", dumpText(s))
	}
	return s
}

func sessionID(i int) string { return fmt.Sprintf("%032x", uint64(i+1)*0x9e3779b97f4a7c15) }

// opened returns a state with an office open in term 1 and n sessions.
func opened(t testing.TB, n int) *state.State {
	s, out := state.New().Apply(1, 1, state.Batch{LeaseMS: 2000, Commands: []state.Command{{Operation: &state.OpenOffice{Master: "r1", Term: 1}}}})
	if !out.Accepted {
		t.Fatal("the office was not opened")
	}
	var open []state.Command
	for i := range n {
		open = append(open, state.Command{Operation: &state.OpenSession{Session: sessionID(i), TTLMS: 12_000}})
	}
	for part := range slices.Chunk(open, 1000) {
		s = applied(t, s, part...)
	}
	return s
}

// applied returns s after one more batch of its office.
func applied(t testing.TB, s *state.State, commands ...state.Command) *state.State {
	next, out := s.Apply(s.Index+1, s.Office.Term, state.Batch{Epoch: s.Epoch, LeaseMS: 2000, Commands: commands})
	if !out.Accepted {
		t.Fatal("the batch was not accepted")
	}
	return next
}

func snapshot(t testing.TB, s *state.State) []byte {
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// golden compares data with the file, or records it.
func golden(t *testing.T, name string, data []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, data) {
		t.Errorf("%s: the bytes have changed:\nrecorded: %x\n    now: %x", file, want, data)
	}
}

// TestGoldenBatch: each operation and each field keeps its number.
func TestGoldenBatch(t *testing.T) {
	b := fullBatch()
	kinds := map[string]bool{}
	for _, c := range b.Commands {
		kinds[state.Name(c.Operation)] = true
		for f, v := range reflect.ValueOf(c.Operation).Elem().Fields() {
			if v.IsZero() {
				t.Errorf("the golden batch leaves %s of %s empty", f.Name, state.Name(c.Operation))
			}
		}
	}
	for _, name := range state.Names() {
		if !kinds[name] {
			t.Errorf("the golden batch has no %s", name)
		}
	}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > b.Size() {
		t.Errorf("the batch has %d bytes and was estimated at %d", len(data), b.Size())
	}
	golden(t, "batch-v2.bin", data)
	again, err := state.DecodeBatch(data)
	if err != nil || !reflect.DeepEqual(again, b) {
		t.Fatalf("decoded %+v, %v; want %+v", again, err, b)
	}
}

func TestGoldenSnapshot(t *testing.T) {
	s := richState(t)
	data := snapshot(t, s)
	golden(t, "snapshot-v3.bin", data)
	again, err := state.Restore(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if !again.Equal(s) || dumpText(again) != dumpText(s) {
		t.Errorf("restored:\n%swant:\n%s", dumpText(again), dumpText(s))
	}
}
