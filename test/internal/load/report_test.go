package load

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func one(v float64) Spread { return Spread{Median: v, Min: v, Max: v} }

func sample() *Report {
	return &Report{Rows: []Row{
		{Work: "cycle", Via: "sdk", Sessions: 1, Runs: 3, Loop: &Loop{
			Rate: Spread{Median: 500, Min: 490, Max: 520}, P50: one(1.9), P99: one(4.25), P999: one(8), Max: one(12.5),
			CellCPU: one(600), MasterCPU: one(250), OwnCPU: one(99.5), MasterRSS: one(40),
		}},
		{Work: "cycle", Via: "http", Sessions: 64, Runs: 1, Offered: 2000, Loop: &Loop{
			Rate: one(1987.4), P50: one(3), P99: one(9), P999: one(20), Max: one(31), Elections: 1,
			Missed: 4, Errors: 2, FirstError: "no <master>", OfPlain: Spread{Median: 0.9, Min: 0.85, Max: 1.01}, Share: &Share{Least: 30, Most: 32},
		}},
		{Work: "idle", Via: "sdk", Sessions: 1000, Idle: &Idle{TTL: 12, MasterPercent: one(2.5), CellPercent: one(4), KiBPerSession: 31.2, MasterRSS: 70, Expired: 3}},
		{Work: "failover", Via: "sdk", Sessions: 1, Failover: NewFailover([]time.Duration{time.Second, 1200 * time.Millisecond, 1100 * time.Millisecond})},
	}}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := sample().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `
work   via    n  ops/s   ±%  p50 ms  p99 ms  p99.9 ms  max ms  cell CPU  master CPU  bench CPU  RSS MiB  notes
cycle  sdk    1    500  3.0    1.90    4.25      8.00    12.5       600         250       99.5     40.0
cycle  http  64   1987    –    3.00    9.00      20.0    31.0         –           –          –        –  open loop at 2000/s, 0.90 of plain (0.85–1.01), each 30..32, 1 elections, 4 missed, 2 errors: no <master>
CPU: milliseconds per 1000 operations (cell: all replicas; bench: this program). RSS: the master's.

work  via     n  ttl s  master CPU %  cell CPU %  KiB/session  RSS MiB  notes
idle  sdk  1000   12.0          2.50        4.00         31.2     70.0  3 expired
CPU: percent of one core.

work      via  kills  median ms  p90 ms  max ms  gaps ms
failover  sdk      3       1100    1200    1200  1000 1200 1100
Gap: from the last success before the kill to the first after it.
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("the table is%s\nwant%s", got, want)
	}
}

func TestJSONReadsBack(t *testing.T) {
	var out strings.Builder
	if err := sample().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Rows[0].Loop.Rate.Max != 520 || got.Rows[3].Failover.Median != 1100 {
		t.Errorf("read back: %+v", got)
	}
}

func TestFailoverArithmetic(t *testing.T) {
	var gaps []time.Duration
	for i := range 10 {
		gaps = append(gaps, time.Duration(10-i)*100*time.Millisecond)
	}
	f := NewFailover(gaps)
	if f.Median != 550 || f.P90 != 900 || f.Max != 1000 || f.Gaps[0] != 1000 {
		t.Errorf("%+v", f)
	}
}
