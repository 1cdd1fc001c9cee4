package stream

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// slowAfter is how long a stream may take to send its events while others wait
// for room.
const slowAfter = time.Second

// shares bounds the memory of the events that streams are about to send. At the
// bound, the streams that have taken longest are cut off.
type shares struct {
	most int

	mu   sync.Mutex
	used int
	held list.List // of *share, in order of their beginning
}

type share struct {
	conn  net.Conn // of the stream; nil if it has none
	bytes int
	since time.Time
}

// reserve finds room for n bytes, or returns false. It cuts off slow streams if
// that makes room. The caller leaves when the bytes are sent.
func (s *shares) reserve(c net.Conn, n int) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used+n > s.most {
		oldest := s.held.Front()
		if oldest == nil || time.Since(oldest.Value.(*share).since) < slowAfter {
			return nil, false
		}
		if slow := oldest.Value.(*share).conn; slow != nil {
			_ = slow.Close() // its goroutine gets an error
		}
		s.remove(oldest)
	}
	e := s.held.PushBack(&share{c, n, time.Now()})
	s.used += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(e)
	}, true
}

// remove gives a share back; only the first call has an effect. s.mu is held.
func (s *shares) remove(e *list.Element) {
	of := e.Value.(*share)
	if of.bytes > 0 {
		s.used -= of.bytes
		of.bytes = 0
		s.held.Remove(e)
	}
}
