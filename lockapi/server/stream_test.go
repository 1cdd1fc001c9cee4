package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// streamOf is a handler for a stream of events: it flushes after each, ends
// with its caller and when the server stops, and leaves the rest to the server.
func streamOf(events <-chan string, ended chan<- string) func(*exchange) error {
	return func(x *exchange) error {
		h := x.c.Writer.Header()
		x.stamp(h)
		h["Content-Type"] = []string{"text/event-stream"}
		x.c.Writer.Flush()
		for id := 1; ; id++ {
			select {
			case data := <-events:
				if _, err := fmt.Fprintf(x.c.Writer, "id: %d\ndata: %s\n\n", id, data); err != nil {
					ended <- "the caller does not read"
					return nil
				}
				x.c.Writer.Flush()
			case <-x.ctx().Done():
				ended <- "the caller has left"
				return nil
			case <-x.stopping:
				ended <- "the server stops"
				return nil
			}
		}
	}
}

// A handler streams through the router: each event arrives at once, and the
// stream ends with its caller, with the server, or with the time limit of a
// piece.
func TestStreams(t *testing.T) {
	events, ended := make(chan string), make(chan string, 1)
	streams := table{{method: http.MethodGet, template: "/v1/events", pattern: "/v1/events", handle: streamOf(events, ended)}}
	s := New(Options{Master: knowing{}, WriteTimeout: 50 * time.Millisecond})
	engine := s.engineOf(false, streams, errNoRoute)
	s.api.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(engine, w, r) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	open := func() *http.Response {
		resp, err := http.Get("http://" + l.Addr().String() + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	want := func(lines *bufio.Scanner, text string) {
		for _, line := range strings.Split(text, "\n") {
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("%q instead of %q", lines.Text(), line)
			}
		}
	}

	resp := open()
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Stout-Epoch") != "7" || len(resp.TransferEncoding) != 1 {
		t.Errorf("the head is %+v", resp)
	}
	lines := bufio.NewScanner(resp.Body)
	for id, data := range []string{"one", "two", strings.Repeat("x", 50<<10)} {
		events <- data
		want(lines, fmt.Sprintf("id: %d\ndata: %s\n", id+1, data))
	}
	resp.Body.Close()
	if why := <-ended; why != "the caller has left" {
		t.Error(why)
	}

	resp = open() // and reads nothing
	long := strings.Repeat("x", 10<<20)
	for why := ""; why == ""; {
		select {
		case events <- long:
		case why = <-ended:
		}
	}
	resp.Body.Close()

	resp = open()
	lines = bufio.NewScanner(resp.Body)
	events <- "last"
	want(lines, "id: 1\ndata: last\n")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if why := <-ended; why != "the server stops" || lines.Scan() || lines.Err() != nil {
		t.Errorf("%s: %q, %v", why, lines.Text(), lines.Err())
	}
	resp.Body.Close()
}
