package wire

import (
	"container/list"
	"sync"
)

// unread bounds what replies take that their callers do not read: the part that
// the system has not taken stays in memory, for as long as WriteTimeout. Beyond
// the bound, the connection whose reply has waited for longest is closed.
type unread struct {
	mu    sync.Mutex
	bytes int
	cut   uint64
	slow  list.List // of *slowReply, the one that began to wait first in front
}

type slowReply struct {
	conn  *conn
	bytes int
}

// waits notes that c waits to send so many bytes, until done is called. A reply
// that is alone may be of any length.
func (u *unread) waits(c *conn, bytes int) (done func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.slow.PushBack(&slowReply{c, bytes})
	u.bytes += bytes
	for most := c.server.MaxUnreadBytes; most > 0 && u.bytes > most && u.slow.Len() > 1; {
		u.drop(u.slow.Front())
	}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.remove(e)
	}
}

// drop cuts a reply off; its goroutine meets the error. u.mu is held.
func (u *unread) drop(e *list.Element) {
	u.cut++
	_ = e.Value.(*slowReply).conn.under.Close()
	u.remove(e)
}

// remove is for a reply that waits no more, for the first time. u.mu is held.
func (u *unread) remove(e *list.Element) {
	if s := e.Value.(*slowReply); s.bytes > 0 {
		u.bytes -= s.bytes
		s.bytes = 0
		u.slow.Remove(e)
	}
}
