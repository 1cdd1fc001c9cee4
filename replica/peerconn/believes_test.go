package peerconn

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// doubting returns a listener that believes callers until doubts is set.
func doubting(t *testing.T) (l *Listener, doubts *atomic.Bool) {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	doubts = new(atomic.Bool)
	l = Listen(in, Rules{
		Admit:   func(Hello) ([]byte, error) { return nil, nil },
		Members: func() []string { return nil },
		CheckSender: func(server string) error {
			if doubts.Load() && server == "r2/b" {
				return errors.New("removed")
			}
			return nil
		},
	})
	t.Cleanup(func() { _ = l.Close() })
	return l, doubts
}

// opened returns both ends of a connection.
func opened(t *testing.T, l *Listener, from string) (caller, taken net.Conn) {
	t.Helper()
	o := good(Raft)
	o.From = from
	caller, err := Dial(t.Context(), l.Addr().String(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caller.Close() })
	if taken, err = l.Kind(Raft).Accept(); err != nil {
		t.Fatal(err)
	}
	if From(taken) != from || From(caller) != "" {
		t.Errorf("the connection is from %q, and the other end's from %q", From(taken), From(caller))
	}
	return caller, taken
}

// TestNoFurtherByte: data from a caller that is no longer believed does not
// arrive, and its connection ends. Other connections continue.
func TestNoFurtherByte(t *testing.T) {
	l, doubts := doubting(t)
	caller, taken := opened(t, l, "r2/b")
	_, other := opened(t, l, "r3/c")
	_ = other
	b := make([]byte, 8)
	if _, err := io.WriteString(caller, "before"); err != nil {
		t.Fatal(err)
	}
	if n, err := taken.Read(b); err != nil || string(b[:n]) != "before" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	doubts.Store(true)
	_, _ = io.WriteString(caller, "after")
	if n, err := taken.Read(b); n != 0 || err == nil {
		t.Errorf("%d bytes arrive: %v", n, err)
	}
	if !closed(t, caller) {
		t.Error("the connection is open")
	}
	if n := len(l.conns); n != 1 {
		t.Errorf("%d connections are counted", n)
	}
}

// TestReview closes only the connections of servers that are no longer
// believed: they may be waiting for answers.
func TestReview(t *testing.T) {
	l, doubts := doubting(t)
	gone, _ := opened(t, l, "r2/b")
	stays, taken := opened(t, l, "r3/c")
	l.Review()
	doubts.Store(true)
	l.Review()
	if !closed(t, gone) {
		t.Error("the connection is open")
	}
	go func() { _, _ = io.WriteString(taken, "on") }()
	b := make([]byte, 2)
	if _, err := io.ReadFull(stays, b); err != nil {
		t.Errorf("another's connection: %v", err)
	}
}
