package boltlog

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSpans compares spans with a set of numbers.
func TestSpans(t *testing.T) {
	const most = 30
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		set := map[uint64]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			from := rapid.Uint64Range(0, most).Draw(t, "from")
			to := rapid.Uint64Range(0, most).Draw(t, "to")
			add := rapid.Bool().Draw(t, "add") && from <= to
			if add {
				s = s.with(from, to)
			} else {
				s = s.without(from, to)
			}
			for i := from; i <= to; i++ {
				set[i] = add
			}
		}
		first, last, n := uint64(0), uint64(0), 0
		for i := range uint64(most + 1) {
			if set[i] {
				if n++; n == 1 {
					first = i
				}
				last = i
			}
			if s.covers(i, i) != set[i] {
				t.Fatalf("%v: covers %d: %v", s, i, !set[i])
			}
		}
		if s.first() != first || s.last() != last {
			t.Fatalf("%v: from %d to %d, want %d to %d", s, s.first(), s.last(), first, last)
		}
		for i, o := range s {
			if o.First > o.Last || i > 0 && s[i-1].Last+1 >= o.First {
				t.Fatalf("%v has spans that touch", s)
			}
			if !s.covers(o.First, o.Last) || s.covers(o.First, o.Last+1) {
				t.Fatalf("%v: covers", s)
			}
		}
	})
}
