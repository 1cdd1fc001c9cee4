package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
)

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		failed := errors.New("the work failed")
		for _, want := range []error{nil, failed} {
			var after context.Context
			err := s.Do(t.Context(), "/a", func(ctx context.Context, h *client.Held) error {
				after = ctx
				wantTokens(t, tc, "/a", h.Token())
				if ctx.Err() != nil || h.Path() != "/a" {
					t.Errorf("the work runs under %v, at %s", ctx.Err(), h.Path())
				}
				return want
			}, client.LockDelay(time.Second))
			if !errors.Is(err, want) {
				t.Errorf("Do returned %v, want %v", err, want)
			}
			wantTokens(t, tc, "/a")
			wantErr(t, after.Err(), context.Canceled)
		}
		h := lock(t, s, "/a")
		err := s.Do(t.Context(), "/a", func(context.Context, *client.Held) error { t.Error("worked without the lock"); return nil }, client.Wait(time.Second))
		wantErr(t, err, client.ErrLockHeld)
		wantTokens(t, tc, "/a", h.Token())
	})
}

// The work's context ends with the caller's, with the same error and cause, and
// the lock is released.
func TestDoEndsWithItsContext(t *testing.T) {
	stopped := errors.New("told to stop")
	type key struct{}
	for name, test := range map[string]struct {
		limit     func(context.Context) (context.Context, func())
		err, want error
	}{
		"deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel
		}, context.DeadlineExceeded, context.DeadlineExceeded},
		"cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(stopped) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled, stopped},
	} {
		subBubble(t, name, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			ctx, cancel := test.limit(context.WithValue(t.Context(), key{}, "trace"))
			defer cancel()
			began := time.Now()
			err := s.Do(ctx, "/a", func(under context.Context, h *client.Held) error {
				end, has := under.Deadline()
				if want, wants := ctx.Deadline(); has != wants || !end.Equal(want) || under.Value(key{}) != "trace" {
					t.Errorf("the deadline is %v, %t, want %v, %t; the value %v", end, has, want, wants, under.Value(key{}))
				}
				<-under.Done()
				wantErr(t, under.Err(), test.err)
				must(t, h.Err())
				return context.Cause(under)
			})
			wantErr(t, err, test.want)
			wantWithin(t, began, 1100*time.Millisecond)
			wantTokens(t, tc, "/a")
		})
	}
}

// Do returns the work's error unchanged if the lock was held to the end.
// Otherwise it joins that error with Unlock's.
func TestDoReturnsTheVeryError(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		for _, lost := range []bool{false, true} {
			for _, of := range []error{nil, io.EOF} {
				err := s.Do(t.Context(), "/a", func(ctx context.Context, h *client.Held) error {
					if lost {
						must(t, second(admin.New(c).Release(t.Context(), "/a", s.ID(), h.Handle(), 0)))
					}
					return of
				})
				switch {
				case !lost && err != of, lost && of == nil && err != client.ErrLockLost:
					t.Errorf("lost: %t, the work returned %v, and Do %#v", lost, of, err)
				case lost && of != nil:
					wantErr(t, err, of)
					wantErr(t, err, client.ErrLockLost)
				}
			}
		}
	})
}

// TestDoNamesItsCauseOnce: the work returns why its context has ended, and Unlock returns
// the same.
func TestDoNamesItsCauseOnce(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		for _, wrap := range []string{"", "copy: "} {
			err := s.Do(t.Context(), "/a", func(ctx context.Context, h *client.Held) error {
				must(t, second(admin.New(c).Release(t.Context(), "/a", s.ID(), h.Handle(), 0)))
				<-ctx.Done()
				if wrap == "" {
					return context.Cause(ctx)
				}
				return fmt.Errorf("%s%w", wrap, context.Cause(ctx))
			})
			if want := wrap + client.ErrLockLost.Error(); err == nil || err.Error() != want {
				t.Errorf("%q, want %q", err, want)
			}
		}
	})
}

// The work's context ends with the hold, with the reason as its cause.
func TestDoEndsWithTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		err := s.Do(t.Context(), "/a", func(ctx context.Context, h *client.Held) error {
			must(t, admin.New(c).KillSession(t.Context(), s.ID()))
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), client.ErrSessionExpired)
			return nil
		})
		wantErr(t, err, client.ErrSessionExpired)
	})
	onLaptop(t, func(t *testing.T, l *laptop, h *client.Held) {
		err := h.Session().Do(t.Context(), "/b", func(ctx context.Context, _ *client.Held) error {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			l.sleep(time.Minute)
			wantErr(t, ctx.Err(), context.Canceled)
			wantErr(t, context.Cause(ctx), client.ErrJeopardy)
			synctest.Wait()
			wantErr(t, child.Err(), context.Canceled)
			return context.Cause(ctx)
		})
		wantErr(t, err, client.ErrJeopardy)
		wantErr(t, err, client.ErrSessionExpired)
	})
}

// A panic passes through Do and leaves no lock behind. If the cell does not
// answer, Do does not wait for it.
func TestDoPanics(t *testing.T) {
	for _, away := range []bool{false, true} {
		bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
			s := open(t, c)
			began := time.Now()
			var under context.Context
			func() {
				defer func() {
					wantEqual(t, "recovered", recover(), "oh")
				}()
				_ = s.Do(t.Context(), "/a", func(ctx context.Context, _ *client.Held) error {
					tc.all(away)
					under = ctx
					panic("oh")
				})
			}()
			wantErr(t, under.Err(), context.Canceled)
			wantWithin(t, began, client.ReleaseTime+time.Second)
			tc.all(false)
			time.Sleep(10 * time.Second)
			wantTokens(t, tc, "/a")
		})
	}
}
