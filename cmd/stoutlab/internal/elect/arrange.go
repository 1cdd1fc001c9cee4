package elect

import "slices"

// Arrangements of ids around a ring.

// shortWays places a higher id behind each initiator, and the best behind the
// last one: each message of theirs makes the fewest hops.
func shortWays(n int, begin []int) []int {
	ids := slices.Compact(append(slices.Sorted(slices.Values(begin)), n-1))
	return append(ids, others(n, ids)...)
}

// longWays places lower ids behind each of them, and the best at the end: all
// messages make the most hops.
func longWays(n int, begin []int) []int {
	ids := slices.Sorted(slices.Values(begin))
	rest := others(n, ids)
	slices.Reverse(ids)
	return append(ids, rest...)
}

func others(n int, named []int) []int {
	is := make([]bool, n)
	for _, id := range named {
		is[id] = true
	}
	var rest []int
	for id := range n {
		if !is[id] {
			rest = append(rest, id)
		}
	}
	return rest
}

// bitReversed arranges the ids so that each phase has many winners, spread
// evenly: in bit-reversed order. It is a bad ring for hs; the worst one is
// unknown.
func bitReversed(n int, _ []int) []int {
	log := 0
	for 1<<log < n {
		log++
	}
	place := make([]int, 0, n)
	for i := range 1 << log {
		r := 0
		for b := range log {
			r |= (i >> b & 1) << (log - 1 - b)
		}
		if r < n {
			place = append(place, r)
		}
	}
	ids := make([]int, n)
	for rank, at := range place {
		ids[at] = n - 1 - rank
	}
	return ids
}
