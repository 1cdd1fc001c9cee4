package rafttransport

import "github.com/hashicorp/raft"

// beyondSnapshot returns a message that goes on from the end of this replica's latest
// snapshot, in place of one that goes on from an entry before it which the log no
// longer has. Other messages it returns as they are.
//
// A leader does not get the answer to some entries and sends them again. Meanwhile
// the follower takes a snapshot behind them and cuts its log. The library then looks
// for the entry before them, does not find it, and refuses the message. So the leader
// goes back, to its own latest snapshot in the end, and that one is behind the
// follower's: it gets no entry any more until the leader takes a later snapshot
// (found by the simulator).
//
// All entries of a snapshot were committed, and a leader of this term or a later one
// has them (Ongaro and Ousterhout 2014, leader completeness). So they are left out.
// A message that shows another entry at the snapshot's end, or a later term before it,
// is of a log that lacks committed entries, and the library gets it as it is.
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
