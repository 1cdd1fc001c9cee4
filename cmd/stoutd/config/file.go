package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stoutlock/stout/internal/wait"
)

// maxFile bounds a file of settings, so that a wrong name (a device, a log) does not
// exhaust the machine's memory.
const maxFile = 1 << 20

// readBounded reads a whole file of at most maxFile bytes. If ctx ends first, it
// returns the error of ctx and abandons the read: the file may be a pipe without a
// writer, or on a file system that hangs.
func readBounded(ctx context.Context, name string) ([]byte, error) {
	return wait.Get(ctx, func() ([]byte, error) { return readAll(name) })
}

func readAll(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("there is no such file")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it is larger than %s; is it a file of settings?", writeSize(maxFile))
	}
	return content, err
}
