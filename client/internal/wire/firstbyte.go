package wire

import (
	"context"
	"errors"
	"os"
	"time"
)

// firstByteWait is the part of an exchange before the first byte of the answer.
type firstByteWait struct {
	c        *conn
	ctx      context.Context
	deadline time.Time
	watchdog *Watchdog
	unlink   func() bool // from Watchdog.under
}

// begin sets the first deadline of the connection.
func (w *firstByteWait) begin() error {
	if !w.c.bare {
		if err := w.c.SetWriteDeadline(w.deadline); err != nil {
			return err
		}
	}
	return w.lookAt(w.watchdog.before(w.deadline))
}

// lookAt sets the connection's next deadline; through a layer, only for reads:
// see write.
func (w *firstByteWait) lookAt(at time.Time) error {
	if w.c.bare {
		return w.c.SetDeadline(at)
	}
	return w.c.SetReadDeadline(at)
}

// write writes all of b, and runs the watchdog in that time.
//
// A bare connection works again after a missed deadline. A layer may not:
// crypto/tls refuses every write after a late one. Therefore a layer may write
// until the exchange's deadline, and a timer runs the watchdog.
func (w *firstByteWait) write(b []byte) error {
	if !w.c.bare && !w.watchdog.next.IsZero() {
		stop := w.watchdog.During(w.c.cut)
		_, err := w.c.Write(b)
		stop()
		w.follow()
		w.until(w.watchdog.before(w.deadline))
		return err
	}
	for {
		n, err := w.c.Write(b)
		if b = b[n:]; err == nil || !w.goOn(err) {
			return err
		}
	}
}

// follow makes the exchange end with Watchdog.under, if that is set.
func (w *firstByteWait) follow() {
	if w.unlink != nil {
		w.unlink()
	}
	if w.watchdog.under != nil {
		w.unlink = context.AfterFunc(w.watchdog.under, w.c.cut)
	}
}

// goOn reports whether err means only that the patience has ended. It then
// calls the hedger, and the exchange continues.
func (w *firstByteWait) goOn(err error) bool {
	if w.watchdog.next.IsZero() || !errors.Is(err, os.ErrDeadlineExceeded) || w.ended() || !time.Now().Before(w.deadline) {
		return false
	}
	w.watchdog.late()
	w.follow()
	return w.until(w.watchdog.before(w.deadline))
}

// over ends the wait for the first byte: the rest of the exchange may last until its deadline,
// unless it stalls.
func (w *firstByteWait) over() {
	w.c.rest = rest{deadline: w.deadline, ctx: w.ctx, watchdog: w.watchdog}
	if !w.watchdog.next.IsZero() {
		w.watchdog.next = time.Time{}
		w.until(w.deadline)
	}
}

// until sets the connection's next deadline. It returns false if the exchange
// has ended: then it cuts the connection again.
func (w *firstByteWait) until(at time.Time) bool {
	if w.lookAt(at) != nil {
		return false
	}
	if w.ended() {
		w.c.cut()
		return false
	}
	return true
}

func (w *firstByteWait) ended() bool { return w.ctx.Err() != nil || w.watchdog.ended() != nil }
