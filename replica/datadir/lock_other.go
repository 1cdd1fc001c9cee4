//go:build !unix

package datadir

import "os"

// lockDir opens the data directory. On this system only the log's own lock
// protects it.
func lockDir(dir string) (*os.File, error) { return os.Open(dir) }
