// Package throttle lets large work that is never urgent run beside a service
// without slowing it noticeably.
package throttle

import (
	"io"
	"time"
)

// Writer passes on the bytes of a large state that is written or hashed beside
// the service. After each piece it sleeps for as long as the piece took.
// Otherwise the work would keep a processor busy until it is done, in Go's time
// slices of 10 ms. On a machine with few processors everything else would wait
// for these. An entry then took 20 to 30 ms at the 99th percentile instead of 8
// ms (BenchmarkStoreBeside with -cpu 1).
type Writer struct {
	to     io.Writer
	woke   time.Time     // when the present piece began
	rested time.Duration // in total
}

// longestRest bounds a rest, because a piece may have waited for a slow disk.
const longestRest = 10 * time.Millisecond

// NewWriter returns a Writer that writes to another writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to, woke: time.Now()} }

// Write writes a piece, and rests.
func (g *Writer) Write(b []byte) (int, error) {
	n, err := g.to.Write(b)
	done := time.Now()
	time.Sleep(min(done.Sub(g.woke), longestRest))
	g.woke = time.Now()
	g.rested += g.woke.Sub(done)
	return n, err
}

// Rested returns the total time of its rests.
func (g *Writer) Rested() time.Duration { return g.rested }
