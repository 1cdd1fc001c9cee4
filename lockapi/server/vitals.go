package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// exported is a set of metrics as Prometheus collects it.
type exported []described

type described struct {
	metric.Metric
	desc *prometheus.Desc
}

func export(set metric.Set) exported {
	all := make(exported, len(set))
	for i, m := range set {
		all[i] = described{m, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)}
	}
	return all
}

func (all exported) Describe(to chan<- *prometheus.Desc) {
	for _, m := range all {
		to <- m.desc
	}
}

func (all exported) Collect(to chan<- prometheus.Metric) {
	for _, m := range all {
		if m.Read == nil {
			s := m.Histogram.Snapshot()
			buckets := make(map[float64]uint64, len(s.UpTo))
			for bound, n := range s.UpTo {
				buckets[bound.Seconds()] = n
			}
			to <- prometheus.MustNewConstHistogram(m.desc, s.Count, s.Sum.Seconds(), buckets, m.Values...)
			continue
		}
		kind := prometheus.GaugeValue
		if m.Counter {
			kind = prometheus.CounterValue
		}
		m.Read(func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(m.desc, kind, value, labels...)
		})
	}
}

// load returns the metrics of what callers take up of this replica.
func (s *Server) load() (set metric.Set) {
	set.Gauge("stout_watchers", "Calls that wait for events at this replica, streams and others.", func() float64 { return float64(s.watching.Count()) })
	set.Gauge("stout_http_connections", "Connections to the API that are open now.", func() float64 { n, _, _ := s.conns.Counts(); return float64(n) })
	set.Gauge("stout_http_max_connections", "How many connections to the API may be open at once; 0 is no bound.", func() float64 { return float64(s.conns.Most()) })
	set.Counter("stout_http_connections_evicted_total", "Connections closed to make room, whose first or next request had not arrived whole.", func() uint64 { _, n, _ := s.conns.Counts(); return n })
	set.Counter("stout_http_connections_yielded_total", "Connections closed while a call of theirs waited, at a limit, for a caller that had fewer such calls, or for a keepalive.",
		func() uint64 { _, _, n := s.conns.Counts(); return n })
	set.Counter("stout_http_connections_spared_total", "Connections that came when each one had a call under way: for /livez, /readyz, /metrics and keepalives.",
		func() uint64 { n, _ := s.spare.Counts(); return n })
	set.Counter("stout_http_connections_dropped_total", "Of those, closed without an answer: there was no spare one left, or another one took it.", func() uint64 { _, n := s.spare.Counts(); return n })
	set.Gauge("stout_http_unread_bytes", "Replies that wait for their callers to read them.", func() float64 { return float64(s.http.Kept().UnreadBytes) })
	set.Counter("stout_http_unread_cut_total", "Replies cut off because such replies took too much together.", func() uint64 { return s.http.Kept().UnreadCut })
	set.Gauge("stout_http_half_sent_bytes", "Requests that have arrived in part, and what was sent behind calls that are under way.", func() float64 { return float64(s.http.Kept().HalfBytes) })
	set.Counter("stout_http_half_sent_cut_total", "Requests refused, or their connections closed, because such requests took too much together.", func() uint64 { return s.http.Kept().HalfCut })
	set.Gauges("stout_http_forwarded_in_flight", "Calls under way that this replica has sent to others (sent), or serves for others (served).", []string{"side"}, func(show metric.Show) {
		show(float64(s.sent.Count()), "sent")
		show(float64(s.served.Count()), "served")
	})
	return set
}

// upFor is for how long a member counts as up that has answered.
const upFor = 3 * peers.Every

// memberView is what this replica knows of a member.
type memberView struct {
	lockapi.Replica
	up, clocked bool    // clocked: the rate of its clock is known
	faster, err float64 // how much faster its clock runs, and how wrong that may be
}

func (s *Server) memberViews(at *attached) []memberView {
	view, all := at.View(), []memberView(nil)
	for _, r := range view.Cell.Replicas {
		last, applied, heard := s.others.LastAnswer(r.ID)
		m := memberView{Replica: r, up: heard && time.Since(last) < upFor}
		m.AppliedIndex = applied
		m.faster, m.err, m.clocked = s.others.ClockRate(r.ID)
		if r.ID == view.Own.ID {
			m.up, m.AppliedIndex = true, view.Own.AppliedIndex
			m.clocked = s.opts.Clock != nil
		}
		all = append(all, m)
	}
	return all
}

// tolerated returns how many of the members that vote and are well may fail, with a
// majority left.
func tolerated(all []memberView, well func(memberView) bool) float64 {
	voters, good := 0, 0
	for _, m := range all {
		if m.Role != lockapi.RoleNonvoter {
			voters++
			if well(m) {
				good++
			}
		}
	}
	return float64(max(0, good-(voters/2+1)))
}

// membership returns the metrics of the members, as this one knows them.
func (s *Server) membership(at *attached) (set metric.Set) {
	each := func(name, help string, value func(memberView) (float64, bool)) {
		set.Gauges(name, help, []string{"replica"}, func(show metric.Show) {
			for _, m := range s.memberViews(at) {
				if v, known := value(m); known {
					show(v, m.ID)
				}
			}
		})
	}
	each("stout_member_up", "1 where the member has answered this replica lately.", func(m memberView) (float64, bool) { return metric.If(m.up), true })
	each("stout_member_applied_index", "Index of the last entry that the member has applied, as this replica knows it.",
		func(m memberView) (float64, bool) { return float64(m.AppliedIndex), true })
	each("stout_member_refuses", "1 where the member knows of acknowledged changes that this replica, its master, lacks.",
		func(m memberView) (float64, bool) { return metric.If(m.Fault != ""), true })
	each("stout_member_clock_rate_difference_ratio", "How much faster the member's clock runs than this replica's, as a fraction: the worst of the last two minutes.",
		func(m memberView) (float64, bool) { return m.faster, m.clocked })
	each("stout_member_clock_rate_error_ratio", "How far that difference may be off, by the time that messages took.",
		func(m memberView) (float64, bool) { return m.err, m.clocked })
	set.Gauge("stout_clock_rate_difference_max_ratio", "How much the rates of two replicas' clocks may differ: what clock-drift allows to both.", s.opts.Drift.Between)
	set.Gauge("stout_failures_tolerated", "How many more of the members that vote and have answered this replica lately may fail, with a majority left.",
		func() float64 { return tolerated(s.memberViews(at), func(m memberView) bool { return m.up }) })
	set.Gauge("stout_failures_tolerated_max", "How many may fail where all of them are up.",
		func() float64 { return tolerated(s.memberViews(at), func(memberView) bool { return true }) })
	return set
}
