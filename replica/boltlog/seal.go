package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// sumSize is the length in bytes of the checksum at the start of an entry's
// extensions.
const sumSize = 4

// checksumOf returns the checksum of an entry's contents without the checksum
// itself.
func checksumOf(l *raft.Log, extensions []byte) uint32 {
	head := make([]byte, 0, 6*8)
	for _, v := range [...]uint64{
		l.Index, l.Term, uint64(l.Type), uint64(l.AppendedAt.Unix()), uint64(l.AppendedAt.Nanosecond()), uint64(len(extensions)),
	} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	sum := crc32.Checksum(head, disk.Castagnoli)
	return crc32.Update(crc32.Update(sum, disk.Castagnoli, extensions), disk.Castagnoli, l.Data)
}

// sealed returns a copy of an entry with its checksum.
func sealed(l *raft.Log) *raft.Log {
	out := *l
	out.Extensions = append(binary.BigEndian.AppendUint32(nil, checksumOf(l, l.Extensions)), l.Extensions...)
	return &out
}

// unseal checks and removes the checksum of an entry that was read from an
// index.
func unseal(index uint64, l *raft.Log) error {
	if l.Index != index || len(l.Extensions) < sumSize || binary.BigEndian.Uint32(l.Extensions) != checksumOf(l, l.Extensions[sumSize:]) {
		return disk.ErrDamaged
	}
	if l.Extensions = l.Extensions[sumSize:]; len(l.Extensions) == 0 {
		l.Extensions = nil
	}
	// The checksum does not cover the zone.
	l.AppendedAt = time.Unix(l.AppendedAt.Unix(), int64(l.AppendedAt.Nanosecond())).UTC()
	return nil
}

// readEntry reads an entry that sealed has made. It returns raft.ErrLogNotFound
// for a missing one.
func readEntry(log raft.LogStore, index uint64, l *raft.Log) error {
	var read raft.Log // a decoder would keep, or write into, the contents of l
	err := recovering(func() error { return log.GetLog(index, &read) })
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
