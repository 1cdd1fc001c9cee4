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

// metrics are what the server counts. Routes are labelled by their template,
// never by a caller's path.
type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	inFlight  prometheus.Gauge
	forwarded *prometheus.CounterVec
	backups   *prometheus.CounterVec

	watchersRefused, eventsTold, compacted prometheus.Counter
	badCredentials                         prometheus.Counter
	page                                   http.Handler
}

// Results of an attempt to forward a call.
const (
	forwardAnswered = "answered"
	forwardRefused  = "refused"
	forwardFailed   = "failed"
)

var forwardResults = []string{forwardAnswered, forwardRefused, forwardFailed}

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stout_http_requests_total",
			Help: "Calls answered, by route, method and status; 499 is a caller that went away first.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stout_http_request_duration_seconds",
			Help:    "Time from a call's headers to its answer; calls that wait for a lock or for events are in here.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120, 600},
		}, []string{"route", "method", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stout_http_requests_in_flight",
			Help: "Calls being handled now, those that wait included.",
		}),
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stout_backups_sent_total",
			Help: "Backups that this replica answered with, its own or the master's, by result: whole or broken.",
		}, []string{"result"}),
		forwarded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stout_http_forwarded_total",
			Help: "Attempts to have the master answer a call: answered, refused (it was not the master), failed (no answer).",
		}, []string{"result"}),
		watchersRefused: counter("stout_watchers_refused_total", "Calls for events that were refused because max-watchers or max-anonymous-watchers was used up."),
		eventsTold:      counter("stout_events_told_total", "Events told to watchers of this replica."),
		badCredentials:  counter("stout_bad_credentials_total", "Calls refused for a token, a JWT or a client's certificate that proves nothing, or nothing any more."),
		compacted:       counter("stout_events_compacted_total", "Watchers that were told to read everything anew, since what they had to be told next is not kept any more."),
		page:            promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	for _, result := range forwardResults {
		m.forwarded.WithLabelValues(result) // which is there from the beginning
	}
	for _, result := range []string{backupWhole, backupBroken} {
		m.backups.WithLabelValues(result)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "stout_build_info",
		Help:        "1, labelled with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.forwarded, m.backups, m.watchersRefused, m.eventsTold, m.compacted, m.badCredentials, build)
	registerShared(registry,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// registerShared registers what the owner of the registry may have registered
// already.
func registerShared(registry *prometheus.Registry, shared ...prometheus.Collector) {
	for _, c := range shared {
		if err := registry.Register(c); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			panic(err)
		}
	}
}

func (m *metrics) count(route, method string, status int, took time.Duration) {
	code := strconv.Itoa(status)
	m.requests.WithLabelValues(route, method, code).Inc()
	m.duration.WithLabelValues(route, method, code).Observe(took.Seconds())
}

// tally counts the calls of one route and method. It looks the series of each
// status up once: by its labels that takes as long as routing the call.
type tally struct {
	metrics       *metrics
	route, method string
	series        [600]atomic.Pointer[series] // by status
}

type series struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

func (t *tally) count(status int, took time.Duration) {
	if status < 0 || status >= len(t.series) { // another replica's, if it is one
		t.metrics.count(t.route, t.method, status, took)
		return
	}
	at := &t.series[status]
	s := at.Load()
	if s == nil {
		labels := []string{t.route, t.method, strconv.Itoa(status)}
		s = &series{t.metrics.requests.WithLabelValues(labels...), t.metrics.duration.WithLabelValues(labels...)}
		at.Store(s)
	}
	s.requests.Inc()
	s.duration.Observe(took.Seconds())
}

// checksum shows the latest sum of the state and the entry that it is of, 0
// before the first. It is no metric.Set: both are read at the same moment.
type checksum func() (index uint64, sum []byte, ok bool)

var (
	checksumIndexDesc = prometheus.NewDesc("stout_state_checksum_index", "Index of the log entry after which the state was last summed; 0 before the first time.", nil, nil)
	checksumDesc      = prometheus.NewDesc("stout_state_checksum",
		"The first 48 bits of the SHA-256 of the state after that entry. At the same index all replicas have the same; one that has not ends.", nil, nil)
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
	var number uint64 // of which a float64 holds 53 bits
	for _, b := range sum[:min(6, len(sum))] {
		number = number<<8 | uint64(b)
	}
	to <- prometheus.MustNewConstMetric(checksumIndexDesc, prometheus.GaugeValue, float64(index))
	to <- prometheus.MustNewConstMetric(checksumDesc, prometheus.GaugeValue, float64(number))
}
