package wire_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// leaving returns the ways in which this connection can disconnect.
func leaving(c net.Conn) map[string]func() {
	ways := map[string]func(){"close": func() { c.Close() }}
	if tcp, ok := c.(*net.TCPConn); ok {
		ways["half-close"] = func() { _ = tcp.CloseWrite() }
		ways["reset"] = func() { _ = tcp.SetLinger(0); c.Close() }
	}
	if secured, ok := c.(*tls.Conn); ok {
		ways["half-close"] = func() { _ = secured.CloseWrite() }
		ways["without a word"] = func() { secured.NetConn().Close() }
		ways["reset"] = func() { _ = secured.NetConn().(*net.TCPConn).SetLinger(0); secured.NetConn().Close() }
	}
	return ways
}

// behind is what callers may send after a request, up to the amount that is
// kept.
var behind = map[string]string{
	"nothing":          "",
	"a byte":           "G",
	"a line end":       "\r\n",
	"garbage":          "\x00\x01\x02",
	"half a head":      "GET /b HTTP/1.1\r\nHost: x\r\nA: ",
	"half a body":      "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
	"half a chunk":     "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nabc",
	"a request":        "GET /b HTTP/1.1\r\nHost: x\r\n\r\n",
	"one that waits":   "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
	"many":             strings.Repeat("GET /b HTTP/1.1\r\nHost: x\r\n\r\n", 100),
	"as much as kept":  strings.Repeat("x", 4<<10-1),
	"a request and 1G": "GET /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n",
}

// A call ends when its caller disconnects, with any input after
// the request, sent with it or later.
func TestCallersThatLeaveMoreBehind(t *testing.T) {
	over(t, func(t *testing.T, listen func() (net.Listener, func() (net.Conn, error))) {
		w := newWaiting()
		h := start(t, listen, w.answer)
		first := h.connect(t)
		first.Close()
		for name, more := range behind {
			for _, later := range []bool{false, true} {
				for way := range leaving(first.Conn) {
					c := h.connect(t)
					if later {
						c.send(get("/wait"))
						<-w.entered
						c.sendAll(more)
					} else {
						c.sendAll(get("/wait") + more)
						<-w.entered
					}
					leaving(c.Conn)[way]()
					select {
					case <-w.gone:
					case <-time.After(20 * time.Second):
						t.Fatalf("%s, later=%v, %s: the call goes on", name, later, way)
					}
					c.Close()
				}
			}
		}
		waitFor(t, "all have ended", func() bool { return h.open.Load() == 0 })
	})
}

// sendAll sends input that the server reads at once.
func (c *client) sendAll(text string) {
	c.t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// Requests read during a call are answered after it, without delay.
func TestRequestsBehindACallThatWaits(t *testing.T) {
	for name, pieces := range map[string]int{"at once": 1 << 20, "in pieces": 7} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting()
				h := start(t, pipe, w.answer)
				c := h.connect(t)
				began := time.Now()
				c.send(get("/wait"))
				<-w.entered
				text := ""
				for n := range 100 {
					text += get(fmt.Sprintf("/%d", n))
				}
				for _, p := range split(text+get("/wait")+get("/end"), pieces) {
					c.sendAll(p)
				}
				w.release <- struct{}{}
				c.want("200 GET /wait")
				for n := range 100 {
					c.want(fmt.Sprintf("200 GET /%d", n))
				}
				<-w.entered
				w.release <- struct{}{}
				c.want("200 GET /wait")
				c.want("200 GET /end")
				if took := time.Since(began); took > 0 {
					t.Errorf("it took %v", took)
				}
				c.Close()
			})
		})
	}
}

// flooding sends requests without end, and reports how many bytes were
// accepted.
func flooding(c *client, ended chan<- int) {
	taken := 0
	for n := 0; ; n++ {
		wrote, err := io.WriteString(c, get(fmt.Sprintf("/%d", n)))
		if taken += wrote; err != nil {
			ended <- taken
			return
		}
	}
}

// If a caller sends without end during a waiting call, little is kept. The
// connection is closed, since a disconnect could not be detected.
func TestFloodsEndTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		h := start(t, pipe, w.answer)
		c := h.connect(t)
		began, ended := time.Now(), make(chan int)
		c.send(get("/wait"))
		<-w.entered
		go flooding(c, ended)
		<-w.gone
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the call ends after %v", took)
		}
		if taken := <-ended; taken < 4<<10 || taken > 16<<10 {
			t.Errorf("%d bytes were taken", taken)
		}
		c.wantEnd()
	})
}

// Many requests during a short call are all answered after it.
func TestManyRequestsBehindAShortCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		h := start(t, pipe, w.answer)
		c := h.connect(t)
		ended := make(chan int, 1)
		for range 3 {
			c.send(get("/wait"))
			<-w.entered
			go func() {
				for n := range 1000 {
					if _, err := io.WriteString(c, get(fmt.Sprintf("/%d", n))); err != nil {
						t.Error(err)
					}
				}
				ended <- 0
			}()
			time.Sleep(4 * time.Second)
			w.release <- struct{}{}
			c.want("200 GET /wait")
			for n := range 1000 {
				c.want(fmt.Sprintf("200 GET /%d", n))
			}
			<-ended
			time.Sleep(10 * time.Second) // past the time of the flood
		}
		c.Close()
	})
}

// The call of a caller that disconnects ends after a while, even if reading has
// stopped because of a flood.
func TestFloodsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		h := start(t, pipe, w.answer)
		c := h.connect(t)
		c.send(get("/wait"))
		<-w.entered
		c.sendAll(strings.Repeat("x", 4<<10))
		c.Close()
		<-w.gone
		waitFor(t, "it has ended", func() bool { return h.open.Load() == 0 })
	})
}

// A flood closes only its own connection, neither others nor the caller's next
// one.
func TestFloodTimeIsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		h := start(t, pipe, w.answer)
		c := h.connect(t)
		c.send(get("/wait"))
		<-w.entered
		many := strings.Repeat(get("/b"), 200)
		c.send(many + get("/wait"))
		time.Sleep(4 * time.Second)
		w.release <- struct{}{}
		c.want("200 GET /wait")
		for range 200 {
			c.want("200 GET /b")
		}
		<-w.entered
		time.Sleep(4 * time.Second)
		select {
		case <-w.gone:
			t.Error("the next call was ended for the flood behind the one before")
		default:
		}
		w.release <- struct{}{}
		if got, _ := c.next(http.MethodGet); got != "200 GET /wait" {
			t.Errorf("%q", got)
		}
		c.Close()
	})
}

// A request that began during a call has the usual time limits.
func TestHalfARequestBehindACall(t *testing.T) {
	for name, half := range map[string]struct{ text, rest, want string }{
		"head": {"GET /b HTTP/1.1\r\nHost: ", "x\r\n\r\n", "200 GET /b"},
		"body": {"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nh", "i", "200 POST /b hi"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaiting()
				h := start(t, pipe, w.answer)
				c := h.connect(t)
				c.send(get("/wait") + half.text)
				<-w.entered
				w.release <- struct{}{}
				c.want("200 GET /wait")
				time.Sleep(4 * time.Second)
				c.send(half.rest)
				c.want(half.want)
				c.Close()
			})
		})
	}
}
