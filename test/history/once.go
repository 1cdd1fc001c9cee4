package history

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
)

// revisions finds revisions that did not grow over the cell in the order of
// time. A change requested after an answer with a revision must have a higher
// one. A read after that answer must be at that revision or later. All changes
// have different revisions.
func revisions(attempts []*Attempt) (problems []string) {
	type told struct {
		attempt  *Attempt
		revision uint64
	}
	var all []told
	owners := map[uint64]*Attempt{}
	for _, try := range calls(attempts) {
		for _, a := range try {
			if a.Files.Result == nil {
				continue
			}
			all = append(all, told{a, a.Files.Result.Revision})
			for _, r := range a.changes() {
				if o := owners[r]; o != nil && (o.Key == "" || o.Session != a.Session || o.Key != a.Key) {
					problems = append(problems, fmt.Sprintf("revision %d belongs to two changes: %v and %v", r, o, a))
				}
				owners[r] = a
			}
		}
	}
	first := map[string]int64{} // by session and key
	for _, tries := range calls(attempts) {
		first[tries[0].Session+"/"+tries[0].Key] = tries[0].Call
	}
	slices.SortFunc(all, func(x, y told) int { return cmp.Compare(x.attempt.Return, y.attempt.Return) })
	asked := slices.Clone(all)
	since := func(a *Attempt) int64 {
		if a.Key != "" {
			return first[a.Session+"/"+a.Key]
		}
		return a.Call
	}
	slices.SortFunc(asked, func(x, y told) int { return cmp.Compare(since(x.attempt), since(y.attempt)) })
	var highest told
	i := 0
	for _, t := range asked {
		for ; i < len(all) && all[i].attempt.Return < since(t.attempt); i++ {
			if all[i].revision > highest.revision {
				highest = all[i]
			}
		}
		if t.revision == 0 || highest.attempt == nil {
			continue
		}
		if least := slices.Min(append(t.attempt.changes(), t.revision+1)); least <= highest.revision {
			problems = append(problems, fmt.Sprintf("revision %d came after %d had been reported: %v, after %v", t.revision, highest.revision, t.attempt, highest.attempt))
		}
	}
	return problems
}

// changes returns the revisions of the changes that an answer reports. A
// transaction does not report the revisions of its deletions.
func (a *Attempt) changes() (all []uint64) {
	if a.Kind == DeleteBelow && a.Files.Deleted > 0 {
		return []uint64{a.Files.Result.Revision} // the last of them
	}
	for op, r := range a.Files.executed() {
		switch {
		case r.File != nil && op.Get == nil:
			all = append(all, r.File.Revision)
		case r.Deleted != nil && r.Deleted.Revision > 0:
			all = append(all, r.Deleted.Revision)
		}
	}
	return all
}

// once finds writes that happened more than once: different answers to the same
// key, and contents seen at two revisions.
func once(attempts []*Attempt) (problems []string) {
	for _, tries := range calls(attempts) {
		var first *Attempt
		for _, a := range tries {
			switch {
			case a.Outcome == Unknown || a.Outcome == Gone:
			case first == nil:
				first = a
			case !sameAnswer(first, a):
				problems = append(problems, fmt.Sprintf("one key has two answers: %v, and %v", first, a))
			}
		}
	}
	seen := map[string]*Attempt{}
	at := map[string]uint64{}
	for _, a := range attempts {
		if a.Files == nil {
			continue
		}
		for f := range a.Files.files() {
			if r, known := at[f.SHA256]; known && r != f.Revision {
				problems = append(problems, fmt.Sprintf("one write has the revisions %d and %d: %v, and %v", r, f.Revision, seen[f.SHA256], a))
			}
			seen[f.SHA256], at[f.SHA256] = a, f.Revision
		}
	}
	return problems
}

// sameAnswer reports whether two answers under one key are equal.
func sameAnswer(x, y *Attempt) bool {
	return x.Outcome == y.Outcome && reflect.DeepEqual(x.Files.Result, y.Files.Result) &&
		reflect.DeepEqual(x.Files.Current, y.Files.Current) && x.Files.Operation == y.Files.Operation && x.Files.Deleted == y.Files.Deleted
}
