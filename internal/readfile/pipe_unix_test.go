//go:build unix

package readfile

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipesAreRefused: a pipe is refused at once, without a wait for its writer.
func TestPipesAreRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	var r Reader
	if _, err := r.Read(pipe, 100); err == nil || !strings.Contains(err.Error(), "is a pipe and not a regular file") || r.hanging != 0 {
		t.Errorf("%v", err)
	}
}
