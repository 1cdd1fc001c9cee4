package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

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
	got := call(t, "GET", n.url+"/metrics", "")
	got.wantStatus(t, http.StatusOK)
	if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain") {
		t.Errorf("Content-Type %q", ct)
	}
	for _, want := range []string{
		`stout_http_requests_total{method="GET",route="/v1/locks/{path}",status="200"} 2`,
		`stout_http_requests_total{method="GET",route="/v1/locks/{path}",status="400"} 1`,
		`stout_http_requests_total{method="GET",route="other",status="404"} 1`,
		`stout_http_requests_total{method="other",route="other",status="404"} 1`,
		`stout_http_request_duration_seconds_count{method="GET",route="/v1/locks/{path}",status="200"} 2`,
		`stout_http_requests_in_flight 1`,
		`stout_build_info{version="v1"} 1`,
		`stout_quota_max{quota="max-session-holds"} 0`, `stout_quota_used{quota="max-holds"} 0`, `stout_quota_refused_total{quota="max-holds"} 0`,
		"go_goroutines ", "process_open_fds ", "go_build_info{",
	} {
		if !strings.Contains(got.body, "\n"+want) {
			t.Errorf("no %s in\n%s", want, got.body)
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
