package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

func flush(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }

// ticking answers with a piece for each tick.
func ticking(tick <-chan string, ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" {
			echo(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		err := flush(w)
		for err == nil {
			select {
			case <-r.Context().Done():
				err = r.Context().Err()
			case text := <-tick:
				if text == "" {
					ended <- nil
					return
				}
				_, _ = io.WriteString(w, text)
				err = flush(w)
			}
		}
		ended <- err
	}
}

// Each piece arrives before the next one is written, the handler ends the
// reply, and the connection remains usable.
func TestPieces(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		tick, ended := make(chan string), make(chan error, 1)
		h := start(t, listen, ticking(tick, ended))
		c := h.connect(t)
		c.replies = bufio.NewReaderSize(c, 256<<10) // so that a chunk is read with its end
		for range 2 {
			c.send(get("/events") + get("/behind"))
			resp, err := http.ReadResponse(c.replies, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.ContentLength != -1 || resp.Close {
				t.Errorf("the head is %+v", resp)
			}
			for n, size := range []int{1, 10, 4 << 10, 20 << 10, 100 << 10, 1} {
				text := strings.Repeat(string(rune('a'+n)), size)
				tick <- text
				got := make([]byte, size)
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != text {
					t.Fatalf("piece %d: %q, %v", n, got, err)
				}
			}
			tick <- ""
			if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
				t.Errorf("at the end: %q, %v", rest, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			c.want("200 GET /behind")
		}
		c.Close()
	})
}

// The framing of a body depends on the request and on the handler's headers.
func TestFramingOfPieces(t *testing.T) {
	handlers := map[string]func(http.ResponseWriter) error{
		"/pieces": func(w http.ResponseWriter) error {
			_, _ = io.WriteString(w, "one ")
			return errors.Join(flush(w), write(w, "two"), flush(w), flush(w))
		},
		"/none":    flush,
		"/unasked": func(w http.ResponseWriter) error { return errors.Join(flush(w), write(w, "late")) },
		"/counted": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "7")
			return errors.Join(write(w, "one "), flush(w), write(w, "two"), flush(w))
		},
		"/much": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "5")
			err := errors.Join(write(w, "one "), flush(w), write(w, "two"))
			if !errors.Is(err, http.ErrContentLength) {
				return fmt.Errorf("more than there may be: %w", err)
			}
			return nil
		},
		"/little": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "100")
			return errors.Join(write(w, "one "), flush(w), write(w, "two"))
		},
		"/odd": func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "some")
			w.Header().Set("Transfer-Encoding", "gzip")
			return errors.Join(write(w, "one "), flush(w))
		},
		"/empty": func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusNoContent)
			return errors.Join(flush(w), write(w, "one "), flush(w))
		},
		"/close": func(w http.ResponseWriter) error {
			w.Header().Set("Connection", "close")
			return errors.Join(write(w, "one "), flush(w))
		},
		"/abort": func(w http.ResponseWriter) error {
			_ = errors.Join(write(w, "one "), flush(w))
			panic(http.ErrAbortHandler)
		},
	}
	const cut = "a reply cut short: unexpected EOF"
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			if err := handlers[r.URL.Path](w); err != nil {
				t.Errorf("%s: %v", r.URL.Path, err)
			}
		})
		for _, test := range []struct {
			method, path, proto string
			want                string
			framing             string // according to the head
			kept                bool   // whether the connection stays open
		}{
			{"GET", "/pieces", "1.1", "200 one two", "chunked", true},
			{"GET", "/none", "1.1", "200", "chunked", true},
			{"GET", "/unasked", "1.1", "200 late", "chunked", true},
			{"GET", "/odd", "1.1", "200 one", "chunked", true},
			{"GET", "/counted", "1.1", "200 one two", "7", true},
			{"GET", "/much", "1.1", "200 one t", "5", true},
			{"GET", "/little", "1.1", cut, "100", false},
			{"GET", "/empty", "1.1", "204", "", true},
			{"GET", "/close", "1.1", "200 one", "chunked", false},
			{"GET", "/abort", "1.1", cut, "chunked", false},
			{"HEAD", "/pieces", "1.1", "200", "", true},
			{"HEAD", "/counted", "1.1", "200", "7", true},
			{"GET", "/pieces", "1.0", "200 one two", "", false},
			{"GET", "/counted", "1.0", "200 one two", "7", true},
			{"GET", "/empty", "1.0", "204", "", true},
			{"HEAD", "/pieces", "1.0", "200", "", true},
		} {
			c := h.connect(t)
			head := fmt.Sprintf("%s %s HTTP/%s\r\nHost: x\r\n", test.method, test.path, test.proto)
			if test.proto == "1.0" {
				head += "Connection: keep-alive\r\n"
			}
			c.send(head + "\r\n")
			got, resp := c.next(test.method)
			framing := strings.Join(append(resp.TransferEncoding, resp.Header["Content-Length"]...), " ")
			if got != test.want || framing != test.framing || resp.Close == test.kept && got != cut || resp.Proto != "HTTP/"+test.proto {
				t.Errorf("%s %s of %s: %q, framed by %q, %+v", test.method, test.path, test.proto, got, framing, resp)
			}
			if test.kept {
				c.send(get("/none"))
				if got, _ := c.next(http.MethodGet); got != "200" {
					t.Errorf("behind %s %s of %s: %q", test.method, test.path, test.proto, got)
				}
			} else {
				c.wantEnd()
			}
			c.Close()
		}
	})
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// A handler that waits between two pieces learns of a disconnect.
func TestCallersThatLeaveBetweenPieces(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		tick, ended := make(chan string), make(chan error)
		h := start(t, listen, ticking(tick, ended))
		first := h.connect(t)
		first.Close()
		for way := range leaving(first.Conn) {
			c := h.connect(t)
			c.send(get("/events"))
			c.header()
			tick <- "one"
			if _, err := io.ReadFull(c.replies, make([]byte, len("3\r\none\r\n"))); err != nil {
				t.Fatal(err)
			}
			leaving(c.Conn)[way]()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s: it ended by itself", way)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: the call goes on", way)
			}
			c.Close()
		}
	})
}

// A caller that does not read has WriteTimeout for each piece; then its call
// ends. Until then little of the output is kept.
func TestPiecesThatNobodyReads(t *testing.T) {
	for name, test := range map[string]struct {
		size  int
		reads time.Duration // interval between reads of a byte; 0 for never
		lasts time.Duration
	}{
		"a piece":            {10, 0, 30 * time.Second},
		"a large one":        {10 << 20, 0, 30 * time.Second},
		"a byte at a time":   {10 << 20, time.Second, 30 * time.Second},
		"soon enough, again": {1, 29 * time.Second, 300 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, ended := time.Now(), make(chan struct{})
				h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
					defer close(ended)
					var err error
					for err == nil && time.Since(began) < test.lasts {
						if _, err = w.Write(make([]byte, test.size)); err == nil {
							err = flush(w)
						}
					}
					if lasted := time.Since(began); lasted != test.lasts && name != "soon enough, again" || lasted < test.lasts {
						t.Errorf("it ends after %v", lasted)
					}
					if name == "soon enough, again" {
						return
					}
					again := errors.Join(write(w, "more"), flush(w))
					if !errors.Is(err, os.ErrDeadlineExceeded) || again == nil || r.Context().Err() == nil {
						t.Errorf("Flush: %v, again %v; the context: %v", err, again, r.Context().Err())
					}
				})
				c := h.connect(t)
				c.send(get("/a"))
				synctest.Wait()
				if kept := h.Kept().UnreadBytes; kept == 0 || kept > 128<<10 {
					t.Errorf("%d bytes are kept", kept)
				}
				var reading sync.WaitGroup
				if test.reads > 0 {
					reading.Go(func() { dribble(c, test.reads) })
				}
				<-ended
				c.Close()
				reading.Wait()
				synctest.Wait()
				if kept := h.Kept().UnreadBytes; kept != 0 {
					t.Errorf("%d bytes are left", kept)
				}
			})
		})
	}
}

// dribble reads a head, and then a byte of each chunk at a time.
func dribble(c *client, every time.Duration) {
	b := make([]byte, 1<<10)
	for {
		time.Sleep(every)
		if every < 10*time.Second {
			b = b[:1]
		}
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// The memory of unread streams is bounded in total, like that of other replies.
func TestPiecesThatNobodyReadsAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 1 << 20
		var failed int
		results := make(chan error, 100)
		h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write(make([]byte, 1))
			for err == nil {
				err = flush(w)
				_, _ = w.Write(make([]byte, 30<<10))
			}
			results <- err
		}, func(s *wire.Server) { s.MaxUnreadBytes = room })
		var all []*client
		for range 100 {
			c := h.connect(t)
			all = append(all, c)
			c.send(get("/a"))
			go func() { _, _ = io.CopyN(io.Discard, c, 200) }() // reads the head
			synctest.Wait()
			if kept := h.Kept().UnreadBytes; kept > room {
				t.Fatalf("%d bytes are kept", kept)
			}
		}
		for len(results) > 0 {
			<-results
			failed++
		}
		if cut := h.Kept().UnreadCut; failed < 60 || failed > 90 || cut != uint64(failed) {
			t.Errorf("%d streams have ended, %d were cut off", failed, cut)
		}
		for _, c := range all {
			c.Close()
		}
	})
}

// Shutdown waits for streams, which their handlers have to end; Close cuts them
// off.
func TestShutdownOfStreams(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		tick, ended := make(chan string), make(chan error, 2)
		h := start(t, listen, ticking(tick, ended))
		a, b := h.connect(t), h.connect(t)
		a.send(get("/events"))
		a.header()
		down := make(chan error)
		go func() { down <- h.Shutdown(t.Context()) }()
		<-h.served
		go func() { tick <- "two"; tick <- "" }()
		if rest, err := io.ReadAll(a.replies); string(rest) != "3\r\ntwo\r\n0\r\n\r\n" || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		b.wantEnd()
		if err := errors.Join(<-down, <-ended); err != nil {
			t.Error(err)
		}
		h = start(t, listen, ticking(tick, ended))
		a = h.connect(t)
		a.send(get("/events"))
		a.header()
		h.Close()
		if err := <-ended; err == nil {
			t.Error("it ended by itself")
		}
		if rest, _ := io.ReadAll(a.replies); len(rest) > 0 {
			t.Errorf("cut off, it says %q", rest)
		}
	})
}

// FuzzPieces: net/http's client reads exactly what a handler writes and
// flushes, and the next reply after it.
func FuzzPieces(f *testing.F) {
	f.Add([]byte{5, 0, 3}, uint16(0), true)
	f.Add([]byte{0, 255, 254, 0}, uint16(0), false)
	f.Add([]byte{10, 0, 20}, uint16(30), true)
	f.Add([]byte{10, 0, 20}, uint16(31), true)
	f.Add([]byte{10, 0, 20}, uint16(29), false)
	f.Fuzz(func(t *testing.T, steps []byte, length uint16, current bool) {
		var wrote bytes.Buffer
		returned := make(chan struct{})
		h := start(t, pipe, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/last" {
				echo(w, r)
				return
			}
			defer close(returned)
			if length > 0 {
				w.Header().Set("Content-Length", fmt.Sprint(length))
			}
			for i, s := range steps {
				if s == 0 {
					_ = flush(w)
					continue
				}
				piece := bytes.Repeat([]byte{byte(i)}, int(s)*int(s))
				n, _ := w.Write(piece)
				wrote.Write(piece[:n])
			}
			_ = flush(w)
		})
		c := h.connect(t)
		head := "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
		if current {
			head = get("/a")
		}
		c.send(head + last)
		resp, err := http.ReadResponse(c.replies, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		<-returned
		switch short := length > 0 && wrote.Len() < int(length); {
		case short && err == nil:
			t.Errorf("a reply of %d bytes is read as one of %d", len(got), length)
		case short:
		case err != nil:
			t.Error(err)
		case !bytes.Equal(got, wrote.Bytes()) && length == 0:
			t.Errorf("%d bytes were written, and %d read", wrote.Len(), len(got))
		case !bytes.HasPrefix(wrote.Bytes(), got) || length > 0 && len(got) != int(length):
			t.Errorf("%d bytes of %d were written, and %d read", wrote.Len(), length, len(got))
		case !resp.Close:
			c.want(end)
		}
		c.Close()
	})
}

// TestFlushNow: output is sent without waiting for a caller that does not read.
// The rest and all further output follow in order.
func TestFlushNow(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		full, ended := make(chan int, 1), make(chan error, 1)
		const more = 20
		text := func(i int) string { return fmt.Sprintf("%d:%s;", i, strings.Repeat("x", i*997%(12<<10))) }
		h := start(t, listen, func(w http.ResponseWriter, r *http.Request) {
			now := w.(interface{ FlushNow() (bool, error) })
			err, n := flush(w), 0
			send := func() (rest bool) {
				n++
				_, _ = io.WriteString(w, text(n))
				rest, err = now.FlushNow()
				return rest
			}
			for err == nil && !send() {
			}
			full <- n
			for range more {
				if rest := send(); rest && err == nil && n%2 == 0 {
					err = flush(w)
				}
			}
			ended <- err
		})
		c := h.connect(t)
		c.send(get("/events"))
		resp, err := http.ReadResponse(c.replies, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, want := <-full, ""
		for i := range n + more {
			want += text(i + 1)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
			t.Errorf("%d bytes instead of %d, %v", len(got), len(want), err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
