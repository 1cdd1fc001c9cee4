package raftstore

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/internal/metric"
)

// BenchmarkLeadersEntry measures the cost of an entry from its proposal until
// it may be applied, without the disk.
func BenchmarkLeadersEntry(b *testing.B) {
	began := time.Now()
	s := newAsyncLog(noDisk{raft.NewInmemStore()}, func() bool { return true }, func() time.Duration { return time.Since(began) }, func(err error) { b.Error(err) })
	s.took, s.disk = metric.NewHistogram(), metric.NewHistogram()
	logs := []*raft.Log{{Term: 1, Type: raft.LogCommand, Data: make([]byte, 128)}}
	b.ReportAllocs()
	for i := uint64(1); b.Loop(); i++ {
		logs[0].Index = i
		if err := s.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
		if err := s.waitCommitted(i, 1); err != nil {
			b.Fatal(err)
		}
	}
	s.close()
}

// noDisk is a disk that accepts everything and keeps nothing.
type noDisk struct{ raft.LogStore }

func (noDisk) StoreLogs([]*raft.Log) error { return nil }
