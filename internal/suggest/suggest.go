// Package suggest finds the name that a user probably meant by a mistyped one.
package suggest

import (
	"slices"
	"strings"
)

// Nearest returns the known name most similar to word, or "" if all names
// differ too much. A similar name differs by a few typing errors, or is the
// only one that word abbreviates. Case and the separators "-" and "_" are
// ignored. The first of two equally similar names is returned.
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

// abbreviated returns the only known name in which word begins the name or one
// of its parts. The result is "" without such a name, or with several.
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

// longest is the longest word to compare. Longer words are no typing errors,
// and comparing takes time with the square of the length.
const longest = 64

// tolerance returns the number of typing errors allowed in a word: one for
// every three letters.
func tolerance(word string) int { return (len(word) + 2) / 3 }

var separators = strings.NewReplacer("-", "", "_", "")

func plain(s string) string { return separators.Replace(strings.ToLower(s)) }

// distance returns how many letters must be added, removed, changed, or swapped
// with their neighbour to turn a into b (optimal string alignment).
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
