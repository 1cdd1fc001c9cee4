//go:build !unix

package wire

import "io"

// openRaw does nothing: the connection is used through its methods.
func (c *conn) openRaw() {}

func (c *conn) drain() {}

func readFD(uintptr, []byte) (int, error) { return 0, io.ErrNoProgress }
