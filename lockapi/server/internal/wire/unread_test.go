package wire

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// If unread replies take too much memory, the oldest is cut off; the others
// continue, however slowly.
func TestRepliesThatNobodyReadsAreBounded(t *testing.T) {
	const size = 16 << 20 // the system accepts only some of it
	s := &Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		}),
		HeaderTimeout: time.Minute, BodyTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 1 << 10, MaxUnreadBytes: size * 5 / 4,
		Waits: func(net.Conn) {}, Calls: func(net.Conn) bool { return true },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()

	ask := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// The reply has begun; the part that the system does not accept waits.
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		return c
	}
	first := ask()
	defer first.Close()
	second := ask()
	defer second.Close()
	if n, err := io.Copy(io.Discard, first); err == nil && n >= size {
		t.Error("the reply that waited for longest arrived whole")
	}
	if n, err := io.CopyN(io.Discard, second, size); err != nil {
		t.Errorf("of the other reply %d bytes arrived: %v", n, err)
	}
}
