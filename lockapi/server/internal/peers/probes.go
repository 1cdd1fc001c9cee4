package peers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// probesAtOnce is how many callers within probeFresh each send a new
	// question to a replica. Further callers, such as many open pages, share
	// the latest answer.
	probesAtOnce = 4
	probeFresh   = 100 * time.Millisecond
)

// questions holds the latest question to each replica.
type questions struct {
	ask func(ctx context.Context, way http.RoundTripper, id string) (lockapi.Replica, error) // requests a replica's own entry

	mu   sync.Mutex         // guards the following field
	last map[string]*probed // by id
}

// probed is a question and, once done is closed, its answer.
type probed struct {
	asked time.Time
	began time.Time // start of the current series of questions within probeFresh
	after int       // number of earlier questions in the series
	done  chan struct{}
	got   lockapi.Replica
	err   error
}

// of requests a replica's own entry, or shares the latest answer if there are
// many callers. It returns how old the answer may be. The question continues
// for the others after ctx ends.
func (p *questions) of(ctx context.Context, way http.RoundTripper, id string, bound time.Duration) (got lockapi.Replica, age time.Duration, err error) {
	now := time.Now()
	p.mu.Lock()
	one := p.last[id]
	if one == nil || one.after+1 < probesAtOnce || now.Sub(one.began) >= probeFresh {
		next := &probed{asked: now, began: now, done: make(chan struct{})}
		if one != nil && now.Sub(one.began) < probeFresh {
			next.began, next.after = one.began, one.after+1
		}
		if p.last == nil {
			p.last = map[string]*probed{}
		}
		p.last[id] = next
		p.mu.Unlock()
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
		defer cancel()
		next.got, next.err = p.ask(asking, way, id)
		close(next.done)
		return next.got, 0, next.err
	}
	p.mu.Unlock()
	select {
	case <-one.done:
		return one.got, time.Since(one.asked), one.err
	case <-ctx.Done():
		return lockapi.Replica{}, 0, ctx.Err()
	}
}

// aged returns a replica's entry as it is some time after the answer.
func aged(r lockapi.Replica, age time.Duration) lockapi.Replica {
	ms := age.Milliseconds()
	r.LastContactMS += ms
	if r.Promise != nil {
		left := *r.Promise
		left.RemainingMS -= ms
		r.Promise = &left
		if left.RemainingMS <= 0 {
			r.Promise = nil
		}
	}
	return r
}
