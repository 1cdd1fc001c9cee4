package call

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestSentAgainByTransport: net/http repeats a call with a key by itself when
// the connection breaks. A failure to connect then does not prove that the call
// never arrived.
func TestSentAgainByTransport(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan string, 2)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for i := range 2 {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			arrived <- req.Method + " " + req.Header.Get(lockapi.HeaderIdempotencyKey)
			if i == 1 {
				l.Close()
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	}()
	to, err := parseEndpoint("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &Caller{transports: map[string]*transport{"": {given: new(http.Transport)}}, direct: makeHeaders("", "")}
	defer c.closeIdle()
	send := func(method, key string) error {
		q := Call{Method: method, Path: "/v1/files/a", Body: []byte("x")}
		if key != "" {
			q.Under(key)
		}
		_, err := c.roundTrip(t.Context(), &Route{To: to}, &q, 10*time.Second, new(bytes.Buffer))
		return err
	}
	if err := send(http.MethodGet, ""); err != nil {
		t.Fatal(err)
	}
	err = send(http.MethodPut, "k")
	if first, second := <-arrived, <-arrived; first != "GET " || second != "PUT k" {
		t.Fatalf("arrived: %q, %q", first, second)
	}
	if err == nil || isDialError(err) {
		t.Errorf("%v: it reports that the call was not sent", err)
	}
	if err := send(http.MethodPut, "k"); !isDialError(err) {
		t.Errorf("%v: want a dial error", err)
	}
}
