package tracing_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"

	"github.com/stoutlock/stout/internal/tracing"
)

// TestLostSpans: spans that the collector refuses are logged. The handler of errors
// that belongs to the whole program is not called, and stays.
func TestLostSpans(t *testing.T) {
	called := 0
	own := otel.ErrorHandlerFunc(func(error) { called++ })
	otel.SetErrorHandler(own)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer collector.Close()
	var log bytes.Buffer
	traces, err := tracing.Open(t.Context(), tracing.Settings{Endpoint: collector.URL, Share: 1, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Tracer().Start(t.Context(), "call")
	span.End()
	if err := traces.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if called != 0 || strings.Count(log.String(), "spans of traces are lost") != 1 {
		t.Errorf("the program's handler was called %d times, the log is %q", called, log.String())
	}
	if otel.Handle(http.ErrServerClosed); called != 1 {
		t.Error("the program's handler was replaced")
	}
}
