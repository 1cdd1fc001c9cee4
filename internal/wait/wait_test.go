package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/wait"
)

var errTest = errors.New("of the test")

// after returns a function that takes d to return.
func after(d time.Duration) func() (int, error) {
	return func() (int, error) {
		time.Sleep(d)
		return 7, errTest
	}
}

// The result comes from the function or from the context, whichever ends first. No
// goroutine outlasts the function; otherwise the bubble would not end.
func TestFirst(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		value int
		err   error
	}{
		{time.Second, 7, errTest},
		{time.Minute, 0, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			if value, err := wait.Get(ctx, after(test.takes)); value != test.value || err != test.err {
				t.Errorf("Get: %d, %v", value, err)
			}
			if took := time.Since(began); took != min(test.takes, 10*time.Second) {
				t.Errorf("it took %v", took)
			}
			time.Sleep(test.takes)
		})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			f := after(test.takes)
			if err := wait.Do(ctx, func() error { _, err := f(); return err }); err != test.err {
				t.Errorf("Do: %v", err)
			}
			time.Sleep(test.takes)
		})
	}
}
