package boltlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/wal"
)

// manifestIndex is the index of the manifest's entry. No other entry can have
// it.
const manifestIndex = math.MaxUint64

// manifest is the list of a log's contents, with the other values that Raft
// must remember. It is immutable.
type manifest struct {
	// Transaction is the bbolt transaction that has written the manifest. A
	// disk that has lost acknowledged pages may show the pages of earlier
	// transactions in their place, with the manifest of that time.
	Transaction uint64 `json:"transaction"`
	Entries     spans  `json:"entries"`
	// Deleted are entries that the next transaction deletes.
	Deleted spans `json:"deleted"`
	// Snapshot is the index of the latest finished snapshot. Everything that
	// the replica has acknowledged up to there is in a snapshot or in the log.
	Snapshot uint64 `json:"snapshot"`
	// WAL is the generation of the write-ahead log with the entries that follow
	// those named here; zero without a write-ahead log.
	WAL wal.Mark `json:"wal,omitzero"`
	// Votes has the term and the vote, under the library's keys.
	Votes map[string][]byte `json:"votes"`
}

// reach returns the highest index that the replica has acknowledged.
func (r *manifest) reach() uint64 { return max(r.Entries.last(), r.Snapshot) }

// latest reports whether a file's manifest is the last one that was written to
// it. At most two kinds of transaction may follow the manifest's: the deletion
// that it lists, and one without changes, which raft-boltdb commits whenever it
// opens a file.
func (r *manifest) latest(file *boltFile) bool {
	return r.Transaction == file.txid || r.Transaction < file.txid && file.idle ||
		r.Transaction+1 == file.txid && len(r.Deleted) > 0
}

// with returns the manifest with one vote changed.
func (r manifest) with(key string, value []byte) manifest {
	r.Votes = maps.Clone(r.Votes)
	if r.Votes == nil {
		r.Votes = map[string][]byte{}
	}
	r.Votes[key] = append([]byte(nil), value...)
	return r
}

// including returns the manifest with further entries.
func (r manifest) including(logs []*raft.Log) manifest {
	for len(logs) > 0 {
		run := 1
		for run < len(logs) && logs[run].Index == logs[run-1].Index+1 {
			run++
		}
		r.Entries = r.Entries.with(logs[0].Index, logs[run-1].Index)
		logs = logs[run:]
	}
	return r
}

// entry returns the manifest as an entry of the log.
func (r *manifest) entry() (*raft.Log, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &raft.Log{Index: manifestIndex, Data: body}, nil
}

// readManifest reads the manifest of a log.
func readManifest(log raft.LogStore) (*manifest, error) {
	var l raft.Log
	err := readEntry(log, manifestIndex, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return nil, errors.New("it has no manifest")
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	r := &manifest{}
	if err := json.Unmarshal(l.Data, r); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return r, nil
}

// readWAL reads the entries in a directory's write-ahead log that follow the
// manifest, and the number of the next frame.
func (r *manifest) readWAL(dir string) (logs []*raft.Log, next uint64, err error) {
	if r.WAL == (wal.Mark{}) {
		return nil, 0, nil
	}
	return wal.Read(dir, r.WAL)
}
