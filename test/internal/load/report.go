package load

import (
	"encoding/json"
	"io"
	"time"
)

// Report is one invocation.
type Report struct {
	When    time.Time `json:"when"`
	Machine Machine   `json:"machine"`
	Rows    []Row     `json:"rows"`
}

// Machine is the machine that made the load, and ran the cell if bench started
// it.
type Machine struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	Go   string `json:"go"`
}

// Row is one work with one number of sessions. The work sets one of the last
// five fields.
type Row struct {
	Work     string    `json:"work"`
	Via      string    `json:"via"`
	Sessions int       `json:"sessions"`
	Offered  float64   `json:"offered_per_s,omitempty"` // rate of an open loop; 0 for a closed one
	Runs     int       `json:"runs"`
	Loop     *Loop     `json:"load,omitempty"`
	Idle     *Idle     `json:"idle,omitempty"`
	Failover *Failover `json:"failover,omitempty"`
	Overload *Overload `json:"overload,omitempty"`
	Fanout   *Fanout   `json:"fanout,omitempty"`
}

// Loop is the result of operations in a loop. Each Spread covers the runs.
type Loop struct {
	Rate Spread `json:"per_s"`
	// Latencies in milliseconds.
	P50  Spread `json:"p50_ms"`
	P90  Spread `json:"p90_ms"`
	P99  Spread `json:"p99_ms"`
	P999 Spread `json:"p999_ms"`
	Max  Spread `json:"max_ms"`
	// CPU time in milliseconds per 1000 operations: of all replicas together,
	// of the master, and of this program, which makes the load.
	CellCPU   Spread `json:"cell_cpu_ms_per_1000"`
	MasterCPU Spread `json:"master_cpu_ms_per_1000"`
	OwnCPU    Spread `json:"bench_cpu_ms_per_1000"`
	MasterRSS Spread `json:"master_rss_mib"`
	// Tries is the number of tries per operation, for works with several.
	Tries Spread `json:"tries_each,omitzero"`
	// OfPlain is the rate as a fraction of the rate of a plain cell, run by
	// run.
	OfPlain Spread `json:"of_plain,omitzero"`
	// Share is the sessions' shares in the least even run.
	Share *Share `json:"share,omitempty"`
	// Elections counts the changes of epoch during the runs.
	Elections  uint64 `json:"elections"`
	Errors     int64  `json:"errors"`
	Missed     int64  `json:"missed"`
	FirstError string `json:"first_error,omitempty"`
}

// Share shows how evenly sessions were served: the fewest and the most
// operations of a session.
type Share struct {
	Least int64 `json:"least"`
	Most  int64 `json:"most"`
}

// Idle is the cost of sessions that only send keepalives.
type Idle struct {
	TTL           float64 `json:"ttl_s"`
	MasterPercent Spread  `json:"master_cpu_percent_of_a_core"`
	CellPercent   Spread  `json:"cell_cpu_percent_of_a_core"`
	KiBPerSession float64 `json:"master_kib_per_session"`
	MasterRSS     float64 `json:"master_rss_mib"`
	Expired       int     `json:"expired"`           // sessions that ended early
	Clients       int     `json:"clients,omitempty"` // that shared the sessions; 0: a client per session
}

// Failover is the gaps in service after kills of the master, in milliseconds.
type Failover struct {
	Gaps   []float64 `json:"gaps_ms"`
	Median float64   `json:"median_ms"`
	P90    float64   `json:"p90_ms"`
	Max    float64   `json:"max_ms"`
}

// Overload is the effect of a load that hurts on the cell and on another
// client.
type Overload struct {
	Seconds   float64   `json:"seconds"` // duration of the load
	Calm      Latencies `json:"calm"`    // of the other client, before the load
	Under     Latencies `json:"under"`   // and during it
	RSSBefore float64   `json:"master_rss_before_mib"`
	RSSMost   float64   `json:"master_rss_most_mib"`
	Elections uint64    `json:"elections"`
	Lapses    int       `json:"lapses"` // of the master's lease
	// OtherErrors counts the other client's failed operations. OtherError is
	// the last failure.
	OtherErrors int      `json:"other_errors"`
	OtherError  string   `json:"other_error,omitempty"`
	Notes       []string `json:"notes,omitempty"`
}

// Fanout is the time of a write until the last of many watchers receives it,
// and the effect on other writers. Its operations are rounds: a write, and the
// wait for the last watcher.
type Fanout struct {
	Alone *Loop `json:"alone"` // rounds one after the other
	Under *Loop `json:"under"` // rounds while the others write
	// The others' writes before there were watchers, and during those rounds.
	Unwatched *Loop `json:"unwatched"`
	Watched   *Loop `json:"watched"`
	Lapses    int   `json:"lapses"` // of the master's lease
}

// Latencies summarizes Count operations, in milliseconds.
type Latencies struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	Count int64   `json:"count"`
}

// NewFailover summarizes the gaps.
func NewFailover(gaps []time.Duration) *Failover {
	f := &Failover{}
	for _, g := range gaps {
		f.Gaps = append(f.Gaps, Milliseconds(g))
	}
	f.Median = Median(f.Gaps)
	f.P90 = Percentile(f.Gaps, 90)
	f.Max = Percentile(f.Gaps, 100)
	return f
}

// Milliseconds returns d with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
