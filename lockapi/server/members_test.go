package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/lockapi"
)

// pair is a Master that knows of two members.
type pair struct{ knowing }

func (pair) Cell() lockapi.Cell {
	return lockapi.Cell{Replicas: []lockapi.Replica{{ID: "r1"}, {ID: "r2"}}}
}

// members shows of a server what it knows of the members, and nothing else.
type members struct{ *Server }

func (members) Describe(chan<- *prometheus.Desc) {}

func (m members) Collect(to chan<- prometheus.Metric) {
	vitals(m).collectMembers(to, m.attached.Load())
}

// A member that falls silent is down soon, and what it had applied is
// remembered.
func TestSilentMembersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Master: pair{}})
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
				s.contacts.note("r2", c.applied)
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

// shownOf is what the metrics say of a member: whether it is up, and how far.
func shownOf(t *testing.T, s *Server, id string) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(members{s})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == id {
				shown[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	return fmt.Sprint(shown["stout_member_up"], " ", shown["stout_member_applied_index"])
}
