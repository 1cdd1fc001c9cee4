package replica

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"time"

	"github.com/hashicorp/raft"
)

// The file raft.db has two buckets. In "log" there is an entry per index; in
// "record" one value under the key "record" that tells what else has to be there.
// Each value begins with a CRC-32C over its key and the rest of it, and the
// record is written in the transaction that changes what it tells. So neither a
// flipped bit nor a missing entry, be it the last one, goes unseen.
var (
	logBucket    = []byte("log")
	recordBucket = []byte("record")
	recordKey    = []byte("record")
)

// record is what a log holds, and all that Raft has to remember beside it.
// It is immutable.
type record struct {
	First uint64 `json:"first"` // index of the first entry; 0 without one
	Last  uint64 `json:"last"`  // index of the last entry; 0 without one
	Count uint64 `json:"count"` // of entries; behind a snapshot that was installed there may be a gap
	// Snapshot is the index of the latest snapshot that was finished: what the
	// replica has acknowledged up to there is in a snapshot or in the log.
	Snapshot uint64 `json:"snapshot"`
	// Votes is the term and the vote, under the library's keys.
	Votes map[string][]byte `json:"votes"`
}

// reach is the highest index that the replica has acknowledged.
func (r *record) reach() uint64 { return max(r.Last, r.Snapshot) }

// with is the record with one vote changed.
func (r record) with(key string, value []byte) record {
	r.Votes = maps.Clone(r.Votes)
	if r.Votes == nil {
		r.Votes = map[string][]byte{}
	}
	r.Votes[key] = append([]byte(nil), value...)
	return r
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSize is the length of the checksum that every value begins with, in bytes.
const sumSize = 4

// sealed puts the checksum into the first bytes of a value, which were left free.
func sealed(key, value []byte) []byte {
	binary.BigEndian.PutUint32(value, checksumOf(key, value))
	return value
}

func checksumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[sumSize:])
}

var errDamaged = errors.New("it does not match its checksum")

// unsealed is what stands behind the checksum of a value.
func unsealed(key, value []byte) ([]byte, error) {
	if len(value) < sumSize || binary.BigEndian.Uint32(value) != checksumOf(key, value) {
		return nil, errDamaged
	}
	return value[sumSize:], nil
}

func (r *record) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return sealed(recordKey, append(make([]byte, sumSize), body...)), nil
}

func decodeRecord(value []byte) (*record, error) {
	body, err := unsealed(recordKey, value)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &record{}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

// entryHead is the length of what stands before an entry's data: the checksum,
// the type, the term, and when the leader appended it (Unix nanoseconds, 0 where
// that is not told).
const entryHead = sumSize + 1 + 8 + 8

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func encodeEntry(l *raft.Log) (key, value []byte, err error) {
	if len(l.Extensions) > 0 {
		return nil, nil, fmt.Errorf("entry %d has %d bytes of extensions, for which the log has no place", l.Index, len(l.Extensions))
	}
	key = indexKey(l.Index)
	value = make([]byte, entryHead, entryHead+len(l.Data))
	value[sumSize] = byte(l.Type)
	binary.BigEndian.PutUint64(value[sumSize+1:], l.Term)
	if !l.AppendedAt.IsZero() {
		binary.BigEndian.PutUint64(value[sumSize+9:], uint64(l.AppendedAt.UnixNano()))
	}
	return key, sealed(key, append(value, l.Data...)), nil
}

// decodeEntry reads an entry. It does not alias value.
func decodeEntry(key, value []byte, l *raft.Log) error {
	body, err := unsealed(key, value)
	if err == nil && (len(key) != 8 || len(value) < entryHead) {
		err = fmt.Errorf("it has %d bytes under a key of %d", len(value), len(key))
	}
	if err != nil {
		return fmt.Errorf("log entry %x: %w", key, err)
	}
	*l = raft.Log{
		Index: binary.BigEndian.Uint64(key), Type: raft.LogType(body[0]), Term: binary.BigEndian.Uint64(body[1:]),
		Data: append([]byte(nil), body[entryHead-sumSize:]...),
	}
	if at := int64(binary.BigEndian.Uint64(body[9:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	return nil
}
