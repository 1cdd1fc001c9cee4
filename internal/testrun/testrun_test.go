package testrun

import (
	"slices"
	"testing"
)

// TestDraw: a sample is sorted, and depends on the seed and the test only.
func TestDraw(t *testing.T) {
	a := drawn(7, "TestA", 10, 1000)
	if len(a) != 10 || !slices.IsSorted(a) || len(slices.Compact(slices.Clone(a))) != 10 || a[0] < 0 || a[9] >= 1000 {
		t.Errorf("10 numbers below 1000 are %v", a)
	}
	if again := drawn(7, "TestA", 10, 1000); !slices.Equal(a, again) {
		t.Errorf("%v, and then %v", a, again)
	}
	if slices.Equal(a, drawn(8, "TestA", 10, 1000)) || slices.Equal(a, drawn(7, "TestB", 10, 1000)) {
		t.Error("another seed, or another test, draws the same")
	}
	if all := drawn(7, "TestA", 4, 4); !slices.Equal(all, []int{0, 1, 2, 3}) {
		t.Errorf("all of 4 are %v", all)
	}
}

// TestEachIsDrawn: each item is drawn by some seed.
func TestEachIsDrawn(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(200) {
		for _, n := range drawn(seed, "TestA", 2, 12) {
			seen[n] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("200 seeds draw %v of 12", seen)
	}
}

// TestRows: the race detector gets a part of each sample and table, except at
// night.
func TestRows(t *testing.T) {
	rows := []int{10, 11, 12, 13, 14, 15, 16, 17, 18}
	sampled, table, times := 6, 9, 6
	switch {
	case run == nightly:
		sampled, times = 9, 9
	case race:
		sampled, table, times = 3, 4, 3
	}
	if got := len(Sample(t, 6, 9)); got != sampled {
		t.Errorf("%d of 9 in a sample, want %d", got, sampled)
	}
	if got := Rows(t, 4, rows); len(got) != table || !slices.IsSorted(got) || got[0] < 10 {
		t.Errorf("the rows %v, want %d", got, table)
	}
	if got := Table(t, 4, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1}); len(got) != table || len(got) == 0 {
		t.Errorf("the rows %v, want %d", got, table)
	}
	if got := Times(6, 9); got != times {
		t.Errorf("%d times, want %d", got, times)
	}
	if n := Times(1, 4); n == 0 {
		t.Error("the race detector gets nothing")
	}
}

// TestDivided: the parts have each number once, and another seed divides
// differently.
func TestDivided(t *testing.T) {
	var all []int
	for part := range 3 {
		mine := divided(7, part, 3, 44)
		if len(mine) < 14 || len(mine) > 15 || !slices.IsSorted(mine) {
			t.Errorf("part %d: %v", part, mine)
		}
		all = append(all, mine...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 44 || all[43] != 43 {
		t.Errorf("together: %v", all)
	}
	if slices.Equal(divided(7, 0, 3, 44), divided(8, 0, 3, 44)) {
		t.Error("another seed divides alike")
	}
	if n := len(divided(7, 0, 1, 44)); n != 44 {
		t.Errorf("one part has %d of 44", n)
	}
}
