package wal

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// entryHead is the size of an entry without its data and extensions: index,
// term, time, type, and the lengths of the two.
const entryHead = 3*8 + 4 + 1 + 2*4

func entrySize(l *raft.Log) int { return entryHead + len(l.Data) + len(l.Extensions) }

// appendHead encodes an entry without its data and extensions, which follow.
func appendHead(b []byte, l *raft.Log) []byte {
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(l.AppendedAt.Nanosecond()))
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	return binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions)))
}

// appendEntries decodes consecutive entries of a frame.
func appendEntries(logs []*raft.Log, b []byte) ([]*raft.Log, error) {
	for len(b) > 0 {
		if len(b) < entryHead {
			return nil, errors.New("an entry is cut short")
		}
		l := &raft.Log{
			Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Type: raft.LogType(b[28]),
			AppendedAt: time.Unix(int64(binary.BigEndian.Uint64(b[16:])), int64(binary.BigEndian.Uint32(b[24:]))).UTC(),
		}
		data, extensions := uint64(binary.BigEndian.Uint32(b[29:])), uint64(binary.BigEndian.Uint32(b[33:]))
		if b = b[entryHead:]; uint64(len(b)) < data+extensions {
			return nil, errors.New("an entry is cut short")
		}
		l.Data = append([]byte(nil), b[:data]...)
		if extensions > 0 {
			l.Extensions = append([]byte(nil), b[data:data+extensions]...)
		}
		b = b[data+extensions:]
		logs = append(logs, l)
	}
	return logs, nil
}
