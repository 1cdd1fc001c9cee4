package server_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi/server"
)

// startReal serves a real master over an in-memory log until the test ends, and
// accepts calls of others, too.
func startReal(t *testing.T, tune ...func(*server.Options)) (url string, s *server.Server) {
	t.Helper()
	url, _, s = startOneLog(t, tune...)
	return url, s
}

// startOneLog is startReal, and returns the log as well.
func startOneLog(t *testing.T, tune ...func(*server.Options)) (url string, log *memlog.Cell, s *server.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url = "http://" + l.Addr().String()
	m, log, _ := newOffice(memlog.Options{URL: func(string) string { return url }, Broken: func(err error) { t.Error(err) }})
	calls := newLinks(t, newStandIn(t, "r1"))
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
		endOffice(m, log)
	})
	return url, log, s
}
