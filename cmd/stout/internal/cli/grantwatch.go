package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// The time between two looks at a grant is a quarter of the ttl, within
// these bounds: soon enough for a person who released a lock and waits, and
// seldom enough for a cell with many holders. The answer costs it no log entry.
const (
	leastGrantWatch = 250 * time.Millisecond
	mostGrantWatch  = 5 * time.Second
)

// asker is what a grantWatch needs of a client.
type asker interface {
	CheckSequencer(ctx context.Context, sequencer string, opts ...client.ReadOption) (lockapi.SequencerCheck, error)
	ReadSession(ctx context.Context, id string, opts ...client.ReadOption) (lockapi.SessionState, error)
}

// grantWatch asks the cell now and then whether a grant is still held. It finds
// what neither the lease nor a keepalive shows: that somebody else released it
// while its session lives on.
//
// Only a cell that says no counts. That it cannot be asked is for the lease to
// judge, which runs down meanwhile.
type grantWatch struct {
	cell      asker
	session   string // id
	sequencer string
	every     time.Duration // the longest time between two questions, and for one
	gone      chan struct{} // closed once the cell said that the grant is not held
	why       error         // client.ErrLockLost or ErrSessionExpired; read after gone is closed
}

// newGrantWatch looks after a grant of the given session, once run is called.
func newGrantWatch(cell asker, session, sequencer string, ttl time.Duration) *grantWatch {
	return &grantWatch{
		cell: cell, session: session, sequencer: sequencer,
		every: min(max(ttl/4, leastGrantWatch), mostGrantWatch),
		gone:  make(chan struct{}),
	}
}

// run asks until the grant is gone or ctx ends. It is called once.
func (w *grantWatch) run(ctx context.Context) {
	for {
		// Many that began at the same moment must not all ask at the same
		// moment.
		if !sleep(ctx, w.every-rand.N(w.every/4)) {
			return
		}
		if why := w.ask(ctx); why != nil {
			w.why = why
			close(w.gone)
			return
		}
	}
}

// ask returns why the grant is gone, and nil where it is held or nobody says.
func (w *grantWatch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.every)
	defer cancel()
	answer, err := w.cell.CheckSequencer(ctx, w.sequencer)
	if err != nil || answer.Valid {
		return nil
	}
	if _, err := w.cell.ReadSession(ctx, w.session); errors.Is(err, client.ErrSessionNotFound) {
		return client.ErrSessionExpired
	}
	return client.ErrLockLost
}
