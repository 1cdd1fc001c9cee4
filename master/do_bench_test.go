package master

import (
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// BenchmarkDo reads a lock through the door, and without it.
func BenchmarkDo(b *testing.B) {
	m, _ := benchMaster(b, 0)
	c := &lockapi.GetLock{Path: "/a"}
	b.Run("direct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = m.GetLock(b.Context(), &Read{}, c)
		}
	})
	b.Run("do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = m.Do(b.Context(), &Caller{}, false, c)
		}
	})
}
