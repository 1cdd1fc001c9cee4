package otelstout_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/otelstout"
	"github.com/stoutlock/stout/lockapi"
)

// replica gives each call the same answer, and records its headers.
type replica struct {
	*httptest.Server
	mu     sync.Mutex
	got    []http.Header
	status int
	body   string
}

func start(t *testing.T, status int, body string) *replica {
	r := &replica{status: status, body: body}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, q.Header)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(r.status)
		_, _ = w.Write([]byte(r.body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *replica) headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// record returns a provider and its ended spans, in the order of their ends.
func record(t *testing.T) (*trace.TracerProvider, func() tracetest.SpanStubs) {
	kept := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(trace.WithSyncer(kept))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, kept.GetSpans
}

const refused = `{"type":"x","title":"x","status":404,"code":"not_found","detail":"no"}`

// TestSpans: a call and each of its attempts is a span. The attempt's span is
// sent to the replica. A refusal by the cell is not marked as an error.
func TestSpans(t *testing.T) {
	second := start(t, http.StatusNotFound, refused)
	first := start(t, http.StatusMisdirectedRequest, `{"type":"x","title":"x","status":421,"code":"not_master","detail":"no","master":"`+second.URL+`"}`)
	provider, ended := record(t)
	c, err := client.Config{URLs: []string{first.URL, second.URL}, Tracer: otelstout.New(provider)}.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, job := provider.Tracer("test").Start(t.Context(), "job")
	if _, err := c.Get(ctx, "/a/b"); !errors.Is(err, client.ErrNotFound) {
		t.Fatal(err)
	}
	job.End()
	spans := ended()
	if len(spans) != 4 {
		t.Fatalf("%d spans: %+v", len(spans), spans)
	}
	one, two, call := spans[0], spans[1], spans[2]
	if call.Name != "stout GET /v1/files/{}" || call.Parent.SpanID() != job.SpanContext().SpanID() || call.Status.Code != codes.Unset {
		t.Errorf("the call's span is %+v", call)
	}
	if !has(call, attribute.String("stout.path", "/v1/files/a/b")) || !has(call, attribute.String("error.type", "not_found")) {
		t.Errorf("the call's attributes are %v", call.Attributes)
	}
	for i, at := range []struct {
		span   tracetest.SpanStub
		to     *replica
		status int
	}{{one, first, 421}, {two, second, 404}} {
		if at.span.Name != "GET /v1/files/{}" || at.span.SpanKind != api.SpanKindClient || at.span.Parent.SpanID() != call.SpanContext.SpanID() {
			t.Errorf("attempt %d has span %+v", i, at.span)
		}
		if !has(at.span, attribute.Int("http.response.status_code", at.status)) || !strings.Contains(at.to.URL, port(at.span)) {
			t.Errorf("attempt %d has attributes %v", i, at.span.Attributes)
		}
		got := at.to.headers()
		if len(got) != 1 {
			t.Fatalf("replica %d received %v", i, got)
		}
		sent := api.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), propagation.HeaderCarrier(got[0])))
		if sent.SpanID() != at.span.SpanContext.SpanID() || sent.TraceID() != job.SpanContext().TraceID() {
			t.Errorf("attempt %d was sent as %v", i, got[0])
		}
	}
}

// TestNoParent: without a span in the context, no span is made or sent.
func TestNoParent(t *testing.T) {
	r := start(t, http.StatusNotFound, refused)
	provider, ended := record(t)
	c, err := client.Config{URLs: []string{r.URL}, Tracer: otelstout.New(provider)}.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), "/a"); !errors.Is(err, client.ErrNotFound) {
		t.Fatal(err)
	}
	if len(ended()) > 0 || len(r.headers()) != 1 || r.headers()[0].Get("Traceparent") != "" {
		t.Errorf("%v, %v", ended(), r.headers())
	}
}

// TestFaults: the spans of a call that the cell failed to do are marked as
// errors.
func TestFaults(t *testing.T) {
	r := start(t, http.StatusInternalServerError, `{"type":"x","title":"x","status":500,"code":"internal","detail":"no"}`)
	provider, ended := record(t)
	tracer := otelstout.New(provider)
	c, err := client.Config{URLs: []string{r.URL}, Tracer: tracer}.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, job := provider.Tracer("test").Start(t.Context(), "job")
	if _, err := c.Get(ctx, "/a"); !errors.Is(err, lockapi.CodeInternal) {
		t.Fatal(err)
	}
	job.End()
	for _, s := range ended()[:2] {
		if s.Status.Code != codes.Error {
			t.Errorf("%s has status %+v", s.Name, s.Status)
		}
	}
}

func has(s tracetest.SpanStub, want attribute.KeyValue) bool {
	for _, a := range s.Attributes {
		if a == want {
			return true
		}
	}
	return false
}

// port returns a span's port as it appears in a URL.
func port(s tracetest.SpanStub) string {
	for _, a := range s.Attributes {
		if a.Key == "server.port" {
			return ":" + a.Value.String()
		}
	}
	return "none"
}
