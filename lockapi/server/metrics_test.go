package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// counted sums the counter's series with the method and the route.
func counted(t *testing.T, n *node, name, method, route string) int {
	t.Helper()
	families, err := n.registry.Gather()
	must(t, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["method"] == method && labels["route"] == route {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

func TestMetrics(t *testing.T) {
	n := startMaster(t, nil)
	for _, path := range []string{"/v1/locks/a", "/v1/locks/b/c", "/v1/locks/.."} {
		call(t, "GET", n.url+path, "")
	}
	call(t, "GET", n.url+"/nowhere", "")
	call(t, "BREW", n.url+"/nowhere", "")
	got := call(t, "GET", n.url+"/metrics", "").wantStatus(t, http.StatusOK)
	if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain") {
		t.Errorf("Content-Type %q", ct)
	}
	for _, want := range []string{
		`stout_http_requests_total{from="client",method="GET",route="/v1/locks/{path}",status="200"} 2`,
		`stout_http_requests_total{from="client",method="GET",route="/v1/locks/{path}",status="400"} 1`,
		`stout_http_requests_total{from="client",method="GET",route="other",status="404"} 1`,
		`stout_http_requests_total{from="client",method="other",route="other",status="404"} 1`,
		`stout_http_request_duration_seconds_count{from="client",method="GET",route="/v1/locks/{path}",status="200"} 2`,
		`stout_http_requests_in_flight 1`,
		`stout_build_info{version="v1"} 1`,
		`stout_quota_max{quota="max-session-holds"} 0`, `stout_quota_used{quota="max-holds"} 0`, `stout_quota_refused_total{quota="max-holds"} 0`,
		"go_goroutines ", "process_open_fds ", "go_build_info{",
	} {
		if !strings.Contains(got.body, "\n"+want) {
			t.Errorf("no %s in\n%s", want, got.body)
		}
	}
	call(t, "GET", startReplica(t, n.url, nil).url+"/v1/locks/a", "").wantStatus(t, http.StatusOK)
	after := call(t, "GET", n.url+"/metrics", "").body
	for _, want := range []string{`client",method="GET",route="/v1/locks/{path}",status="200"} 2`, `replica",method="GET",route="/v1/locks/{path}",status="200"} 1`} {
		if want = `stout_http_requests_total{from="` + want; !strings.Contains(after, want) {
			t.Errorf("a forwarded call: no %s", want)
		}
	}
	for _, bad := range []string{"/b/c", "BREW", "nowhere", `stout_quota_used{quota="max-session-holds"}`} {
		if strings.Contains(got.body, bad) {
			t.Errorf("%s makes a series", bad)
		}
	}
}

// The checksum always has two series, without labels.
func TestChecksumIsANumber(t *testing.T) {
	var index uint64
	sum := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x17}
	n := startMaster(t, func(o *server.Options) {
		o.Checksum = func() (uint64, []byte, bool) { return index, sum, index > 0 }
	})
	for _, want := range []string{"_index 0\n 0", "_index 7\n 2.81474976710654e+14", "_index 9\n 2.81474976710654e+14"} {
		var got []string
		for line := range strings.SplitSeq(call(t, "GET", n.url+"/metrics", "").body, "\n") {
			if series, ok := strings.CutPrefix(line, "stout_state_checksum"); ok {
				got = append(got, series)
			}
		}
		slices.Sort(got)
		slices.Reverse(got)
		if strings.Join(got, "\n") != want {
			t.Errorf("series %q, want %q", got, want)
		}
		index = max(index+2, 7)
	}
}

func TestForwardedIsCounted(t *testing.T) {
	_, replica := startPair(t, nil)
	call(t, "POST", replica.url+"/v1/sessions", "")
	if got := call(t, "GET", replica.url+"/metrics", ""); !strings.Contains(got.body, `stout_http_forwarded_total{result="answered"} 1`) {
		t.Error(got.body)
	}
}

func TestRegistryMayHaveTheSharedCollectors(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector())
	server.New(server.Options{Master: newStandIn(t, "r1"), Registry: r})
}

// wantSeries checks that the metrics have each line.
func wantSeries(t *testing.T, n *node, lines ...string) {
	t.Helper()
	page := "\n" + call(t, "GET", n.url+"/metrics", "").body
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			name, _, _ = strings.Cut(name, "{")
			got := "no such series"
			for l := range strings.SplitSeq(page, "\n") {
				if strings.HasPrefix(l, name) {
					got = l
				}
			}
			t.Errorf("no %q: %s", line, got)
		}
	}
}

// A replica's metrics appear under their names, times in seconds.
func TestVitals(t *testing.T) {
	var set metric.Set
	set.Gauge("stout_test_files", "Files.", func() float64 { return 15 })
	set.Counter("stout_test_offices_total", "Offices.", func() uint64 { return 6 })
	set.Gauges("stout_test_quota_used", "Used.", []string{"quota"}, func(show metric.Show) { show(7, "max-holds") })
	set.Histogram("stout_test_commit_duration_seconds", "Commits.", 0, 10*time.Millisecond, time.Second).Observe(5 * time.Millisecond)
	steps := metric.Family{Name: "stout_test_step_duration_seconds", Label: "step", Bounds: []time.Duration{time.Second}}
	set.In(steps, "first").Observe(time.Millisecond)
	set.In(steps, "second").Observe(2 * time.Millisecond)
	n := startMaster(t, func(o *server.Options) { o.Metrics = set })
	n.setReplicas(lockapi.Replica{ID: "r1", URL: n.url}, lockapi.Replica{ID: "r2"})
	wantSeries(t, n,
		"stout_test_files 15", "# TYPE stout_test_files gauge", "stout_test_offices_total 6", "# TYPE stout_test_offices_total counter", `stout_test_quota_used{quota="max-holds"} 7`,
		`stout_test_commit_duration_seconds_bucket{le="0"} 0`, `stout_test_commit_duration_seconds_bucket{le="0.01"} 1`, "stout_test_commit_duration_seconds_sum 0.005",
		`stout_test_step_duration_seconds_sum{step="first"} 0.001`, `stout_test_step_duration_seconds_sum{step="second"} 0.002`,
		`stout_member_up{replica="r1"} 1`, `stout_member_up{replica="r2"} 0`,
		`stout_http_forwarded_in_flight{side="sent"} 0`, `stout_http_forwarded_in_flight{side="served"} 0`,
		`stout_http_forwarded_total{result="answered"} 0`, `stout_http_forwarded_total{result="refused"} 0`, `stout_http_forwarded_total{result="failed"} 0`,
	)
}

// A follower's metrics include the others' applied indexes.
func TestVitalsOfAFollower(t *testing.T) {
	m, n := startPair(t, nil)
	n.setReplicas(lockapi.Replica{ID: "r1", URL: m.url}, lockapi.Replica{ID: "r2", URL: n.url})
	eventually(t, "the master was asked", func() bool {
		return strings.Contains(call(t, "GET", n.url+"/metrics", "").body, `stout_member_up{replica="r1"} 1`)
	})
	wantSeries(t, n, `stout_member_up{replica="r2"} 1`)
}

// The load by callers is shown, including what was cut off.
func TestLoad(t *testing.T) {
	n := full(t)
	call(t, "GET", n.url+"/livez", "").wantStatus(t, http.StatusOK)
	wantSeries(t, n, "stout_http_connections 3", "stout_http_max_connections 3", "stout_http_connections_spared_total 2",
		"stout_http_connections_dropped_total 0", "stout_http_connections_evicted_total 0")

	m := startMaster(t, func(o *server.Options) { o.MaxConnections = 2 })
	c := transmit(t, m, "POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat(" ", 4500))
	eventually(t, "half a body is there", func() bool { return gauge(t, m, "stout_http_half_sent_bytes") > 4500 })
	_, _ = fmt.Fprintf(c, "{}%498s", "")
	receive(t, bufio.NewReader(c)).wantStatus(t, http.StatusCreated)
	wantSeries(t, m, "stout_http_half_sent_bytes 0", "stout_http_half_sent_cut_total 0", "stout_http_unread_bytes 0", "stout_http_unread_cut_total 0")
	atDoor := *m
	atDoor.addr = doorOf(t, m)
	c = transmit(t, &atDoor, "PUT /v1/kv/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat(" ", 4500))
	eventually(t, "half a body is at the door", func() bool { return gauge(t, m, "stout_http_half_sent_bytes") > 4500 })
	must(t, c.Close())
	dial(t, m)
	dial(t, m)
	eventually(t, "one has made way", func() bool { return gauge(t, m, "stout_http_connections_evicted_total") > 0 })
}

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
// forwarding replica. Calls of monitoring have no span.
func TestTraces(t *testing.T) {
	traces, ended := traced(t)
	master := startMaster(t, traces)
	replica := startReplica(t, master.url, traces)
	call(t, "GET", replica.url+lockapi.RouteLive, "").wantStatus(t, 200)
	call(t, "GET", replica.url+lockapi.RouteMetrics, "").wantStatus(t, 200)
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
