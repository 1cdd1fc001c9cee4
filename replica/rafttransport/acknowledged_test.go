package rafttransport

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
)

// forgetful is a transport to followers with logs that end where the test
// wants.
type forgetful struct {
	Wire
	last    map[raft.ServerID]uint64
	term    uint64 // of all answers; 0 for that of the question
	handled int
}

func (f *forgetful) AppendEntries(id raft.ServerID, _ raft.ServerAddress, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	f.handled++
	*r = raft.AppendEntriesResponse{Term: max(q.Term, f.term), LastLog: f.last[id]}
	if r.Term == q.Term && q.PrevLogEntry <= f.last[id] {
		r.Success = true
		f.last[id] = max(f.last[id], q.PrevLogEntry+uint64(len(q.Entries)))
	}
	return nil
}

func (f *forgetful) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress, q *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, _ io.Reader) error {
	f.handled++
	f.last[id] = q.LastLogIndex
	*r = raft.InstallSnapshotResponse{Term: q.Term, Success: true}
	return nil
}

func (f *forgetful) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	f.handled++
	return nil
}

// leaderOf returns a leader's transport to followers, and the followers that it
// has found to be forgetful.
func leaderOf(t *testing.T) (Transport, *forgetful, func(id raft.ServerID, term, prev, entries uint64) error, *[]raft.ServerID) {
	t.Helper()
	f, lost := &forgetful{last: map[raft.ServerID]uint64{}}, &[]raft.ServerID{}
	out := sending()
	out.Wire, out.acks = f, &acknowledged{forgot: func(id raft.ServerID, _ error) { *lost = append(*lost, id) }}
	return out, f, func(id raft.ServerID, term, prev, entries uint64) error {
		q := &raft.AppendEntriesRequest{Term: term, PrevLogEntry: prev}
		for i := range entries {
			q.Entries = append(q.Entries, &raft.Log{Index: prev + i + 1})
		}
		return out.AppendEntries(id, "", q, &raft.AppendEntriesResponse{})
	}, lost
}

// TestForgetfulFollower: a follower's log has become shorter than what it has
// acknowledged to this leader. It is sent no more messages in this term.
func TestForgetfulFollower(t *testing.T) {
	to, f, send, lost := leaderOf(t)
	must(t, errors.Join(send("r2/a", 3, 0, 10), send("r3/b", 3, 0, 10), send("r2/a", 3, 10, 5)))
	must(t, send("r2/a", 3, 0, 0))
	f.last["r2/a"] = 14          // it has lost one entry
	err := send("r2/a", 3, 0, 0) // a heartbeat
	if err == nil || !strings.Contains(err.Error(), "ends at entry 14") || !strings.Contains(err.Error(), "all entries up to 15 in term 3") || !strings.Contains(err.Error(), "stout member replace r2") {
		t.Errorf("the answer is taken: %v", err)
	}
	before := f.handled
	through := to
	through.Wire = piped{to.Wire}
	pipe, err := through.AppendEntriesPipeline("r2/a", "")
	must(t, err)
	defer pipe.Close()
	_, piped := pipe.AppendEntries(&raft.AppendEntriesRequest{Term: 3}, nil)
	for what, err := range map[string]error{
		"entries":       send("r2/a", 3, 14, 3),
		"a heartbeat":   send("r2/a", 3, 0, 0),
		"a snapshot":    to.InstallSnapshot("r2/a", "", &raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 20}, &raft.InstallSnapshotResponse{}, nil),
		"mastership":    to.TimeoutNow("r2/a", "", nil, nil),
		"what is piped": piped,
	} {
		if err == nil || f.handled != before {
			t.Errorf("%s: sent, %v", what, err)
		}
	}
	must(t, errors.Join(send("r3/b", 3, 10, 1), to.TimeoutNow("r3/b", "", nil, nil)))
	must(t, errors.Join(send("r2/a", 4, 14, 3), to.TimeoutNow("r2/a", "", nil, nil))) // another term, in which it has acknowledged nothing
	if len(*lost) != 1 || (*lost)[0] != "r2/a" {
		t.Errorf("%v were told of", *lost)
	}
}

// TestForgetfulFollowerIsTold: also if it has caught up with a snapshot that
// was already on its way. Otherwise it would get no more messages, and never
// learn why.
func TestForgetfulFollowerIsTold(t *testing.T) {
	to, f, send, _ := leaderOf(t)
	must(t, send("r2/a", 3, 0, 10))
	f.last["r2/a"] = 2
	if send("r2/a", 3, 0, 0) == nil {
		t.Fatal("it is not found out")
	}
	to.acks.stored("r2/a", 3, 20)
	known := to.acks.by("r2/a", 3)
	if err := known.Forgotten(20, 3); !known.Lost || err == nil || !strings.Contains(err.Error(), "was found to end before") {
		t.Errorf("%+v, of one that is up to entry 20: %v", known, err)
	}
	if err := known.Forgotten(20, 4); err != nil {
		t.Errorf("in another term: %v", err)
	}
}

// TestForgetfulFollowerOfASnapshot: a snapshot would replace the lost entries,
// but not the lost votes. So the follower's log end is checked before a
// snapshot is sent.
func TestForgetfulFollowerOfASnapshot(t *testing.T) {
	to, f, send, lost := leaderOf(t)
	must(t, send("r2/a", 3, 0, 10))
	f.last["r2/a"] = 2
	err := to.InstallSnapshot("r2/a", "", &raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 20}, &raft.InstallSnapshotResponse{}, nil)
	if err == nil || len(*lost) != 1 || f.last["r2/a"] != 2 {
		t.Errorf("its log ends at %d, %v", f.last["r2/a"], err)
	}
}

// piped is a transport with pipelines that return no answers.
type piped struct{ Wire }

func (piped) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return sent{}.AppendEntriesPipeline("", "")
}

// TestWhatMayEndEarlier: logs that are shorter for another reason.
func TestWhatMayEndEarlier(t *testing.T) {
	t.Run("a later term", func(t *testing.T) { // in which the leader has entries of its own
		_, f, send, lost := leaderOf(t)
		must(t, send("r2/a", 3, 0, 10))
		f.last["r2/a"], f.term = 8, 4
		must(t, send("r2/a", 3, 10, 1))
		if len(*lost) != 0 {
			t.Error("it is taken for forgetful")
		}
	})
	t.Run("an earlier answer", func(t *testing.T) { // that was on its way
		to, _, send, lost := leaderOf(t)
		must(t, send("r2/a", 3, 0, 10))
		least, err := to.acks.sending("r2/a", 3)
		must(t, err)
		must(t, send("r2/a", 3, 10, 10))
		must(t, to.acks.answered("r2/a", least, &raft.AppendEntriesRequest{Term: 3}, &raft.AppendEntriesResponse{Term: 3, LastLog: 10, Success: true}))
		if len(*lost) != 0 {
			t.Error("it is taken for forgetful")
		}
	})
	t.Run("an answer of an earlier term", func(t *testing.T) {
		to, f, send, lost := leaderOf(t)
		must(t, send("r2/a", 3, 0, 10))
		least, err := to.acks.sending("r2/a", 3)
		must(t, err)
		f.last["r2/a"] = 0
		must(t, send("r2/a", 5, 0, 4))
		must(t, to.acks.answered("r2/a", least, &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 10}, &raft.AppendEntriesResponse{Term: 3, LastLog: 10, Success: true}))
		if got := to.acks.by("r2/a", 5); len(*lost) != 0 || got.Index != 4 {
			t.Errorf("lost %v; it has %+v", *lost, got)
		}
	})
	t.Run("nothing but refusals", func(t *testing.T) {
		to, _, send, _ := leaderOf(t)
		must(t, send("r2/a", 3, 10, 5))
		if got := to.acks.by("r2/a", 3); got != (admission.Stored{}) {
			t.Errorf("it has %+v", got)
		}
	})
	t.Run("a snapshot", func(t *testing.T) {
		to, _, _, _ := leaderOf(t)
		must(t, to.InstallSnapshot("r2/a", "", &raft.InstallSnapshotRequest{Term: 3, LastLogIndex: 20}, &raft.InstallSnapshotResponse{}, nil))
		if got := to.acks.by("r2/a", 3); got.Index != 20 {
			t.Errorf("it has %+v", got)
		}
	})
}

// TestMajorityElsewhere: an entry counts as stored without the leader when a
// majority of the voters has acknowledged it in this term, not counting the
// leader.
func TestMajorityElsewhere(t *testing.T) {
	const self = "r1/a"
	voters := func(ids ...raft.ServerID) (all []raft.Server) {
		for _, id := range ids {
			all = append(all, raft.Server{ID: id, Suffrage: raft.Voter})
		}
		return all
	}
	type ack struct {
		id         raft.ServerID
		term, upTo uint64
	}
	three, five := voters(self, "r2/b", "r3/c"), voters(self, "r2/b", "r3/c", "r4/d", "r5/e")
	for _, c := range []struct {
		name    string
		servers []raft.Server
		acks    []ack // in their order; entry 10 of term 3 is asked for
		want    bool
	}{
		{"nobody", three, nil, false},
		{"one of two others", three, []ack{{"r2/b", 3, 10}}, false},
		{"both others", three, []ack{{"r2/b", 3, 10}, {"r3/c", 3, 12}}, true},
		{"both, one less far", three, []ack{{"r2/b", 3, 10}, {"r3/c", 3, 9}}, false},
		{"its own word", three, []ack{{"r2/b", 3, 10}, {self, 3, 10}}, false},
		{"two of four others", five, []ack{{"r2/b", 3, 10}, {"r3/c", 3, 10}}, false},
		{"three of four others", five, []ack{{"r2/b", 3, 10}, {"r3/c", 3, 10}, {"r5/e", 3, 10}}, true},
		{"in an earlier term", three, []ack{{"r2/b", 2, 10}, {"r3/c", 2, 10}}, false},
		{"one in an earlier term", three, []ack{{"r2/b", 2, 10}, {"r3/c", 3, 10}}, false},
		{"in a later term", three, []ack{{"r2/b", 4, 10}, {"r3/c", 4, 10}}, false},
		{"one comes late, of the term before", three, []ack{{"r3/c", 3, 10}, {"r2/b", 2, 10}}, false},
		{"one that was removed", three, []ack{{"r2/b", 3, 10}, {"r4/d", 3, 10}}, false},
		{"another directory of a name", three, []ack{{"r2/b", 3, 10}, {"r3/x", 3, 10}}, false},
		{"one without a vote", append(voters(self, "r2/b", "r3/c"), raft.Server{ID: "r4/d", Suffrage: raft.Nonvoter}),
			[]ack{{"r2/b", 3, 10}, {"r4/d", 3, 10}}, false},
		{"a leader without a vote, one of two", append(voters("r2/b", "r3/c"), raft.Server{ID: self, Suffrage: raft.Nonvoter}),
			[]ack{{"r2/b", 3, 10}}, false},
		{"a leader that is no member, and both", voters("r2/b", "r3/c"), []ack{{"r2/b", 3, 10}, {"r3/c", 3, 10}}, true},
		{"a cell of two", voters(self, "r2/b"), []ack{{"r2/b", 3, 10}}, false},
		{"a cell of one", voters(self), []ack{{self, 3, 10}}, false},
		{"four, two of three others", voters(self, "r2/b", "r3/c", "r4/d"), []ack{{"r2/b", 3, 10}, {"r3/c", 3, 10}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, _, _, _ := leaderOf(t)
			more := 0
			to.acks.more = func() { more++ }
			for _, a := range c.acks {
				_, err := to.acks.sending(a.id, a.term)
				must(t, err)
				q := &raft.AppendEntriesRequest{Term: a.term, PrevLogEntry: a.upTo}
				for range 2 { // it arrives twice
					must(t, to.acks.answered(a.id, 0, q, &raft.AppendEntriesResponse{Term: a.term, LastLog: a.upTo, Success: true}))
				}
			}
			if got := to.Elsewhere(self, c.servers, 10, 3); got != c.want {
				t.Errorf("a majority has it: %v, want %v", got, c.want)
			}
			if more > len(c.acks) {
				t.Errorf("%d calls for %d acknowledgements", more, len(c.acks))
			}
		})
	}
	t.Run("one that has lost it", func(t *testing.T) {
		to, f, send, _ := leaderOf(t)
		must(t, errors.Join(send("r2/b", 3, 0, 10), send("r3/c", 3, 0, 10)))
		if !to.Elsewhere(self, three, 10, 3) {
			t.Error("both have it")
		}
		f.last["r3/c"] = 9
		if send("r3/c", 3, 0, 0) == nil || to.Elsewhere(self, three, 10, 3) {
			t.Error("it counts")
		}
	})
	t.Run("refusals", func(t *testing.T) {
		to, _, send, _ := leaderOf(t)
		must(t, errors.Join(send("r2/b", 3, 9, 1), send("r3/c", 3, 0, 10)))
		if to.Elsewhere(self, three, 10, 3) {
			t.Error("one counts")
		}
	})
}

// TestTarget: it answers, and has acknowledged most; of equal ones, it answered last.
func TestTarget(t *testing.T) {
	out, followers, send, _ := leaderOf(t)
	followers.last = map[raft.ServerID]uint64{"a": 9, "b": 9, "c": 9, "n": 9}
	servers := []raft.Server{{ID: "self"}, {ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "n", Suffrage: raft.Nonvoter}}
	is := func(when string, term uint64, want raft.ServerID) {
		t.Helper()
		if got, ok := out.Target("self", servers, term); got.ID != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", when, got.ID, ok, want)
		}
	}
	acknowledge := func(term, upTo uint64, ids ...raft.ServerID) {
		for _, id := range ids {
			if err := send(id, term, upTo-1, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	acknowledge(2, 1, "a")
	is("another term", 3, "")
	acknowledge(2, 2, "b", "n")
	is("most entries of a voter", 2, "b")
	acknowledge(2, 2, "a", "c")
	is("as many, and the last answer", 2, "c")
	if err := send("b", 2, 0, 0); err != nil {
		t.Fatal(err)
	}
	is("after a heartbeat", 2, "b")
	failed := func(id raft.ServerID, answers uint64, err string) { out.acks.failed(id, 2, answers, errors.New(err)) }
	failed("b", out.acks.answers("b")-1, "timeout")
	is("an earlier message had no answer", 2, "b")
	failed("b", out.acks.answers("b"), "connection refused")
	is("the last message had no answer", 2, "c")
	failed("c", out.acks.answers("c"), "timeout")
	failed("a", out.acks.answers("a"), "timeout")
	is("none answers", 2, "")
	acknowledge(2, 1, "a")
	is("one answers again", 2, "a")
	if err := send("a", 3, 0, 0); err != nil {
		t.Fatal(err)
	}
	is("nothing acknowledged in a new term", 3, "")
}
