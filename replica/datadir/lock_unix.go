//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockDir keeps other processes out of the data directory until the returned
// file is closed.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("it is in use; is another stoutd running?")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), f.Close())
	}
	return f, nil
}
