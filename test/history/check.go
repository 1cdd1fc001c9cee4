package history

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is the result of Check.
type Verdict struct {
	Problems []string // broken promises; empty for a correct record
	Paths    int      // checked against the model
	Groups   int      // groups of files, checked against their model
	Keys     int      // directories of keys, checked against their model
	Steps    int      // of the models
	Longest  time.Duration
	pictures []picture
}

// picture is a path or group with a record that the model does not allow.
type picture struct {
	path  string
	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// part is what can be checked by itself: a lock, a group of files, or a
// directory of keys.
type part struct {
	path  string
	what  string // "one lock"
	model porcupine.Model
	// steps returns the steps of the part; with unseen, also possible effects
	// that no answer showed
	steps func(unseen bool) []porcupine.Operation
}

// Check checks a record. Each path may take as long as patience; an undecided
// path counts as a problem. A pair of session and handle must not be used again
// after its hold was released, as the contract advises.
func Check(record []Attempt, patience time.Duration) *Verdict {
	attempts := make([]*Attempt, len(record))
	for i := range record {
		attempts[i] = &record[i]
	}
	slices.SortStableFunc(attempts, func(x, y *Attempt) int { return cmp.Compare(x.Call, y.Call) })
	sessions := lives(attempts)
	v := &Verdict{Problems: slices.Concat(wrong(attempts), crowded(attempts), tokens(attempts), expiredEarly(attempts, sessions),
		revisions(attempts), indexes(attempts), overslept(attempts))}
	keys, attempts := splitKeys(attempts)
	v.Problems = append(v.Problems, once(attempts)...)
	paths := map[string][]*Attempt{}
	for _, a := range attempts {
		if a.Path != "" && a.Files == nil {
			paths[a.Path] = append(paths[a.Path], a)
		}
	}
	var parts []part
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		v.Problems = append(v.Problems, outOfOrder(paths[path])...)
		parts = append(parts, part{path, "one lock", modelOf(&lock{}), func(unseen bool) []porcupine.Operation {
			return operations(paths[path], sessions, unseen)
		}})
	}
	v.Paths = len(parts)
	for _, g := range groups(attempts) {
		v.Groups++
		parts = append(parts, part{g.name, "one cell's files", modelOf(&group{of: g}), func(unseen bool) []porcupine.Operation {
			return fileOperations(g, sessions, unseen)
		}})
	}
	for _, dir := range slices.Sorted(maps.Keys(keys)) {
		v.Keys++
		parts = append(parts, part{dir, "the keys of one cell", modelOf(&shelf{lives: sessions}), func(unseen bool) []porcupine.Operation {
			return keyOperations(keys[dir], sessions, unseen)
		}})
	}
	v.checkParts(parts, patience)
	return v
}

// checkParts checks the parts in parallel.
func (v *Verdict) checkParts(parts []part, patience time.Duration) {
	var mu sync.Mutex // guards v
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range parts {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			ops := p.steps(false)
			result := porcupine.CheckOperationsTimeout(p.model, ops, patience/4)
			if result != porcupine.Ok {
				ops = p.steps(true)
				result = porcupine.CheckOperationsTimeout(p.model, ops, patience)
			}
			took := time.Since(began)
			var info porcupine.LinearizationInfo
			if result != porcupine.Ok {
				_, info = porcupine.CheckOperationsVerbose(p.model, ops, patience)
			}
			mu.Lock()
			defer mu.Unlock()
			v.Steps += len(ops)
			v.Longest = max(v.Longest, took)
			if result != porcupine.Ok {
				v.pictures = append(v.pictures, picture{p.path, p.model, info})
			}
			switch result {
			case porcupine.Illegal:
				v.Problems = append(v.Problems, fmt.Sprintf("the record of %s is not possible for %s; %s", p.path, p.what, stuck(p.model, ops, info)))
			case porcupine.Unknown:
				v.Problems = append(v.Problems, fmt.Sprintf("the record of %s was not decided within %v; %s", p.path, patience, stuck(p.model, ops, info)))
			}
		})
	}
	running.Wait()
}

// stuck reports how far the model can follow a record, and what it cannot
// explain there: of the missing steps, the one that ended first.
func stuck(model porcupine.Model, ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, p := range partial {
			if len(p) > len(longest) {
				longest = p
			}
		}
	}
	done := map[any]bool{}
	state := model.Init()
	for _, op := range longest {
		done[op.Input] = true
		_, state = model.Step(state, op.Input, nil)
	}
	var first *porcupine.Operation
	for i := range ops {
		if op := &ops[i]; !done[op.Input] && !op.Input.(*step).maybe && (first == nil || op.Return < first.Return) {
			first = op
		}
	}
	if first == nil {
		return "it may be correct"
	}
	return fmt.Sprintf("after %d of %d steps the state is %q, and %q (%.6f–%.6f) does not fit", len(longest), len(ops),
		model.DescribeState(state), first.Input.(*step), seconds(first.Call), seconds(first.Return))
}

// WritePictures writes porcupine's picture of each path with a wrong record, as
// one HTML file each, and returns the files' names. name returns a file name
// for a path.
func (v *Verdict) WritePictures(name func(path string) string) (files []string, err error) {
	for _, p := range v.pictures {
		file := name(p.path)
		if err := porcupine.VisualizePath(p.model, p.info, file); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}
