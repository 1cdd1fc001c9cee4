package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// sure is a master with fixed answers.
type sure struct {
	*standIn
	lock lockapi.Lock
}

func newSure(t testing.TB) sure {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	s := sure{newStandIn(t, "r1"), lockapi.Lock{Path: "/bench/0", State: lockapi.StateHeld, Mode: lockapi.Exclusive, Holders: []lockapi.Holder{
		{Session: strings.Repeat("s", 26), SessionName: "bench", Handle: "h-1", Mode: lockapi.Exclusive, Token: 42, GrantedAt: at}}}}
	s.setMaster(3, "r1", "http://127.0.0.1:7101")
	return s
}

func (sure) Known() server.Location {
	return server.Location{Epoch: 3, Self: true, ID: "r1", URL: "http://127.0.0.1:7101"}
}

func (s sure) Do(_ context.Context, _ *master.Caller, _ bool, c lockapi.Call) (any, master.Outcome, error) {
	switch c := c.(type) {
	case *lockapi.AcquireLock:
		e := lockapi.Errorf(lockapi.CodeLockHeld, "lock %q is held by %q with token %d", c.Path, "bench", 7)
		e.Holders = s.lock.Holders
		return nil, master.Outcome{}, e
	case *lockapi.KeepAlive:
		return lockapi.Keepalive{TTLMS: 12000, HeldMS: 7998, Epoch: 3, Events: []lockapi.Event{}}, master.Outcome{}, nil
	}
	return s.lock, master.Outcome{}, nil
}

// hot are the most frequent requests, as the SDK sends them.
var hot = []struct{ name, method, path, body string }{
	{"read", "GET", "/v1/locks/bench/0", ""},
	{"refused", "PUT", "/v1/locks/bench/0", `{"session":"` + strings.Repeat("s", 26) + `","handle":"abcdefghijkl-1","mode":"exclusive","limit":0,"wait_ms":0,"queue":false,"lock_delay_ms":0}`},
	{"keepalive", "POST", "/v1/sessions/" + strings.Repeat("s", 26) + "/keepalive", `{"wait_ms":8000,"ack":0}`},
}

// blind is a ResponseWriter that drops the reply.
type blind http.Header

func (w blind) Header() http.Header         { return http.Header(w) }
func (w blind) Write(b []byte) (int, error) { return len(b), nil }
func (w blind) WriteHeader(int)             {}

// BenchmarkServe measures a request over a connection, including net/http and
// the system calls of both ends.
func BenchmarkServe(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := server.New(server.Options{Master: newSure(b)})
	go func() { _ = s.Serve(l) }()
	b.Cleanup(func() { _ = s.Shutdown(b.Context()) })
	for _, q := range hot {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			request := q.method + " " + q.path + " HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\nContent-Type: application/json\r\n" +
				"Stout-Forward: never\r\nUser-Agent: stout-client\r\nContent-Length: " + strconv.Itoa(len(q.body)) + "\r\n\r\n" + q.body
			in := bufio.NewReader(c)
			for b.Loop() {
				if _, err := io.WriteString(c, request); err != nil {
					b.Fatal(err)
				}
				if err := skipAnswer(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// skipAnswer reads one answer with a Content-Length.
func skipAnswer(in *bufio.Reader) error {
	for length := 0; ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if text, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(text))
		}
		if len(line) == len("\r\n") {
			_, err := in.Discard(length)
			return err
		}
	}
}

// changing is a master whose state changes before each answer.
type changing struct {
	sure
	revision *uint64
}

func (c changing) Known() server.Location {
	at := c.sure.Known()
	*c.revision++
	at.Revision = *c.revision
	return at
}

// TestChangesCostRepliesNothing: the headers of replies are made once for each
// master and epoch, not for each revision.
func TestChangesCostRepliesNothing(t *testing.T) {
	allocations := func(m server.Master) float64 {
		h := server.New(server.Options{Master: m}).Handler()
		return testing.AllocsPerRun(1000, func() {
			r, _ := http.NewRequest("GET", "/v1/locks/bench/0", nil)
			h.ServeHTTP(blind{}, r)
		})
	}
	still, moving := allocations(newSure(t)), allocations(changing{newSure(t), new(uint64)})
	if moving > still+1 { // the race detector drops pooled values at random
		t.Errorf("a read takes %v allocations, and %v while the state changes", still, moving)
	}
}
