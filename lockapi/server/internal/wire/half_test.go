package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a server for connections without a network, with little memory for
// incomplete requests.
type crowd struct {
	*Server
	t *testing.T
}

func newCrowd(t *testing.T, most int) crowd {
	s := &Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			switch {
			case errors.Is(err, ErrCrowded):
				w.WriteHeader(http.StatusTooManyRequests)
			case err != nil:
				w.WriteHeader(http.StatusBadRequest)
			case r.URL.Path == "/wait":
				select {
				case <-r.Context().Done():
				case <-time.After(time.Minute):
				}
			}
			fmt.Fprint(w, len(body))
		}),
		HeaderTimeout: 5 * time.Second, BodyTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10, MaxBody: func(*http.Request) int64 { return 64 << 10 }, MaxHalfBytes: most,
		Waits: func(net.Conn) {}, Calls: func(net.Conn) bool { return true },
		Refuse: func(status int, reason string) []byte {
			return fmt.Appendf(nil, "HTTP/1.1 %d x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", status)
		},
	}
	t.Cleanup(func() {
		_ = s.Close()
		synctest.Wait()
		s.half.mu.Lock()
		defer s.half.mu.Unlock()
		if s.half.bytes != 0 || s.half.oldest.Len() != 0 {
			t.Errorf("%d bytes of %d connections are left", s.half.bytes, s.half.oldest.Len())
		}
	})
	return crowd{s, t}
}

// send opens a connection and sends the text.
func (s crowd) send(text string) net.Conn {
	ours, theirs := net.Pipe()
	s.ServeConn(theirs)
	if _, err := io.WriteString(ours, text); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return ours
}

func (s crowd) held() int {
	s.half.mu.Lock()
	defer s.half.mu.Unlock()
	return s.half.bytes
}

// status returns the status of the reply on c.
func (s crowd) status(c net.Conn) int {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

const (
	halfHead   = "POST /a HTTP/1.1\r\nHost: x\r\nA: "
	halfBody   = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"
	halfChunks = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n"
	waits      = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"
)

// If incomplete requests take too much memory, the oldest is refused with an
// answer; the others arrive.
func TestHalfSentIsBounded(t *testing.T) {
	const room = 1 << 20
	for name, half := range map[string]struct {
		text, rest string
		least      int // minimum memory of each request
	}{
		"heads":        {halfHead, "b\r\nContent-Length: 0\r\n\r\n", 4 << 10},
		"long heads":   {halfHead + strings.Repeat("x", 6000), "\r\nContent-Length: 0\r\n\r\n", 8 << 10},
		"bodies":       {halfBody, strings.Repeat("x", 60_000), 4 << 10},
		"large bodies": {halfBody + strings.Repeat("x", 59_000), strings.Repeat("x", 1000), 59_000},
		"chunks":       {halfChunks + strings.Repeat("x", 59_000), strings.Repeat("x", 1000) + "\r\n0\r\n\r\n", 59_000},
		"trailers":     {halfChunks + strings.Repeat("x", 60_000) + "\r\n0\r\nA: ", "b\r\n\r\n", 59_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCrowd(t, room)
				var sent []net.Conn
				for range 300 {
					sent = append(sent, s.send(half.text))
					if held := s.held(); held > room || held < min(room/2, len(sent)*half.least) {
						t.Fatalf("%d bytes are held of %d", held, len(sent))
					}
				}
				var refused int
				for i, c := range sent {
					var writing sync.WaitGroup
					writing.Go(func() { _, _ = io.WriteString(c, half.rest) })
					switch status := s.status(c); {
					case status == http.StatusTooManyRequests && refused == i:
						refused++
					case status != http.StatusOK:
						t.Errorf("%d: status %d", i, status)
					}
					c.Close()
					writing.Wait()
				}
				if most := room / half.least; refused < 300-most || refused >= 300 {
					t.Errorf("%d of 300 were refused, of which %d fit", refused, most)
				}
			})
		})
	}
}

// Bytes sent during calls count as well. The caller that sent most during the
// oldest call loses it; the others continue.
func TestWhatIsSentBehindCallsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 256 << 10
		s := newCrowd(t, room)
		quiet := s.send(waits)
		var sent []net.Conn
		for range 200 {
			sent = append(sent, s.send(waits+strings.Repeat("x", 5000)))
			if held := s.held(); held > room {
				t.Fatalf("%d bytes are held", held)
			}
		}
		if got := s.status(sent[0]); got != 0 {
			t.Errorf("the oldest is answered: %d", got)
		}
		if got := s.status(quiet); got != http.StatusOK {
			t.Errorf("a call that sent nothing more: %d", got)
		}
		if got := s.status(sent[199]); got != http.StatusOK {
			t.Errorf("the newest: %d", got)
		}
	})
}

// In any order of events, the count includes no closed connection and stays
// within the bound.
func TestHalfSentIsCountedRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 64 << 10
		s := newCrowd(t, room)
		texts := []string{
			halfHead, halfHead + strings.Repeat("x", 9000), halfBody, halfBody + strings.Repeat("x", 60_000), halfChunks,
			waits, waits + "G", waits + halfBody, waits + waits + halfHead, waits + strings.Repeat("x", 20_000),
			halfChunks + strings.Repeat("x", 60_000) + "\r\n0\r\n\r\nG", "nonsense\r\n\r\n", halfBody + strings.Repeat("x", 70_000),
		}
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for range 20 {
					ours, theirs := net.Pipe()
					s.ServeConn(theirs)
					_ = ours.SetWriteDeadline(time.Now().Add(time.Duration(rand.IntN(90)) * time.Second))
					text := texts[rand.IntN(len(texts))]
					for len(text) > 0 {
						n := min(len(text), 1+rand.IntN(20_000))
						if _, err := io.WriteString(ours, text[:n]); err != nil {
							break
						}
						text = text[n:]
						time.Sleep(time.Duration(rand.IntN(3)) * time.Second)
						if held := s.held(); held > room || held < 0 {
							t.Errorf("%d bytes are held", held)
						}
					}
					if rand.IntN(2) == 0 {
						_ = ours.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(100)) * time.Second))
						_, _ = io.Copy(io.Discard, ours)
					}
					_ = ours.Close()
				}
			})
		}
		callers.Wait()
	})
}

// A connection of a dropped request does not affect later connections.
func TestRequestsAfterACrowdAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCrowd(t, 20<<10)
		c := s.send(halfHead)
		for range 3 {
			go func() { _, _ = io.WriteString(c, "b\r\nContent-Length: 0\r\n\r\n"+halfHead) }()
			if got := s.status(c); got != http.StatusOK {
				t.Fatalf("status %d", got)
			}
			synctest.Wait()
			time.Sleep(4 * time.Second)
		}
		if held := s.held(); held != 4<<10 {
			t.Errorf("%d bytes are held", held)
		}
		c.Close()
	})
}

// After a call has ended, its bytes no longer count, whether they were too many
// or not.
func TestNothingIsCountedBehindACallThatHasEnded(t *testing.T) {
	for name, more := range map[string]string{
		"little": "G",
		"much":   strings.Repeat("GET /b HTTP/1.1\r\nHost: x\r\n\r\n", 300),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCrowd(t, 1<<20)
				s.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/wait" {
						r.Context().Done()
						time.Sleep(time.Second)
					}
				})
				c := s.send(waits + more)
				if held := s.held(); held < 4<<10 {
					t.Errorf("%d bytes are held", held)
				}
				go func() { _, _ = io.Copy(io.Discard, c) }()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if held := s.held(); held > 4<<10 || name == "much" && held > 0 {
					t.Errorf("%d bytes are held when the call has ended", held)
				}
				c.Close()
			})
		})
	}
}
