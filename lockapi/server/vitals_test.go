package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

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
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	readReply(t, resp).wantStatus(t, http.StatusCreated)
	wantSeries(t, m, "stout_http_half_sent_bytes 0", "stout_http_half_sent_cut_total 0", "stout_http_unread_bytes 0", "stout_http_unread_cut_total 0")
	dial(t, m)
	dial(t, m)
	eventually(t, "one has made way", func() bool { return gauge(t, m, "stout_http_connections_evicted_total") > 0 })
}
