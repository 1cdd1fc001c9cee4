package rafttransport

import (
	"math"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMessagesCommitWhatTheyBring: a follower that uses the end of its own log
// as the last entry of a message must not receive a commit index beyond that
// message's entries.
func TestMessagesCommitWhatTheyBring(t *testing.T) {
	for _, c := range []struct {
		name       string
		prev       uint64
		entries    int
		says, want uint64
	}{
		{"a heartbeat", 0, 0, 0, 0},
		{"nothing new, and more is committed", 7, 0, 9, 7},
		{"nothing new, and less is committed", 7, 0, 5, 5},
		{"entries, and all of them are committed", 7, 2, 9, 9},
		{"entries, and some of them are committed", 7, 3, 8, 8},
		{"entries cut short", 7, 16, 40, 23},
		{"from the beginning of the log", 0, 3, 5, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := raft.AppendEntriesRequest{PrevLogEntry: c.prev, LeaderCommitIndex: c.says}
			for i := range c.entries {
				q.Entries = append(q.Entries, &raft.Log{Index: c.prev + 1 + uint64(i)})
			}
			all := sending()
			all.bound(&q)
			if q.LeaderCommitIndex != c.want {
				t.Errorf("it says that %d are committed; want %d", q.LeaderCommitIndex, c.want)
			}
		})
	}
}

// TestBothWaysAreBounded: entries are sent one by one and through a pipeline.
func TestBothWaysAreBounded(t *testing.T) {
	test := sending()
	one, other := &raft.AppendEntriesRequest{PrevLogEntry: 3, LeaderCommitIndex: 9}, &raft.AppendEntriesRequest{PrevLogEntry: 4, LeaderCommitIndex: 9}
	if err := test.AppendEntries("r2", "r2", one, nil); err != nil || one.LeaderCommitIndex != 3 {
		t.Error(one.LeaderCommitIndex, err)
	}
	p, err := test.AppendEntriesPipeline("r2", "r2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.AppendEntries(other, nil); err != nil || other.LeaderCommitIndex != 4 {
		t.Error(other.LeaderCommitIndex, err)
	}
}

// TestOwnStateBoundsWhatIsCommitted: no message reports an entry as committed
// that the follower may not show to watchers.
func TestOwnStateBoundsWhatIsCommitted(t *testing.T) {
	behind := sending()
	behind.opts.CommitLimit = func() uint64 { return 6 }
	q := &raft.AppendEntriesRequest{PrevLogEntry: 8, LeaderCommitIndex: 7}
	if err := behind.AppendEntries("r2", "r2", q, nil); err != nil || q.LeaderCommitIndex != 6 {
		t.Error(q.LeaderCommitIndex, err)
	}
}

// TestMessagesThatEndEarlyAreMarked: a message that reports less than its leader has
// published is no last word. The library makes one for a follower that is behind:
// it ends where the log ended when the library began to send what is missing.
func TestMessagesThatEndEarlyAreMarked(t *testing.T) {
	at := sending()
	at.opts.CommitLimit = func() uint64 { return 6 }
	for _, c := range []struct {
		prev    uint64
		entries int
		marked  bool
	}{{5, 0, true}, {3, 2, true}, {6, 0, false}, {3, 3, false}, {5, 4, false}} {
		q := &raft.AppendEntriesRequest{PrevLogEntry: c.prev, LeaderCommitIndex: 6}
		*markOf(q) = []byte("r1")
		for i := range c.entries {
			q.Entries = append(q.Entries, &raft.Log{Index: c.prev + 1 + uint64(i)})
		}
		if err := at.AppendEntries("r2", "r2", q, nil); err != nil || (*markOf(q) == nil) != c.marked {
			t.Errorf("%d entries behind %d: marked: %v, want %v; %v", c.entries, c.prev, !c.marked, c.marked, err)
		}
	}
}

// TestStandInsStay: a stand-in for an entry that is in a snapshot is never
// sent.
func TestStandInsStay(t *testing.T) {
	test := sending()
	q := &raft.AppendEntriesRequest{PrevLogEntry: 3, Entries: []*raft.Log{{Index: 4, Type: raftstore.StandIn}, {Index: 5}}}
	if test.AppendEntries("r2", "r2", q, nil) == nil {
		t.Error("one was sent")
	}
	p, err := test.AppendEntriesPipeline("r2", "r2")
	must(t, err)
	defer p.Close()
	if _, err := p.AppendEntries(q, nil); err == nil {
		t.Error("one was sent through a pipeline")
	}
}

// TestMixedMessagesStay: a message with entries that were replaced while it was
// composed is not sent. Within a log terms never decrease, and a leader's log
// has no term later than its own.
func TestMixedMessagesStay(t *testing.T) {
	for _, c := range []struct {
		name       string
		term, prev uint64
		entries    []uint64 // their terms
		want       bool
	}{
		{"a heartbeat", 3, 0, nil, true},
		{"nothing new", 3, 3, nil, true},
		{"entries of its own", 3, 3, []uint64{3, 3}, true},
		{"earlier ones as well", 3, 1, []uint64{1, 2, 3}, true},
		{"from the beginning of the log", 3, 0, []uint64{1, 3}, true},
		{"behind a later one", 3, 2, []uint64{1, 3}, false},
		{"a later one among them", 4, 1, []uint64{1, 3, 2, 4}, false},
		{"the last is of the next leader", 3, 1, []uint64{1, 3, 4}, false},
		{"all are of the next leader", 3, 1, []uint64{4, 4}, false},
		{"behind one of the next leader", 3, 4, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &raft.AppendEntriesRequest{Term: c.term, PrevLogEntry: 7, PrevLogTerm: c.prev}
			for i, term := range c.entries {
				q.Entries = append(q.Entries, &raft.Log{Index: 8 + uint64(i), Term: term})
			}
			test := sending()
			if err := test.check(q); (err == nil) != c.want {
				t.Errorf("sent=%v (%v), want %v", err == nil, err, c.want)
			}
		})
	}
}

// TestDeposedLeadersAreSilent: a message is sent only if its contents were read
// while its sender led.
func TestDeposedLeadersAreSilent(t *testing.T) {
	leads := uint64(3)
	test := sending()
	test.opts.Leads = func(term uint64) bool { return term == leads }
	q := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, PrevLogTerm: 3, Entries: []*raft.Log{{Index: 8, Term: 3}}}
	must(t, test.AppendEntries("r2", "r2", q, nil))
	p, err := test.AppendEntriesPipeline("r2", "r2")
	must(t, err)
	defer p.Close()
	for _, leads = range []uint64{0, 5} { // another leads, or the same replica again
		if test.AppendEntries("r2", "r2", q, nil) == nil {
			t.Errorf("leading in term %d it sends a message of term 3", leads)
		}
		if _, err := p.AppendEntries(q, nil); err == nil {
			t.Errorf("leading in term %d it sends a message of term 3 through a pipeline", leads)
		}
	}
}

// sending returns a transport over one that accepts every message, of a replica
// that leads.
func sending() Transport {
	return Transport{Wire: sent{}, opts: Options{
		Mute: func() error { return nil }, Leads: func(uint64) bool { return true },
		CommitLimit: func() uint64 { return math.MaxUint64 }, Leading: func() bool { return true },
	}}
}

// sent is a transport that accepts every message and does nothing with it.
type sent struct{ Wire }

func (sent) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	return nil
}

func (sent) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return sentOn{}, nil
}

type sentOn struct{ raft.AppendPipeline }

func (sentOn) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return nil, nil
}

func (sentOn) Consumer() <-chan raft.AppendFuture { return nil }
func (sentOn) Close() error                       { return nil }
