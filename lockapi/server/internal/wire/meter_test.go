package wire

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesBelowTLSHaveADeadline: a client that does not read the answers to
// its KeyUpdates does not keep a goroutine in a write.
func TestWritesBelowTLSHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, under := net.Pipe()
		defer client.Close()
		m := &meter{Conn: under, timeout: 30 * time.Second}
		for _, own := range []time.Duration{0, 5 * time.Second} {
			want := m.timeout
			if own > 0 {
				want = own
				_ = m.SetWriteDeadline(time.Now().Add(own))
			}
			began := time.Now()
			if _, err := m.Write([]byte("answer")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != want {
				t.Errorf("a write within %s ended after %s: %v", want, time.Since(began), err)
			}
		}
	})
}
