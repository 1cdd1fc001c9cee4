package server

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

func TestReasonOfWhatCannotBeParsedIsTold(t *testing.T) {
	s := New(Options{Master: knowing{}})
	got := string(s.refuse(http.StatusBadRequest, "missing required Host header"))
	for _, part := range []string{
		"HTTP/1.1 400 Bad Request\r\n", "\r\nStout-Epoch: 7\r\n", "\r\nContent-Type: application/problem+json\r\n",
		"\r\nConnection: close\r\n", `"detail":"missing required Host header"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}

// A request that was cut off before it was whole is told what to do.
func TestCrowdedOutIsTold(t *testing.T) {
	s := New(Options{Master: knowing{}})
	got := string(s.refuse(http.StatusTooManyRequests, ""))
	for _, part := range []string{"HTTP/1.1 429 Too Many Requests\r\n", "\r\nRetry-After: 1\r\n", `"code":"too_many"`, "send it again"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}

// Whoever has to make way for another connection begins no call: nobody knows
// how long that takes, and the other waits.
func TestMakingWayBeginsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Master: knowing{}, MaxConnections: 1})
		ours, theirs := net.Pipe()
		defer ours.Close()
		s.conns.admit()
		c := &conn{Conn: theirs, server: s}
		s.conns.waits(c)
		if !s.conns.busy(c) {
			t.Error("a call cannot begin")
		}
		s.conns.waits(c)
		var admitting sync.WaitGroup
		admitting.Go(func() {
			if !s.conns.admit() {
				t.Error("there is no room")
			}
		})
		synctest.Wait()
		if s.conns.busy(c) {
			t.Error("a call begins")
		}
		c.Close()
		admitting.Wait()
		if open, evicted, _ := s.conns.counts(); open != 1 || evicted != 1 {
			t.Errorf("%d open, %d evicted", open, evicted)
		}
	})
}
