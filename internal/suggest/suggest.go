// Package suggest finds what somebody meant who mistyped a name.
package suggest

import (
	"slices"
	"strings"
)

// Nearest is the known name that is most like word, or "" where none is like
// enough to be offered: at a few slips of the finger, or the only one that word
// abbreviates. Case, and whether words are parted by "-", "_" or nothing, do
// not count; of two that are as like the first one is taken.
func Nearest(word string, known []string) string {
	typed := plain(word)
	if len(typed) > longest {
		return ""
	}
	best, least := "", tolerance(typed)+1
	for _, name := range known {
		if d := distance(typed, plain(name)); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return abbreviated(word, known)
	}
	return best
}

// abbreviated is the only known name that begins with word, or one of whose
// words does; "" where there is none, or more than one.
func abbreviated(word string, known []string) string {
	typed := plain(word)
	if len(typed) < 3 {
		return ""
	}
	begins := func(part string) bool { return strings.HasPrefix(part, typed) }
	found := ""
	for _, name := range known {
		if strings.HasPrefix(plain(name), typed) || slices.ContainsFunc(strings.Split(name, "-"), begins) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// longest is the longest word that is compared: nobody mistypes a longer one,
// and comparing takes time with the square of it.
const longest = 64

// tolerance is how many slips of the finger make another word of this one: one
// for every three letters.
func tolerance(word string) int { return (len(word) + 2) / 3 }

var separators = strings.NewReplacer("-", "", "_", "")

func plain(s string) string { return separators.Replace(strings.ToLower(s)) }

// distance is how many letters have to be added, left out, changed, or swapped
// with their neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
