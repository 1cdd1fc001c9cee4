package rafttransport

import (
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkAcknowledged measures the cost of a message with an entry and its
// answer, without the network.
func BenchmarkAcknowledged(b *testing.B) {
	f := &forgetful{last: map[raft.ServerID]uint64{}}
	to := sending()
	to.Wire, to.acks, to.notices = f, &acknowledged{}, &notices{late: make(chan struct{}, 1)}
	entries := []*raft.Log{{Term: 3}}
	q, r := &raft.AppendEntriesRequest{Term: 3, Entries: entries}, &raft.AppendEntriesResponse{}
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		entries[0].Index, q.PrevLogEntry, q.PrevLogTerm, q.LeaderCommitIndex = i+1, i, 3, i
		if err := to.AppendEntries("r2/a", "", q, r); err != nil {
			b.Fatal(err)
		}
	}
}
