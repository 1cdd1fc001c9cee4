package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"
	berrors "go.etcd.io/bbolt/errors"
)

// The buckets of raft-boltdb.
const (
	entriesBucket = "logs" // an entry under its index, big-endian
	valuesBucket  = "conf" // empty: the votes are in the manifest
)

// checkLog reads a whole log file and returns an error for any damage. For a
// sound file it returns the manifest, and the entries beyond it that a crash
// within DeleteRange has left. It locks the file against writers; the error is
// bbolt's ErrTimeout if another process has it open for writing. It does not
// change the file.
func checkLog(name string) (*manifest, spans, error) {
	// When opened for reading, bbolt reads only the meta pages until it is
	// asked for more.
	log, opening := openBolt(name, true)
	if errors.Is(opening, berrors.ErrTimeout) {
		return nil, nil, opening
	}
	if opening == nil {
		defer log.Close()
	}
	file, found, err := readFile(name)
	if err = errors.Join(err, opening); err != nil {
		return nil, nil, err
	}
	r, err := readManifest(log)
	if err != nil {
		return nil, nil, err
	}
	if !r.latest(file) {
		return nil, nil, fmt.Errorf("its manifest is of transaction %d, and the last one was %d: the disk has lost what it had acknowledged", r.Transaction, file.txid)
	}
	left, err := r.verify(log, found)
	return r, left, err
}

func readFile(name string) (*boltFile, spans, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	return readIndexes(file, info.Size())
}

// readIndexes reads which entries are in a log file. It follows the rules of
// bbolt's format and trusts no value in the file.
func readIndexes(file io.ReaderAt, size int64) (*boltFile, spans, error) {
	bolt, err := readBolt(file, size)
	if err != nil {
		return nil, nil, err
	}
	var found spans
	err = bolt.walk(bolt.root, nil, nil, func(key, value []byte, bucket bool) error {
		switch {
		case bucket && string(key) == entriesBucket:
			return bolt.walkBucket(value, found.note)
		case bucket && string(key) == valuesBucket:
			return bolt.walkBucket(value, func(key, _ []byte, _ bool) error {
				return fmt.Errorf("it holds %q in its bucket %s, which should be empty", key, valuesBucket)
			})
		}
		return fmt.Errorf("it holds %q, which is not one of its buckets", key)
	})
	return bolt, found, err
}

// note records the entries in the order of their keys, and skips the manifest.
func (s *spans) note(key, _ []byte, bucket bool) error {
	if len(key) != 8 || bucket {
		return fmt.Errorf("it holds %x in its bucket %s, which is not an entry", key, entriesBucket)
	}
	switch index, n := binary.BigEndian.Uint64(key), len(*s); {
	case index == manifestIndex:
	case n > 0 && (*s)[n-1].Last+1 == index:
		(*s)[n-1].Last = index
	default:
		*s = append(*s, span{index, index})
	}
	return nil
}

// verify reads every entry that the manifest names. It returns the found
// entries that are left over from a deletion.
func (r *manifest) verify(log raft.LogStore, found spans) (left spans, err error) {
	term := uint64(0)
	for _, s := range r.Entries {
		for i := s.First; i <= s.Last; i++ {
			var l raft.Log
			switch err := readEntry(log, i, &l); {
			case errors.Is(err, raft.ErrLogNotFound):
				return nil, fmt.Errorf("it has lost entry %d: it should have all of %v", i, r.Entries)
			case err != nil:
				return nil, err
			case l.Term < term:
				return nil, fmt.Errorf("log entry %d is of term %d, behind one of term %d", i, l.Term, term)
			}
			term = l.Term
		}
		found = found.without(s.First, s.Last)
	}
	left = found
	for _, s := range r.Deleted {
		found = found.without(s.First, s.Last)
	}
	if len(found) > 0 {
		return nil, fmt.Errorf("it holds the entries %v, which its manifest does not name", found)
	}
	return left, nil
}
