package replica

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/raft"
)

// span is a run of entries without a gap.
type span struct{ first, last uint64 }

// contents is what the check of a log found: every entry in it matches its
// checksum, and all that the record names are there.
type contents struct {
	record record
	spans  []span
}

// covers reports whether every entry from one index to another is there.
func (c *contents) covers(from, to uint64) bool {
	for _, s := range c.spans {
		if s.first <= from && to <= s.last {
			return true
		}
	}
	return from > to
}

// checkLog reads a whole log file and says what is wrong with it. Nobody may
// write to the file meanwhile.
func checkLog(name string) (*contents, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return readLog(file, info.Size())
}

func readLog(file io.ReaderAt, size int64) (*contents, error) {
	bolt, err := readBolt(file, size)
	if err != nil {
		return nil, err
	}
	found := &contents{}
	var have *record
	err = bolt.walk(bolt.root, nil, nil, func(key, value []byte, bucket bool) error {
		switch {
		case bucket && string(key) == string(logBucket):
			return bolt.walkBucket(value, found.entry())
		case bucket && string(key) == string(recordBucket):
			return bolt.walkBucket(value, func(key, value []byte, _ bool) (err error) {
				have, err = decodeRecord(value)
				return err
			})
		}
		return fmt.Errorf("it holds %q, which is none of its buckets", key)
	})
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		return nil, errors.New("it has no record")
	}
	found.record = *have
	return found, found.complete()
}

// entry takes the entries in the order of their keys.
func (c *contents) entry() visitor {
	var l raft.Log
	term := uint64(0)
	return func(key, value []byte, _ bool) error {
		if err := decodeEntry(key, value, &l); err != nil {
			return err
		}
		if l.Term < term {
			return fmt.Errorf("log entry %d is of term %d, behind one of term %d", l.Index, l.Term, term)
		}
		term = l.Term
		if n := len(c.spans); n > 0 && c.spans[n-1].last+1 == l.Index {
			c.spans[n-1].last++
		} else {
			c.spans = append(c.spans, span{l.Index, l.Index})
		}
		return nil
	}
}

// complete compares the entries that are there with those that the record tells.
func (c *contents) complete() error {
	var have record
	for i, s := range c.spans {
		if i == 0 {
			have.First = s.first
		}
		have.Last = s.last
		have.Count += s.last - s.first + 1
	}
	if r := c.record; r.First != have.First || r.Last != have.Last || r.Count != have.Count {
		return fmt.Errorf("it has lost entries: it should have %d, from %d to %d, and has %d, from %d to %d",
			r.Count, r.First, r.Last, have.Count, have.First, have.Last)
	}
	return nil
}
