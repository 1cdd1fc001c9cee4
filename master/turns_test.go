package master

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// swap writes a file by compare-and-set. It returns the file's revision.
func swap(t *testing.T, m *Master, session, key string, revision uint64) (now uint64, done bool) {
	t.Helper()
	w, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/f", Content: []byte(key), Session: session, Key: key, IfRevision: &revision})
	e := new(lockapi.Error)
	switch {
	case err == nil:
		return w.Stat.Revision, true
	case errors.As(err, &e) && e.Current != nil:
		return e.Current.Revision, false
	}
	t.Error(err)
	return revision, false
}

// nobodysTurn fails the test if the office remembers any turn.
func nobodysTurn(t *testing.T, n *node) {
	t.Helper()
	synctest.Wait() // a timer that fires at this moment may not have run yet
	o := openOffice(t, n)
	o.turns.mu.Lock()
	defer o.turns.mu.Unlock()
	if len(o.turns.files) > 0 {
		t.Errorf("%d files have turns without a writer", len(o.turns.files))
	}
}

// TestTurns: callers that increment one file by compare-and-set need two tries
// for each increment. All make the same progress, however near to the master
// they are.
func TestTurns(t *testing.T) {
	for _, writers := range testrun.Rows(t, 1, []int{2, 3, 16}) {
		t.Run(fmt.Sprintf("writers=%d", writers), func(t *testing.T) {
			one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
				c.setDelay(time.Millisecond / 2)
				at := put(t, m, "/f", "x").Revision
				tries, wins := make([]int, writers), make([]int, writers)
				var wg sync.WaitGroup
				end := time.Now().Add(time.Second)
				for i := range writers {
					s := newSession(t, m, time.Minute)
					wg.Go(func() {
						at, won := at, false
						for time.Now().Before(end) {
							tries[i]++
							if at, won = swap(t, m, s, fmt.Sprint(tries[i]), at); won {
								wins[i]++
							}
							pass(time.Duration(i+1) * 10 * time.Microsecond)
						}
					})
				}
				wg.Wait()
				if least, most := slices.Min(wins), slices.Max(wins); most > least+8 || least < 1400/writers/2 {
					t.Errorf("increments: %v", wins)
				}
				for i := range writers {
					if tries[i] > 2*wins[i]+4 {
						t.Errorf("writer %d made %d tries for %d increments", i, tries[i], wins[i])
					}
				}
				pass(turnReturn)
				nobodysTurn(t, n)
			})
		})
	}
}

// TestTurnOfWhoLeft: a refused caller that does not return delays the others
// for turnReturn. A caller that is alone does not wait.
func TestTurnOfWhoLeft(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		const round = time.Millisecond
		c.setDelay(round)
		at := put(t, m, "/f", "x").Revision
		took := make([]time.Duration, 7)
		var wg sync.WaitGroup
		for i := range took {
			s := newSession(t, m, time.Minute)
			wg.Go(func() {
				pass(time.Duration(i) * 10 * time.Microsecond)
				began := time.Now()
				if _, won := swap(t, m, s, "k", at); won != (i == 0) {
					t.Errorf("call %d won: %v", i, won)
				}
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		for i, d := range took {
			if most := time.Duration((i+1)/2)*(2*round+turnReturn) + 2*round; d > most {
				t.Errorf("call %d took %v, more than %v", i, d, most)
			}
		}
		pass(turnReturn)
		nobodysTurn(t, n)
		alone := newSession(t, m, time.Minute)
		for key := range 3 {
			began := time.Now()
			swap(t, m, alone, fmt.Sprint(key), 1)
			if d := time.Since(began); d > 2*round {
				t.Errorf("a call of a lone caller took %v", d)
			}
			nobodysTurn(t, n)
		}
	})
}

// TestTurnComesToAll: no call waits longer than turnWait for its turn, however
// many there are, nor for an office that has ended.
func TestTurnComesToAll(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		at := put(t, m, "/f", "x").Revision
		sessions := make([]string, 100)
		for i := range sessions {
			sessions[i] = newSession(t, m, time.Minute)
		}
		const round = 50 * time.Millisecond
		c.setDelay(round)
		all := func(call func(session string)) {
			var wg sync.WaitGroup
			began := time.Now()
			for _, s := range sessions {
				wg.Go(func() { call(s) })
			}
			wg.Wait()
			if d := time.Since(began); d > turnWait+4*round {
				t.Errorf("a call took %v", d)
			}
		}
		all(func(s string) { swap(t, m, s, "1", at) })
		pass(turnReturn)
		nobodysTurn(t, n)
		time.AfterFunc(round/2, func() { c.depose(n.id) })
		all(func(s string) {
			if _, err := m.WriteFile(t.Context(), &Caller{}, &lockapi.WriteFile{Path: "/f", Session: s, Key: "2", IfRevision: &at}); err == nil {
				t.Error("it is done, in an office that has ended")
			}
		})
	})
}
