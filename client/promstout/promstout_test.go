package promstout_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/promstout"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestMetrics: a session opens, is kept alive, falls into jeopardy and expires.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		cell := stouttest.New(t, stouttest.Options{})
		c := cell.Client(func(to *client.Config) { to.Metrics = promstout.New(r) })
		s, err := c.NewSession(t.Context(), client.TTL(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect(t, r, "stout_client_sessions", `stout_client_sessions{state="safe"} 1`)
		cell.Cut(c)
		for changed := s.Changed(); s.State() == client.Safe; changed = s.Changed() {
			<-changed
		}
		expect(t, r, "stout_client_sessions", `stout_client_sessions{state="jeopardy"} 1`+"\n"+`stout_client_sessions{state="safe"} 0`)
		<-s.Done() // the grace period is over
		cell.Mend(c)
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		expect(t, r, "stout_client_session_changes_total", `stout_client_session_changes_total{to="expired"} 1
stout_client_session_changes_total{to="jeopardy"} 1
stout_client_session_changes_total{to="safe"} 1`)
		all, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, one := range f.Metric {
				h := one.GetHistogram()
				switch {
				case f.GetName() == "stout_client_lease_left_ratio" && (h.GetSampleCount() < 6 || h.GetSampleSum()/float64(h.GetSampleCount()) > 0.5):
					t.Errorf("%d renewals with %f left", h.GetSampleCount(), h.GetSampleSum())
				case f.GetName() == "stout_client_attempt_duration_seconds" && one.Label[1].GetValue() == "/v1/locks/{}" && one.Label[2].GetValue() != "200":
					t.Errorf("attempts %v", one)
				}
			}
		}
	})
}

func expect(t *testing.T, r *prometheus.Registry, name, want string) {
	t.Helper()
	var out strings.Builder
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
		kind := map[bool]string{true: "counter", false: "gauge"}[f.GetType().String() == "COUNTER"]
		out.WriteString("# HELP " + name + " " + f.GetHelp() + "\n# TYPE " + name + " " + kind + "\n" + want + "\n")
	}
	if err := testutil.GatherAndCompare(r, strings.NewReader(out.String()), name); err != nil {
		t.Error(err)
	}
}
