package peers

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// probesAtOnce is how many callers within probeFresh have a replica asked anew. A
	// crowd of them, pages that show the cell, shares what was answered.
	probesAtOnce = 4
	probeFresh   = 100 * time.Millisecond
)

// questions are the last questions to other replicas.
type questions struct {
	ask func(ctx context.Context, way http.RoundTripper, id string) (lockapi.Replica, error) // for its own entry

	mu   sync.Mutex         // guards the following
	last map[string]*probed // by id
}

// probed is a question and, when done is closed, its answer.
type probed struct {
	asked time.Time
	began time.Time // of the first of those within probeFresh before it
	after int       // how many those are
	done  chan struct{}
	got   lockapi.Replica
	err   error
}

// of asks a replica for its own entry, or takes what it has just answered where many
// ask. It returns how old the answer may be. The question goes on for the others when
// ctx ends.
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

// aged is a replica's entry as it is some time after it was told.
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
