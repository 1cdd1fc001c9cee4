package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// within is ample for all exchanges that are not meant to be late.
const within = 10 * time.Second

const (
	ok      = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	created = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
)

// peer is a server that hands its connections to the test one by one.
type peer struct {
	t    *testing.T
	addr string
	in   chan *link
}

// link is the server's end of a connection.
type link struct {
	*net.TCPConn
	t *testing.T
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, l.Addr().String(), make(chan *link, 64)}
	t.Cleanup(func() { l.Close() })
	go func() {
		defer close(p.in)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.in <- &link{c.(*net.TCPConn), t}
		}
	}()
	return p
}

// hear reads one request head and returns its first line.
func (l *link) hear() string {
	l.t.Helper()
	if err := l.SetReadDeadline(time.Now().Add(within)); err != nil {
		l.t.Error(err)
	}
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("\r\n\r\n")); {
		if _, err := l.Read(one); err != nil {
			l.t.Errorf("after %q: %v", got, err)
			return ""
		}
		got = append(got, one...)
	}
	line, _, _ := strings.Cut(string(got), "\r\n")
	return line
}

func (l *link) say(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l, text); err != nil {
		l.t.Error(err)
	}
}

// wantGone waits for the client's end to be closed.
func (l *link) wantGone() {
	l.t.Helper()
	_ = l.SetReadDeadline(time.Now().Add(within))
	if n, err := l.Read(make([]byte, 1)); n > 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		l.t.Errorf("the connection is still open: %d, %v", n, err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// outcome is the result of an exchange.
type outcome struct {
	Answer
	err error
}

// start begins an exchange in the background.
func (p *peer) start(ctx context.Context, pool *Pool, method string, tune ...func(*Request)) <-chan outcome {
	q := &Request{Method: method, Addr: p.addr, Host: p.addr, Target: "/", Within: within}
	for _, f := range tune {
		f(q)
	}
	done := make(chan outcome, 1)
	go func() {
		var buf bytes.Buffer
		a, err := pool.Do(ctx, q, &buf, 1<<20)
		done <- outcome{a, err}
	}()
	return done
}

// wantBody waits for an answer with status 200.
func wantBody(t *testing.T, got <-chan outcome, want string) {
	t.Helper()
	o := <-got
	if o.err != nil || o.StatusCode != http.StatusOK || string(o.Body) != want {
		t.Fatalf("got %d, %q, %v; want %q", o.StatusCode, o.Body, o.err, want)
	}
}

// warm makes one exchange, which leaves its connection idle, and returns the
// server's end.
func (p *peer) warm(pool *Pool) *link {
	p.t.Helper()
	got := p.start(p.t.Context(), pool, http.MethodGet)
	l := <-p.in
	l.hear()
	l.say(ok)
	wantBody(p.t, got, "ok")
	return l
}

func (p *peer) wantNoMore() {
	p.t.Helper()
	select {
	case <-p.in:
		p.t.Error("a second connection was made")
	default:
	}
}

func TestAnswersOfEveryShape(t *testing.T) {
	for name, test := range map[string]struct {
		answer, body string
		again        bool // the connection is reused
	}{
		"length":            {ok, "ok", true},
		"chunks":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\nTrailer: x\r\n\r\n", "ok", true},
		"until the end":     {"HTTP/1.1 200 OK\r\n\r\nok", "ok", false},
		"old":               {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		"last":              {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		"interim":           {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok, "ok", true},
		"more than wanted":  {ok + ok, "ok", false},
		"more than allowed": {"HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2<<20), strings.Repeat("x", 1<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			p, pool := newPeer(t), new(Pool)
			got := p.start(t.Context(), pool, http.MethodGet)
			l := <-p.in
			l.hear()
			go func(l *link) {
				_, _ = io.WriteString(l, test.answer) // the client may stop reading earlier
				if !test.again {
					_ = l.CloseWrite()
				}
			}(l)
			wantBody(t, got, test.body)
			next := p.start(t.Context(), pool, http.MethodPut)
			if !test.again {
				l.wantGone()
				l = <-p.in
			}
			if line := l.hear(); line != "PUT / HTTP/1.1" {
				t.Errorf("got %q", line)
			}
			l.say(ok)
			wantBody(t, next, "ok")
			p.wantNoMore()
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":           "",
		"noise":             "220 smtp.example.com\r\n\r\n",
		"cut in the header": "HTTP/1.1 200 OK\r\nContent-Le",
		"cut in the body":   "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
		"cut in a chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
		"two lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"unasked protocol":  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"interim only":      strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", mostHeader/20) + ok,
		"endless header":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", mostHeader) + "\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			got := p.start(t.Context(), new(Pool), http.MethodGet)
			l := <-p.in
			l.hear()
			_, _ = io.WriteString(l, answer) // the client may stop reading earlier
			_ = l.CloseWrite()
			if o := <-got; o.err == nil {
				t.Errorf("got %d, %q", o.StatusCode, o.Body)
			}
			l.wantGone()
			p.wantNoMore()
		})
	}
}

// TestIdleConnectionClosed: if the other side closed the connection while it
// was idle, the request was never sent on it. So even a POST is sent on a new
// connection.
func TestIdleConnectionClosed(t *testing.T) {
	for name, end := range map[string]func(*link){
		"closed":      func(l *link) { _ = l.Close() },
		"reset":       func(l *link) { _ = l.SetLinger(0); _ = l.Close() },
		"half closed": func(l *link) { _ = l.CloseWrite() },
		"timed out":   func(l *link) { l.say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"); _ = l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p, pool := newPeer(t), new(Pool)
			end(p.warm(pool))
			got := p.start(t.Context(), pool, http.MethodPost)
			l := <-p.in
			if line := l.hear(); line != "POST / HTTP/1.1" {
				t.Errorf("got %q", line)
			}
			l.say(ok)
			wantBody(t, got, "ok")
		})
	}
}

// TestClosedUnderARequest: the other side closes an idle connection while the
// request is on its way, or dies with it. Only reads are sent again.
func TestClosedUnderARequest(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			p, pool := newPeer(t), new(Pool)
			l := p.warm(pool)
			got := p.start(t.Context(), pool, method)
			l.hear()
			_ = l.Close()
			if method != http.MethodGet {
				if o := <-got; o.err == nil {
					t.Errorf("got %d", o.StatusCode)
				}
				p.wantNoMore()
				return
			}
			again := <-p.in
			again.hear()
			again.say(ok)
			wantBody(t, got, "ok")
		})
	}
}

// TestClosedUnderAnAnswer: once part of an answer came, or if the connection is
// new, even a read is not sent again.
func TestClosedUnderAnAnswer(t *testing.T) {
	p, pool := newPeer(t), new(Pool)
	l := p.warm(pool)
	got := p.start(t.Context(), pool, http.MethodGet)
	l.hear()
	l.say("HTTP/1.1 2")
	_ = l.Close()
	if o := <-got; o.err == nil {
		t.Errorf("got %d", o.StatusCode)
	}
	got = p.start(t.Context(), pool, http.MethodGet)
	l = <-p.in
	l.hear()
	_ = l.Close()
	if o := <-got; o.err == nil {
		t.Errorf("got %d", o.StatusCode)
	}
	p.wantNoMore()
}

func TestContextEndsAnExchange(t *testing.T) {
	for name, before := range map[string]string{"before the answer": "", "within it": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t)
			ctx, cancel := context.WithCancel(t.Context())
			got := p.start(ctx, new(Pool), http.MethodGet)
			l := <-p.in
			l.hear()
			l.say(before)
			cancel()
			if o := <-got; !errors.Is(o.err, context.Canceled) || errors.Is(o.err, ErrLate) {
				t.Errorf("got %v", o.err)
			}
			l.wantGone()
		})
	}
	p := newPeer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := <-p.start(ctx, new(Pool), http.MethodGet); !errors.Is(o.err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", o.err)
	}
	p.wantNoMore()
}

func TestLateAnswer(t *testing.T) {
	p, pool := newPeer(t), new(Pool)
	l := p.warm(pool)
	got := p.start(t.Context(), pool, http.MethodGet, func(q *Request) { q.Within = time.Millisecond })
	if o := <-got; !errors.Is(o.err, ErrLate) || !errors.Is(o.err, context.DeadlineExceeded) {
		t.Errorf("got %v", o.err)
	}
	_, _ = io.Copy(io.Discard, l) // ends when the client has closed
	p.wantNoMore()
}

func TestDialErrorsAreTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, addr: l.Addr().String()}
	l.Close()
	o := <-p.start(t.Context(), new(Pool), http.MethodGet)
	var op *net.OpError
	if !errors.As(o.err, &op) || op.Op != "dial" || errors.Is(o.err, ErrLate) {
		t.Errorf("got %v", o.err)
	}
	o = <-p.start(t.Context(), new(Pool), http.MethodGet, func(q *Request) { q.Within = -1 })
	if !errors.As(o.err, &op) || op.Op != "dial" || !errors.Is(o.err, ErrLate) {
		t.Errorf("without any time: %v", o.err)
	}
}

// TestAnswerBeforeTheBodyIsRead: a server may refuse a long body before reading
// it, and close.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	p := newPeer(t)
	got := p.start(t.Context(), new(Pool), http.MethodPut, func(q *Request) { q.Body = make([]byte, 64<<20) })
	l := <-p.in
	l.hear()
	l.say("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
	_ = l.CloseWrite()
	_, _ = io.CopyN(io.Discard, l, 1<<20)
	go func() { _, _ = io.Copy(io.Discard, l) }()
	if o := <-got; o.err != nil || o.StatusCode != http.StatusRequestEntityTooLarge || string(o.Body) != "no" {
		t.Errorf("got %d, %q, %v", o.StatusCode, o.Body, o.err)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	p, pool := newPeer(t), new(Pool)
	l := p.warm(pool)
	pool.reap(time.Now().Add(-time.Hour))
	if len(pool.idle[p.addr]) != 1 {
		t.Error("a connection that was used a moment ago is closed")
	}
	pool.reap(time.Now().Add(time.Hour))
	l.wantGone()
	if len(pool.idle) > 0 || pool.reaper != nil {
		t.Errorf("left behind: %v, %v", pool.idle, pool.reaper)
	}
	l = p.warm(pool)
	pool.CloseIdle()
	l.wantGone()
}

// TestIdleOverASleep: a connection that was idle while the machine slept is not used.
func TestIdleOverASleep(t *testing.T) {
	p, pool := newPeer(t), new(Pool)
	old := p.warm(pool)
	pool.idle[p.addr][0].since = time.Now().Round(0).Add(-idleTime * 3 / 2)
	got := p.start(t.Context(), pool, http.MethodPost)
	l := <-p.in
	l.hear()
	l.say(ok)
	wantBody(t, got, "ok")
	old.wantGone()
}

// TestConnectionDialledAside: a connection dialled for a request aside is
// closed after the answer. A connection that was idle before stays open.
func TestConnectionDialledAside(t *testing.T) {
	p, pool := newPeer(t), new(Pool)
	aside := func(take func() *link) *link {
		q := &Request{Method: http.MethodGet, Addr: p.addr, Host: "h", Target: "/", Within: within, Aside: true}
		done := make(chan error, 1)
		go func() { _, err := pool.Do(t.Context(), q, new(bytes.Buffer), 1<<20); done <- err }()
		l := take()
		l.hear()
		l.say(ok)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return l
	}
	aside(func() *link { return <-p.in }).wantGone()
	l := p.warm(pool)
	aside(func() *link { return l })
	if len(pool.idle[p.addr]) != 1 {
		t.Error("a connection that was idle before the request is closed")
	}
	p.wantNoMore()
}

func TestRequestOnTheWire(t *testing.T) {
	for _, test := range []struct {
		q    Request
		want string
	}{
		{Request{Method: "GET", Host: "h:1", Target: "/a%20b?c=d", Header: []byte("X: y\r\n")}, "GET /a%20b?c=d HTTP/1.1\r\nHost: h:1\r\nX: y\r\n\r\n"},
		{Request{Method: "PUT", Host: "h", Target: "/", Body: []byte("{}")}, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"},
		{Request{Method: "POST", Host: "h", Target: "/"}, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
	} {
		near, far := net.Pipe()
		got := make(chan string, 1)
		go func() { b, _ := io.ReadAll(far); got <- string(b) }()
		c := newConn(near)
		if err := c.send(&test.q, &firstByteWait{c: c, watchdog: new(Watchdog)}); err != nil {
			t.Fatal(err)
		}
		near.Close()
		if g := <-got; g != test.want {
			t.Errorf("got %q, want %q", g, test.want)
		}
	}
}
