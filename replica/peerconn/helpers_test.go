package peerconn

import (
	"context"
	"net"
)

// Dial calls Dial of a new Caller.
func Dial(ctx context.Context, addr string, o Hello, s Security) (net.Conn, error) {
	return (&Caller{Security: s}).Dial(ctx, addr, o)
}

// AskInfo calls AskInfo of a new Caller.
func AskInfo(ctx context.Context, addr string, o Hello, s Security) ([]byte, error) {
	return (&Caller{Security: s}).AskInfo(ctx, addr, o)
}
