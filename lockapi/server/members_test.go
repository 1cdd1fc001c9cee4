package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/lockapi"
)

// A silent member soon counts as down, and its applied index is kept.
func TestSilentMembersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Master: knowing{view: of(lockapi.Replica{ID: "r1"}, lockapi.Replica{ID: "r2"})}})
		for _, c := range []struct {
			applied uint64
			passes  time.Duration
			want    string
		}{
			{0, 0, "0 0"},
			{17, 0, "1 17"},
			{0, upFor - 1, "1 17"},
			{0, 1, "0 17"},
			{18, 0, "1 18"},
		} {
			if c.applied > 0 {
				hear(t, s, "r2", c.applied)
			}
			time.Sleep(c.passes)
			if got := shownOf(t, s, "r2"); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
			if got := shownOf(t, s, "r1"); got != "1 0" {
				t.Errorf("of itself: %s", got)
			}
		}
	})
}

// A member without a vote does not help when others fail.
func TestFailuresTolerated(t *testing.T) {
	s := New(Options{Master: knowing{view: of(lockapi.Replica{ID: "r1"}, lockapi.Replica{ID: "r2"}, lockapi.Replica{ID: "r3"},
		lockapi.Replica{ID: "r4", Role: lockapi.RoleNonvoter}, lockapi.Replica{ID: "r5"}, lockapi.Replica{ID: "r6"})}})
	for _, c := range []struct {
		answers string
		want    float64
	}{{"r2", 0}, {"r4", 0}, {"r3", 0}, {"r5", 1}, {"r6", 2}} {
		hear(t, s, c.answers, 1)
		shown := gauges(t, s, "r1")
		if got, most := shown["stout_failures_tolerated"], shown["stout_failures_tolerated_max"]; got != c.want || most != 2 {
			t.Errorf("when %s has answered too: %v of %v, want %v of 2", c.answers, got, most, c.want)
		}
	}
}

// shownOf returns a member's metrics: whether it is up, and its applied index.
func shownOf(t *testing.T, s *Server, id string) string {
	t.Helper()
	shown := gauges(t, s, id)
	return fmt.Sprint(shown["stout_member_up"], " ", shown["stout_member_applied_index"])
}

// gauges returns the metrics without a label, and those with the label of a
// member.
func gauges(t *testing.T, s *Server, id string) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(export(s.membership(s.attached.Load())))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[0].GetValue() == id {
				shown[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	return shown
}

// hear makes a member report its applied index.
func hear(t *testing.T, s *Server, id string, applied uint64) {
	t.Helper()
	s.others.Look(t.Context(), answering(fmt.Sprintf(`{"id":%q,"applied_index":%d}`, id, applied)), "", []lockapi.Replica{{ID: id}})
}

// answering is a transport to members that all give the same answer.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}
