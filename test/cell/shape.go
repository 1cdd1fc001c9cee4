package cell

import (
	"math/rand/v2"
	"net"
	"time"
)

// Shape is how well a direction carries bytes. The zero value carries them at
// once. What comes out is always in order and without gaps, as TCP makes it: a
// lost packet shows as bytes that stand still until it was sent again, or as a
// broken connection.
type Shape struct {
	Latency time.Duration // of everything
	Jitter  time.Duration // at most so much more, anew for each chunk
	Stall   float64       // probability for a chunk, and all behind it, to be late by StallFor
	// StallFor is as a retransmission takes: 200 ms is Linux's least time-out.
	StallFor time.Duration
	// Largest is the size of a chunk beyond which it does not arrive, and nothing
	// behind it on its connection, until the shape is another; 0 for none. A way that
	// drops large packets looks like that.
	Largest int
	Reset   float64 // probability for a chunk to break its connection instead of arriving
}

// delay is how late the next chunk is.
func (s *Shape) delay() time.Duration {
	d := s.Latency
	if s.Jitter > 0 {
		d += rand.N(s.Jitter)
	}
	if s.Stall > 0 && rand.Float64() < s.Stall {
		d += s.StallFor
	}
	return d
}

// Shape gives the direction from one replica to another its shape, until a
// heal. Bytes that are under way keep the delay that they have.
func (n *Network) Shape(from, to string, s Shape) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shapes[direction{from, to}] = s
	n.announce()
}

func (n *Network) shape(d direction) Shape {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.shapes[d]
}

// chunk is what one read of a connection gave: bytes, or its end.
type chunk struct {
	bytes []byte
	due   time.Time // not to be delivered before
	err   error
	reset bool
}

// chunksUnderWay bounds what a slow direction has under way on a connection;
// the sender waits when it is full.
const chunksUnderWay = 256

// receive reads src until it ends, and dates what it read by the direction's
// shape. It stops early when nobody takes the chunks any more.
func (c *conn) receive(src *net.TCPConn, d direction, out chan<- chunk, stop <-chan struct{}) {
	buffer := make([]byte, 64<<10)
	last := time.Now()
	for {
		n, err := src.Read(buffer)
		shape := c.network.shape(d)
		if due := time.Now().Add(shape.delay()); due.After(last) {
			last = due
		}
		next := chunk{bytes: append([]byte(nil), buffer[:n]...), due: last, err: err}
		next.reset = n > 0 && shape.Reset > 0 && rand.Float64() < shape.Reset
		select {
		case out <- next:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// await waits until t, and reports whether the connection is still there then.
func (c *conn) await(t time.Time) bool {
	left := time.Until(t)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone:
		return false
	}
}
