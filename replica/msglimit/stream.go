package msglimit

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// The kinds of messages, from the library's net_transport.go.
const (
	appendEntries   = 0
	installSnapshot = 2
	lastKind        = 4
)

// stream is a position in the data that a connection receives. The data are
// messages: each is a byte for its kind and one value in MessagePack. A
// snapshot follows its head. A stream starts as the zero value with its bounds
// set.
type stream struct {
	bounds Bounds

	begun  bool // a message has begun
	kind   byte
	bytes  int64 // of the message, including announced ones
	values int64 // of the message, including announced ones
	owed   int64 // values still to come

	digits int   // bytes of a length still to come
	length int64 // the part of it received so far
	of     what  // the kind of value that has this length
	skip   int64 // bytes of a number or string still to come

	head []byte // of a snapshot
	raw  bool   // a snapshot follows, or has begun
	left int64  // bytes of it still to come
	over bool   // no more data is accepted
}

// what is the kind of value that a length belongs to.
type what uint8

const (
	str what = iota
	array
	pairs
)

// pass checks the next bytes. After an error none of them may be passed on, and
// the stream ends.
func (s *stream) pass(b []byte) error {
	for len(b) > 0 {
		n := 1
		switch {
		case s.raw:
			return s.snapshot(int64(len(b)))
		case s.skip > 0:
			n = int(min(s.skip, int64(len(b))))
			s.skip -= int64(n)
		default:
			if err := s.step(b[0]); err != nil {
				return err
			}
		}
		if s.kind == installSnapshot && s.begun {
			s.head = append(s.head, b[:n]...)
		}
		b = b[n:]
		if s.begun && s.owed == 0 && s.digits == 0 && s.skip == 0 {
			if err := s.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// step handles a byte outside of strings and numbers.
func (s *stream) step(c byte) error {
	if !s.begun {
		return s.begin(c)
	}
	if err := s.consume(1); err != nil {
		return err
	}
	if s.digits == 0 {
		s.owed--
		return s.value(c)
	}
	s.length = s.length<<8 | int64(c)
	if s.digits--; s.digits > 0 {
		return nil
	}
	return s.announce(s.of, s.length)
}

func (s *stream) begin(kind byte) error {
	if kind > lastKind {
		return fmt.Errorf("%d is not a kind of message", kind)
	}
	s.begun, s.kind, s.bytes, s.values, s.owed = true, kind, 0, 1, 1
	return nil
}

// value handles the first byte of a value. The library writes no floats, no
// extensions and none of the newer string types.
func (s *stream) value(c byte) error {
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small numbers, nil, false, true
		return nil
	case c <= 0x8f:
		return s.announce(pairs, int64(c&0x0f))
	case c <= 0x9f:
		return s.announce(array, int64(c&0x0f))
	case c <= 0xbf:
		return s.announce(str, int64(c&0x1f))
	case c >= 0xcc && c <= 0xcf, c >= 0xd0 && c <= 0xd3: // numbers of 1, 2, 4 and 8 bytes
		return s.announce(str, 1<<(c&3))
	}
	s.length = 0
	switch c {
	case 0xda:
		s.of, s.digits = str, 2
	case 0xdb:
		s.of, s.digits = str, 4
	case 0xdc:
		s.of, s.digits = array, 2
	case 0xdd:
		s.of, s.digits = array, 4
	case 0xde:
		s.of, s.digits = pairs, 2
	case 0xdf:
		s.of, s.digits = pairs, 4
	default:
		return fmt.Errorf("a message has a value of type 0x%x, which replicas do not send", c)
	}
	return nil
}

// announce handles the size that a value announces.
func (s *stream) announce(of what, n int64) error {
	if of == str {
		s.skip = n
		return s.consume(n)
	}
	if of == pairs {
		n *= 2
	}
	if n > s.bounds.Values-s.values {
		return fmt.Errorf("a message of kind %d has more than %d values", s.kind, s.bounds.Values)
	}
	s.values, s.owed = s.values+n, s.owed+n
	return nil
}

// consume counts bytes of a message.
func (s *stream) consume(n int64) error {
	most := s.bounds.Other
	if s.kind == appendEntries {
		most = s.bounds.Entries
	}
	if n > most-s.bytes {
		return fmt.Errorf("a message of kind %d has more than %d bytes", s.kind, most)
	}
	s.bytes += n
	return nil
}

// end handles the end of a message.
func (s *stream) end() error {
	s.begun = false
	if s.kind != installSnapshot {
		return nil
	}
	size, err := snapshotSize(s.head[1:]) // behind the kind
	s.head, s.raw, s.left, s.over = nil, true, size, size == 0
	return err
}

// snapshot handles n bytes of a snapshot.
func (s *stream) snapshot(n int64) error {
	if n > s.left {
		return errors.New("more data follows a snapshot")
	}
	s.left -= n
	s.over = s.left == 0
	return nil
}

// snapshotSize returns the size of a snapshot, as the library reads it from the
// head. It refuses other versions of the protocol: the library would answer the
// head and decode the snapshot as messages.
func snapshotSize(head []byte) (int64, error) {
	var q raft.InstallSnapshotRequest
	in := bytes.NewReader(head)
	switch err := codec.NewDecoder(in, &codec.MsgpackHandle{}).Decode(&q); {
	case err != nil:
		return 0, fmt.Errorf("the head of a snapshot: %w", err)
	case in.Len() > 0:
		return 0, fmt.Errorf("the head of a snapshot has %d bytes too many", in.Len())
	case q.ProtocolVersion != raft.ProtocolVersionMax:
		return 0, fmt.Errorf("a snapshot uses protocol version %d, not %d", q.ProtocolVersion, raft.ProtocolVersionMax)
	case q.Size < 0:
		return 0, fmt.Errorf("a snapshot has %d bytes", q.Size)
	}
	return q.Size, nil
}
