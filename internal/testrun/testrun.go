// Package testrun places tests: it decides which of them a run makes, and how
// much of each. The environment's STOUT_TEST selects the run:
//
//	(unset)   pure code and code in memory, and a sample of each attack (make test)
//	e2e       tests that start processes as well (make e2e)
//	nightly   all tests, and the whole of each attack (make nightly)
//
// The race detector finds races of a schedule, not wrong results. So a quick run
// under it (make race) takes less of what make test repeats: half of each sample,
// and some rows of long tables.
//
// A test that starts processes, builds programs, or needs a program that not
// every machine has begins with E2E; a package of such tests has Main.
package testrun

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Variables of the environment: the run, and the seed of the samples of a run
// that is to be repeated.
const (
	runVariable  = "STOUT_TEST"
	seedVariable = "STOUT_TEST_SEED"
)

// The runs; each includes the ones before it.
const (
	quick = iota
	e2e
	nightly
)

var (
	run  = runOf(os.Getenv(runVariable))
	seed = seedOf(os.Getenv(seedVariable))
)

// runOf panics at an unknown value: a nightly run would silently be a quick one.
func runOf(name string) int {
	switch name {
	case "":
		return quick
	case "e2e":
		return e2e
	case "nightly":
		return nightly
	}
	panic(fmt.Sprintf("%s is %q; leave it out, or set it to e2e or nightly", runVariable, name))
}

// seedOf returns the seed that is given, or a new one. It panics as runOf does.
func seedOf(given string) uint64 {
	if given == "" {
		return uint64(time.Now().UnixMilli())
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s is %q; give the number that a failed test printed", seedVariable, given))
	}
	return n
}

// E2E skips the test in a quick run.
func E2E(t testing.TB) {
	t.Helper()
	if run < e2e {
		t.Skip("it starts processes: make e2e")
	}
}

// Nightly skips the test in all runs but the nightly one.
func Nightly(t testing.TB) {
	t.Helper()
	if run < nightly {
		t.Skip("it takes long: make nightly")
	}
}

// Main runs the tests of a package that starts processes; a quick run makes
// none of them. It returns the exit code for TestMain.
func Main(run func() int) int {
	if Quick() {
		fmt.Println("no tests: they start processes: make e2e")
		return 0
	}
	return run()
}

// Quick reports whether this is a quick run.
func Quick() bool { return run == quick }

// Wait lets n parallel tests of a package run at once, for tests that wait for
// disks, sockets and elections more than they compute. TestMain calls it before
// it runs the tests; an explicit -parallel prevails.
func Wait(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// Sequential skips a test under the race detector, except at night: its code is
// sequential, or other tests have the same goroutines.
func Sequential(t testing.TB) {
	t.Helper()
	if less() {
		t.Skip("the race detector adds nothing: make test, make nightly")
	}
}

// Extend returns a duration, several times as long under the race detector.
func Extend(d time.Duration, times int) time.Duration {
	if race {
		d *= time.Duration(times)
	}
	return d
}

// less reports whether this run repeats, under the race detector, what another
// one tests.
func less() bool { return race && run < nightly }

// Times returns how often to do something: all times at night, half of some
// under the race detector, else some.
func Times(some, all int) int {
	switch {
	case run == nightly:
		return all
	case less():
		return (some + 1) / 2
	}
	return some
}

// Rows returns the rows of a table: a sample of some under the race detector,
// else all.
func Rows[T any](t testing.TB, some int, all []T) []T {
	t.Helper()
	if !less() {
		return all
	}
	var rows []T
	for _, n := range draw(t, min(some, len(all)), len(all)) {
		rows = append(rows, all[n])
	}
	return rows
}

// Table is Rows for a table with names.
func Table[Row any](t testing.TB, some int, all map[string]Row) map[string]Row {
	t.Helper()
	rows := map[string]Row{}
	for _, name := range Rows(t, some, slices.Sorted(maps.Keys(all))) {
		rows[name] = all[name]
	}
	return rows
}

// Sample draws numbers below all, in order and without repetition: each of them
// at night, half of some under the race detector, else some.
func Sample(t testing.TB, some, all int) []int {
	t.Helper()
	return draw(t, min(Times(some, all), all), all)
}

// Part draws one of several parts of the numbers below all. The tests of one run
// with the same parts and all get each number once; at night each gets all.
func Part(t testing.TB, part, parts, all int) []int {
	t.Helper()
	if run == nightly {
		part, parts = 0, 1
	}
	repeats(t, parts > 1)
	return divided(seed, part, parts, all)
}

// divided divides the numbers below all into parts that differ by at most one
// number in size.
func divided(seed uint64, part, parts, all int) []int {
	var numbers []int
	for i, n := range rand.New(rand.NewPCG(seed, uint64(parts))).Perm(all) {
		if i%parts == part {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// draw draws n numbers below all, in order and without repetition. The draw depends on the seed and the name of the test
// alone, and a test that fails prints how to repeat it.
func draw(t testing.TB, n, all int) []int {
	t.Helper()
	repeats(t, n < all)
	return drawn(seed, t.Name(), n, all)
}

// repeats prints how to repeat a sample, if the test fails.
func repeats(t testing.TB, sampled bool) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && sampled {
			t.Logf("the same sample again: %s=%d", seedVariable, seed)
		}
	})
}

func drawn(seed uint64, name string, n, all int) []int {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	numbers := rand.New(rand.NewPCG(seed, sum.Sum64())).Perm(all)[:n]
	slices.Sort(numbers)
	return numbers
}

// Log keeps what several goroutines write.
type Log struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (b *Log) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.Write(p)
}

func (b *Log) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got.String()
}
