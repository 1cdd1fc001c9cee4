package server_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// traced makes a server create spans, and returns the ended ones.
func traced(t *testing.T) (func(*server.Options), func() tracetest.SpanStubs) {
	kept := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(trace.WithSyncer(kept))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return func(o *server.Options) { o.Tracer = p.Tracer("test") }, kept.GetSpans
}

const (
	traceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersID = "00f067aa0ba902b7"
)

// awaitSpans waits for spans, since a span ends after the answer to its call.
func awaitSpans(t *testing.T, ended func() tracetest.SpanStubs, n int) tracetest.SpanStubs {
	t.Helper()
	for {
		if all := ended(); len(all) >= n {
			return all
		}
		if t.Context().Err() != nil {
			t.Fatalf("%d spans", len(ended()))
		}
		runtime.Gosched()
	}
}

// TestTraces: the span of a call is a child of its caller's, also through a
// forwarding replica. Calls that need no right have no span.
func TestTraces(t *testing.T) {
	traces, ended := traced(t)
	master := startMaster(t, traces)
	replica := startNode(t, "r2", traces)
	replica.setMaster(3, "r1", master.url)
	call(t, "GET", replica.url+lockapi.RouteLive, "").wantStatus(t, 200)
	call(t, "GET", replica.url+"/v1/locks/a", "", "Traceparent", "00-"+traceID+"-"+callersID+"-01").wantStatus(t, 200)
	spans := awaitSpans(t, ended, 3)
	byName := map[bool]tracetest.SpanStub{}
	var way tracetest.SpanStub
	for _, s := range spans {
		if s.SpanContext.TraceID().String() != traceID {
			t.Errorf("%s is of trace %s", s.Name, s.SpanContext.TraceID())
		}
		switch {
		case s.Name == "forward" && s.SpanKind == api.SpanKindClient:
			way = s
		case s.Name == "GET /v1/locks/{path}" && s.SpanKind == api.SpanKindServer:
			for _, a := range s.Attributes {
				if a.Key == "stout.forwarded" {
					byName[a.Value.AsBool()] = s
				}
			}
		default:
			t.Errorf("a span %q", s.Name)
		}
	}
	first, second := byName[false], byName[true]
	if first.Parent.SpanID().String() != callersID || way.Parent.SpanID() != first.SpanContext.SpanID() || second.Parent.SpanID() != way.SpanContext.SpanID() {
		t.Errorf("the spans are %+v", spans)
	}
}

// TestTracesOfFaults: failures of the cell are marked as errors; refusals have
// their code.
func TestTracesOfFaults(t *testing.T) {
	traces, ended := traced(t)
	master := startMaster(t, traces)
	call(t, "PUT", master.url+"/v1/locks/a", `{`).wantStatus(t, http.StatusBadRequest)
	master.setHook(func(context.Context, string) error { panic("x") })
	call(t, "POST", master.url+"/v1/sessions", "").wantCode(t, lockapi.CodeInternal)
	spans := awaitSpans(t, ended, 2)
	for i, want := range []struct {
		code   lockapi.Code
		status codes.Code
	}{{lockapi.CodeInvalidArgument, codes.Unset}, {lockapi.CodeInternal, codes.Error}} {
		told := ""
		for _, a := range spans[i].Attributes {
			if a.Key == "error.type" {
				told = a.Value.AsString()
			}
		}
		if told != string(want.code) || spans[i].Status.Code != want.status {
			t.Errorf("%+v", spans[i])
		}
	}
}

// TestOddTraceparents: a malformed traceparent is ignored.
func TestOddTraceparents(t *testing.T) {
	traces, ended := traced(t)
	master := startMaster(t, traces)
	odd := []string{"", "x", "00-" + traceID + "-" + callersID, "ff-" + traceID + "-" + callersID + "-01", "00-00000000000000000000000000000000-" + callersID + "-01"}
	for _, header := range odd {
		call(t, "GET", master.url+"/v1/locks/a", "", "Traceparent", header).wantStatus(t, 200)
	}
	for _, s := range awaitSpans(t, ended, len(odd)) {
		if s.Parent.IsValid() {
			t.Errorf("%+v", s)
		}
	}
}
