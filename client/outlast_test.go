package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

// foreign is a context of the caller's own kind, whose methods may do anything.
type foreign struct {
	context.Context
	asked func()
}

func (f foreign) Done() <-chan struct{} { f.asked(); return f.Context.Done() }
func (f foreign) Err() error            { f.asked(); return f.Context.Err() }
func (f foreign) Value(key any) any     { f.asked(); return f.Context.Value(key) }

// What is cut off under a session's mutex must not run the caller's code there:
// that may ask the session something, and wait for the mutex for ever.
func TestCutRunsNoneOfTheCallersCode(t *testing.T) {
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	out, cut, done := outlast(foreign{caller, func() { asked++ }}, time.Minute)
	before := asked
	cut(errCut)
	if asked != before {
		t.Errorf("the caller's context was asked %d times", asked-before)
	}
	if !errors.Is(context.Cause(out), errCut) {
		t.Errorf("the cause is %v", context.Cause(out))
	}
	done()
}
