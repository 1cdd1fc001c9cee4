package replica

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// raft-boltdb has no checksums, and a file that misses its last entries, or a
// vote, looks whole to it. So each entry that it is given carries a CRC-32C in
// its extensions; and one more entry, under an index that no other can have, is
// the record: what entries there have to be, and the votes. It is written in the
// transaction that changes what it tells. So neither a flipped bit nor a missing
// entry, be it the last one, goes unseen.
const recordIndex = math.MaxUint64

// record is what a log holds, and all that Raft has to remember beside it.
// It is immutable.
type record struct {
	// Transaction is the one of bbolt that has written the record. A disk that has
	// lost pages which it had acknowledged may show, in their places, those of some
	// transactions ago, with the record of that time.
	Transaction uint64 `json:"transaction"`
	Entries     spans  `json:"entries"`
	// Deleted are entries that the transaction behind this one deletes.
	Deleted spans `json:"deleted"`
	// Snapshot is the index of the latest snapshot that was finished: what the
	// replica has acknowledged up to there is in a snapshot or in the log.
	Snapshot uint64 `json:"snapshot"`
	// WAL is the generation of the write-ahead log whose entries come behind those
	// told here, and Frame the number of its first frame, from 1 on; 0 where there is
	// none.
	WAL   uint64 `json:"wal,omitempty"`
	Frame uint64 `json:"frame,omitempty"`
	// Votes is the term and the vote, under the library's keys.
	Votes map[string][]byte `json:"votes"`
}

// reach is the highest index that the replica has acknowledged.
func (r *record) reach() uint64 { return max(r.Entries.last(), r.Snapshot) }

// latest reports whether a file's record is the last one that was written to it.
// Behind it there may be the deletion that it tells of; and whenever raft-boltdb
// opens a file it commits a transaction that changes nothing.
func (r *record) latest(file *boltFile) bool {
	return r.Transaction == file.txid || r.Transaction < file.txid && file.idle ||
		r.Transaction+1 == file.txid && len(r.Deleted) > 0
}

// with is the record with one vote changed.
func (r record) with(key string, value []byte) record {
	r.Votes = maps.Clone(r.Votes)
	if r.Votes == nil {
		r.Votes = map[string][]byte{}
	}
	r.Votes[key] = append([]byte(nil), value...)
	return r
}

// including is the record with further entries.
func (r record) including(logs []*raft.Log) record {
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

// entry is the record as an entry of the log.
func (r *record) entry() (*raft.Log, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &raft.Log{Index: recordIndex, Data: body}, nil
}

// readRecord reads the record of a log.
func readRecord(log raft.LogStore) (*record, error) {
	var l raft.Log
	err := readEntry(log, recordIndex, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return nil, errors.New("it has no record")
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &record{}
	if err := json.Unmarshal(l.Data, r); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the length of the checksum that an entry's extensions begin with, in
// bytes.
const sumSize = 4

// checksumOf is the sum of all that an entry holds, but of its own place.
func checksumOf(l *raft.Log, extensions []byte) uint32 {
	head := make([]byte, 0, 6*8)
	for _, v := range [...]uint64{
		l.Index, l.Term, uint64(l.Type), uint64(l.AppendedAt.Unix()), uint64(l.AppendedAt.Nanosecond()), uint64(len(extensions)),
	} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	sum := crc32.Checksum(head, castagnoli)
	return crc32.Update(crc32.Update(sum, castagnoli, extensions), castagnoli, l.Data)
}

// sealed is a copy of an entry that carries its checksum.
func sealed(l *raft.Log) *raft.Log {
	out := *l
	out.Extensions = append(binary.BigEndian.AppendUint32(nil, checksumOf(l, l.Extensions)), l.Extensions...)
	return &out
}

var errDamaged = errors.New("it does not match its checksum")

// unseal takes the checksum off an entry that was read from an index.
func unseal(index uint64, l *raft.Log) error {
	if l.Index != index || len(l.Extensions) < sumSize || binary.BigEndian.Uint32(l.Extensions) != checksumOf(l, l.Extensions[sumSize:]) {
		return errDamaged
	}
	if l.Extensions = l.Extensions[sumSize:]; len(l.Extensions) == 0 {
		l.Extensions = nil
	}
	// The zone is not under the checksum.
	l.AppendedAt = time.Unix(l.AppendedAt.Unix(), int64(l.AppendedAt.Nanosecond())).UTC()
	return nil
}

// readEntry reads what sealed has made. It is raft.ErrLogNotFound where there is
// no such entry.
func readEntry(log raft.LogStore, index uint64, l *raft.Log) error {
	var read raft.Log // a decoder would keep, or write into, what stands in l
	err := guarded(func() error { return log.GetLog(index, &read) })
	if errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	if err == nil {
		err = unseal(index, &read)
	}
	if err != nil {
		return fmt.Errorf("log entry %d cannot be read: %w", index, err)
	}
	*l = read
	return nil
}
