package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
)

// foreign is a context of the caller's own type; its methods may do anything.
type foreign struct {
	context.Context
	asked func()
}

func (f foreign) Done() <-chan struct{} { f.asked(); return f.Context.Done() }
func (f foreign) Err() error            { f.asked(); return f.Context.Err() }
func (f foreign) Value(key any) any     { f.asked(); return f.Context.Value(key) }

// cut runs under a session's mutex, so it must not run the caller's code: that
// code may call the session, and wait for the mutex forever.
func TestCutRunsNoneOfTheCallersCode(t *testing.T) {
	caller, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	out, cut, done := outlast(foreign{caller, func() { asked++ }}, time.Minute)
	before := asked
	cut(call.ErrCut)
	if asked != before {
		t.Errorf("the caller's context was used %d times", asked-before)
	}
	if !errors.Is(context.Cause(out), call.ErrCut) {
		t.Errorf("the cause is %v", context.Cause(out))
	}
	done()
}
