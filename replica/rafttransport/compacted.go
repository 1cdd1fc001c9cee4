package rafttransport

import "github.com/hashicorp/raft"

// beyondSnapshot returns a message that continues from the end of this
// replica's latest snapshot, in place of one that continues from an earlier
// entry which the log no longer has. It returns other messages unchanged.
//
// Without it this happens (found by the simulator):
//
//  1. A leader misses the answer to some entries and sends them again.
//  2. Before they arrive, the follower takes a snapshot behind them and cuts
//     its log.
//  3. The library looks for the entry before them, does not find it, and
//     refuses the message.
//  4. The leader goes back, in the end to its own latest snapshot, and that one
//     is behind the follower's.
//  5. So the follower gets no entries until the leader takes a later snapshot.
//
// All entries of a snapshot were committed, and a leader of this term or a
// later one has them (Ongaro and Ousterhout 2014, leader completeness). So they
// can be left out. A message that has another entry at the snapshot's end, or a
// later term before it, comes from a log that lacks committed entries. The
// library receives it unchanged.
func (t Transport) beyondSnapshot(q *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	if t.opts.Compacted == nil || q.PrevLogEntry == 0 && len(q.Entries) == 0 { // a heartbeat has no entry before it
		return q
	}
	end, term, ok := t.opts.Compacted(q.PrevLogEntry)
	if !ok || q.PrevLogTerm > term {
		return q
	}
	rest := q.Entries
	for len(rest) > 0 && rest[0].Index <= end {
		if e := rest[0]; e.Term > term || e.Index == end && e.Term != term {
			return q
		}
		rest = rest[1:]
	}
	beyond := *q
	beyond.PrevLogEntry, beyond.PrevLogTerm, beyond.Entries = end, term, rest
	return &beyond
}
