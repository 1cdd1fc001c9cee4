package wire

import (
	"container/list"
	"sync"
)

// unread bounds the memory of replies that callers do not read. The part that
// the system has not accepted stays in memory for up to WriteTimeout. Beyond
// the bound, the connection with the oldest waiting reply is closed.
type unread struct {
	mu    sync.Mutex
	bytes int
	cut   uint64
	slow  list.List // of *slowReply, in order of their beginning
}

type slowReply struct {
	conn  *conn
	bytes int
}

// waits records that c waits to send this many bytes, until done is called. A
// single reply may be of any length.
func (u *unread) waits(c *conn, bytes int) (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.slow.PushBack(&slowReply{c, bytes})
	u.bytes += bytes
	for most := c.server.MaxUnreadBytes; most > 0 && u.bytes > most && u.slow.Len() > 1; {
		oldest := u.slow.Front()
		u.cut++
		_ = oldest.Value.(*slowReply).conn.under.Close() // its goroutine gets an error
		u.remove(oldest)
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(e)
	}
}

// remove removes a reply that no longer waits; only the first call has an
// effect. u.mu is held.
func (u *unread) remove(e *list.Element) {
	if s := e.Value.(*slowReply); s.bytes > 0 {
		u.bytes -= s.bytes
		s.bytes = 0
		u.slow.Remove(e)
	}
}
