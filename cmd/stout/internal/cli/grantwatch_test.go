package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// testAsker is a cell that says what the test has it say, in virtual time.
type testAsker struct {
	check   error         // what a check fails with
	invalid bool          // the grant is not held
	session error         // what reading the session fails with
	mute    bool          // a check is not answered
	asked   []time.Time   // when
	longest time.Duration // that a check was waited for
}

func (a *testAsker) CheckSequencer(ctx context.Context, _ string, _ ...client.ReadOption) (lockapi.SequencerCheck, error) {
	began := time.Now()
	a.asked = append(a.asked, began)
	if a.mute {
		<-ctx.Done()
		a.longest = max(a.longest, time.Since(began))
		return lockapi.SequencerCheck{}, ctx.Err()
	}
	return lockapi.SequencerCheck{Valid: !a.invalid}, a.check
}

func (a *testAsker) ReadSession(context.Context, string, ...client.ReadOption) (lockapi.SessionState, error) {
	return lockapi.SessionState{}, a.session
}

func TestGrantWatchFinds(t *testing.T) {
	tests := map[string]struct {
		cell testAsker
		want error // nil: the grant is not given up
	}{
		"held":                         {testAsker{}, nil},
		"released":                     {testAsker{invalid: true}, client.ErrLockLost},
		"session ended":                {testAsker{invalid: true, session: client.ErrSessionNotFound}, client.ErrSessionExpired},
		"released, session not told":   {testAsker{invalid: true, session: client.ErrNoMaster}, client.ErrLockLost},
		"no master":                    {testAsker{check: client.ErrNoMaster}, nil},
		"a server that does not check": {testAsker{check: client.ErrNotFound}, nil},
		"no answer":                    {testAsker{mute: true}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newGrantWatch(&tt.cell, "id", "exclusive:42:/a", 12*time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l.run(ctx)
				select {
				case <-l.gone:
					if !errors.Is(l.why, tt.want) || tt.want == nil {
						t.Errorf("gone, because %v; want %v", l.why, tt.want)
					}
				default:
					if tt.want != nil {
						t.Errorf("not found out; want %v", tt.want)
					}
				}
				if len(tt.cell.asked) == 0 || tt.cell.longest > l.every {
					t.Errorf("asked %d times, waited up to %v", len(tt.cell.asked), tt.cell.longest)
				}
			})
		})
	}
}

// It asks about every quarter of the ttl, within bounds, and not in step with
// others.
func TestGrantWatchAsksNowAndThen(t *testing.T) {
	for ttl, every := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 250 * time.Millisecond,
		time.Second:            250 * time.Millisecond,
		12 * time.Second:       3 * time.Second,
		20 * time.Second:       5 * time.Second,
		24 * time.Hour:         5 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			cell := &testAsker{}
			ctx, cancel := context.WithTimeout(t.Context(), 100*every)
			defer cancel()
			last := time.Now()
			newGrantWatch(cell, "id", "exclusive:42:/a", ttl).run(ctx)
			pauses := make(map[time.Duration]bool)
			for _, at := range cell.asked {
				pause := at.Sub(last)
				last, pauses[pause] = at, true
				if pause > every || pause < every*3/4 {
					t.Errorf("ttl %v: asked after %v; want %v to %v", ttl, pause, every*3/4, every)
				}
			}
			if len(cell.asked) < 100 || len(pauses) < 10 {
				t.Errorf("ttl %v: asked %d times, with %d different pauses", ttl, len(cell.asked), len(pauses))
			}
		})
	}
}
