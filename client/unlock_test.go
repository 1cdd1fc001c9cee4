package client

import (
	"testing"
	"time"
)

// Of a lock that was lost before, Unlock says so wherever that is certain: not
// where a call got lost, which may have done the work. CheckSequencer tells
// before.
func TestUnlockOfWhatIsLostWhileMastershipMoves(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*fakeCell)
		want error
	}{
		"refuses connections": {func(f *fakeCell) { f.kill("r1") }, ErrLockLost},
		"is no master":        {func(*fakeCell) {}, ErrLockLost},
		"is silent":           {func(f *fakeCell) { f.silence("r1", true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
				s := open(t, c)
				h := lock(t, s, "/a")
				if _, err := c.Release(t.Context(), "/a", s.ID(), h.Handle(), 0); err != nil {
					t.Fatal(err)
				}
				test.fail(f)
				f.elect("r2")
				if err := h.Unlock(t.Context()); err != test.want {
					t.Errorf("unlock: %v, want %v", err, test.want)
				}
				if check, err := c.CheckSequencer(t.Context(), h.Sequencer()); err != nil || check.Valid {
					t.Errorf("check: %+v, %v", check, err)
				}
			})
		})
	}
}

// News of another master cut no release off that is about to be answered, or
// what it found could not be told; one that is not answered is made again soon.
func TestNewsOfAMasterWhileUnlocking(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		c, err := Config{URLs: []string{"http://r1"}, Transport: f, Clock: func() time.Duration { return time.Since(f.start) }}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s := open(t, c)
		news := func() {
			s.locks.askAgain()
		}
		h := lock(t, s, "/a")
		if _, err := c.Release(t.Context(), "/a", s.ID(), h.Handle(), 0); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Millisecond, news)
		wantErr(t, h.Unlock(t.Context()), ErrLockLost)

		h = lock(t, s, "/a")
		f.silence("r1", true)
		time.AfterFunc(time.Second, func() { f.silence("r1", false); news() })
		began := time.Now()
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if got := time.Since(began); got > time.Second+lateAnswer+100*time.Millisecond {
			t.Errorf("it took %s", got)
		}
	})
}
