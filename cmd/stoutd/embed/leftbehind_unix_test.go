//go:build unix

package embed_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/embed"
	"github.com/stoutlock/stout/internal/testrun"
)

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestStartLeftBehindIsClosed: an abandoned start closes everything when the disk
// answers again.
func TestStartLeftBehindIsClosed(t *testing.T) {
	testrun.E2E(t)
	c := config.Default()
	api, raft := freeAddr(t), freeAddr(t)
	c.Cell, c.ID, c.DataDir, c.APIListen, c.RaftListen = "c", "r1", t.TempDir(), api, raft
	c.Replicas = []config.Replica{{ID: "r1", RaftAddr: raft, APIURL: "http://" + api}}
	c.ShutdownTimeout, c.LogLevel = 100*time.Millisecond, "error"
	name := filepath.Join(c.DataDir, "replica.json")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := embed.Start(ctx, c); !errors.Is(err, embed.ErrStuck) {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // the disk answers
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	for range 300 {
		l, err := net.Listen("tcp", api)
		if err == nil {
			_ = l.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("the API's port is in use, by a replica that cannot be stopped")
}
