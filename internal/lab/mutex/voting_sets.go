package mutex

import "slices"

// votingSets gives each of n processes a set that it is in itself, such that
// any two sets meet. Where n is q²+q+1 and a finite projective plane of order q
// is found, the sets are its lines: q+1 processes each, any two meet in exactly
// one, which is the least there can be. Elsewhere the processes stand in rows
// and columns, and a set is one row and one column.
func votingSets(n int) [][]int {
	sets := make([][]int, n)
	for id := range sets {
		sets[id] = votingSet(n, id)
	}
	return sets
}

// votingSet is the set of one of them.
func votingSet(n, id int) []int {
	if line := differenceSet(n); line != nil {
		return shifted(line, n, id)
	}
	return rowAndColumn(n, id)
}

// sixSets are those of the book's deadlock. The first three are given there;
// the other three, whose processes ask for nothing, are lines of the same
// figure that their owners are on.
var sixSets = [][]int{{0, 1, 2}, {1, 3, 5}, {2, 4, 5}, {0, 3, 4}, {0, 3, 4}, {1, 3, 5}}

// differenceSet finds q+1 numbers below n = q²+q+1 whose differences modulo n
// are all different: 0 and 1, and more by trying. Shifted by 0 to n−1 they are
// the lines of a plane (Singer 1938). It is nil if there is none, as of order 6
// (Bruck, Ryser 1949), or n is large.
func differenceSet(n int) []int {
	q := 1
	for q*q+q+1 < n {
		q++
	}
	if q*q+q+1 != n || q == 6 || n > 57 {
		return nil
	}
	line := []int{0, 1}
	used := make([]bool, n)
	used[1], used[n-1] = true, true
	if extend(&line, used, q+1, n) {
		return line
	}
	return nil
}

// extend adds numbers to the line until it has size of them, and takes back
// what leads nowhere.
func extend(line *[]int, used []bool, size, n int) bool {
	if len(*line) == size {
		return true
	}
	for x := (*line)[len(*line)-1] + 1; x < n; x++ {
		var fresh []int
		for _, y := range *line {
			fresh = append(fresh, x-y, n-x+y)
		}
		if !allNew(fresh, used) {
			continue
		}
		mark(used, fresh, true)
		*line = append(*line, x)
		if extend(line, used, size, n) {
			return true
		}
		*line = (*line)[:len(*line)-1]
		mark(used, fresh, false)
	}
	return false
}

func allNew(differences []int, used []bool) bool {
	for i, d := range differences {
		if used[d] || slices.Contains(differences[:i], d) {
			return false
		}
	}
	return true
}

func mark(used []bool, differences []int, as bool) {
	for _, d := range differences {
		used[d] = as
	}
}

func shifted(line []int, n, by int) (set []int) {
	for _, x := range line {
		set = append(set, (x+by)%n)
	}
	slices.Sort(set)
	return set
}

// rowAndColumn has n processes stand in rows of ⌈√n⌉. The last row may be
// short: of two processes, one of whom stands there, the other's full row meets
// the first one's column.
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
