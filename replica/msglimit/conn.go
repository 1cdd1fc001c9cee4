// Package msglimit bounds what others can have the Raft library decode. The
// library decodes whatever arrives at a connection that it accepted: 20 MB of
// empty log entries become 2 GB of them. Here each message is looked at on its
// way, before the library has it, and one that is larger than a member's ever
// is ends the connection.
//
// # Contract
//
// What passes is what was sent, byte for byte, and what the library makes of a
// message is what this package has counted: messages are only of those kinds of
// values that the library's own encoder writes, in which the two cannot read
// one stream in two ways. A connection carries one snapshot at most, and ends
// with the answer to it, as senders have it.
package msglimit

import (
	"io"
	"net"
)

// Bounds are those of a message.
type Bounds struct {
	Entries int64 // bytes of one that may bring log entries
	Other   int64 // bytes of any other, and of a snapshot's head; the snapshot has no bound
	Values  int64 // values: keys, numbers, strings, maps, arrays
}

// Conn passes on what a connection receives as long as it is within bounds. It
// closes the connection with the first message that is not, and tells why. It
// takes one reader at a time, and writes that are answers: to what was read
// before.
func Conn(c net.Conn, b Bounds, refused func(error)) net.Conn {
	return &conn{Conn: c, stream: stream{bounds: b}, refused: refused}
}

type conn struct {
	net.Conn
	stream  stream
	refused func(error)
}

func (c *conn) Read(p []byte) (int, error) {
	if c.stream.over {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if bad := c.stream.pass(p[:n]); bad != nil {
		c.refused(bad)
		_ = c.Close()
		return 0, bad
	}
	return n, err
}

// Write sends an answer. The one to a snapshot ends the stream: where the
// library has not read it all, it would take the rest for messages.
func (c *conn) Write(p []byte) (int, error) {
	if c.stream.raw {
		c.stream.over = true
	}
	return c.Conn.Write(p)
}
