package peerconn

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/stoutlock/stout/internal/dial"
)

// Caller opens connections to others. The zero value uses no TLS.
type Caller struct {
	Security Security // nil for no TLS
	dialer   dial.Dialer
}

// Dial connects to addr and opens the connection within the context's time, and
// at most twice helloTimeout. An ErrRefused came from the other end.
func (r *Caller) Dial(ctx context.Context, addr string, o Hello) (net.Conn, error) {
	c, _, err := r.open(ctx, addr, o)
	return c, err
}

// AskInfo asks the replica at addr for its card, as the other end encoded it.
func (r *Caller) AskInfo(ctx context.Context, addr string, o Hello) ([]byte, error) {
	o.Kind = Ask
	c, card, err := r.open(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return card, c.Close()
}

// Connected reports whether an error of Dial or AskInfo came after the
// connection was accepted. So some program listens there, even if it does not
// answer.
func Connected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return err != nil && (!ok || op.Op != "dial")
}

func (r *Caller) open(ctx context.Context, addr string, o Hello) (net.Conn, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*helloTimeout)
	defer cancel()
	under, err := r.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = under.SetDeadline(deadline) // before the end of ctx may set another
	stop := context.AfterFunc(ctx, func() { _ = under.SetDeadline(time.Unix(1, 0)) })
	var card []byte
	c, err := secureTo(ctx, under, r.Security, o.To)
	if err == nil {
		card, err = open(c, o)
	}
	if err != nil || !stop() {
		_ = under.Close()
		if err == nil {
			err = ctx.Err()
		}
		return nil, nil, err
	}
	return c, card, nil
}
