package server

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the server's own metrics. Routes are labeled by their template,
// never by a caller's path.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	forwarded *prometheus.CounterVec
	backups   *prometheus.CounterVec

	watchersRefused, eventsTold, compacted prometheus.Counter
	badCredentials, held                   prometheus.Counter
	page                                   http.Handler
}

// Results of an attempt to forward a call.
const (
	forwardAnswered = "answered"
	forwardRefused  = "refused"
	forwardFailed   = "failed"
)

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	counter := func(name, help string) prometheus.Counter { return vector(name, help).WithLabelValues() }
	m := &metrics{
		requests: vector("stout_http_requests_total", "Calls answered, by route, method, status and sender: a client, or a replica that forwards; 499: the caller disconnected first.", "route", "method", "from", "status"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stout_http_request_duration_seconds",
			Help:    "Time from a call's headers to its answer, including calls that wait for a lock or for events.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120, 600},
		}, []string{"route", "method", "from", "status"}),
		inFlight:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "stout_http_requests_in_flight", Help: "Calls under way, including waiting ones."}),
		backups:         vector("stout_backups_sent_total", "Backups sent by this replica, its own or the master's, by result: whole or broken.", "result"),
		forwarded:       vector("stout_http_forwarded_total", "Attempts to forward a call to the master: answered, refused (it was not the master), failed (no answer).", "result"),
		watchersRefused: counter("stout_watchers_refused_total", "Calls for events refused because max-watchers or max-anonymous-watchers was used up."),
		eventsTold:      counter("stout_events_told_total", "Events sent to watchers of this replica."),
		held:            counter("stout_http_refusals_held_total", "Refusals for a principal's calls per second that were answered late, or with the end of the connection."),
		badCredentials:  counter("stout_bad_credentials_total", "Calls refused because a token, a JWT or a client certificate is invalid, expired or revoked."),
		compacted:       counter("stout_events_compacted_total", "Watchers that must read everything again, because the next events for them are no longer kept."),
		page:            promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	for _, result := range []string{forwardAnswered, forwardRefused, forwardFailed} {
		m.forwarded.WithLabelValues(result) // so that the series exists from the beginning
	}
	for _, result := range []string{backupWhole, backupBroken} {
		m.backups.WithLabelValues(result)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "stout_build_info",
		Help:        "1, labeled with the running version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(m.duration, m.inFlight, build)
	// The registry's owner may already have registered these.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	} {
		if err := registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			panic(err)
		}
	}
	return m
}

// Senders of a call. A forwarded call counts at both replicas.
const (
	fromClient  = "client"
	fromReplica = "replica"
)

func (m *metrics) count(route, method, from string, status int, took time.Duration) {
	code := strconv.Itoa(status)
	m.requests.WithLabelValues(route, method, from, code).Inc()
	m.duration.WithLabelValues(route, method, from, code).Observe(took.Seconds())
}

// tally counts the calls of one route and method. It looks up the series of
// each status once, since a lookup by labels takes as long as routing the call.
type tally struct {
	metrics             *metrics
	route, method, from string
	series              [600]atomic.Pointer[series] // by status
}

type series struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

func (t *tally) count(status int, took time.Duration) {
	if status < 0 || status >= len(t.series) { // only possible in another replica's answer
		t.metrics.count(t.route, t.method, t.from, status, took)
		return
	}
	at := &t.series[status]
	s := at.Load()
	if s == nil {
		labels := []string{t.route, t.method, t.from, strconv.Itoa(status)}
		s = &series{t.metrics.requests.WithLabelValues(labels...), t.metrics.duration.WithLabelValues(labels...)}
		at.Store(s)
	}
	s.requests.Inc()
	s.duration.Observe(took.Seconds())
}

// checksum exports the latest checksum of the state and the index of its log
// entry, 0 before the first. It is not a metric.Set, because both must be read
// at the same moment.
type checksum func() (index uint64, sum []byte, ok bool)

var (
	checksumIndexDesc = prometheus.NewDesc("stout_state_checksum_index", "Index of the log entry after which the state's checksum was last computed; 0 before the first time.", nil, nil)
	checksumDesc      = prometheus.NewDesc("stout_state_checksum",
		"The first 48 bits of the SHA-256 of the state after that entry. At the same index it is the same on all replicas; a replica that differs stops.", nil, nil)
)

func (checksum) Describe(to chan<- *prometheus.Desc) {
	to <- checksumIndexDesc
	to <- checksumDesc
}

func (c checksum) Collect(to chan<- prometheus.Metric) {
	index, sum, ok := c()
	if !ok {
		index, sum = 0, nil
	}
	var number uint64 // a float64 holds 53 bits exactly
	for _, b := range sum[:min(6, len(sum))] {
		number = number<<8 | uint64(b)
	}
	to <- prometheus.MustNewConstMetric(checksumIndexDesc, prometheus.GaugeValue, float64(index))
	to <- prometheus.MustNewConstMetric(checksumDesc, prometheus.GaugeValue, float64(number))
}
