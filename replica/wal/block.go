package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/disk"
)

// The layout of a block: its head, then space for a part of its frame.
const (
	BlockSize = 512

	sumAt        = 0  // u32, over everything that follows
	numberAt     = 4  // u32, from the beginning of the file
	generationAt = 8  // u64
	frameAt      = 16 // u64
	usedAt       = 24 // u16, bytes used of the space
	lastAt       = 26 // u8, 1 in the last block of a frame
	committedAt  = 27 // u8, 1 if the transaction of the generation was on the disk
	headSize     = 32

	roomSize = BlockSize - headSize
)

type block [BlockSize]byte

func (b *block) generation() uint64 { return binary.BigEndian.Uint64(b[generationAt:]) } // 0 for a block that was never written
func (b *block) frame() uint64      { return binary.BigEndian.Uint64(b[frameAt:]) }
func (b *block) last() bool         { return b[lastAt] != 0 }
func (b *block) committed() bool    { return b[committedAt] != 0 }
func (b *block) used() int          { return int(binary.BigEndian.Uint16(b[usedAt:])) }
func (b *block) body() []byte       { return b[headSize : headSize+b.used()] }

// check returns an error for a damaged block; number is its place in the file.
// A block that was never written is all zeros.
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

// areaOf returns the first block of a generation's area.
func areaOf(generation uint64) int { return int(generation%2) * AreaBlocks }

// frame encodes a frame of entries for the blocks from at on, into raw if there
// is room. committed reports that the transaction with which the generation began
// is on the disk.
func frame(raw []byte, of Mark, committed bool, at int, logs []*raft.Log) []byte {
	size := 0
	for _, l := range logs {
		size += entrySize(l)
	}
	n := blocksOf(size)
	p := packer{blocks: slices.Grow(raw[:0], n*BlockSize)[:n*BlockSize]}
	for _, l := range logs {
		var head [entryHead]byte
		p.pack(appendHead(head[:0], l))
		p.pack(l.Data)
		p.pack(l.Extensions)
	}
	clear(p.blocks[min(len(p.blocks), p.next):])
	for i := range n {
		b := p.blocks[i*BlockSize : (i+1)*BlockSize]
		used := min(size, roomSize)
		size -= used
		clear(b[:headSize])
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
	return p.blocks
}

// packer spreads bytes over the rooms of blocks.
type packer struct {
	blocks []byte
	next   int // where the next byte goes, or the begin of a block
}

func (p *packer) pack(b []byte) {
	for len(b) > 0 {
		if p.next%BlockSize == 0 {
			p.next += headSize
		}
		end := p.next + BlockSize - p.next%BlockSize
		n := copy(p.blocks[p.next:end], b)
		b, p.next = b[n:], p.next+n
	}
}
