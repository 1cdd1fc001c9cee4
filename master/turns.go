package master

import (
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/replica/state"
)

const (
	turnReturn = 3 * time.Millisecond   // that long a file waits for the caller who was refused to come back
	turnWait   = 100 * time.Millisecond // that long a call waits for its turn, then it goes without
)

// turns has those who write one file by compare-and-set take turns. Of callers
// who all come with the present revision only one can win; the others have tried
// in vain, each at the cost of a log entry, and who is nearest to the master wins
// most. Here no more than two calls for a file are in the log: one that wins, and
// one behind it, which is refused, and told what the file holds by then. It has
// the next turn if it comes back soon, while those who have waited longest follow.
// So an increment takes two tries, whoever makes it.
//
// It only delays calls, and for turnWait at most: what they come to is decided
// behind it, by the state alone.
type turns struct {
	log Log

	mu    sync.Mutex
	files map[string]*turn // those that are written so, or wait for somebody to come back
}

// turn is a round of one file, and who waits for the next.
type turn struct {
	begun, over int       // calls of this round
	placed      bool      // the first of them has its place in the log's order
	sessions    [2]string // whose they are
	refused     [2]bool
	returns     string // no round begins before this session comes or time has passed; empty for no such
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

// contestant is the call that a transaction is which writes or deletes one file by
// compare-and-set, on behalf of a session; nil for any other.
func contestant(op *state.Transaction) *turnCall {
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

// enter waits until c may go on, or until done is closed. It reports whether it is
// its turn: if not c goes on all the same.
func (t *turns) enter(c *turnCall, done <-chan struct{}) bool {
	t.join(c)
	late := time.NewTimer(turnWait)
	defer late.Stop()
	select {
	case <-c.ready:
		return true
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

// admit has the next call go on, if one may. A round begins with one that is to win:
// who is behind it is told what it has written.
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

// placed is to be called when c has its place in the log's order: who is to be behind
// it comes now, and mostly into the same entry.
func (t *turns) placed(c *turnCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.turn.placed = true
	t.admit(c.turn)
}

// leave is to be called when c, whose turn had come, is over. refused is whether the
// file was at another revision.
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

// next begins a round with those who wait; without any the file is forgotten.
func (t *turns) next(path string, x *turn) {
	x.returns = ""
	if t.admit(x); x.begun == 0 {
		delete(t.files, path)
	}
}
