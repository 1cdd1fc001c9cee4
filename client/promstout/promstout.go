// Package promstout exports the measurements of package client as Prometheus
// metrics:
//
//	c, err := client.Config{URLs: urls, Metrics: promstout.New(prometheus.DefaultRegisterer)}.New()
//
// The metrics are
//
//	stout_client_attempt_duration_seconds{method,route,status}  requests to replicas; status 0 had no answer
//	stout_client_sessions{state}                                open sessions, safe or in jeopardy
//	stout_client_session_changes_total{to}                      changes of state, to safe, jeopardy or expired
//	stout_client_lease_left_ratio                               the rest of a lease when it was renewed, of its ttl
//
// Only programs that import this package depend on Prometheus.
package promstout

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/client"
)

// New returns metrics that are registered with r, for one client or several of
// a program. It panics if r has them already, as prometheus.MustRegister does.
func New(r prometheus.Registerer) client.Metrics {
	m := &metrics{
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stout_client_attempt_duration_seconds",
			Help: "Duration of requests to replicas. A waiting call lasts as long as it waits. Status 0 had no answer.",
			// The buckets reach from a round trip on a fast network to the
			// longest wait.
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route", "status"}),
		sessions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stout_client_sessions", Help: "Open sessions by state.",
		}, []string{"state"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stout_client_session_changes_total", Help: "Changes of a session's state, including its opening.",
		}, []string{"to"}),
		left: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stout_client_lease_left_ratio", Help: "The rest of a session's local lease when it was renewed, as a share of its ttl.",
			Buckets: []float64{0, .05, .1, .15, .2, .25, .3, .35, .5},
		}),
	}
	r.MustRegister(m.attempts, m.sessions, m.changes, m.left)
	return m
}

type metrics struct {
	attempts *prometheus.HistogramVec
	sessions *prometheus.GaugeVec
	changes  *prometheus.CounterVec
	left     prometheus.Histogram
}

func (m *metrics) Attempt(method, route string, status int, took time.Duration) {
	m.attempts.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *metrics) Session(was, now client.State) {
	m.changes.WithLabelValues(now.String()).Inc()
	if was != client.Expired {
		m.sessions.WithLabelValues(was.String()).Dec()
	}
	if now != client.Expired {
		m.sessions.WithLabelValues(now.String()).Inc()
	}
}

func (m *metrics) Renewed(left, ttl time.Duration) { m.left.Observe(left.Seconds() / ttl.Seconds()) }
