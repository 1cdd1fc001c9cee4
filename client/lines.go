package client

import "sync"

// lines logs a session's lines in their order. A goroutine of its own does
// that: a logger may block, or take a lock that the session's caller holds.
//
// The zero value is ready.
type lines struct {
	mu   sync.Mutex // guards the following
	next []func()
	logs bool // a goroutine runs that logs them
}

// add logs a line soon.
func (l *lines) add(line func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = append(l.next, line)
	if !l.logs {
		l.logs = true
		go l.log()
	}
}

// log logs the lines until there are no more.
func (l *lines) log() {
	for {
		l.mu.Lock()
		some := l.next
		l.next, l.logs = nil, len(some) > 0
		l.mu.Unlock()
		if len(some) == 0 {
			return
		}
		for _, line := range some {
			line()
		}
	}
}
