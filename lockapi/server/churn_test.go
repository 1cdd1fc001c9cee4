package server_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// However callers use their connections, and however many more there are than
// places, each place is freed once and no caller waits for one in vain.
func TestConnectionsComeAndGo(t *testing.T) {
	const live = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	n := few(t, 6)
	entered, release := hold(n)
	defer release()
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case <-entered:
			}
		}
	}()
	texts := []string{
		"", "GET /livez HT", live, live + live, live + "GET", "nonsense\r\n\r\n",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
		"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n{",
		"GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n\r\nG",
	}
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			for range 60 {
				c, err := net.Dial("tcp", n.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(c, texts[rand.IntN(len(texts))])
				if rand.IntN(2) == 0 {
					_ = c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(5)) * time.Millisecond))
					_, _ = c.Read(make([]byte, 1000))
				}
				_ = c.Close()
			}
		})
	}
	callers.Wait()
	release()
	eventually(t, "all places are free", func() bool { return gauge(t, n, "stout_http_connections") == 0 })
	for range 20 {
		c := transmit(t, n, live)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("a call: %q, %v", line, err)
		}
	}
}
