package rafttransport

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestBeyondSnapshot: a message continues from an entry that only the snapshot
// has. The library gets the part behind the snapshot. Its latest one ends at
// entry 20, of term 3, and the log begins behind that.
func TestBeyondSnapshot(t *testing.T) {
	test := New(received{}, Options{Compacted: func(index uint64) (end, term uint64, ok bool) { return 20, 3, index < 20 }})
	for _, c := range []struct {
		name           string
		prev, prevTerm uint64
		terms          []uint64 // of the entries
		wantPrev       uint64
		wantEntries    int
	}{
		{"all is in the snapshot", 10, 3, []uint64{3, 3}, 20, 0},
		{"some are", 17, 2, []uint64{2, 3, 3, 4, 5}, 20, 2},
		{"all up to its end", 18, 3, []uint64{3, 3}, 20, 0},
		{"a question", 10, 2, nil, 20, 0},
		{"from the first entry on", 0, 0, []uint64{1}, 20, 0},
		{"a heartbeat", 0, 0, nil, 0, 0},
		{"the snapshot's end", 20, 3, []uint64{3}, 20, 1},
		{"behind it", 25, 3, []uint64{3}, 25, 1},
		{"another entry at its end", 17, 2, []uint64{2, 2, 2, 4}, 17, 4},
		{"a later term before its end", 17, 3, []uint64{4}, 17, 1},
		{"a later term to go on from", 10, 4, nil, 10, 0},
	} {
		q := raft.AppendEntriesRequest{Term: 9, PrevLogEntry: c.prev, PrevLogTerm: c.prevTerm, LeaderCommitIndex: 7}
		for i, term := range c.terms {
			q.Entries = append(q.Entries, &raft.Log{Index: c.prev + 1 + uint64(i), Term: term})
		}
		got := test.beyondSnapshot(&q)
		if got.PrevLogEntry != c.wantPrev || len(got.Entries) != c.wantEntries || got.Term != 9 || got.LeaderCommitIndex != 7 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.PrevLogEntry != c.prev && got.PrevLogTerm != 3 {
			t.Errorf("%s: behind an entry of term %d", c.name, got.PrevLogTerm)
		}
		if len(got.Entries) > 0 && got.Entries[0].Index != got.PrevLogEntry+1 {
			t.Errorf("%s: entry %d follows %d", c.name, got.Entries[0].Index, got.PrevLogEntry)
		}
		if q.PrevLogEntry != c.prev || len(q.Entries) != len(c.terms) {
			t.Errorf("%s: the message itself has changed", c.name)
		}
	}
}
