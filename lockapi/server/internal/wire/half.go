package wire

import (
	"container/list"
	"errors"
	"sync"
)

// ErrCrowded means that a body was dropped: incomplete requests took more than
// MaxHalfBytes, and this one was the oldest.
var ErrCrowded = errors.New("the server has too many incomplete requests")

// half bounds the memory for requests that have not arrived completely, and for
// bytes that callers send during a call. Callers may take their time for that,
// and there may be as many as there are connections. Beyond the bound the
// oldest part is dropped. A sincere caller has sent its request long before,
// unless that much other input arrives in between.
type half struct {
	mu     sync.Mutex
	bytes  int
	cut    uint64
	oldest list.List // of *conn, in order of their beginning
}

// part is the share of one connection. It is guarded by half.mu.
type part struct {
	place *list.Element
	bytes int
	ahead bool // sent during a call under way
	cut   bool
}

// holds records that c now holds this many bytes. The read deadline must be set
// before the first call. Until done only prolong changes it.
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

// drop makes c give up its bytes. The reader gets an expired deadline and
// learns the reason from done. During a call there is no answer to give, so the
// connection is closed. h.mu is held.
func (h *half) drop(c *conn) {
	h.remove(c)
	h.cut++
	c.part.cut = true
	if c.part.ahead {
		c.abort(nil)
	} else {
		_ = c.net.SetReadDeadline(past)
	}
}

// remove removes a part that is counted. h.mu is held.
func (h *half) remove(c *conn) {
	h.oldest.Remove(c.part.place)
	h.bytes -= c.part.bytes
	c.part.place, c.part.bytes = nil, 0
}

// done records that c holds nothing any more. It reports whether c was dropped;
// then c accepts no other request.
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
