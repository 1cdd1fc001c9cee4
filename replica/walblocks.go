package replica

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// The write-ahead log is made of blocks of the size that a disk writes whole or not
// at all. Each begins with a CRC-32C over all the rest of it, its own number, the
// generation and the frame that it belongs to, how many bytes it holds, whether
// it is the last of its frame, and whether it was written after the transaction that
// its generation began with. A frame is what one write has stored. So a write that
// a crash has torn differs from damage: there each block is the new one or, as it
// was, one of an earlier generation or zeros; a damaged block is neither.
const (
	walBlock = 512
	walHead  = 32
	walRoom  = walBlock - walHead
)

func walBlocksOf(size int) int { return max(1, (size+walRoom-1)/walRoom) }

// walFrame is a frame of entries, to be written from a block on. told says that the
// record on the disk tells the generation.
func walFrame(generation, frame uint64, told bool, at int, logs []*raft.Log) []byte {
	var body []byte
	for _, l := range logs {
		body = appendWALEntry(body, l)
	}
	n := walBlocksOf(len(body))
	out := make([]byte, n*walBlock)
	for i := range n {
		b := out[i*walBlock : (i+1)*walBlock]
		used := copy(b[walHead:], body)
		body = body[used:]
		binary.BigEndian.PutUint32(b[4:], uint32(at+i))
		binary.BigEndian.PutUint64(b[8:], generation)
		binary.BigEndian.PutUint64(b[16:], frame)
		binary.BigEndian.PutUint16(b[24:], uint16(used))
		if i == n-1 {
			b[26] = 1
		}
		if told {
			b[27] = 1
		}
		binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	}
	return out
}

// walArea is the first block of the area that a generation takes.
func walArea(generation uint64) int { return int(generation%2) * walBlocks }

// readWALArea reads the entries of a generation, whose first frame has the given
// number, and returns the number behind the last one. Only that may be torn: what it
// held was not acknowledged. Anything else that is not whole is damage. So is a block
// from after a transaction of which the record does not tell: told says whether the
// one that the generation began with is.
func readWALArea(file io.ReaderAt, generation, next uint64, told bool) (logs []*raft.Log, behind uint64, err error) {
	var (
		body []byte
		torn bool
		b    [walBlock]byte
		area = walArea(generation)
		in   = bufio.NewReaderSize(io.NewSectionReader(file, int64(area)*walBlock, walBlocks*walBlock), 64<<10)
	)
	for at := area; at < area+walBlocks; at++ {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, 0, fmt.Errorf("it is cut short at block %d: %w", at, err)
		}
		of, frame, err := walBlockOf(&b, at)
		switch {
		case err != nil:
			return nil, 0, err
		case of > generation:
			return nil, 0, fmt.Errorf("block %d is of generation %d, beyond %d", at, of, generation)
		case of < generation:
			torn = true
			continue
		case frame != next:
			return nil, 0, fmt.Errorf("block %d is of frame %d, where frame %d should be: the disk has lost what it had acknowledged", at, frame, next)
		case b[27] != 0 && !told:
			return nil, 0, fmt.Errorf("block %d was written after a transaction that %s does not have: the disk has lost what it had acknowledged", at, logFileName)
		case torn:
			continue
		}
		body = append(body, b[walHead:walHead+binary.BigEndian.Uint16(b[24:])]...)
		if b[26] == 0 {
			continue
		}
		if logs, err = appendWALEntries(logs, body); err != nil {
			return nil, 0, fmt.Errorf("frame %d: %w", frame, err)
		}
		next, body = next+1, nil
	}
	return logs, next, nil
}

// walBlockOf checks a block and tells its generation, 0 for one never written, and
// its frame.
func walBlockOf(b *[walBlock]byte, at int) (generation, frame uint64, err error) {
	if *b == [walBlock]byte{} {
		return 0, 0, nil
	}
	used := binary.BigEndian.Uint16(b[24:])
	if binary.BigEndian.Uint32(b[:]) != crc32.Checksum(b[4:], castagnoli) || binary.BigEndian.Uint32(b[4:]) != uint32(at) || used > walRoom {
		return 0, 0, fmt.Errorf("block %d: %w", at, errDamaged)
	}
	return binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]), nil
}

const walEntryHead = 3*8 + 4 + 1 + 2*4

func walEntrySize(l *raft.Log) int { return walEntryHead + len(l.Data) + len(l.Extensions) }

// appendWALEntry writes an entry: index, term, time, type, and the data and the
// extensions with their lengths.
func appendWALEntry(b []byte, l *raft.Log) []byte {
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.Unix()))
	b = binary.BigEndian.AppendUint32(b, uint32(l.AppendedAt.Nanosecond()))
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Extensions)))
	return append(append(b, l.Data...), l.Extensions...)
}

// appendWALEntries reads what appendWALEntry has written, one behind the other.
func appendWALEntries(logs []*raft.Log, b []byte) ([]*raft.Log, error) {
	for len(b) > 0 {
		if len(b) < walEntryHead {
			return nil, errors.New("an entry is cut short")
		}
		l := &raft.Log{
			Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Type: raft.LogType(b[28]),
			AppendedAt: time.Unix(int64(binary.BigEndian.Uint64(b[16:])), int64(binary.BigEndian.Uint32(b[24:]))).UTC(),
		}
		data, extensions := uint64(binary.BigEndian.Uint32(b[29:])), uint64(binary.BigEndian.Uint32(b[33:]))
		if b = b[walEntryHead:]; uint64(len(b)) < data+extensions {
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
