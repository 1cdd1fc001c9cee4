package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

// exported is a set of metrics for Prometheus to collect.
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

// spared returns how many spare connections were taken and dropped.
func (s *Server) spared() (spared, dropped uint64) {
	spared, dropped = s.api.spare.Counts()
	more, also := s.door.spare.Counts()
	return spared + more, dropped + also
}

// kept returns what all connections hold for slow callers.
func (s *Server) kept() (all wire.Kept) {
	for _, w := range s.wires {
		k := w.Kept()
		all.UnreadBytes += k.UnreadBytes
		all.UnreadCut += k.UnreadCut
		all.HalfBytes += k.HalfBytes
		all.HalfCut += k.HalfCut
	}
	return all
}

func (s *Server) load() (set metric.Set) {
	set.Gauge("stout_watchers", "Calls that wait for events at this replica, including streams.", func() float64 { return float64(s.watching.Count()) })
	set.Gauge("stout_http_connections", "Open connections to the API.", func() float64 { n, _, _ := s.conns.Counts(); return float64(n) })
	set.Gauge("stout_http_max_connections", "Maximum number of open connections to the API; 0 means no bound.", func() float64 { return float64(s.conns.Most()) })
	set.Counter("stout_http_connections_evicted_total", "Connections closed to make room before their first or next request had arrived completely.", func() uint64 { _, n, _ := s.conns.Counts(); return n })
	set.Counter("stout_http_connections_yielded_total", "Connections with a waiting call closed at a limit, for a caller with fewer such calls or for a keepalive.",
		func() uint64 { _, _, n := s.conns.Counts(); return n })
	set.Counter("stout_http_connections_spared_total", "Connections accepted as spare ones because all others had calls under way: for /livez, /readyz, /metrics and keepalives.",
		func() uint64 { taken, _ := s.spared(); return taken })
	set.Counter("stout_http_connections_dropped_total", "Spare connections closed without an answer: all were in use, or other connections replaced them.", func() uint64 { _, dropped := s.spared(); return dropped })
	set.Gauge("stout_http_unread_bytes", "Bytes of replies that wait for their callers to read them.", func() float64 { return float64(s.kept().UnreadBytes) })
	set.Counter("stout_http_unread_cut_total", "Replies cut off because unread replies together took too much memory.", func() uint64 { return s.kept().UnreadCut })
	set.Gauge("stout_http_half_sent_bytes", "Bytes of incomplete requests, and bytes sent during calls under way.", func() float64 { return float64(s.kept().HalfBytes) })
	set.Counter("stout_http_half_sent_cut_total", "Requests refused, or their connections closed, because incomplete requests together took too much memory.", func() uint64 { return s.kept().HalfCut })
	set.Gauges("stout_http_forwarded_in_flight", "Calls under way that this replica has forwarded to others (sent) or serves for others (served).", []string{"side"}, func(show metric.Show) {
		show(float64(s.sent.Count()), "sent")
		show(float64(s.served.Count()), "served")
	})
	return set
}

// upFor is how long a member counts as up after an answer.
const upFor = 3 * peers.Every

type memberView struct {
	lockapi.Replica
	up, clocked bool    // clocked: the rate of its clock is known
	faster, err float64 // how much faster its clock runs, and the possible error
}

func (s *Server) memberViews(at *attached) []memberView {
	view, all := at.View(), []memberView(nil)
	for _, r := range view.Cell.Replicas {
		last, applied, ever := s.others.LastAnswer(r.ID)
		m := memberView{Replica: r, up: ever && time.Since(last) < upFor}
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

// tolerated returns how many of the healthy voters may fail without losing
// the majority.
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

// membership returns the metrics of the members, as this replica knows them.
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
	each("stout_member_up", "1 if the member has answered this replica within the last 3 s, otherwise 0.", func(m memberView) (float64, bool) { return metric.If(m.up), true })
	each("stout_member_applied_index", "Index of the last entry that the member has applied, as far as this replica knows.",
		func(m memberView) (float64, bool) { return float64(m.AppliedIndex), true })
	each("stout_member_refuses", "1 if the member knows acknowledged changes that this replica, its master, lacks, otherwise 0.",
		func(m memberView) (float64, bool) { return metric.If(m.Fault != ""), true })
	each("stout_member_clock_rate_difference_ratio", "How much faster the member's clock runs than this replica's, as a fraction: the worst of the last two minutes.",
		func(m memberView) (float64, bool) { return m.faster, m.clocked })
	each("stout_member_clock_rate_error_ratio", "Possible error of that difference, due to the time that messages take.",
		func(m memberView) (float64, bool) { return m.err, m.clocked })
	set.Gauge("stout_clock_rate_difference_max_ratio", "Maximum difference between the rates of two replicas' clocks that clock-drift allows.", s.opts.Drift.Between)
	set.Gauge("stout_failures_tolerated", "How many more of the voters that are up may fail without losing the majority.",
		func() float64 { return tolerated(s.memberViews(at), func(m memberView) bool { return m.up }) })
	set.Gauge("stout_failures_tolerated_max", "How many voters may fail without losing the majority when all are up.",
		func() float64 { return tolerated(s.memberViews(at), func(memberView) bool { return true }) })
	return set
}
