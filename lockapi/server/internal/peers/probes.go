package peers

import (
	"context"
	"net/http"
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

// question is a question to a replica and, once done is closed, its answer.
type question struct {
	asked time.Time
	began time.Time // start of the current series of questions within probeFresh
	after int       // number of earlier questions in the series
	done  chan struct{}
	got   lockapi.Replica
	err   error
}

// ask requests a replica's own entry, or shares the latest answer if there are
// many callers. It returns how old the answer may be. The question continues
// for the others after ctx ends.
func (o *Others) ask(ctx context.Context, way http.RoundTripper, id string) (got lockapi.Replica, age time.Duration, err error) {
	now := time.Now()
	m := o.lock(id)
	q := m.asked
	fresh := q != nil && now.Sub(q.began) < probeFresh
	if !fresh || q.after+1 < probesAtOnce {
		next := &question{asked: now, began: now, done: make(chan struct{})}
		if fresh {
			next.began, next.after = q.began, q.after+1
		}
		m.asked = next
		o.mu.Unlock()
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.bound)
		defer cancel()
		next.got, next.err = o.send(asking, way, id)
		close(next.done)
		return next.got, 0, next.err
	}
	o.mu.Unlock()
	select {
	case <-q.done:
		return q.got, time.Since(q.asked), q.err
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
