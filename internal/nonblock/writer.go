// Package nonblock has a writer that never waits for its reader. A write to a
// log or a terminal can block forever: on a full pipe, after Ctrl-S, on a
// hanging ssh connection or disk. No lease, election, commit, signal or
// deadline may wait for that.
package nonblock

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// Writer queues writes, and one goroutine passes them on. A write is dropped
// and counted if the queue is full, or if it fails later. Its methods are safe
// for concurrent use.
type Writer struct {
	to   io.Writer
	most int // bound of the queue, in writes

	mu      sync.Mutex
	report  func(dropped uint64) []byte
	queue   [][]byte
	dropped uint64 // since the last report
	total   uint64
	failed  bool          // the last write failed
	torn    bool          // and ended within a line
	began   time.Time     // start of the present write
	written chan struct{} // closed when the queue is written; nil if it is empty
}

// New returns a Writer with room for most writes. After it has dropped some, it
// writes the result of report, once, as soon as writes succeed again.
func New(to io.Writer, most int, report func(dropped uint64) []byte) *Writer {
	return &Writer{to: to, most: most, report: report}
}

// Under returns the underlying writer.
func (w *Writer) Under() io.Writer { return w.to }

// SetReport replaces the report.
func (w *Writer) SetReport(report func(dropped uint64) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = report
}

// Write queues p. It never blocks and never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= w.most {
		w.drop()
		return len(p), nil
	}
	w.queue = append(w.queue, bytes.Clone(p))
	if w.written == nil {
		w.written, w.began = make(chan struct{}), time.Now()
		go w.pass(w.written)
	}
	return len(p), nil
}

func (w *Writer) drop() {
	w.dropped++
	w.total++
}

func (w *Writer) pass(written chan struct{}) {
	defer close(written)
	for {
		p, report, ok := w.next()
		if !ok {
			return
		}
		n, err := w.to.Write(p)
		w.wrote(p[:n], err, report)
	}
}

// next returns what to write. For a report, it also returns the number of
// dropped writes in it.
func (w *Writer) next() (p []byte, report uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
	switch {
	case len(w.queue) > 0:
		p, w.queue = w.queue[0], w.queue[1:]
	case w.dropped > 0 && !w.failed:
		p, report = w.report(w.dropped), w.dropped
	default:
		w.written = nil
		return nil, 0, false
	}
	if w.torn {
		p = append([]byte{'\n'}, p...)
	}
	return p, report, true
}

func (w *Writer) wrote(p []byte, err error, report uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) > 0 {
		w.torn = err != nil && p[len(p)-1] != '\n'
	}
	w.failed = err != nil
	switch {
	case err == nil:
		w.dropped -= report
	case report == 0:
		w.drop()
	}
}

// Flush waits until the queue is written, or the present write has been blocked
// for the given time. So callers wait only once for a write that hangs.
func (w *Writer) Flush(blocked time.Duration) {
	w.mu.Lock()
	written, began := w.written, w.began
	w.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(time.Until(began.Add(blocked))):
	}
}

// Dropped returns how many writes were dropped so far.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Blocked returns how long the present write has taken, 0 without one.
func (w *Writer) Blocked() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written == nil {
		return 0
	}
	return time.Since(w.began)
}
