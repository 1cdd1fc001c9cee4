//go:build unix

package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipeIsLeftWhenToldToStop: Load ends with its context while it opens a pipe
// without a writer, a system call that no signal ends.
func TestPipeIsLeftWhenToldToStop(t *testing.T) {
	name := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan error)
	go func() {
		_, err := Load(ctx, nil, []string{"STOUTD_CONFIG=" + name})
		loaded <- err
	}()
	select {
	case err := <-loaded:
		t.Fatalf("a pipe without a writer was read: %v", err)
	default:
	}
	cancel()
	if err := <-loaded; !errors.Is(err, context.Canceled) {
		t.Errorf("Load: %v", err)
	}
}

// TestPipeIsRead: a file of settings may be a pipe (<(command) in a shell).
func TestPipeIsRead(t *testing.T) {
	name := pipe(t)
	go func() { _ = os.WriteFile(name, []byte("dev: true\n"), 0) }()
	if c, err := Load(t.Context(), nil, []string{"STOUTD_CONFIG=" + name}); err != nil || !c.Dev {
		t.Errorf("Load = %+v, %v", c, err)
	}
}

// pipe makes a named pipe. At the end of the test it releases pending opens.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "r1.yaml")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			_ = f.Close()
		}
	})
	return name
}
