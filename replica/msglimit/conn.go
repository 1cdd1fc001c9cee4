// Package msglimit bounds the messages that others can make the Raft library
// decode. The library decodes anything that arrives on an accepted connection:
// 20 MB of empty log entries become 2 GB in memory. Here each message is
// checked before the library receives it. A message larger than any that a
// member sends ends the connection.
//
// # Contract
//
// Messages pass unchanged, byte for byte, and the library decodes exactly what
// this package has counted. To ensure that, messages may only have the kinds of
// values that the library's own encoder writes; for those, the two cannot read
// one stream in two ways. A connection carries one snapshot at most, and ends
// with the answer to it, as senders expect.
package msglimit

import (
	"io"
	"net"
	"time"
)

// Bounds are the bounds of a message.
type Bounds struct {
	Entries int64 // bytes of a message that may bring log entries
	Other   int64 // bytes of any other message, and of a snapshot's head; the snapshot has no bound
	Values  int64 // values: keys, numbers, strings, maps, arrays
	// SnapshotTimeout is how long a sender may send nothing of a snapshot that it
	// has begun. The library receives a snapshot on its main loop: while it waits,
	// the replica does not vote.
	SnapshotTimeout time.Duration
}

// Conn passes on the data that a connection receives, as long as it is within
// bounds. At the first message that is not, it calls refused with the reason
// and closes the connection. It supports one reader at a time. Each write must
// be an answer to what was read before.
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
	if c.stream.raw {
		if err := c.SetReadDeadline(time.Now().Add(c.stream.bounds.SnapshotTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if bad := c.stream.pass(p[:n]); bad != nil {
		c.refused(bad)
		_ = c.Close()
		return 0, bad
	}
	return n, err
}

// Write sends an answer. The answer to a snapshot ends the stream: if the
// library has not read all of it, it would decode the rest as messages.
func (c *conn) Write(p []byte) (int, error) {
	if c.stream.raw {
		c.stream.over = true
	}
	return c.Conn.Write(p)
}
