package wal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// Read reads the entries that follow a mark in a directory's write-ahead log,
// and the number of the next frame. It changes nothing.
func Read(dir string, from Mark) (logs []*raft.Log, next uint64, err error) {
	file, err := os.Open(filepath.Join(dir, FileName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("it continues in %s, which is lost", FileName)
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	logs, next, err = Parse(file, from)
	if err != nil {
		return nil, 0, fmt.Errorf("it continues in %s, which is damaged: %w", FileName, err)
	}
	return logs, next, nil
}

// Parse is Read for an open file. It reads the entries of the generation that
// the mark names, and of the next generation.
func Parse(file io.ReaderAt, from Mark) (logs []*raft.Log, next uint64, err error) {
	if from.Frame == 0 {
		return nil, 0, fmt.Errorf("its first frame of generation %d has no number", from.Generation)
	}
	logs, next, err = parseArea(file, from, true)
	if err != nil {
		return nil, 0, err
	}
	behind, next, err := parseArea(file, Mark{from.Generation + 1, next}, false)
	return append(logs, behind...), next, err
}

// parseArea reads the entries of a generation, and returns the number after the
// last frame. Only the frame after the last may be torn: it was not
// acknowledged. Any other incomplete frame is damage. So is a block that was
// written after a transaction that the store does not have. committed reports
// whether the store has the transaction with which the generation began.
func parseArea(file io.ReaderAt, from Mark, committed bool) (logs []*raft.Log, next uint64, err error) {
	var (
		body []byte
		torn bool
		b    block
		area = areaOf(from.Generation)
		in   = bufio.NewReaderSize(io.NewSectionReader(file, int64(area)*BlockSize, AreaBlocks*BlockSize), 64<<10)
	)
	next = from.Frame
	for at := area; at < area+AreaBlocks; at++ {
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, 0, fmt.Errorf("it is cut short at block %d: %w", at, err)
		}
		if err := b.check(at); err != nil {
			return nil, 0, err
		}
		switch of := b.generation(); {
		case of > from.Generation:
			return nil, 0, fmt.Errorf("block %d is of generation %d, beyond %d", at, of, from.Generation)
		case of < from.Generation:
			torn = true
			continue
		case b.frame() != next:
			return nil, 0, fmt.Errorf("block %d is of frame %d, where frame %d should be: the disk has lost what it had acknowledged", at, b.frame(), next)
		case b.committed() && !committed:
			return nil, 0, fmt.Errorf("block %d was written after a transaction that the store does not have: the disk has lost what it had acknowledged", at)
		case torn:
			continue
		}
		body = append(body, b.body()...)
		if !b.last() {
			continue
		}
		if logs, err = appendEntries(logs, body); err != nil {
			return nil, 0, fmt.Errorf("frame %d: %w", b.frame(), err)
		}
		next, body = next+1, nil
	}
	return logs, next, nil
}
