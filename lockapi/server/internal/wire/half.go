package wire

import (
	"container/list"
	"errors"
	"sync"
)

// ErrCrowded is why a body did not arrive: what is half sent took more than
// MaxHalfBytes, and this was the oldest of it.
var ErrCrowded = errors.New("too much is half sent")

// half bounds what is kept of requests that have not arrived whole, and of what
// callers send behind a call that is under way. Callers may take their time for
// that, and there may be as many as there are connections. Beyond the bound the
// oldest part goes: a caller that means to send its request has done so long
// before, unless this much comes in between.
type half struct {
	mu     sync.Mutex
	bytes  int
	cut    uint64
	oldest list.List // of *conn, the one that began first in front
}

// part is what a connection holds of it. It is guarded by half.mu.
type part struct {
	place *list.Element
	bytes int
	ahead bool // behind a call that is under way
	cut   bool
}

// holds notes that c holds so many bytes from now on. Before it is first asked,
// the deadline of reading has been set; it stays as it is until done.
func (h *half) holds(c *conn, bytes int, ahead bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &c.part
	if p.cut {
		return
	}
	if p.place == nil {
		p.place = h.oldest.PushBack(c)
	}
	h.bytes += bytes - p.bytes
	p.bytes, p.ahead = bytes, ahead
	for most := c.server.MaxHalfBytes; most > 0 && h.bytes > most; {
		h.drop(h.oldest.Front().Value.(*conn))
	}
}

// drop has c give up what it holds: it meets a deadline that is over, and asks
// done why. Behind a call there is no answer to give, and the connection ends.
// h.mu is held.
func (h *half) drop(c *conn) {
	h.remove(c)
	h.cut++
	c.part.cut = true
	if c.part.ahead {
		c.abort()
	} else {
		_ = c.net.SetReadDeadline(past)
	}
}

// remove is for a part that counts. h.mu is held.
func (h *half) remove(c *conn) {
	h.oldest.Remove(c.part.place)
	h.bytes -= c.part.bytes
	c.part.place, c.part.bytes = nil, 0
}

// done notes that c holds nothing any more, and reports whether it was told to:
// then it takes no other request.
func (h *half) done(c *conn) (cut bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.part.place != nil {
		h.remove(c)
	}
	if c.part.cut {
		c.deadline = past
	}
	return c.part.cut
}
