package wire

import (
	"context"
	"net"
	"sync"
	"time"
)

type connKey struct{}

// ConnOf returns the accepted connection of the call with that context, or nil
// if the call came by no connection.
func ConnOf(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}

// call is the context of one request. It ends when the caller disconnects or
// the handler returns. Watching for a disconnect starts with the first call of
// Done. A call that nothing waits for costs only this struct.
type call struct {
	conn *conn

	mu     sync.Mutex
	over   bool
	ctx    context.Context // created by Done
	cancel context.CancelFunc
	late   *time.Timer // see within

	head  string // of the request, and its body, for Later; empty if they are long
	text  []byte
	later *Later // set by LaterOf
}

func (k *call) Deadline() (time.Time, bool) { return time.Time{}, false }

func (k *call) Done() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		k.ctx, k.cancel = context.WithCancel(context.Background())
		if k.over {
			k.cancel()
		} else {
			k.conn.watchDisconnect(k, false)
		}
	}
	return k.ctx.Done()
}

func (k *call) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ctx != nil:
		return k.ctx.Err()
	case k.over:
		return context.Canceled
	}
	return nil
}

// Value lets derived contexts find the inner context. They then need no
// goroutine to learn of its end.
func (k *call) Value(key any) any {
	switch key {
	case connKey{}:
		return k.conn.under
	case callKey{}:
		return k
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		return nil
	}
	return k.ctx.Value(key)
}

// within closes the connection if the call is still under way after d.
func (k *call) within(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.late = time.AfterFunc(d, func() { k.conn.abort(k) })
	}
}

// end is called when the handler has returned and when the connection has
// ended.
func (k *call) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.cancel != nil {
		k.cancel()
	}
	if k.late != nil {
		k.late.Stop()
	}
	if k.later != nil {
		k.later.wake()
	}
}
