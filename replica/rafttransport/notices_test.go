package rafttransport

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// followers receive messages, and answer as the test wants.
type followers struct {
	Wire
	mu     sync.Mutex // guards the following
	came   []string
	answer func(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error
}

func (f *followers) AppendEntries(id raft.ServerID, _ raft.ServerAddress, q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	marked := ""
	if len(*markOf(q)) == 0 {
		marked = ", marked"
	}
	f.came = append(f.came, fmt.Sprintf("%s: %d of term %d, %d entries behind %d of term %d, %d committed%s",
		id, q.Term, q.Term, len(q.Entries), q.PrevLogEntry, q.PrevLogTerm, q.LeaderCommitIndex, marked))
	return f.answer(q, r)
}

// arrived returns the messages that have arrived since its last call.
func (f *followers) arrived() (came []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	came, f.came = f.came, nil
	slices.Sort(came)
	return came
}

// leader is a transport to followers that accept everything.
type leader struct {
	Transport
	followers *followers
	applied   atomic.Uint64
	leads     atomic.Uint64 // in this term
	advanced  chan struct{}
}

// lead runs a test with the transport of a leader in term 3, in virtual time.
func lead(t *testing.T, test func(t *testing.T, l *leader)) {
	synctest.Test(t, func(t *testing.T) {
		l := &leader{advanced: make(chan struct{}, 1), followers: &followers{
			answer: func(q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
				r.Term, r.Success, r.LastLog = q.Term, true, q.PrevLogEntry+uint64(len(q.Entries))
				return nil
			},
		}}
		l.leads.Store(3)
		l.Transport = New(l.followers, Options{
			Leading: func() bool { return l.leads.Load() != 0 }, Leads: func(term uint64) bool { return term == l.leads.Load() },
			Mute:        func() error { return nil },
			CommitLimit: func() uint64 { return l.applied.Load() },
		})
		quit, ended := make(chan struct{}), make(chan struct{})
		go func() { l.Notify(l.advanced, quit); close(ended) }()
		test(t, l)
		close(quit)
		<-ended
	})
}

// send sends entries of the leader's term behind one of term 2.
func (l *leader) send(t *testing.T, id string, prev uint64, entries int, committed uint64) {
	t.Helper()
	q := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{Addr: []byte("r1")}, Term: 3,
		PrevLogEntry: prev, PrevLogTerm: 2, LeaderCommitIndex: committed,
	}
	for i := range entries {
		q.Entries = append(q.Entries, &raft.Log{Index: prev + 1 + uint64(i), Term: 3})
	}
	_ = l.AppendEntries(raft.ServerID(id), raft.ServerAddress(id), q, &raft.AppendEntriesResponse{})
	l.followers.arrived()
}

// apply applies up to an entry, and returns the messages that follow from it.
func (l *leader) apply(upTo uint64) []string {
	l.applied.Store(upTo)
	select {
	case l.advanced <- struct{}{}:
	default:
	}
	time.Sleep(time.Second)
	return l.followers.arrived()
}

func wantMessages(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("sent are %q, want %q", got, want)
	}
}

func TestNotices(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		wantMessages(t, l.apply(4)) // no follower has acknowledged an entry
		l.send(t, "r2", 4, 2, 4)
		l.send(t, "r3", 4, 0, 4)
		wantMessages(t, l.apply(6),
			"r2: 3 of term 3, 0 entries behind 6 of term 3, 6 committed") // r3 has only what it knows to be
		wantMessages(t, l.apply(6)) // they know
		l.send(t, "r2", 6, 2, 6)
		l.applied.Store(8)
		l.send(t, "r2", 8, 1, 8) // reports by itself what the notice would
		wantMessages(t, l.apply(8))
		l.send(t, "r3", 4, 3, 4)
		wantMessages(t, l.apply(20), // but a notice reports no more than the follower has
			"r2: 3 of term 3, 0 entries behind 9 of term 3, 9 committed, marked",
			"r3: 3 of term 3, 0 entries behind 7 of term 3, 7 committed, marked")
	})
}

// TestOneNoticeAtATime: a follower that hangs is sent no second notice, and the
// others get theirs.
func TestOneNoticeAtATime(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		l.send(t, "r2", 0, 9, 0)
		l.send(t, "r3", 0, 9, 0)
		answer, hangs := l.followers.answer, make(chan struct{})
		l.followers.answer = func(q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
			if q.LeaderCommitIndex == 3 {
				l.followers.mu.Unlock()
				<-hangs
				l.followers.mu.Lock()
			}
			return answer(q, r)
		}
		if got := l.apply(3); len(got) != 2 {
			t.Errorf("sent are %q", got)
		}
		wantMessages(t, l.apply(5))
		close(hangs)
		if got := l.apply(6); len(got) != 2 {
			t.Errorf("sent are %q", got)
		}
	})
}

// TestNoNoticeOfAnotherTerm: acknowledgements count only in their own term, and
// only for the leader of that term.
func TestNoNoticeOfAnotherTerm(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		l.send(t, "r2", 4, 2, 4)
		l.leads.Store(0)
		wantMessages(t, l.apply(6))
		l.leads.Store(5)
		wantMessages(t, l.apply(7))
	})
}

// TestRefusalsAcknowledgeNothing: failed messages acknowledge nothing either.
func TestRefusalsAcknowledgeNothing(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		answers := []func(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error{
			func(q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error { r.Term = q.Term; return nil },
			func(q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
				r.Term, r.Success = q.Term+1, true
				return nil
			},
			func(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error { return errors.New("lost") },
		}
		for _, l.followers.answer = range answers {
			l.send(t, "r2", 4, 2, 4)
		}
		wantMessages(t, l.apply(6))
	})
}

// TestNoticesForTheSlower: a follower acknowledges an entry after the others
// have received its commit. It gets the notice as soon as they did.
func TestNoticesForTheSlower(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		l.send(t, "r2", 7, 1, 7)
		l.applied.Store(8)
		l.advanced <- struct{}{}
		time.Sleep(time.Second)
		l.followers.arrived()
		l.send(t, "r3", 7, 1, 7)
		time.Sleep(2 * noticeAfter)
		synctest.Wait()
		want := []string{"r3: 3 of term 3, 0 entries behind 8 of term 3, 8 committed"}
		if got := l.followers.arrived(); !slices.Equal(got, want) {
			t.Errorf("sent was %q, want %q", got, want)
		}
	})
}

// TestNoNoticeWithoutWatchers: a follower that had no watchers at its last
// acknowledgement gets no notice until it has one.
func TestNoNoticeWithoutWatchers(t *testing.T) {
	lead(t, func(t *testing.T, l *leader) {
		answer := l.followers.answer
		l.followers.answer = func(q *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
			r.NoRetryBackoff = true
			return answer(q, r)
		}
		l.send(t, "r2", 4, 2, 4)
		l.send(t, "r3", 4, 2, 4)
		wantMessages(t, l.apply(6))
		l.followers.answer = answer
		l.send(t, "r2", 6, 1, 6)
		wantMessages(t, l.apply(7), "r2: 3 of term 3, 0 entries behind 7 of term 3, 7 committed")
	})
}

// TestFollowersReportWatchers: the answer to entries shows whether anybody
// watches when they are stored. No other answer does.
func TestFollowersReportWatchers(t *testing.T) {
	entries := []*raft.Log{{Index: 1, Term: 3}}
	for _, c := range []struct {
		name             string
		entries          []*raft.Log
		watched, success bool
		quiet            bool
	}{
		{"nobody watches", entries, false, true, true},
		{"somebody does", entries, true, true, false},
		{"a refusal", entries, false, false, false},
		{"without entries", nil, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var watched atomic.Bool
				watched.Store(!c.watched) // when the message arrives
				wire, quit := received{messages: make(chan raft.RPC)}, make(chan struct{})
				defer close(quit)
				to := New(wire, Options{Committed: func(uint64, uint64, bool) {}, Watched: watched.Load})
				go to.Pass("r2", nil, quit)
				answer := make(chan raft.RPCResponse, 1)
				wire.messages <- raft.RPC{Command: &raft.AppendEntriesRequest{Term: 3, Entries: c.entries}, RespChan: answer}
				m := <-to.Consumer()
				watched.Store(c.watched)
				m.Respond(&raft.AppendEntriesResponse{Term: 3, Success: c.success}, nil)
				if r := (<-answer).Response.(*raft.AppendEntriesResponse); r.NoRetryBackoff != c.quiet || r.Success != c.success {
					t.Errorf("the answer is %+v", r)
				}
			})
		})
	}
}
