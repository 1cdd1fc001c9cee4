//go:build !race

package stouttest_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stoutlock/stout/client/stouttest"
)

// TestCopiesOfContent bounds how often a write and a read of a file copy its
// content: in the client, on the way, and in all replicas together. The race
// detector drops pooled buffers at random.
func TestCopiesOfContent(t *testing.T) {
	inCell(t, 3, func(t *testing.T, cell *stouttest.Cell) {
		const n, size = 100, 64 << 10
		s := open(t, cell.Client(), time.Hour)
		content := bytes.Repeat([]byte("x"), size)
		if _, err := s.Put(t.Context(), "/file", content); err != nil {
			t.Fatal(err)
		}
		for name, op := range map[string]struct {
			most float64
			do   func() error
		}{
			"put": {4, func() error { _, err := s.Put(t.Context(), "/file", content); return err }},
			"get": {8, func() error { _, err := s.Client().Get(t.Context(), "/file"); return err }},
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				if err := op.do(); err != nil {
					t.Fatal(name, err)
				}
			}
			runtime.ReadMemStats(&after)
			if copies := float64(after.TotalAlloc-before.TotalAlloc) / n / size; copies > op.most {
				t.Errorf("a %s copies the content %.1f times, at most %v", name, copies, op.most)
			}
		}
	})
}
