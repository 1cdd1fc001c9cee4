package history

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"

	"github.com/stoutlock/stout/lockapi"
)

// FileCall is a call about files, as the equivalent transaction, and its
// result. A read is a transaction with a get.
type FileCall struct {
	lockapi.Transaction
	Match  uint64   `json:"match,omitempty"`  // If-Match
	Absent bool     `json:"absent,omitempty"` // If-None-Match: *
	Guards []string `json:"guards,omitempty"` // sequencers
	Below  string   `json:"below,omitempty"`  // a directory that is listed or emptied, with its last slash

	Result    *lockapi.TransactionResult `json:"result,omitempty"`  // if Done
	Current   *lockapi.File              `json:"current,omitempty"` // if Refused
	Operation int                        `json:"operation,omitempty"`
	Listed    []lockapi.File             `json:"listed,omitempty"`  // if it is a List
	Deleted   int                        `json:"deleted,omitempty"` // if it is a DeleteBelow
}

// operations returns the operations of both branches.
func (c *FileCall) operations() iter.Seq[*lockapi.Operation] {
	return func(yield func(*lockapi.Operation) bool) {
		for _, branch := range [][]lockapi.Operation{c.Then, c.Else} {
			for i := range branch {
				if !yield(&branch[i]) {
					return
				}
			}
		}
	}
}

// executed returns the executed branch with its results, or an empty sequence if
// the call was not done.
func (c *FileCall) executed() iter.Seq2[*lockapi.Operation, *lockapi.OperationResult] {
	return func(yield func(*lockapi.Operation, *lockapi.OperationResult) bool) {
		if c.Result == nil {
			return
		}
		branch := c.branch(c.Result.Succeeded)
		for i := range min(len(branch), len(c.Result.Results)) {
			if !yield(&branch[i], &c.Result.Results[i]) {
				return
			}
		}
	}
}

func (c *FileCall) branch(succeeded bool) []lockapi.Operation {
	if succeeded {
		return c.Then
	}
	return c.Else
}

// writes returns what an operation writes, or nil if it writes no file.
func writes(op *lockapi.Operation) *lockapi.WriteOperation {
	switch {
	case op.Put != nil:
		return op.Put
	case op.Create != nil:
		return op.Create
	}
	return op.CreateSequential
}

// contents returns the checksums of everything that a call may write.
func (c *FileCall) contents() iter.Seq[string] {
	return func(yield func(string) bool) {
		for op := range c.operations() {
			if w := writes(op); w != nil && !yield(sumOf(w)) {
				return
			}
		}
	}
}

// sumOf returns the SHA-256 of what an operation writes, in hexadecimal.
func sumOf(w *lockapi.WriteOperation) string {
	var content []byte
	if w.Content != nil {
		content = []byte(*w.Content)
	} else if w.ContentBase64 != nil {
		content = *w.ContentBase64
	}
	return sum(content)
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// files returns the stats in an answer.
func (c *FileCall) files() iter.Seq[*lockapi.FileStat] {
	return func(yield func(*lockapi.FileStat) bool) {
		if c.Current != nil && !yield(&c.Current.FileStat) {
			return
		}
		for _, r := range c.executed() {
			if r.File != nil && !yield(&r.File.FileStat) {
				return
			}
		}
		for i := range c.Listed {
			if !yield(&c.Listed[i].FileStat) {
				return
			}
		}
	}
}

// nodes returns the files and locks that a call is about. A sequential file is
// included once its name is known.
func (c *FileCall) nodes() (paths []string) {
	paths = append(paths, c.Below)
	for i := range c.If {
		paths = append(paths, c.If[i].File, c.If[i].Lock, lockOf(c.If[i].Sequencer))
	}
	for op := range c.operations() {
		switch {
		case op.Put != nil:
			paths = append(paths, op.Put.Path)
		case op.Create != nil:
			paths = append(paths, op.Create.Path)
		case op.Delete != nil:
			paths = append(paths, op.Delete.Path)
		case op.Get != nil:
			paths = append(paths, op.Get.Path)
		case op.Acquire != nil:
			paths = append(paths, op.Acquire.Path)
		case op.Release != nil:
			paths = append(paths, op.Release.Path)
		}
	}
	for f := range c.files() {
		paths = append(paths, f.Path)
	}
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}

// lockOf returns the lock of a sequencer, or "" if it does not parse.
func lockOf(sequencer string) string {
	s, err := lockapi.ParseSequencer(sequencer)
	if err != nil {
		return ""
	}
	return s.Path
}
