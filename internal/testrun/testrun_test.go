package testrun

import (
	"slices"
	"testing"
)

// TestDraw: a sample is sorted, and depends on the seed and the test only.
func TestDraw(t *testing.T) {
	a := draw(7, "TestA", 10, 1000)
	if len(a) != 10 || !slices.IsSorted(a) || len(slices.Compact(slices.Clone(a))) != 10 || a[0] < 0 || a[9] >= 1000 {
		t.Errorf("10 numbers below 1000 are %v", a)
	}
	if again := draw(7, "TestA", 10, 1000); !slices.Equal(a, again) {
		t.Errorf("%v, and then %v", a, again)
	}
	if slices.Equal(a, draw(8, "TestA", 10, 1000)) || slices.Equal(a, draw(7, "TestB", 10, 1000)) {
		t.Error("another seed, or another test, draws the same")
	}
	if all := draw(7, "TestA", 4, 4); !slices.Equal(all, []int{0, 1, 2, 3}) {
		t.Errorf("all of 4 are %v", all)
	}
}

// TestEachIsDrawn: each item is drawn by some seed.
func TestEachIsDrawn(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(200) {
		for _, n := range draw(seed, "TestA", 2, 12) {
			seen[n] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("200 seeds draw %v of 12", seen)
	}
}
