package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// mostNotices bounds the writes that wait for standard error.
	mostNotices = 256
	// orderTime is how long an answer waits for the notices before it, so that
	// a terminal shows both in their order.
	orderTime = 100 * time.Millisecond
	// lastNotices is how long the end of a run waits for its notices.
	lastNotices = time.Second
)

// notices is standard error. A write to it can block for ever: on a full pipe,
// on a terminal after Ctrl-S, on an ssh that hangs. So callers only queue what
// they say, one goroutine writes it, and what finds the queue full is dropped
// and counted: no lease, signal or deadline waits for a reader.
type notices struct {
	to io.Writer

	mu      sync.Mutex
	queue   [][]byte
	dropped int
	began   time.Time     // when the present write did
	written chan struct{} // closed when the queue is written; nil while it is
}

// Write queues p. It never blocks and never fails.
func (n *notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) >= mostNotices {
		n.dropped++
		return len(p), nil
	}
	n.queue = append(n.queue, bytes.Clone(p))
	if n.written == nil {
		n.written, n.began = make(chan struct{}), time.Now()
		go n.write(n.written)
	}
	return len(p), nil
}

// write writes the queue until it is empty.
func (n *notices) write(written chan struct{}) {
	defer close(written)
	for {
		p, ok := n.next()
		if !ok {
			return
		}
		_, _ = n.to.Write(p) // there is no other place to report its failure
	}
}

func (n *notices) next() (p []byte, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began = time.Now()
	switch {
	case len(n.queue) > 0:
		p, n.queue = n.queue[0], n.queue[1:]
	case n.dropped > 0:
		p = fmt.Appendf(nil, "stout: %s dropped: standard error was blocked\n", plural(n.dropped, "notice"))
		n.dropped = 0
	default:
		n.written = nil
		return nil, false
	}
	return p, true
}

// flush waits until the queue is written, or a write has been blocked for the
// given time: one that hangs has its callers wait once.
func (n *notices) flush(blocked time.Duration) {
	n.mu.Lock()
	written, began := n.written, n.began
	n.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(time.Until(began.Add(blocked))):
	}
}

// settle is flush for what is written elsewhere next.
func (n *notices) settle() { n.flush(orderTime) }

// answers is standard output, through which all answers go. The first write
// that fails ends the run, see ending: what follows is not written, so that no
// output has a gap in it.
type answers struct {
	to     io.Writer
	before func() // is called before each write
	end    context.CancelCauseFunc

	mu     sync.Mutex
	failed error
}

func (o *answers) Write(p []byte) (int, error) {
	if err := o.lost(); err != nil {
		return 0, err
	}
	o.before()
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
		o.end(err)
	}
	return n, err
}

// lost returns why an answer was not written; nil if all were.
func (o *answers) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}
