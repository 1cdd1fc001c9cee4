package elect

import "slices"

// Arrangements of ids around a ring.

// bestForOne has the best process follow the one that begins, and worstForOne
// has it come last. Where the best one begins, any order is as good.
func bestForOne(n, first int) []int {
	ids := worstForOne(n, first)
	slices.Reverse(ids[1:])
	return ids
}

func worstForOne(n, first int) []int {
	ids := []int{first}
	for id := range n {
		if id != first {
			ids = append(ids, id)
		}
	}
	return ids
}

// bitReversed arranges the ids so that the winners of each phase are spread
// evenly, and many: the order of the bit-reversed places.
func bitReversed(n, _ int) []int {
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
