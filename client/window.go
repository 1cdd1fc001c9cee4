package client

import (
	"context"
	"sync"

	"github.com/stoutlock/stout/client/internal/timing"
)

// windowSize is half of the keyed answers that the cell remembers of a session.
// Besides an unanswered write, at most windowSize earlier and windowSize later
// ones are under way.
const windowSize = 64

// window bounds the keyed writes of a session. The cell remembers the answers
// to the last 128 of them. With more writes between the first and the last
// attempt of one write, its answer could be forgotten, and the write made
// again.
//
// The zero value is ready.
type window struct {
	mu     sync.Mutex // guards the following
	oldest uint64     // the oldest write under way
	next   uint64
	left   [windowSize]bool // by number, modulo the size: finished writes from oldest on
	moved  chan struct{}    // closed when oldest changes; nil without waiters
}

// enter waits for a free place and returns it. If ctx ends first it returns the
// cause.
func (w *window) enter(ctx context.Context) (place uint64, err error) {
	for {
		w.mu.Lock()
		if w.next-w.oldest < windowSize {
			place = w.next
			w.next++
			w.mu.Unlock()
			return place, nil
		}
		if w.moved == nil {
			w.moved = make(chan struct{})
		}
		moved := w.moved
		w.mu.Unlock()
		if err := timing.Await(ctx, moved); err != nil {
			return 0, err
		}
	}
}

// leave frees a place.
func (w *window) leave(place uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[place%windowSize] = true
	for w.oldest < w.next && w.left[w.oldest%windowSize] {
		w.left[w.oldest%windowSize] = false
		w.oldest++
	}
	if w.moved != nil && w.next-w.oldest < windowSize {
		close(w.moved)
		w.moved = nil
	}
}
