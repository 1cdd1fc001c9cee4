package client

import (
	"context"
	"sync"
)

// windowSize is half of the keyed answers that the cell remembers of a session:
// beside a write that has no answer yet there are at most so many earlier ones
// under way, and as many later ones.
const windowSize = 64

// window bounds the keyed writes of a session. The cell remembers the answers
// to the last 128 of them. Were more made between the first sending of a write
// and its last, its answer could be forgotten meanwhile, and it be done again.
//
// The zero value is ready.
type window struct {
	mu     sync.Mutex // guards the following
	oldest uint64     // of those under way
	next   uint64
	left   [windowSize]bool // by number, modulo the size: those at or after oldest that are over
	moved  chan struct{}    // closed when oldest is another; nil where nobody waits
}

// enter waits until there is a place, and takes it. Where ctx ends first it
// returns the cause.
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
		if err := await(ctx, moved); err != nil {
			return 0, err
		}
	}
}

// leave gives a place back.
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
