package wire

import (
	"context"
	"net/http"
	"runtime"
)

type callKey struct{}

// mostHead and mostText bound what a call keeps of its request while it waits
// without a goroutine.
const (
	mostHead = 4 << 10
	mostText = 1 << 10
)

// Later lets a call wait without a goroutine and buffers of its own. The
// handler leaves without a reply, and runs again with the same request when
// there is a reply to make, or when the caller has disconnected.
type Later struct {
	call  *call
	left  any  // what the handler has left for its second run; nil before
	waits bool // the first run has ended
	woken bool
}

// LaterOf returns how the call with that context can wait, or nil if it has to
// wait in its handler.
func LaterOf(ctx context.Context) *Later {
	k, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.head == "" || k.later != nil {
		return nil
	}
	k.later = &Later{call: k}
	return k.later
}

// LeftOf returns what the handler has left in its first run of the call with
// that context, or nil.
func LeftOf(ctx context.Context) any {
	k, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.later == nil {
		return nil
	}
	return k.later.left
}

// Leave makes the handler run again after Wake. The handler must return at once
// without a reply. It leaves something for its second run.
func (l *Later) Leave(something any) {
	l.call.mu.Lock()
	defer l.call.mu.Unlock()
	l.left = something
}

// Wake makes the handler run again, once it has left. It does not block.
func (l *Later) Wake() {
	l.call.mu.Lock()
	defer l.call.mu.Unlock()
	l.wake()
}

// wake is Wake with the call's mutex held.
func (l *Later) wake() {
	if !l.woken && l.waits {
		go l.call.resume()
	}
	l.woken = true
}

// hasLeft reports whether the handler has left in its first run. The goroutine
// that served the call then ends. Another one, with a small stack, watches the
// connection.
func (k *call) hasLeft() bool {
	k.mu.Lock()
	l := k.later
	left := l != nil && l.left != nil && !l.waits
	k.mu.Unlock()
	if !left {
		return false
	}
	k.conn.watchDisconnect(k, true)
	k.mu.Lock()
	defer k.mu.Unlock()
	l.waits = true
	if l.woken {
		go k.resume()
	}
	return true
}

// growStack gives a new goroutine at once the stack that a handler needs.
// Otherwise the runtime doubles it several times, and copies all frames of the
// handler each time: a tenth of the CPU of an idle session.
//
//go:noinline
func growStack() {
	var room [6 << 10]byte
	runtime.KeepAlive(&room)
}

func (k *call) resume() {
	growStack()
	c, w := k.conn, newReply()
	defer w.free()
	r := new(http.Request).WithContext(k)
	r.Header, r.TLS = w.asked, c.tlsState
	_ = parse(r, k.head) // it was valid before
	w.lend()
	r.RemoteAddr, r.Body = c.remote, &Body{text: k.text}
	switch c.answer(w, r, k, false) {
	case another:
		c.serve()
	case last:
		c.end()
	}
}
