package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// branchRun is a call under way in the model, with the group as its operations
// change it.
type branchRun struct {
	group
	attempt *Attempt
	wrong   bool // a result differs from the model's
}

// branch executes the operations of a branch. failed is the index of the first
// operation that fails, or -1.
func (t *branchRun) branch(succeeded bool) (failed int) {
	c := t.attempt.Files
	ops := c.branch(succeeded)
	if c.Result != nil && (c.Result.Succeeded != succeeded || len(c.Result.Results) != len(ops)) {
		t.wrong = true
		return -1
	}
	for i := range ops {
		var result *lockapi.OperationResult
		if c.Result != nil {
			result = &c.Result.Results[i]
		}
		if !t.operation(&ops[i], result) {
			return i
		}
	}
	return -1
}

// operation executes one operation and reports whether that is possible.
func (t *branchRun) operation(op *lockapi.Operation, result *lockapi.OperationResult) bool {
	c := t.attempt.Files
	at, found := t.find(pathOf(op))
	if c.Match > 0 && (!found || t.files[at].revision != c.Match) || (c.Absent || op.Create != nil) && found {
		return false
	}
	switch {
	case op.Get != nil:
		t.expect(result, func() bool {
			return (result.File != nil) == found && (!found || t.files[at].is(&result.File.FileStat))
		})
		if t.attempt.Kind == Get {
			t.expect(result, func() bool { return c.Result.Revision >= t.last })
		}
	case op.Delete != nil:
		t.expect(result, func() bool { return result.Deleted != nil && result.Deleted.Deleted == found })
		if found {
			t.files = slices.Delete(t.files, at, at+1)
			if result != nil && result.Deleted != nil && result.Deleted.Revision > 0 {
				t.change(result.Deleted.Revision)
			}
		}
	case op.Acquire != nil:
		return t.acquire(op.Acquire, result)
	case op.Release != nil:
		t.release(op.Release, result)
	default:
		t.write(op, result)
	}
	return true
}

// below lists or deletes all files below a directory at one moment.
func (t *branchRun) below() {
	a := t.attempt
	from, _ := t.find(a.Files.Below)
	to := from
	for to < len(t.files) && strings.HasPrefix(t.files[to].path, a.Files.Below) {
		to++
	}
	found := t.files[from:to]
	answered := a.Files.Result != nil
	if a.Kind == List {
		t.wrong = t.wrong || answered && !slices.EqualFunc(found, a.Files.Listed, func(f file, l lockapi.File) bool { return f.is(&l.FileStat) })
		return
	}
	t.wrong = t.wrong || answered && len(found) != a.Files.Deleted
	if answered && len(found) > 0 {
		// Each file has a revision of its own; the answer has the last.
		t.wrong = t.wrong || a.Files.Result.Revision < t.last+uint64(len(found))
		t.change(a.Files.Result.Revision)
	}
	t.files = slices.Delete(t.files, from, to)
}

// expect checks a result if there is an answer.
func (t *branchRun) expect(result *lockapi.OperationResult, right func() bool) {
	t.wrong = t.wrong || result != nil && !right()
}

// change checks that a reported revision is higher than all earlier ones.
func (t *branchRun) change(revision uint64) {
	t.wrong = t.wrong || revision <= t.last
	t.last = max(t.last, revision)
}

// write writes a file. Without an answer, its stat is the one seen later, or
// unknown.
func (t *branchRun) write(op *lockapi.Operation, result *lockapi.OperationResult) {
	w := writes(op)
	var stat *lockapi.FileStat
	if seen := t.of.seen[sumOf(w)]; seen != nil {
		stat = seen.stat
	}
	if result != nil {
		if result.File == nil {
			t.wrong = true
			return
		}
		stat = &result.File.FileStat
	}
	next := file{path: w.Path, sum: sumOf(w), generation: 1}
	if stat != nil {
		next.revision, next.instance = stat.Revision, stat.Revision
	}
	if op.CreateSequential != nil {
		if stat == nil {
			return // an unknown name: no other step is about it
		}
		next.path = fmt.Sprintf("%s%0*d", w.Path, lockapi.SequentialDigits, stat.Revision)
	}
	at, found := t.find(next.path)
	if found {
		before := t.files[at]
		next.instance, next.generation, next.session = before.instance, before.generation+1, before.session
		if stat != nil && before.instance == 0 {
			next.instance = stat.Instance // of a creation that no answer showed
		}
		t.files = slices.Delete(t.files, at, at+1)
	}
	if w.Ephemeral != nil {
		if next.session = ""; *w.Ephemeral {
			next.session = t.attempt.Session
		}
	}
	t.files = slices.Insert(t.files, at, next)
	if stat != nil {
		t.change(stat.Revision)
		t.wrong = t.wrong || !next.is(stat)
	}
}

// acquire takes a lock, or finds that the pair holds it.
func (t *branchRun) acquire(op *lockapi.AcquireOperation, result *lockapi.OperationResult) bool {
	h := grip{path: op.Path, session: t.attempt.Session, handle: op.Handle, shared: op.Mode == lockapi.Shared}
	at, held := t.hold(&h)
	if held && t.holds[at].shared != h.shared {
		return false
	}
	if !held && slices.ContainsFunc(t.holdersOf(op.Path), func(other grip) bool { return !h.shared || !other.shared }) {
		return false
	}
	if result != nil && result.Grant != nil {
		h.token = result.Grant.Token
	}
	t.expect(result, func() bool { return h.token != 0 })
	if held {
		t.setToken(at, h.token)
		t.expect(result, func() bool { return t.holds[at].token == h.token })
		return true
	}
	t.holds = slices.Insert(t.holds, at, h)
	return true
}

// setToken sets the token of a hold if it was unknown when it was granted.
func (t *branchRun) setToken(at int, token uint64) {
	if t.holds[at].token == 0 && token != 0 {
		t.holds[at].token = token
	}
}

// release releases a lock.
func (t *branchRun) release(op *lockapi.ReleaseOperation, result *lockapi.OperationResult) {
	at, held := t.hold(&grip{path: op.Path, session: t.attempt.Session, handle: op.Handle})
	own := held && (op.Token == 0 || op.Token == t.holds[at].token)
	t.expect(result, func() bool { return result.Released != nil && result.Released.Released == own })
	if own {
		t.holds = slices.Delete(t.holds, at, at+1)
	}
}

// pathOf returns the file or lock that an operation names.
func pathOf(op *lockapi.Operation) string {
	switch {
	case op.Delete != nil:
		return op.Delete.Path
	case op.Get != nil:
		return op.Get.Path
	case op.Acquire != nil:
		return op.Acquire.Path
	case op.Release != nil:
		return op.Release.Path
	case op.CreateSequential != nil:
		return "" // a new one
	}
	return writes(op).Path
}
