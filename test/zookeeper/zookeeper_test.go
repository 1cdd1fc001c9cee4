//go:build unix

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/test/cell"
)

var (
	shared *cell.Cell
	dirs   atomic.Int64 // directories used by tests so far
)

func TestMain(m *testing.M) {
	os.Exit(testrun.Main(func() int {
		dir, err := os.MkdirTemp("", "zookeeper")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		shared, err = cell.Start(cell.Options{Dir: dir})
		if err != nil {
			panic(err)
		}
		defer shared.Close()
		return m.Run()
	}))
}

func begin(t *testing.T, n int, herd, rush bool) *election {
	t.Helper()
	shared.Ready(t)
	dir := fmt.Sprintf("/%d/", dirs.Add(1))
	r, err := start(cell.Bounded(t), shared.URLs(), dir, n, herd, rush)
	must(t, err)
	t.Cleanup(r.close)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWakesOne: the crash of a follower and the crash of the leader wake one
// candidate each, its watcher. Then the next-highest leads.
func TestWakesOne(t *testing.T) {
	t.Parallel()
	ctx, r := cell.Bounded(t), begin(t, 5, false, false)
	must(t, r.elected(ctx, 4))
	must(t, r.crash(ctx, 2))
	must(t, r.until(ctx, func() bool { return len(r.woken) > 0 }))
	must(t, r.elected(ctx, 4))
	must(t, r.crash(ctx, 4))
	must(t, r.elected(ctx, 3))
	must(t, r.fence(ctx, 1))
	if want := []wake{{1, 2}, {3, 4}}; !slices.Equal(r.woken, want) {
		t.Errorf("woken %v, want %v", r.woken, want)
	}
}

// TestHerd: if all watch the leader, its crash wakes all; the crash of a
// follower wakes no candidate.
func TestHerd(t *testing.T) {
	t.Parallel()
	ctx, r := cell.Bounded(t), begin(t, 6, true, false)
	must(t, r.elected(ctx, 5))
	must(t, r.crash(ctx, 5))
	must(t, r.until(ctx, func() bool { return len(r.woken) == 5 }))
	must(t, r.elected(ctx, 4))
	must(t, r.crash(ctx, 1))
	must(t, r.fence(ctx, 1))
	slices.SortFunc(r.woken, func(a, b wake) int { return cmp.Compare(a.ID, b.ID) })
	if want := []wake{{0, 5}, {1, 5}, {2, 5}, {3, 5}, {4, 5}}; !slices.Equal(r.woken, want) {
		t.Errorf("woken %v, want %v", r.woken, want)
	}
}

// TestNobodyGetsAMajority: each candidate assumes that it is the highest, so
// every ACK is already given and no candidate commits.
func TestNobodyGetsAMajority(t *testing.T) {
	t.Parallel()
	ctx, r := cell.Bounded(t), begin(t, 4, false, true)
	must(t, r.fence(ctx, 1))
	if !slices.Equal(r.leaders, []int{-1, -1, -1, -1}) {
		t.Errorf("leaders %v", r.leaders)
	}
	for _, c := range r.candidates {
		if given, err := c.ack(ctx, 1, (c.id+1)%4); given || err != nil {
			t.Errorf("%d gives a second ACK: %v", c.id, err)
		}
	}
}

// TestShow tests the command's output.
func TestShow(t *testing.T) {
	t.Parallel()
	shared.Ready(t)
	var out strings.Builder
	must(t, show(cell.Bounded(t), &out, shared.URLs(), fmt.Sprintf("/show/%d/", dirs.Add(1)), 4, 3, false))
	if got := out.String(); !strings.HasSuffix(got, "3 crashed: 1 woken; all believe in 2\n") {
		t.Error(got)
	}
	if err := command(t.Context(), []string{"--crash", "9"}, &out); err == nil {
		t.Error("an unknown candidate crashes")
	}
}
