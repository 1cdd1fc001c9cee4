package mutex

import "slices"

// votingSets gives each of n processes a set that includes the process, such
// that any two sets meet. If n is q²+q+1 and a finite projective plane of order
// q is known, the sets are its lines: q+1 processes each, and any two meet in
// exactly one, which is the minimum. Otherwise the processes are arranged in
// rows and columns, and a set is one row and one column.
func votingSets(n int) [][]int {
	sets := make([][]int, n)
	for id := range sets {
		sets[id] = votingSet(n, id)
	}
	return sets
}

func votingSet(n, id int) []int {
	if line := lines[n]; line != nil {
		return shifted(line, n, id)
	}
	return rowAndColumn(n, id)
}

// sixSets are the sets of the book's deadlock. The book gives the first three;
// the other three belong to processes that ask for nothing, and are lines of
// the same figure that contain their owners.
var sixSets = [][]int{{0, 1, 2}, {1, 3, 5}, {2, 4, 5}, {0, 3, 4}, {0, 3, 4}, {1, 3, 5}}

// lines has q+1 numbers below n = q²+q+1 for each n with a known plane of small
// order q: their differences modulo n are all different. Shifted by 0 to n−1
// they are the lines of the plane (Singer 1938). No plane has order 6, 10 or 14
// (Bruck, Ryser 1949; Lam 1989).
var lines = map[int][]int{
	3:   {0, 1},
	7:   {0, 1, 3},
	13:  {0, 1, 3, 9},
	21:  {0, 1, 4, 14, 16},
	31:  {0, 1, 3, 8, 12, 18},
	57:  {0, 1, 3, 13, 32, 36, 43, 52},
	73:  {0, 1, 3, 7, 15, 31, 36, 54, 63},
	91:  {0, 1, 3, 9, 27, 49, 56, 61, 77, 81},
	133: {0, 1, 3, 12, 20, 34, 38, 81, 88, 94, 104, 109},
	183: {0, 1, 3, 16, 23, 28, 42, 76, 82, 86, 119, 137, 154, 175},
	273: {0, 1, 3, 7, 15, 31, 63, 90, 116, 127, 136, 181, 194, 204, 233, 238, 255},
}

func shifted(line []int, n, by int) (set []int) {
	for _, x := range line {
		set = append(set, (x+by)%n)
	}
	slices.Sort(set)
	return set
}

// rowAndColumn arranges n processes in rows of ⌈√n⌉. The last row may be short:
// if one of two processes is in it, the other's full row meets the first one's
// column.
func rowAndColumn(n, id int) (set []int) {
	width := 1
	for width*width < n {
		width++
	}
	for other := range n {
		if other/width == id/width || other%width == id%width {
			set = append(set, other)
		}
	}
	return set
}
