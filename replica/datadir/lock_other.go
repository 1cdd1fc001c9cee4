//go:build !unix

package datadir

import "os"

// lockDir opens the data directory; the log's own lock is all that there is
// here.
func lockDir(dir string) (*os.File, error) { return os.Open(dir) }
