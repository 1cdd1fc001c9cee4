package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// indexes finds keys that go back: a read that is not stale shows no lower index
// than an answer before it. While a key exists, its LockIndex grows with its
// revision, and one revision has one state.
func indexes(attempts []*Attempt) (problems []string) {
	var read []*Attempt
	for _, a := range attempts {
		if a.Keys != nil && a.Outcome == Done && a.Kind == KeyRead {
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
		if highest != nil && !a.Keys.Stale && a.Keys.Index < highest.Keys.Index {
			problems = append(problems, fmt.Sprintf("a read shows the index %d after %d had been shown: %v, after %v", a.Keys.Index, highest.Keys.Index, a, highest))
		}
	}
	return append(problems, versions(read)...)
}

// version is a key in an answer.
type version struct {
	attempt        *Attempt
	path, state    string
	create, modify uint64
	locks          uint64
}

func versions(read []*Attempt) (problems []string) {
	var all []version
	for _, a := range read {
		for i := range a.Keys.Found {
			k := &a.Keys.Found[i]
			if k.ModifyIndex > a.Keys.Index {
				problems = append(problems, fmt.Sprintf("a key is of a later revision than its answer: %v", a))
			}
			all = append(all, version{a, k.Path, fmt.Sprintf("%d %d %s", k.Flags, k.Locks, k.Content), k.CreateIndex, k.ModifyIndex, k.Locks})
		}
	}
	slices.SortFunc(all, func(x, y version) int { return cmp.Or(compare(x.path, y.path), cmp.Compare(x.modify, y.modify)) })
	for i := range max(len(all), 1) - 1 {
		x, y := &all[i], &all[i+1]
		switch {
		case x.path != y.path:
		case x.create > y.create, x.create == y.create && x.locks > y.locks:
			problems = append(problems, fmt.Sprintf("the key goes back: %v, and %v", x.attempt, y.attempt))
		case x.modify == y.modify && (x.state != y.state || x.create != y.create):
			problems = append(problems, fmt.Sprintf("revision %d has two states: %v, and %v", x.modify, x.attempt, y.attempt))
		}
	}
	return problems
}

// enoughReads is the number of answers of a replica after which a blocking
// query that waits there must have ended.
const enoughReads = 20

// overslept finds stale blocking queries that missed a change: the replica
// itself showed the change in many reads, one after the other, while the query
// went on waiting.
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
