// Package attack says how much of a test's attacks one run makes. Each `make
// test` makes some of them, and `make test-long` makes them all, every night.
// What Sample leaves out of one run, others draw; what Times leaves out, only
// the long run makes.
package attack

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Variables of the environment: the length of the tests, and the seed of the
// samples of a run that is to be made again.
const (
	lengthVariable = "STOUT_TEST"
	seedVariable   = "STOUT_TEST_SEED"
)

var (
	long = isLong(os.Getenv(lengthVariable))
	seed = seedOf(os.Getenv(seedVariable))
)

// isLong panics at a value that means nothing: a long run that is none would go
// unnoticed.
func isLong(length string) bool {
	if length != "" && length != "long" {
		panic(fmt.Sprintf("%s is %q; leave it out, or set it to %q", lengthVariable, length, "long"))
	}
	return length == "long"
}

// seedOf is the seed that is given, or a new one. It panics as isLong does.
func seedOf(given string) uint64 {
	if given == "" {
		return uint64(time.Now().UnixMilli())
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s is %q; it is a number, as a test that failed has printed it", seedVariable, given))
	}
	return n
}

// Times is how often something is done in a short run, or in a long one.
func Times(short, all int) int {
	if long {
		return all
	}
	return short
}

// Sample draws numbers below all, in order and without repetition: some of them
// in a short run, and each of them in a long one. The draw depends on the seed
// and the name of the test alone, and a test that fails says how to have it
// again.
func Sample(t testing.TB, some, all int) []int {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && !long {
			t.Logf("the same sample again: %s=%d", seedVariable, seed)
		}
	})
	return draw(seed, t.Name(), Times(min(some, all), all), all)
}

// draw draws n numbers below all.
func draw(seed uint64, name string, n, all int) []int {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	drawn := rand.New(rand.NewPCG(seed, sum.Sum64())).Perm(all)[:n]
	slices.Sort(drawn)
	return drawn
}
