package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stoutlock/stout/internal/wait"
)

// maxFile bounds a file of settings, so that a wrong name (a device, a log)
// does not take the machine's memory.
const maxFile = 1 << 20

// readBounded reads a whole file of at most maxFile bytes. A file may be a pipe
// that nobody writes to, or lie on a file system that does not answer: where
// ctx ends first its error is returned, and the read is left behind.
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
