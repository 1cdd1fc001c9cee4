package client

import "sync"

// lines logs a session's lines in their order. A goroutine of its own does
// that: a logger may block, or take a lock that the session's caller holds.
//
// The zero value is ready.
type lines struct {
	mu   sync.Mutex // guards the following
	next []func()
	done chan struct{} // closed when the goroutine that logs them ends; nil without one
}

// add logs a line soon.
func (l *lines) add(line func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, line)
	if l.done == nil {
		l.done = make(chan struct{})
		go l.log()
	}
}

// written returns a channel that is closed when the present lines are logged.
func (l *lines) written() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return l.done
}

// log logs the lines until there are no more.
func (l *lines) log() {
	for {
		l.mu.Lock()
		some := l.next
		l.next = nil
		if len(some) == 0 {
			close(l.done)
			l.done = nil
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		for _, line := range some {
			line()
		}
	}
}
