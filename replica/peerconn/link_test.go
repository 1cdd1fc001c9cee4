package peerconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 20 * time.Second

// serve starts a listener that knows one cell and one member.
func serve(t *testing.T) *Listener { return serveWith(t, nil) }

func serveWith(t *testing.T, security Security) *Listener {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(in, Rules{Security: security, Admit: func(o Hello) ([]byte, error) {
		switch {
		case o.Kind == Ask && o.Cell == "c":
			return []byte("card of " + o.To), nil
		case o.CellID != "id" || o.To != "r1/a":
			return nil, errors.New("this is r1/a of cell id")
		}
		return nil, nil
	}, Members: func() []string { return []string{"r1/a", "r2/b", "r3/c"} }})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func good(kind Kind) Hello {
	return Hello{Kind: kind, Cell: "c", CellID: "id", From: "r2/b", To: "r1/a"}
}

func TestOpeningReachesItsKind(t *testing.T) {
	l := serve(t)
	for _, kind := range []Kind{Raft, Call} {
		got := make(chan net.Conn, 1)
		go func() {
			c, err := l.Kind(kind).Accept()
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		c, err := Dial(t.Context(), l.Addr().String(), good(kind), nil)
		if err != nil {
			t.Fatal(err)
		}
		other := <-got
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(other, b); err != nil || string(b) != "hello" {
			t.Errorf("%v: %q, %v", kind, b, err)
		}
		_, _ = c.Close(), other.Close()
	}
	card, err := AskInfo(t.Context(), l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, nil)
	if err != nil || string(card) != "card of r1" {
		t.Errorf("%q, %v", card, err)
	}
}

func TestOthersAreRefused(t *testing.T) {
	l := serve(t)
	for name, change := range map[string]func(*Hello){
		"another cell":      func(o *Hello) { o.CellID = "other" },
		"no cell":           func(o *Hello) { o.CellID = "" },
		"another directory": func(o *Hello) { o.To = "r1/x" },
		"another member":    func(o *Hello) { o.To = "r3/a" },
		"another kind":      func(o *Hello) { o.Kind = 9 },
	} {
		o := good(Raft)
		change(&o)
		c, err := Dial(t.Context(), l.Addr().String(), o, nil)
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

// closed reports whether the other end has closed a connection.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, c)
	return !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// TestGarbageIsClosed: anything that is not a hello, or claims to be a huge
// one, is closed at once; half a hello, within helloTimeout.
func TestGarbageIsClosed(t *testing.T) {
	l := serve(t)
	for name, bytes := range map[string]string{
		"a message of the library's": "\x00\x81\xa7Entries\xdd\x01\x31\x2d\x00" + strings.Repeat("\x80", 64),
		"HTTP":                       "GET / HTTP/1.1\r\nHost: x\r\n\r\n........",
		"a huge length":              magic + "\xff\xff\xff\xff",
		"no CBOR":                    magic + "\x00\x00\x00\x02\xff\xff",
		"an unknown field's map":     magic + "\x00\x00\x00\x05\xbf\x01\x02\x01\x02",
		"half of it":                 magic[:5],
		"nothing":                    "",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, bytes); err != nil {
			t.Fatal(err)
		}
		if !closed(t, c) {
			t.Errorf("%s: the connection is open", name)
		}
		_ = c.Close()
	}
}

// TestTooManyUnopened: one more closes the oldest, so callers that open at once
// always succeed.
func TestTooManyUnopened(t *testing.T) {
	l := serve(t)
	var quiet []net.Conn
	for range maxUnopened + 20 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		quiet = append(quiet, c)
		defer c.Close()
	}
	if _, err := AskInfo(t.Context(), l.Addr().String(), Hello{Cell: "c", From: "r2/b", To: "r1"}, nil); err != nil {
		t.Errorf("no place beside %d that say nothing: %v", len(quiet), err)
	}
	l.mu.Lock()
	n := l.unopened.Len()
	l.mu.Unlock()
	if n > maxUnopened {
		t.Errorf("%d are open that say nothing", n)
	}
	if !closed(t, quiet[0]) {
		t.Error("the oldest is open")
	}
}

// TestTooManyOpened: a caller has a limited number of connections of a kind,
// and gets another when one has ended. Others are not delayed by it.
func TestTooManyOpened(t *testing.T) {
	l := serve(t)
	accepted := make(chan net.Conn, 2*maxOpened)
	go func() {
		for {
			c, err := l.Kind(Raft).Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range maxOpened {
		c, err := Dial(t.Context(), l.Addr().String(), good(Raft), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := Dial(t.Context(), l.Addr().String(), good(Raft), nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "r2/b") {
		t.Errorf("one more: %v", err)
	}
	other := good(Raft)
	other.From = "r3/c"
	c, err := Dial(t.Context(), l.Addr().String(), other, nil)
	if err != nil {
		t.Fatalf("another caller: %v", err)
	}
	_ = c.Close()
	_ = (<-accepted).Close()
	c, err = Dial(t.Context(), l.Addr().String(), good(Raft), nil)
	if err != nil {
		t.Fatalf("after one has ended: %v", err)
	}
	_ = c.Close()
}

// TestStrangersLeaveRoom: callers that are not known as members have few
// connections, and keep no member out. One that has become a member has its
// own.
func TestStrangersLeaveRoom(t *testing.T) {
	l := serve(t)
	var members atomic.Value
	members.Store([]string{"r1/a", "r2/b", "r3/c"})
	l.rules.Members = func() []string { return members.Load().([]string) }
	go func() {
		for {
			if _, err := l.Kind(Raft).Accept(); err != nil {
				return
			}
		}
	}()
	dial := func(from string) error {
		o := good(Raft)
		o.From = from
		c, err := Dial(t.Context(), l.Addr().String(), o, nil)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	}
	for i := range 31 {
		if err := dial(fmt.Sprintf("x%d/y", i)); (err == nil) != (i < maxStrangers) {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	if err := dial("x0/y"); err != nil {
		t.Errorf("another connection of one that has a place: %v", err)
	}
	for _, from := range []string{"r2/b", "r3/c"} {
		for i := range maxOpened {
			if err := dial(from); err != nil {
				t.Fatalf("connection %d of member %s: %v", i, from, err)
			}
		}
	}
	if err := dial("r3/new"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "r3/new is not known as a member") {
		t.Errorf("%v", err)
	}
	members.Store([]string{"r1/a", "r2/b", "r3/new"})
	if err := dial("r3/new"); err != nil {
		t.Errorf("a new member: %v", err)
	}
	members.Store([]string{"r1/a", "r2/b", "r3/new", "x0/y"})
	if err := dial("x31/y"); err == nil {
		t.Error("the place of a member that was replaced is none of a stranger's while it is connected")
	}
	members.Store([]string{"r1/a", "r2/b", "r3/new", "x0/y", "x1/y"})
	if err := dial("x31/y"); err != nil {
		t.Errorf("strangers that have become members keep the places of strangers: %v", err)
	}
}

// TestDialEndsWithItsContext: also if the other end sends nothing.
func TestDialEndsWithItsContext(t *testing.T) {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := in.Accept()
		if err == nil {
			defer c.Close()
		}
		cancel()
		<-t.Context().Done()
	}()
	if c, err := Dial(ctx, in.Addr().String(), good(Raft), nil); err == nil {
		t.Error(c)
	}
}

// leftEarly is a connection that its caller leaves at its first deadline.
type leftEarly struct {
	net.Conn
	leave func()
}

func (c *leftEarly) SetDeadline(at time.Time) error {
	if leave := c.leave; leave != nil {
		c.leave = nil
		leave()
		synctest.Wait() // the deadline of a call that has ended is set
	}
	return c.Conn.SetDeadline(at)
}

// TestDialOfACallerThatLeavesEarly: the call's own deadline does not follow upon the
// end of its context.
func TestDialOfACallerThatLeavesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var r Caller
		r.dialer.Dial = func(context.Context, string, string) (net.Conn, error) { return &leftEarly{here, cancel}, nil }
		began := time.Now()
		if _, err := r.Dial(ctx, "127.0.0.1:1", good(Raft)); err == nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func FuzzOpening(f *testing.F) {
	f.Add([]byte(magic + "\x00\x00\x00\x01\xa0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o Hello
		_ = readFrame(strings.NewReader(string(b)), magic, &o)
	})
}

// A program that listens there and is not a replica is reported in the same
// text each time.
func TestNoAnswerInTheSameWords(t *testing.T) {
	for name, then := range map[string]func(c net.Conn, leave func()){
		"hangs up": func(c net.Conn, _ func()) { _ = c.Close() },
		"is silent": func(c net.Conn, leave func()) {
			_, _ = c.Read(make([]byte, 1)) // afterwards the caller waits for an answer
			leave()
		},
		"speaks HTTP": func(c net.Conn, _ func()) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			words := map[string]bool{}
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					if c, err := in.Accept(); err == nil {
						defer c.Close()
						then(c, cancel)
						<-t.Context().Done()
					}
				}()
				_, err := AskInfo(ctx, in.Addr().String(), good(Ask), nil)
				cancel()
				if err == nil {
					t.Fatal("there was a card")
				}
				words[err.Error()] = true
			}
			if len(words) != 1 {
				t.Errorf("%v", words)
			}
		})
	}
}
