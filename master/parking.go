package master

import (
	"errors"
	"sync"
	"time"
)

// ErrParked is the error of a keepalive that waits elsewhere, see Parking.
var ErrParked = errors.New("the call waits")

// leastParked is the shortest wait that is worth parking a call.
const leastParked = time.Second

// Parking lets one keepalive wait without a goroutine. The call returns
// ErrParked when it begins to wait. After Wake the call is made again, with the
// same Parking, and continues. It is parked only once.
type Parking struct {
	Wake func() // may be called more than once, under a mutex, and must not block

	mu    sync.Mutex
	used  bool
	k     *keepalive // that is parked; nil before and after
	s     *session
	timer *time.Timer
}

// park parks a keepalive that waits for at most d, and reports whether it did.
func (p *Parking) park(k *keepalive, s *session, d time.Duration) bool {
	if p == nil || p.used || k.by != nil && k.by.Told != nil && k.by.Told.Adopted != "" {
		return false
	}
	p.mu.Lock()
	p.used, p.k, p.s, p.timer = true, k, s, time.AfterFunc(d, p.Wake)
	p.mu.Unlock()
	k.by = nil // another attempt brings its own
	k.o.mu.Lock()
	k.parking = p
	k.o.mu.Unlock()
	select { // a wakeup, or the end of the office, may have come before
	case <-k.wakeup:
		p.Wake()
	case <-k.o.done:
		p.Wake()
	default:
	}
	return true
}

// pop returns the parked keepalive and its session, once.
func (p *Parking) pop() (*keepalive, *session) {
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k, s := p.k, p.s
	if k != nil {
		p.timer.Stop()
		p.k, p.s, p.timer = nil, nil, nil
	}
	return k, s
}

// End drops a keepalive that is still parked because the call was refused when
// it was made again.
func (p *Parking) End() {
	if k, s := p.pop(); k != nil {
		k.leave(s)
	}
}
