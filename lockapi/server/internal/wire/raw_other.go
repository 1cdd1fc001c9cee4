//go:build !unix

package wire

// openRaw leaves the connection to its own methods.
func (c *conn) openRaw() {}
