package server

import "github.com/prometheus/client_golang/prometheus"

// load shows what callers take up of this replica.
type load struct{ *Server }

var (
	connsDesc     = describe("stout_http_connections", "Connections to the API that are open now.")
	connsMaxDesc  = describe("stout_http_max_connections", "How many connections to the API may be open at once; 0 is no bound.")
	evictedDesc   = describe("stout_http_connections_evicted_total", "Connections closed to make room, whose first or next request had not arrived whole.")
	yieldedDesc   = describe("stout_http_connections_yielded_total", "Connections closed while a call of theirs waited, at a limit, for a caller that had fewer such calls, or for a keepalive.")
	sparedDesc    = describe("stout_http_connections_spared_total", "Connections that came when each one had a call under way: for /livez, /readyz, /metrics and keepalives.")
	droppedDesc   = describe("stout_http_connections_dropped_total", "Of those, closed without an answer: there was no spare one left, or another one took it.")
	unreadDesc    = describe("stout_http_unread_bytes", "Replies that wait for their callers to read them.")
	unreadCutDesc = describe("stout_http_unread_cut_total", "Replies cut off because such replies took too much together.")
	halfDesc      = describe("stout_http_half_sent_bytes", "Requests that have arrived in part, and what was sent behind calls that are under way.")
	halfCutDesc   = describe("stout_http_half_sent_cut_total", "Requests refused, or their connections closed, because such requests took too much together.")
	passedDesc    = describe("stout_http_forwarded_in_flight", "Calls under way that this replica has sent to others (sent), or serves for others (served).", "side")
)

func (load) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		connsDesc, connsMaxDesc, evictedDesc, yieldedDesc, sparedDesc, droppedDesc, unreadDesc, unreadCutDesc, halfDesc, halfCutDesc, passedDesc,
	} {
		to <- d
	}
}

func (c load) Collect(to chan<- prometheus.Metric) {
	open, evicted, yielded := c.conns.Counts()
	gauge(to, connsDesc, float64(open))
	gauge(to, connsMaxDesc, float64(c.conns.Most()))
	count(to, evictedDesc, evicted)
	count(to, yieldedDesc, yielded)
	spared, dropped := c.spare.Counts()
	count(to, sparedDesc, spared)
	count(to, droppedDesc, dropped)
	kept := c.http.Kept()
	gauge(to, unreadDesc, float64(kept.UnreadBytes))
	count(to, unreadCutDesc, kept.UnreadCut)
	gauge(to, halfDesc, float64(kept.HalfBytes))
	count(to, halfCutDesc, kept.HalfCut)
	gauge(to, passedDesc, float64(c.sent.Count()), "sent")
	gauge(to, passedDesc, float64(c.served.Count()), "served")
}
