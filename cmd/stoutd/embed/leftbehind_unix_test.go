//go:build unix

package embed

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
)

// TestStartLeftBehindIsClosed: an abandoned start closes everything when the disk
// answers again.
func TestStartLeftBehindIsClosed(t *testing.T) {
	testrun.E2E(t)
	c := cellOf(t, 1)[0]
	c.ShutdownTimeout = 100 * time.Millisecond
	name := filepath.Join(c.DataDir, "replica.json")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, c); !errors.Is(err, ErrStuck) {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // the disk answers
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	for range 300 {
		l, err := net.Listen("tcp", c.APIListen)
		if err == nil {
			_ = l.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the API's port is in use, by a replica that cannot be stopped")
}
