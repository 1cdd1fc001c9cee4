package monitoring

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// root is the root of the repository.
const root = "../.."

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// binaries returns the absolute path of the directory for programs. They stay there, so
// that a later build is fast.
func binaries(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "bin", "cell"))
	must(t, err)
	return dir
}

const (
	job = "stout"
	// every is the time between two scrapes by the store's clock. In real time, the cell
	// is scraped whenever something has happened.
	every = 15 * time.Second
)

// watched is a running cell, and a Prometheus that has scraped it.
type watched struct {
	cell   *cell.Cell
	store  *teststorage.TestStorage
	engine *engine.Engine
	now    time.Time
}

// watch starts a cell of three with everything that has metrics, and scrapes it while it
// is used.
func watch(t *testing.T) *watched {
	bin := binaries(t)
	must(t, cell.Build(t.Context(), root, bin, false, "./cmd/stoutd"))
	keys := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(keys, jwttest.New().Keys(), 0o600))
	w := &watched{
		cell: cell.New(t, cell.Options{Secure: true, Audit: true, Binary: filepath.Join(bin, "stoutd"),
			Args: []string{"--max-holds=1000", "--max-connections=1000", "--heartbeat-timeout=2s",
				"--jwt-issuer=" + jwttest.Name, "--jwt-audience=" + jwttest.Audience, "--jwt-keys=" + keys}}), // so that a busy machine ends no office
		store:  teststorage.New(t),
		engine: promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000),
		now:    time.Now().Truncate(time.Second),
	}
	master := w.cell.Ready(t)
	until(t, "each replica knows the others' clocks", func() bool {
		for _, r := range w.cell.Replicas() {
			if strings.Count(page(t, r), "\nstout_member_clock_rate_difference_ratio{") != 3 {
				return false
			}
		}
		return true
	})
	w.scrape(t, w.cell.Replicas()...)
	for range 3 {
		use(t, master)
		w.scrape(t, w.cell.Replicas()...)
	}
	return w
}

// use makes calls of all kinds.
func use(t *testing.T, r *cell.Replica) {
	t.Helper()
	do := func(method, path string, in, out any) {
		t.Helper()
		if _, err := cell.Insist(cell.Bounded(t), []*cell.Replica{r}, method, path, in, out); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	var holder, waiter lockapi.Session
	do("POST", "/v1/sessions", lockapi.SessionRequest{TTLMS: 600_000}, &holder)
	do("POST", "/v1/sessions", lockapi.SessionRequest{TTLMS: 600_000}, &waiter)
	var held lockapi.Grant
	do("PUT", "/v1/locks/watched", lockapi.NewLockRequest(holder.ID), &held)
	queued := lockapi.NewLockRequest(waiter.ID)
	queued.Queue = true
	do("PUT", "/v1/locks/watched", queued, nil)
	do("DELETE", fmt.Sprintf("/v1/locks/watched?session=%s&token=%d", holder.ID, held.Token), nil, nil)
	do("GET", "/v1/locks/watched", nil, nil)
	do("GET", "/v1/locks/watched?consistency=stale", nil, nil)
	do("POST", "/v1/sessions/"+waiter.ID+"/keepalive", lockapi.KeepaliveRequest{}, nil)
	do("DELETE", "/v1/sessions/"+waiter.ID, nil, nil)
	do("DELETE", "/v1/sessions/"+holder.ID, nil, nil)
}

// page returns a replica's metrics.
func page(t *testing.T, r *cell.Replica) string {
	t.Helper()
	resp, err := r.Via().Get(r.URL + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	return string(text)
}

// scrape adds the replicas' current metrics to the store.
func (w *watched) scrape(t *testing.T, from ...*cell.Replica) {
	t.Helper()
	w.now = w.now.Add(every)
	at := w.now.UnixMilli()
	to := w.store.Appender(t.Context())
	for _, r := range from {
		own := []string{"job", job, "instance", r.ID}
		text := expfmt.NewTextParser(model.UTF8Validation)
		families, err := text.TextToMetricFamilies(strings.NewReader(page(t, r)))
		must(t, err)
		for _, f := range families {
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Time(at)}, f)
			must(t, err)
			for _, s := range samples {
				b := labels.NewBuilder(labels.FromStrings(own...))
				for name, value := range s.Metric {
					b.Set(string(name), string(value))
				}
				if _, err := to.Append(0, b.Labels(), at, float64(s.Value)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := to.Append(0, labels.FromStrings(append(own, "__name__", "up")...), at, 1); err != nil {
			t.Fatal(err)
		}
	}
	must(t, to.Commit())
}

// ask returns the current result of an expression.
func (w *watched) ask(t *testing.T, expr string) engine.Vector {
	t.Helper()
	q, err := w.engine.NewInstantQuery(t.Context(), w.store, nil, expr, w.now)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	got := q.Exec(t.Context())
	v, err := got.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return append(engine.Vector(nil), v...)
}

// check checks that each metric of an expression exists, with the labels by which the
// expression selects and groups.
func (w *watched) check(t *testing.T, where, expr string) {
	t.Helper()
	parsed, err := promql.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			if len(w.ask(t, n.String())) == 0 {
				t.Errorf("%s: a running cell has no %s", where, n)
			}
		case *parser.AggregateExpr:
			w.hasLabels(t, where, n.Expr, n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				w.hasLabels(t, where, n.LHS, n.VectorMatching.MatchingLabels)
				w.hasLabels(t, where, n.RHS, n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
}

// hasLabels checks that some metric of an expression has each of the labels.
func (w *watched) hasLabels(t *testing.T, where string, of parser.Node, names []string) {
	t.Helper()
	there := map[string]bool{}
	parser.Inspect(of, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			for _, sample := range w.ask(t, s.String()) {
				sample.Metric.Range(func(l labels.Label) { there[l.Name] = true })
			}
		}
		return nil
	})
	for _, name := range names {
		if !there[name] {
			t.Errorf("%s: no metric in %s has the label %q", where, of, name)
		}
	}
}

// ofTheMachine lists alerts that may fire on a slow machine.
var ofTheMachine = map[string]bool{"StoutLeaseMarginSmall": true, "StoutLeaseLapsed": true, "StoutDiskSlow": true, "StoutCommitsSlow": true}

// A running cell has each metric that an alert or a panel names, with the labels. No
// alert fires, and no panel is empty.
func TestOnARunningCell(t *testing.T) {
	w := watch(t)
	for _, a := range alerts(t) {
		w.check(t, a.Alert, a.Expr)
		if got := w.ask(t, a.Expr); len(got) > 0 && !ofTheMachine[a.Alert] {
			t.Errorf("%s fires on a healthy cell: %v", a.Alert, got)
		}
	}
	empty := map[string]string{}
	for _, p := range dashboard(t).Panels {
		for _, q := range p.Targets {
			w.check(t, p.Title, filled(q.Expr))
			if len(w.ask(t, filled(q.Expr))) == 0 {
				empty[filled(q.Expr)] = p.Title
			}
		}
	}
	w.afterTheMastersEnd(t)
	for expr, title := range empty {
		if title != ofFailOvers || len(w.ask(t, expr)) == 0 {
			t.Errorf("panel %q shows nothing: %s", title, expr)
		}
	}
}

// ofFailOvers is the panel that is empty before the first fail-over.
const ofFailOvers = "Steps of fail-overs, last hour"

// afterTheMastersEnd kills the master. The alerts on tolerated failures fire, and the
// successor has metrics of the steps of the fail-over.
func (w *watched) afterTheMastersEnd(t *testing.T) {
	before, err := w.cell.WaitMaster(cell.Bounded(t))
	must(t, err)
	must(t, before.Kill())
	others := w.cell.Others(before)
	w.cell.WaitMasterOf(t, others...)
	until(t, "the new master counts the old one as failed", func() bool {
		for _, r := range others {
			if text := page(t, r); strings.Contains(text, "\nstout_is_master 1\n") {
				return strings.Contains(text, "\nstout_failures_tolerated 0\n")
			}
		}
		return false
	})
	w.now = w.now.Add(6 * time.Minute) // beyond the dead replica's last metrics
	w.scrape(t, others...)
	for _, a := range alerts(t) {
		got := w.ask(t, a.Expr)
		if fires := a.Alert == "StoutFewerFailuresTolerated" || a.Alert == "StoutNoFailureTolerated"; fires != (len(got) == 1) && !ofTheMachine[a.Alert] {
			t.Errorf("%s, when one of three is down: %v", a.Alert, got)
		}
	}
	for _, step := range []string{"detect", "elect", "barrier", "wait", "open"} {
		if got := w.ask(t, `stout_failover_step_duration_seconds_count{step="`+step+`"} * on (instance) stout_is_master > 0`); len(got) != 1 {
			t.Errorf("step %s of the fail-over: %v", step, got)
		}
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(cell.Step)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("timed out waiting: %s", what)
		case <-tick.C:
		}
	}
}
