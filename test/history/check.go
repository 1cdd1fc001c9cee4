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

// Verdict is what Check found.
type Verdict struct {
	Problems []string // what must not be; empty for a record without fault
	Paths    int      // checked against the model
	Steps    int      // of the model
	Longest  time.Duration
	pictures []picture
}

// picture is a path whose record the model does not allow.
type picture struct {
	path string
	info porcupine.LinearizationInfo
}

// Check goes through a record. Each path may take as long as patience; one that
// was not decided by then counts as a problem. Pairs of session and handle must
// not be used again once their hold was released, as the contract advises.
func Check(record []Attempt, patience time.Duration) *Verdict {
	attempts := make([]*Attempt, len(record))
	for i := range record {
		attempts[i] = &record[i]
	}
	slices.SortStableFunc(attempts, func(x, y *Attempt) int { return cmp.Compare(x.Call, y.Call) })
	sessions := lives(attempts)
	v := &Verdict{Problems: slices.Concat(wrong(attempts), crowded(attempts), tokens(attempts), expiredEarly(attempts, sessions))}
	paths := map[string][]*Attempt{}
	for _, a := range attempts {
		if a.Path != "" {
			paths[a.Path] = append(paths[a.Path], a)
		}
	}
	v.checkPaths(paths, sessions, patience)
	return v
}

// checkPaths checks the paths side by side.
func (v *Verdict) checkPaths(paths map[string][]*Attempt, sessions map[string]*life, patience time.Duration) {
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			ops := operations(paths[path], sessions, false)
			result := porcupine.CheckOperationsTimeout(model, ops, patience/4)
			if result != porcupine.Ok {
				ops = operations(paths[path], sessions, true)
				result = porcupine.CheckOperationsTimeout(model, ops, patience)
			}
			took := time.Since(began)
			var info porcupine.LinearizationInfo
			if result != porcupine.Ok {
				_, info = porcupine.CheckOperationsVerbose(model, ops, patience)
			}
			turns := overtaking(paths[path])
			mu.Lock()
			defer mu.Unlock()
			v.Paths++
			v.Steps += len(ops)
			v.Longest = max(v.Longest, took)
			v.Problems = append(v.Problems, turns...)
			if result != porcupine.Ok {
				v.pictures = append(v.pictures, picture{path, info})
			}
			switch result {
			case porcupine.Illegal:
				v.Problems = append(v.Problems, fmt.Sprintf("what was seen of %s is not what one lock can have done; %s", path, stuck(ops, info)))
			case porcupine.Unknown:
				v.Problems = append(v.Problems, fmt.Sprintf("whether what was seen of %s is right was not decided within %v; %s", path, patience, stuck(ops, info)))
			}
		})
	}
	running.Wait()
}

// stuck says how far the model can follow a record, and what it cannot explain
// there: the step that ended first of those that are missing.
func stuck(ops []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, p := range partial {
			if len(p) > len(longest) {
				longest = p
			}
		}
	}
	done := map[any]bool{}
	state := &lock{}
	for _, op := range longest {
		done[op.Input] = true
		state = state.step(op.Input.(*step))
	}
	var first *porcupine.Operation
	for i := range ops {
		if op := &ops[i]; !done[op.Input] && !op.Input.(*step).maybe && (first == nil || op.Return < first.Return) {
			first = op
		}
	}
	if first == nil {
		return "it may be right"
	}
	return fmt.Sprintf("after %d of %d steps the state is %q, and %q (%.6f–%.6f) does not fit", len(longest), len(ops),
		state, first.Input.(*step), seconds(first.Call), seconds(first.Return))
}

// WritePictures writes porcupine's pictures of the paths whose record is not
// right, as one HTML file each, and returns the files' names. name makes a file
// name of a path.
func (v *Verdict) WritePictures(name func(path string) string) (files []string, err error) {
	for _, p := range v.pictures {
		file := name(p.path)
		if err := porcupine.VisualizePath(model, p.info, file); err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}
