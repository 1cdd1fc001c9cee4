package peerconn

import (
	"context"
	"net"
)

// Dial calls Dial of a new Caller.
func Dial(ctx context.Context, addr string, o Hello, s Security) (net.Conn, error) {
	return (&Caller{Security: s}).Dial(ctx, addr, o)
}

// AskCard calls AskCard of a new Caller.
func AskCard(ctx context.Context, addr string, o Hello, s Security) ([]byte, error) {
	return (&Caller{Security: s}).AskCard(ctx, addr, o)
}
