// Package stream sends a cell's events to a caller, as server-sent events or as
// one answer that waits for events (long poll). It has what the watches of a
// replica share: the turns in which streams send, the events that are encoded
// already, and the bound of what is being sent.
//
// It knows neither the parameters of a call nor its caller's rights. Package
// server reads them and opens the events.
package stream

import (
	"context"
	"net"
	"runtime"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Shared is what the watches of a replica share.
type Shared struct {
	Stopping <-chan struct{} // closed when the replica stops; watches end then
	Sent     func(n float64) // counts events that are sent

	turns   turns
	encoded encodedEvents
	bytes   shares // of events that streams are about to send
}

// New returns what watches share. mostBytes bounds the memory of events that
// callers are slow to read.
func New(stopping <-chan struct{}, sent func(n float64), mostBytes int) *Shared {
	return &Shared{Stopping: stopping, Sent: sent, turns: newTurns(max(1, runtime.GOMAXPROCS(0)/2)), bytes: shares{most: mostBytes}}
}

// restWhileStopping is how long a watch may last that begins while the replica
// stops. Its caller may come again at once, until the hand-over of mastership
// has ended.
const restWhileStopping = 200 * time.Millisecond

// ends returns a channel that is closed when a watch that begins now has to end.
func (s *Shared) ends() <-chan struct{} {
	select {
	case <-s.Stopping:
		rested := make(chan struct{})
		time.AfterFunc(restWhileStopping, func() { close(rested) })
		return rested
	default:
		return s.Stopping
	}
}

// Events are the events that the caller may see: see master.EventWatch.
type Events interface {
	Read(after uint64, limit, bytes int) ([]lockapi.CellEvent, uint64, error)
	Ready() <-chan struct{}
}

// Watch is one call for events. It needs a position in the events but no queue:
// events are read from the replica's own ring when the caller can receive them.
// A watch never makes others wait.
type Watch struct {
	*Shared
	Events Events
	After  uint64 // revision up to which the caller has the events
	// Conn is the caller's connection, which Stream may close to make room; nil if
	// it has none.
	Conn net.Conn
}

// Next returns the next events, at most limit of them. Without any it waits for
// some until a moment or until the replica stops, and then returns none.
func (w *Watch) Next(ctx context.Context, until time.Time, limit int) ([]lockapi.CellEvent, error) {
	var over <-chan time.Time
	stopping := w.ends()
	for waits := time.Now().Before(until); ; {
		found, upTo, err := w.Events.Read(w.After, limit, lockapi.PageBytes)
		if err != nil {
			return nil, err
		}
		w.After = upTo
		if len(found) > 0 || !waits {
			return found, nil
		}
		if over == nil {
			over = time.After(time.Until(until))
		}
		select {
		case <-w.Events.Ready():
		case <-over:
			waits = false
		case <-stopping:
			waits = false
		case <-ctx.Done():
			return nil, lockapi.Errorf(lockapi.CodeNoMaster, "the caller has disconnected")
		}
	}
}
