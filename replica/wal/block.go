package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// The layout of a block: its head, and then room for a part of its frame.
const (
	BlockSize = 512

	sumAt        = 0  // u32, over all that follows
	numberAt     = 4  // u32, from the beginning of the file
	generationAt = 8  // u64
	frameAt      = 16 // u64
	usedAt       = 24 // u16, bytes of the room
	lastAt       = 26 // u8, 1 in the last block of a frame
	committedAt  = 27 // u8, 1 where the transaction of the generation was on the disk
	headSize     = 32

	roomSize = BlockSize - headSize
)

type block [BlockSize]byte

func (b *block) generation() uint64 { return binary.BigEndian.Uint64(b[generationAt:]) } // 0 for one never written
func (b *block) frame() uint64      { return binary.BigEndian.Uint64(b[frameAt:]) }
func (b *block) last() bool         { return b[lastAt] != 0 }
func (b *block) committed() bool    { return b[committedAt] != 0 }
func (b *block) used() int          { return int(binary.BigEndian.Uint16(b[usedAt:])) }
func (b *block) body() []byte       { return b[headSize : headSize+b.used()] }

// check says what is wrong with the block of a number. One that was never
// written is all zeros.
func (b *block) check(number int) error {
	if *b == (block{}) {
		return nil
	}
	if binary.BigEndian.Uint32(b[sumAt:]) != crc32.Checksum(b[numberAt:], disk.Castagnoli) ||
		binary.BigEndian.Uint32(b[numberAt:]) != uint32(number) || b.used() > roomSize {
		return fmt.Errorf("block %d: %w", number, disk.ErrDamaged)
	}
	return nil
}

func blocksOf(size int) int { return max(1, (size+roomSize-1)/roomSize) }

// areaOf is the first block of the area that a generation takes.
func areaOf(generation uint64) int { return int(generation%2) * AreaBlocks }

// frame is a frame of entries, to be written from a block on. committed says
// that the transaction which the generation began with is on the disk.
func frame(of Mark, committed bool, at int, logs []*raft.Log) []byte {
	var body []byte
	for _, l := range logs {
		body = appendEntry(body, l)
	}
	n := blocksOf(len(body))
	out := make([]byte, n*BlockSize)
	for i := range n {
		b := out[i*BlockSize : (i+1)*BlockSize]
		used := copy(b[headSize:], body)
		body = body[used:]
		binary.BigEndian.PutUint32(b[numberAt:], uint32(at+i))
		binary.BigEndian.PutUint64(b[generationAt:], of.Generation)
		binary.BigEndian.PutUint64(b[frameAt:], of.Frame)
		binary.BigEndian.PutUint16(b[usedAt:], uint16(used))
		if i == n-1 {
			b[lastAt] = 1
		}
		if committed {
			b[committedAt] = 1
		}
		binary.BigEndian.PutUint32(b[sumAt:], crc32.Checksum(b[numberAt:], disk.Castagnoli))
	}
	return out
}
