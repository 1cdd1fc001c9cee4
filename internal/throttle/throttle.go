// Package throttle lets work that is large and never urgent run beside a service
// without being felt there.
package throttle

import (
	"io"
	"time"
)

// Writer passes on the bytes of a large state that is written or summed
// beside the service, and rests after each piece for as long as that took. The
// work would else keep a processor until it is done, in slices of 10 ms (Go's),
// for which whatever is to run waits where processors are few: an entry then
// took 20 to 30 ms at the worst hundredth instead of 8 (BenchmarkStoreBeside
// with -cpu 1).
type Writer struct {
	to     io.Writer
	woke   time.Time     // when the present piece began
	rested time.Duration // so far
}

// longestRest bounds a rest: a piece may have waited for a slow disk.
const longestRest = 10 * time.Millisecond

// NewWriter makes one that writes to another writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to, woke: time.Now()} }

// Write writes a piece.
func (g *Writer) Write(b []byte) (int, error) {
	n, err := g.to.Write(b)
	done := time.Now()
	time.Sleep(min(done.Sub(g.woke), longestRest))
	g.woke = time.Now()
	g.rested += g.woke.Sub(done)
	return n, err
}

// Rested is for how long it has rested so far.
func (g *Writer) Rested() time.Duration { return g.rested }
