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

// supervised returns a supervisor with a watchdog of 20 s, and the messages sent to
// it.
func supervised() (s *supervisor, sent *[]string) {
	sent = new([]string)
	s = &supervisor{log: zerolog.New(io.Discard), every: 5 * time.Second, bound: 10 * time.Second}
	s.notify = func(state string) error {
		*sent = append(*sent, state)
		return nil
	}
	return s, sent
}

// TestTheWatchdogIsFedByWhatWorks: a process that starts, waits or serves resets the
// watchdog's timer; a replica that fails or hangs does not.
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
				s, sent := supervised()
				if test.look != nil {
					s.see(test.look)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
				defer cancel()
				s.begin(ctx)
				if !slices.Equal(*sent, test.want) {
					t.Errorf("sent %q, want %q", *sent, test.want)
				}
			})
		})
	}
}

// TestAHangingLookIsLeftBehind: a check that ignores its context is abandoned.
func TestAHangingLookIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := supervised()
		release := make(chan struct{})
		defer close(release)
		s.see(func(context.Context) (string, error) { <-release; return "late", nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.once(ctx); !errors.Is(err, errHangs) {
			t.Errorf("err = %v", err)
		}
		s.begin(ctx)
		if len(*sent) > 0 {
			t.Errorf("sent %q", *sent)
		}
	})
}

// TestWaitingIsTold: the supervisor receives the reason for a slow start.
func TestWaitingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := supervised()
		s.waiting("for r2 and r3")
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		s.begin(ctx)
		s.ready(func(context.Context) (string, error) { return "serving", nil })
		s.stopping()
		if got := strings.Join(*sent, " "); got != "STATUS=waiting: for r2 and r3 WATCHDOG=1 READY=1 STOPPING=1" {
			t.Errorf("sent %q", got)
		}
	})
}
