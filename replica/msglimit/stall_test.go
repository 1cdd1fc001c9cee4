package msglimit

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestStalledSnapshot: a sender that stops within a snapshot ends the connection. A slow
// one does not, and neither does a pause between messages.
func TestStalledSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, accepted := net.Pipe()
		defer sender.Close()
		of := bounds
		of.SnapshotTimeout = 3 * time.Second
		receiver := Conn(accepted, of, func(err error) { t.Error(err) })
		go func() {
			vote := encoded(t, 1, &raft.RequestVoteRequest{})
			_, _ = sender.Write(vote)
			time.Sleep(time.Hour)
			_, _ = sender.Write(encoded(t, installSnapshot, head(3, 100)))
			for range 10 {
				time.Sleep(2 * time.Second)
				_, _ = sender.Write([]byte("12345"))
			}
		}()
		began := time.Now()
		_, err := io.Copy(io.Discard, receiver)
		if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Hour+23*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
