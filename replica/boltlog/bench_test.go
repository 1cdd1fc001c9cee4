package boltlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs measures writing one entry to the disk, without and with a
// write-ahead log.
func BenchmarkStoreLogs(b *testing.B) {
	for _, size := range []int{128, 16 << 10} {
		b.Run(fmt.Sprintf("bolt/bytes=%d", size), func(b *testing.B) { benchmarkStoreLogs(b, size, false) })
		b.Run(fmt.Sprintf("wal/bytes=%d", size), func(b *testing.B) { benchmarkStoreLogs(b, size, true) })
	}
}

func benchmarkStoreLogs(b *testing.B, size int, ahead bool) {
	f, err := Open(b.TempDir(), false, ahead)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data, at := make([]byte, size), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		at++
		if err := f.StoreLog(&raft.Log{Index: at, Term: 1, Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckLog measures the check of a log of about 100 MB at a start.
func BenchmarkCheckLog(b *testing.B) {
	f, err := Open(b.TempDir(), false, false)
	if err != nil {
		b.Fatal(err)
	}
	data, at := make([]byte, 8<<10), uint64(0)
	for range 100 {
		var logs []*raft.Log
		for range 128 {
			at++
			logs = append(logs, &raft.Log{Index: at, Term: 1, Data: data})
		}
		if err := f.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(filepath.Clean(f.name))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	for b.Loop() {
		if _, _, err := checkLog(f.name); err != nil {
			b.Fatal(err)
		}
	}
}
