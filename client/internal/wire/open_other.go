//go:build !unix

package wire

import "time"

// open says whether an idle connection may be used. Without a way to look, it may
// be for a moment.
func (c *conn) open() bool { return time.Since(c.since) < time.Second }
