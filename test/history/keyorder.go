package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// indexes finds indexes that go back: a read shows no lower index than another
// one that was answered before it began, of any key. Stale reads are left out.
func indexes(attempts []*Attempt) (problems []string) {
	var read []*Attempt
	for _, a := range attempts {
		if a.Kind == KeyRead && a.Outcome == Done && !a.Keys.Stale {
			read = append(read, a)
		}
	}
	shown := slices.Clone(read)
	slices.SortFunc(shown, func(x, y *Attempt) int { return cmp.Compare(x.Return, y.Return) })
	var highest *Attempt
	i := 0
	for _, a := range read {
		for ; i < len(shown) && shown[i].Return < a.Call; i++ {
			if highest == nil || shown[i].Keys.Index > highest.Keys.Index {
				highest = shown[i]
			}
		}
		if highest != nil && a.Keys.Index < highest.Keys.Index {
			problems = append(problems, fmt.Sprintf("a read shows the index %d after %d had been shown: %v, after %v", a.Keys.Index, highest.Keys.Index, a, highest))
		}
	}
	return problems
}

// enoughReads is the number of answers of a replica after which a blocking
// query that waits there must have ended.
const enoughReads = 20

// overslept finds stale blocking queries that missed a change: the replica
// itself showed the change in many reads, one after the other, while the query
// still waited.
func overslept(attempts []*Attempt) (problems []string) {
	reads := map[string][]*Attempt{} // by host and path
	for _, a := range attempts {
		if a.Kind == KeyRead && a.Keys.Stale && a.Keys.After == 0 && a.Outcome == Done && len(a.Keys.Found) == 1 {
			reads[a.Host+a.Path] = append(reads[a.Host+a.Path], a)
		}
	}
	for _, q := range attempts {
		if q.Kind != KeyRead || !q.Keys.Stale || q.Keys.After == 0 || strings.HasSuffix(q.Path, "/") {
			continue
		}
		n, free := 0, q.Call
		for _, a := range reads[q.Host+q.Path] {
			if a.Call > free && a.Return < q.Return && a.Keys.Found[0].ModifyIndex > q.Keys.After {
				n, free = n+1, a.Return
			}
		}
		if n > enoughReads {
			problems = append(problems, fmt.Sprintf("a blocking query after %d missed a change that its replica showed %d times: %v", q.Keys.After, n, q))
		}
	}
	return problems
}
