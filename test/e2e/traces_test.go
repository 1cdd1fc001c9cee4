package e2e_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

type span struct{ name, trace, id, parent, replica string }

// spanCollector receives spans by OTLP over HTTP.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
}

func collectSpans(t *testing.T) *spanCollector {
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.collect(r); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) collect(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		replica := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.instance.id" {
				replica = a.Value.GetStringValue()
			}
		}
		for _, in := range of.ScopeSpans {
			for _, s := range in.Spans {
				c.spans = append(c.spans, span{s.Name, hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), replica})
			}
		}
	}
	return nil
}

// TestTraces: a call with a trace is followed from the replica that received
// it, through the master, into the log. A call without a trace is not, unless a
// share of calls starts a trace.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := collectSpans(t)
	c := cell.New(t, cell.Options{Args: append([]string{"--trace-endpoint", collector.URL}, still...)})
	master := c.Ready(t)
	other := c.Others(master)[0]
	s := open(t, master, aWhile)
	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	body := `{"session":"` + s.ID + `"}`
	for _, recorded := range []string{"-00", "-01"} {
		q, err := http.NewRequestWithContext(cell.Bounded(t), http.MethodPut, other.URL+lockapi.RouteLocks+"/traced", strings.NewReader(body))
		must(t, err)
		q.Header.Set("Traceparent", "00-"+trace+"-"+caller+recorded)
		resp, err := other.Via().Do(q)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		if recorded == "-00" {
			call[any](t, other, http.MethodDelete, releaseRoute("/traced", s.ID, "", 0), nil)
		}
	}
	must(t, c.Stop(cell.Bounded(t))) // sends the last spans
	collector.mu.Lock()
	defer collector.mu.Unlock()
	above := caller
	for _, want := range []struct{ name, replica string }{
		{"PUT /v1/locks/{path}", other.ID}, {"forward", other.ID}, {"PUT /v1/locks/{path}", master.ID},
	} {
		above = collector.below(t, trace, above, want.name, want.replica)
	}
	collector.below(t, trace, above, "queue", master.ID)
	collector.below(t, trace, above, "commit", master.ID)
	if len(collector.spans) != 5 {
		t.Errorf("the collector received %+v", collector.spans)
	}
}

// below returns the id of the only span below another.
func (c *spanCollector) below(t *testing.T, trace, parent, name, replica string) string {
	t.Helper()
	for _, s := range c.spans {
		if s.trace == trace && s.parent == parent && s.name == name && s.replica == replica {
			return s.id
		}
	}
	t.Fatalf("no span %q of %s below %s among %+v", name, replica, parent, c.spans)
	return ""
}
