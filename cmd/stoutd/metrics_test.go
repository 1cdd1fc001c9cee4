package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/stoutlock/stout/internal/jwttest"
)

// metricsPage returns the metrics of a cell of one replica that has a master.
func metricsPage(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	dir, https := newCerts(t)
	serving(t, append(append(tlsFlags(dir), jwtFlags(t, jwttest.New())...), devFlags("127.0.0.1:"+port, "--log-level", "error", "--audit-log", filepath.Join(dir, "audit.log"))...)...)
	page, again := "", time.NewTicker(10*time.Millisecond)
	defer again.Stop()
	for timeout := time.After(time.Minute); !strings.Contains(page, "\nstout_is_master 1\n") || !strings.Contains(page, "\nstout_quota_used{"); {
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("no master: %s", page)
		}
		if resp, err := https.Get("https://127.0.0.1:" + port + "/metrics"); err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			page = string(text)
		}
	}
	return page
}

var (
	shownType = regexp.MustCompile(`(?m)^# TYPE (stout_\w+) (\w+)$`)
	series    = regexp.MustCompile(`(?m)^(stout_\w+?)(?:\{(.*)\})? \S+$`)
	labelName = regexp.MustCompile(`(\w+)="`)
	row       = regexp.MustCompile("(?m)^\\| `(stout_\\w+)` \\| (\\w+) \\| (.*?) ?\\| .+ \\|$")
	mentioned = regexp.MustCompile(`stout_\w+`)
	part      = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// TestMetricsAreDocumented: the documentation has exactly the metrics of the page, with
// type and labels.
func TestMetricsAreDocumented(t *testing.T) {
	page := metricsPage(t)
	shown := map[string]string{}
	for _, m := range shownType.FindAllStringSubmatch(page, -1) {
		shown[m[1]] = m[2] + " " + labels(page, m[1])
	}
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		if documented[m[1]] != "" {
			t.Errorf("%s is documented twice", m[1])
		}
		documented[m[1]] = m[2] + " " + strings.NewReplacer("`", "", ",", "").Replace(m[3])
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if documented[name] != shown[name] {
			t.Errorf("docs/metrics.md has %s as %q, and it is shown as %q", name, documented[name], shown[name])
		}
	}
	for _, name := range mentioned.FindAllString(string(doc), -1) {
		if base := part.ReplaceAllString(name, ""); shown[name] == "" && !strings.HasPrefix(shown[base], "histogram ") {
			t.Errorf("%s is documented and not shown", name)
		}
	}
	if len(shown) < 40 {
		t.Errorf("only %d metrics are shown", len(shown))
	}
}

// labels returns the names of a metric's labels, except a histogram's le.
func labels(page, metric string) string {
	for _, m := range series.FindAllStringSubmatch(page, -1) {
		if m[1] != metric && part.ReplaceAllString(m[1], "") != metric {
			continue
		}
		var names []string
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "le" {
				names = append(names, l[1])
			}
		}
		order := []string{"route", "method", "from", "status", "use", "part", "result"}
		slices.SortFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
		return strings.Join(names, " ")
	}
	return ""
}

// TestLabelsAreBounded: each label has few values, which callers cannot multiply. The
// table names each label and its bound.
func TestLabelsAreBounded(t *testing.T) {
	bounded := map[string]string{
		"route": "the API's templates, and other", "method": "the methods of HTTP, and other", "status": "the statuses of the server",
		"replica": "members", "quota": "settings", "use": "api or raft", "part": "certificate or ca", "result": "fixed words", "side": "sent or served", "from": "client or replica",
		"stage": "of a write", "kind": "of a read", "step": "of a fail-over", "reason": "steps of an office", "version": "the running version", "le": "bounds of a histogram",
	}
	for _, m := range series.FindAllStringSubmatch(metricsPage(t), -1) {
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if bounded[l[1]] == "" {
				t.Errorf("%s has the label %q: add to this table what bounds its values, or drop it", m[1], l[1])
			}
		}
	}
}

// TestMetricsPassTheLinter: names and help follow Prometheus' rules: base units,
// _total, no type in a name.
func TestMetricsPassTheLinter(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(metricsPage(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
