package wire

import (
	"container/list"
	"errors"
	"sync"
)

// ErrCrowded means that a body was dropped: incomplete requests took more than
// MaxHalfBytes, and this one was the oldest.
var ErrCrowded = errors.New("the server has too many incomplete requests")

// ledger bounds the memory that slow callers take: requests that have not arrived
// completely and bytes sent during a call, or replies that wait to be read. There
// may be as many as there are connections. Beyond the bound the oldest share is
// dropped. A sincere caller has sent or read long before, unless that much arrives
// in between.
type ledger struct {
	mu     sync.Mutex
	bytes  int
	cut    uint64
	oldest list.List // of *share, in order of their beginning
}

// share is the part of one connection. It is guarded by ledger.mu.
type share struct {
	conn   *conn
	place  *list.Element
	bytes  int
	closes bool // dropping it closes the connection: there is no answer to give
	cut    bool
}

// holds records that s now has this many bytes, of at most most for all; 0 means no
// bound. For a request the read deadline must be set before the first call; until
// done only prolong changes it.
func (l *ledger) holds(s *share, bytes, most int, closes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.cut {
		return
	}
	if s.place == nil {
		s.place = l.oldest.PushBack(s)
	}
	l.bytes += bytes - s.bytes
	s.bytes, s.closes = bytes, closes
	for most > 0 && l.bytes > most {
		l.drop(l.oldest.Front().Value.(*share))
	}
}

// drop makes a connection give up its bytes. The reader of a request gets an expired
// deadline and learns the reason from done. l.mu is held.
func (l *ledger) drop(s *share) {
	l.remove(s)
	l.cut++
	s.cut = true
	if s.closes {
		s.conn.abort(nil)
	} else {
		_ = s.conn.net.SetReadDeadline(past)
	}
}

// remove removes a share that is counted. l.mu is held.
func (l *ledger) remove(s *share) {
	l.oldest.Remove(s.place)
	l.bytes -= s.bytes
	s.place, s.bytes = nil, 0
}

// done records that s holds nothing any more, and reports whether it was dropped.
func (l *ledger) done(s *share) (cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.place != nil {
		l.remove(s)
	}
	return s.cut
}

// holds records that c has this many bytes of incomplete requests; ahead means that
// they were sent during a call.
func (c *conn) holds(bytes int, ahead bool) {
	c.server.half.holds(&c.half, bytes, c.server.MaxHalfBytes, ahead)
}

// arrived ends holds. It reports whether c was dropped; then c accepts no other
// request.
func (c *conn) arrived() (cut bool) {
	if cut = c.server.half.done(&c.half); cut {
		c.deadline = past
	}
	return cut
}
