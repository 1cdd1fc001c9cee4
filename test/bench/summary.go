package main

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/test/internal/load"
	"github.com/stoutlock/stout/test/internal/target"
)

type summary struct {
	rate, p50, p90, p99, p999, most []float64
	cell, master, own, rss          []float64
	tries                           []float64
	elections                       uint64
	errors, missed                  int64
	firstError                      error
	share                           *load.Share
}

func (s *summary) add(o *outcome) {
	s.rate = append(s.rate, o.Rate())
	for _, q := range []struct {
		to *[]float64
		q  float64
	}{{&s.p50, 0.5}, {&s.p90, 0.9}, {&s.p99, 0.99}, {&s.p999, 0.999}, {&s.most, 1}} {
		*q.to = append(*q.to, load.Milliseconds(o.Quantile(q.q)))
	}
	s.errors, s.missed = s.errors+o.Errors, s.missed+o.Missed
	s.elections += o.elections
	if s.firstError == nil {
		s.firstError = o.FirstError
	}
	share := load.Share{Least: slices.Min(o.PerWorker), Most: slices.Max(o.PerWorker)}
	if s.share == nil || share.Most-share.Least > s.share.Most-s.share.Least {
		s.share = &share
	}
	s.addCost(o)
}

// addCost adds the cost of the run's operations if it could be measured: not
// across a change of master or a restart of a process.
func (s *summary) addCost(o *outcome) {
	ops := float64(o.Latency.TotalCount())
	if ops == 0 {
		return
	}
	if tries := o.triesAfter - o.triesBefore; tries > 0 {
		s.tries = append(s.tries, float64(tries)/ops)
	}
	perThousand := func(d time.Duration) float64 { return load.Milliseconds(d) / ops * 1000 }
	s.own = append(s.own, perThousand(o.ownAfter-o.ownBefore))
	cell, master, ok := spent(o.before, o.after)
	if !ok {
		return
	}
	s.cell = append(s.cell, perThousand(cell))
	s.master = append(s.master, perThousand(master))
	s.rss = append(s.rss, mebibytes(o.after.Replicas[o.after.Master].RSS))
}

// spent returns the CPU time between two samples, of all replicas and of the
// master. ok is false if they are not comparable.
func spent(before, after target.Sample) (cell, master time.Duration, ok bool) {
	if before.Master == "" || before.Master != after.Master {
		return 0, 0, false
	}
	for id, late := range after.Replicas {
		early, known := before.Replicas[id]
		if !known || late.CPU < early.CPU {
			return 0, 0, false
		}
		cell += late.CPU - early.CPU
	}
	_, ok = after.Replicas[after.Master]
	return cell, after.Replicas[after.Master].CPU - before.Replicas[before.Master].CPU, ok
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// load returns the row's figures, with the sessions' shares if requested.
func (s *summary) load(shares bool) *load.Loop {
	l := &load.Loop{
		Rate: load.SpreadOf(s.rate),
		P50:  load.SpreadOf(s.p50), P90: load.SpreadOf(s.p90), P99: load.SpreadOf(s.p99),
		P999: load.SpreadOf(s.p999), Max: load.SpreadOf(s.most),
		CellCPU: load.SpreadOf(s.cell), MasterCPU: load.SpreadOf(s.master),
		OwnCPU: load.SpreadOf(s.own), MasterRSS: load.SpreadOf(s.rss),
		Tries:     load.SpreadOf(s.tries),
		Elections: s.elections, Errors: s.errors, Missed: s.missed,
	}
	if s.firstError != nil {
		l.FirstError = s.firstError.Error()
	}
	if shares {
		l.Share = s.share
	}
	return l
}
