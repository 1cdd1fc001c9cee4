package wire

import (
	"context"
	"net"
	"sync"
	"time"
)

// connKey is the key of a context's connection.
type connKey struct{}

// ConnOf returns the connection of the call with that context, as it was accepted;
// nil where the call came by none.
func ConnOf(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}

// call is the context of one request. It is done when the caller has left,
// which is looked for from the first time that somebody asks, and when the
// handler has returned. A call that nobody waits for costs no more than this
// struct.
type call struct {
	conn *conn

	mu     sync.Mutex
	over   bool
	ctx    context.Context // made when Done is asked for
	cancel context.CancelFunc
	late   *time.Timer // see within
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
			k.conn.watchDisconnect(k)
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

// Value lets contexts made from this one find the one inside, so that they need
// no goroutine to hear of its end.
func (k *call) Value(key any) any {
	if key == (connKey{}) {
		return k.conn.under
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		return nil
	}
	return k.ctx.Value(key)
}

// within cuts the connection off where the call is not over in time.
func (k *call) within(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.late = time.AfterFunc(d, func() { k.conn.cutOff(k) })
	}
}

// end is called when the handler has returned, and when the connection has
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
}
