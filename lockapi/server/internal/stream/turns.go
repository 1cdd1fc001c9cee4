package stream

import (
	"runtime"
	"time"
)

// Streams send in turns, so that a change with many watchers does not fill the
// scheduler's queue, where other calls and Raft would wait behind them all.
// After every turnsInRow turns, other goroutines that are ready run first.
// While others change the cell, streams then pause for restFactor times as long
// as they worked, at most mostRest.
const (
	turnsInRow = 8
	restFactor = 2
	mostRest   = 5 * time.Millisecond
)

// turns are the rights to send. A stream has one at a time.
type turns chan *turn

type turn struct {
	n    int           // times it was taken since the last rest
	work time.Duration // since then
}

func newTurns(n int) turns {
	all := make(turns, n)
	for range n {
		all <- new(turn)
	}
	return all
}

// run calls do in a turn. do reports whether the cell has changed further since
// the event.
func (all turns) run(do func() (busy bool)) {
	t, busy := <-all, false
	defer func(began time.Time) {
		t.work += time.Since(began)
		if t.n++; t.n == turnsInRow {
			t.rest(busy)
		}
		all <- t
	}(time.Now())
	busy = do()
}

func (t *turn) rest(busy bool) {
	if busy {
		time.Sleep(min(restFactor*t.work, mostRest))
	} else {
		runtime.Gosched()
	}
	*t = turn{}
}
