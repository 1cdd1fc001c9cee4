package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// BenchmarkExchange measures one call against a server that answers every
// request with the same bytes. The figure is the cost of the SDK, including
// both ends of the connection.
func BenchmarkExchange(b *testing.B) {
	for _, via := range []string{"wire", "transport"} {
		b.Run("read/"+via, func(b *testing.B) {
			c := benchClient(b, via, "200 OK", `{"path":"/bench/read/0","state":"held","mode":"exclusive","limit":0,"holders":[`+
				`{"session":"s","session_name":"bench","handle":"h-1","mode":"exclusive","token":42,"granted_at":"2026-01-02T03:04:05.678901234Z"}],"waiters":0,"delay_remaining_ms":0}`)
			for b.Loop() {
				if _, err := c.ReadLock(b.Context(), "/bench/read/0"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("refused/"+via, func(b *testing.B) {
			c := benchClient(b, via, "423 Locked", `{"type":"about:blank","title":"Locked","status":423,"code":"lock_held","detail":"lock \"/bench/refuse/0\" is held by \"bench\" with token 7","holders":[`+
				`{"session":"s","session_name":"bench","handle":"h-1","mode":"exclusive","token":42,"granted_at":"2026-01-02T03:04:05.678901234Z"}]}`)
			s := benchSession(c)
			for b.Loop() {
				if _, err := s.TryLock(b.Context(), "/bench/refuse/0"); !errors.Is(err, ErrLockHeld) {
					b.Fatal(err)
				}
			}
		})
		// Each cycle makes two calls.
		b.Run("cycle/"+via, func(b *testing.B) {
			c := benchClient(b, via, "200 OK", `{"path":"/bench/cycle/0","state":"held","session":"s","handle":"1","mode":"exclusive",`+
				`"token":42,"sequencer":"exclusive:42:/bench/cycle/0","granted_at":"2026-01-02T03:04:05.678901234Z"}`)
			s := benchSession(c)
			for b.Loop() {
				s.locks.serial = 0 // the answer always names the first handle
				c.tokens.n.Store(0)
				h, err := s.TryLock(b.Context(), "/bench/cycle/0")
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Unlock(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchSession returns a session without keepalives and with an hour of lease.
func benchSession(c *Client) *Session {
	s := c.newSession(lockapi.Session{ID: "s"})
	s.locks.prefix = ""
	s.lease.start(c.clock.now() + time.Hour)
	return s
}

// benchClient returns a client of a server with one answer for releases and one
// for all other calls.
func benchClient(b *testing.B, via, status, body string) *Client {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	url := "http://" + l.Addr().String()
	answer := func(status, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nStout-Epoch: 3\r\nStout-Master: %s\r\nDate: Fri, 02 Jan 2026 03:04:05 GMT\r\nContent-Length: %d\r\n\r\n%s", status, url, len(body), body)
	}
	usual, released := answer(status, body), answer("200 OK", `{"released":true}`)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go parrot(conn, usual, released)
		}
	}()
	config := Config{URLs: []string{url}}
	if via == "transport" {
		config.Transport = new(http.Transport)
	}
	c, err := config.New()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	b.ReportAllocs()
	return c
}

// parrot answers the requests of a connection: a DELETE with released, others
// with usual.
func parrot(conn net.Conn, usual, released string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	answer := usual
	for length := 0; ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte("DELETE ")) {
			answer = released
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if len(line) > len("\r\n") {
			continue
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
		answer, length = usual, 0
	}
}
