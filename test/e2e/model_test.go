package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// What clients do with one lock, as a history that porcupine checks against a
// sequential model. Each acquire has a handle of its own, so a handle stands
// for one hold.

type operation int

const (
	tryLock operation = iota
	unlock
	readLock
)

// input is a call. Retried says that it was sent more than once: then the
// answer is that of the last attempt, and an earlier one may have done the work.
type input struct {
	op     operation
	path   string
	handle string
}

// output is the answer to a call.
type output struct {
	done    bool   // tryLock: granted; unlock: there was something to release
	retried bool   // it was sent more than once
	holder  string // readLock: the holder's handle, empty for a free lock
	token   uint64 // of the grant, or of the holder
}

// lockState is the lock in the model.
type lockState struct {
	holder string
	token  uint64 // of the present or the last grant
}

// lockModel is one lock: a try is granted if and only if it is free, tokens
// grow, a release frees it, and a read shows it as it is.
var lockModel = porcupine.Model{
	Partition: byPath,
	Init:      func() any { return lockState{} },
	Step: func(state, in, out any) (bool, any) {
		return stepLock(state.(lockState), in.(input), out.(output))
	},
	DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
	DescribeState: func(state any) string {
		s := state.(lockState)
		return fmt.Sprintf("%q with token %d", s.holder, s.token)
	},
}

func stepLock(s lockState, in input, out output) (bool, lockState) {
	switch in.op {
	case tryLock:
		if !out.done {
			return s.holder != "" && s.holder != in.handle, s
		}
		return s.holder == "" && out.token > s.token, lockState{in.handle, out.token}
	case unlock:
		free := lockState{"", s.token}
		if out.retried { // which attempt found what is not known; none leaves it held
			if s.holder == in.handle {
				return true, free
			}
			return true, s
		}
		return out.done == (s.holder == in.handle), free
	}
	return out.holder == s.holder && (out.holder == "" || out.token == s.token), s
}

func byPath(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, o := range history {
		path := o.Input.(input).path
		parts[path] = append(parts[path], o)
	}
	var all [][]porcupine.Operation
	for _, part := range parts {
		all = append(all, part)
	}
	return all
}

func describe(in input, out output) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s(%s) → ", [...]string{"try", "release", "read"}[in.op], in.handle)
	if in.op == readLock {
		fmt.Fprintf(&text, "%q %d", out.holder, out.token)
	} else {
		fmt.Fprintf(&text, "%v %d", out.done, out.token)
	}
	if out.retried {
		text.WriteString(" (retried)")
	}
	return text.String()
}

// TestLockModel: the model takes what a lock may do, and nothing else.
func TestLockModel(t *testing.T) {
	t.Parallel()
	type done struct {
		in  input
		out output
	}
	try := func(h string, token uint64) done {
		return done{input{op: tryLock, handle: h}, output{done: token != 0, token: token}}
	}
	free := func(h string, found bool) done { return done{input{op: unlock, handle: h}, output{done: found}} }
	see := func(h string, token uint64) done { return done{input{op: readLock}, output{holder: h, token: token}} }
	for name, c := range map[string]struct {
		history []done
		want    bool
	}{
		"one after the other":          {[]done{try("a", 1), see("a", 1), free("a", true), see("", 0), try("b", 2)}, true},
		"refused while held":           {[]done{try("a", 1), try("b", 0)}, true},
		"two holders":                  {[]done{try("a", 1), try("b", 2)}, false},
		"refused though free":          {[]done{try("a", 0)}, false},
		"a token that does not grow":   {[]done{try("a", 1), free("a", true), try("b", 1)}, false},
		"a stale read after a grant":   {[]done{try("a", 1), see("", 0)}, false},
		"a stale read after a release": {[]done{try("a", 1), free("a", true), see("a", 1)}, false},
		"a lost grant":                 {[]done{try("a", 1), free("a", false)}, false},
	} {
		var history []porcupine.Operation
		for i, d := range c.history {
			history = append(history, porcupine.Operation{Input: d.in, Output: d.out, Call: int64(2 * i), Return: int64(2*i + 1)})
		}
		if got := porcupine.CheckOperations(lockModel, history); got != c.want {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.want)
		}
	}
}
