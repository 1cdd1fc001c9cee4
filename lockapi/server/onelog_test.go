package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// startReal serves a real master over a log in memory, until the test ends, and
// takes calls of others, too.
func startReal(t *testing.T, tune ...func(*server.Options)) (url string, s *server.Server) {
	t.Helper()
	url, _, s = startOneLog(t, tune...)
	return url, s
}

// startOneLog is startReal, and returns the log as well.
func startOneLog(t *testing.T, tune ...func(*server.Options)) (url string, log *memlog.Cell, s *server.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url = "http://" + l.Addr().String()
	log = memlog.New(1, memlog.Options{URL: func(string) string { return url }, Broken: func(err error) { t.Error(err) }})
	log.SetDelay(0)
	n := log.Nodes()[0]
	m := master.New(n, n, master.Options{Cell: "test", ID: n.ID(), Version: "v1", LeaseTerm: 2 * time.Second, Clock: n.Clock, Logger: zerolog.Nop()})
	calls := newLinks(t, newFake(t, "r1"))
	callPorts.Store(l.Addr().String(), calls.Calls().Addr().String())
	opts := server.Options{Master: m, Links: calls, Logger: zerolog.Nop(), AttemptEvery: time.Nanosecond}
	for _, f := range tune {
		f(&opts)
	}
	s = server.New(opts)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		callPorts.Delete(l.Addr().String())
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		_ = m.Close(ctx)
		log.Close()
	})
	log.Elect(n)
	eventually(t, "an office", func() bool { return m.Known().Self })
	return url, log, s
}
