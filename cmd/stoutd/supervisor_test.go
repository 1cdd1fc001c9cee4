package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// supervised is a supervisor that keeps what it is told, with a watchdog of 20 s.
func supervised() (s *supervisor, told *[]string) {
	told = new([]string)
	s = &supervisor{log: zerolog.New(io.Discard), every: 5 * time.Second, bound: 10 * time.Second}
	s.notify = func(state string) { *told = append(*told, state) }
	return s, told
}

// TestTheWatchdogIsFedByWhatWorks: a process that starts, waits or serves feeds
// it; a replica that fails or hangs does not.
func TestTheWatchdogIsFedByWhatWorks(t *testing.T) {
	const fed = "WATCHDOG=1"
	for name, test := range map[string]struct {
		look look
		want []string
	}{
		"starts": {nil, []string{"STATUS=starting", fed, fed, fed, fed}},
		"serves": {func(context.Context) (string, error) { return "serving", nil }, []string{"STATUS=serving", fed, fed, fed, fed}},
		"fails":  {func(context.Context) (string, error) { return "", errors.New("shut down") }, nil},
		"hangs": {func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, nil},
		"smuggles a line": {func(context.Context) (string, error) { return "waits\nREADY=1", nil },
			[]string{`STATUS=waits\nREADY=1`, fed, fed, fed, fed}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, told := supervised()
				if test.look != nil {
					s.see(test.look)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
				defer cancel()
				s.begin(ctx)
				if !slices.Equal(*told, test.want) {
					t.Errorf("told %q, want %q", *told, test.want)
				}
			})
		})
	}
}

// TestAHangingLookIsLeftBehind: one that takes no notice of its context, too.
func TestAHangingLookIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := supervised()
		release := make(chan struct{})
		defer close(release)
		s.see(func(context.Context) (string, error) { <-release; return "late", nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.once(ctx); !errors.Is(err, errHangs) {
			t.Errorf("err = %v", err)
		}
		s.begin(ctx)
		if len(*told) > 0 {
			t.Errorf("told %q", *told)
		}
	})
}

// TestWaitingIsTold: whoever looks at a start that takes long learns why.
func TestWaitingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := supervised()
		s.waiting("for r2 and r3")
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		s.begin(ctx)
		s.ready(func(context.Context) (string, error) { return "serving", nil })
		s.stopping()
		if got := strings.Join(*told, " "); got != "STATUS=waiting: for r2 and r3 WATCHDOG=1 READY=1 STOPPING=1" {
			t.Errorf("told %q", got)
		}
	})
}
