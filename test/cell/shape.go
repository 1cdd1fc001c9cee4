package cell

import (
	"math/rand/v2"
	"net"
	"time"
)

// Shape describes how well a direction carries bytes. The zero value carries
// them at once. Bytes always arrive in order and without gaps, as TCP
// guarantees: a lost packet appears as a delay until it is sent again, or as a
// broken connection.
type Shape struct {
	Latency time.Duration // of every chunk
	Jitter  time.Duration // maximum addition to Latency, random for each chunk
	Stall   float64       // probability that a chunk, and everything behind it, is late by StallFor
	// StallFor is the duration of a retransmission: 200 ms is Linux's shortest
	// time-out.
	StallFor time.Duration
	// Largest is the size above which a chunk does not arrive, and nothing
	// behind it on its connection, until the shape changes; 0 means no limit. A
	// path that drops large packets behaves like this.
	Largest int
	Reset   float64 // probability that a chunk breaks its connection instead of arriving
}

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

// Shape sets the shape of the direction from one replica to another, until a
// heal. Chunks under way keep their delay.
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

// chunk is the result of one read of a connection: bytes, or its end.
type chunk struct {
	bytes []byte
	due   time.Time // earliest time of delivery
	err   error
	reset bool
}

// chunksUnderWay bounds the chunks under way on a connection in a slow
// direction; at this bound the sender waits.
const chunksUnderWay = 256

// receive reads src until it ends, and sets each chunk's due time by the
// direction's shape. It ends early when the receiver of out has stopped.
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

// await waits until t, and reports whether the connection still exists then.
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
