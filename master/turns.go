package master

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

const (
	turnReturn = 3 * time.Millisecond   // how long a file waits for the refused caller to return
	turnWait   = 100 * time.Millisecond // how long a call waits for its turn before it proceeds without
)

// turns lets the writers of one file by compare-and-set take turns. If several
// callers send the present revision, only one can win. The others would fail,
// each at the cost of a log entry, and the caller nearest to the master would
// win most. With turns, at most two calls for a file are in the log: the
// winner, and one behind it that is refused and receives the file's new
// content. The refused caller has the next turn if it returns soon, followed by
// the caller that has waited longest. So an increment takes two tries, for
// every caller.
//
// Turns only delay calls, by turnWait at most. The state alone decides the
// outcome.
type turns struct {
	log Log

	mu    sync.Mutex
	files map[string]*turn // files being written, or waiting for a refused caller
}

// turn is a round of one file, with the calls that wait for the next round.
type turn struct {
	begun, over int       // calls of this round
	placed      bool      // the first of them has its place in the log's order
	sessions    [2]string // of these calls
	refused     [2]bool
	returns     string // no round begins before this session returns or turnReturn passes; may be empty
	round       int
	queue       []*turnCall
}

type turnCall struct {
	path     string
	session  string
	revision uint64 // that the file is to have
	slot     int    // in its round
	turn     *turn
	ready    chan struct{} // closed when its turn has come
}

// compareAndSetCall returns the turnCall of a transaction that writes or
// deletes one file by compare-and-set on behalf of a session. It returns nil
// for any other transaction.
func compareAndSetCall(op *state.Transaction) *turnCall {
	if len(op.Then) != 1 || len(op.If) > 0 || op.Session == "" {
		return nil
	}
	c := &turnCall{session: op.Session, ready: make(chan struct{})}
	when := state.Always
	switch s := op.Then[0].(type) {
	case *state.Write:
		c.path, c.revision, when = s.Path, s.Revision, s.When
	case *state.Delete:
		c.path, c.revision, when = s.Path, s.Revision, s.When
	}
	if when != state.IfRevision {
		return nil
	}
	return c
}

// enter waits until it is c's turn, until turnWait has passed, or until ctx ends or
// done is closed. It reports whether c has its turn; without one c proceeds anyway.
func (t *turns) enter(ctx context.Context, c *turnCall, done <-chan struct{}) bool {
	t.join(c)
	late := time.NewTimer(turnWait)
	defer late.Stop()
	select {
	case <-c.ready:
		return true
	case <-ctx.Done():
	case <-done:
	case <-late.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := c.turn
	i := slices.Index(x.queue, c)
	if i < 0 {
		return true
	}
	x.queue = slices.Delete(x.queue, i, i+1)
	return false
}

func (t *turns) join(c *turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.files[c.path]
	if x == nil {
		x = &turn{}
		if t.files == nil {
			t.files = map[string]*turn{}
		}
		t.files[c.path] = x
	}
	c.turn = x
	at := len(x.queue)
	if x.returns == c.session {
		x.returns, at = "", 0
	}
	x.queue = slices.Insert(x.queue, at, c)
	t.admit(x)
}

// admit lets the next call proceed, if one may. A round begins with a call that
// is expected to win; the call behind it receives what the winner wrote.
func (t *turns) admit(x *turn) {
	next := 0
	switch {
	case len(x.queue) == 0 || x.returns != "" || x.begun == 2 || x.begun == 1 && !x.placed:
		return
	case x.begun == 0:
		f, _ := t.log.State().File(x.queue[0].path)
		next = max(0, slices.IndexFunc(x.queue, func(c *turnCall) bool { return f != nil && f.Revision == c.revision }))
	}
	c := x.queue[next]
	x.queue = slices.Delete(x.queue, next, next+1)
	c.slot, x.sessions[x.begun] = x.begun, c.session
	x.begun++
	close(c.ready)
}

// placed must be called when c has its place in the log's order. It admits the
// call behind c, which mostly joins the same entry.
func (t *turns) placed(c *turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.turn.placed = true
	t.admit(c.turn)
}

// leave must be called when c has had its turn and ended. refused reports that
// the file was at another revision.
func (t *turns) leave(c *turnCall, refused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := c.turn
	x.refused[c.slot] = refused
	if x.over++; x.over < x.begun {
		return
	}
	loser, alone := slices.Index(x.refused[:], true), x.begun == 1 && len(x.queue) == 0
	x.begun, x.over, x.placed, x.refused = 0, 0, false, [2]bool{}
	x.round++
	if loser < 0 || alone {
		t.next(c.path, x)
		return
	}
	x.returns = x.sessions[loser]
	round := x.round
	time.AfterFunc(turnReturn, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if x.returns != "" && x.round == round {
			t.next(c.path, x)
		}
	})
}

// next begins a round with the waiting calls. Without any it forgets the file.
func (t *turns) next(path string, x *turn) {
	x.returns = ""
	if t.admit(x); x.begun == 0 {
		delete(t.files, path)
	}
}
