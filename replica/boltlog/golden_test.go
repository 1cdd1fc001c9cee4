package boltlog

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/wal"
)

// TestGolden: the additions to raft-boltdb's own contents in raft.db, and the
// note beside it, are part of a data directory's format. A change of them must
// not go unnoticed.
func TestGolden(t *testing.T) {
	m := manifest{
		Transaction: 1, Entries: spans{{2, 3}, {7, 9}}, Deleted: spans{{1, 1}}, Snapshot: 6,
		WAL: wal.Mark{Generation: 4, Frame: 5}, Votes: map[string][]byte{"CurrentTerm": {0, 1}},
	}
	l, err := m.entry()
	must(t, err)
	note, err := json.Marshal(highWater{Transaction: 1, Frame: 2})
	must(t, err)
	entry := sealed(&raft.Log{Index: 7, Term: 2, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: time.Unix(1_700_000_000, 8)})
	for what, tc := range map[string]struct{ got, want string }{
		"manifest":               {string(l.Data), `{"transaction":1,"entries":[{"first":2,"last":3},{"first":7,"last":9}],"deleted":[{"first":1,"last":1}],"snapshot":6,"wal":{"generation":4,"frame":5},"votes":{"CurrentTerm":"AAE="}}`},
		highWaterFile:            {string(note), `{"transaction":1,"frame":2}`},
		"extensions of an entry": {hex.EncodeToString(entry.Extensions), "eaa61aab6d6f7265"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is\n%s and was\n%s", what, tc.got, tc.want)
		}
	}
}
