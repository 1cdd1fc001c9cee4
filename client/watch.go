package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"time"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/lockapi"
)

// FromNow makes Watch begin with the events acknowledged after it has begun.
const FromNow = math.MaxUint64

// Event is one result of Watch: a change of the cell, or a gap.
type Event struct {
	lockapi.CellEvent
	// Compacted alone is set if no reachable replica keeps the next events,
	// among those given or learned. It is also set if the cell has not reached
	// the revision given to Watch. Read the watched data again before you
	// continue. The events after Compacted.Revision follow.
	Compacted *lockapi.Compacted
}

// Watch yields every change of the cell after a revision, in order, without
// gaps or repeats, until ctx ends or the caller breaks the loop. after may be
// File.AsOf, the revision of a processed event, or FromNow. FromNow means the
// beginning of the loop and needs a master.
//
//	for event, err := range cell.Watch(ctx, file.AsOf, client.OnPath("/app/conf")) {
//		switch {
//		case err != nil:
//			return err
//		case event.Compacted != nil:
//			... // read the file again
//		default:
//			... // event.Type is the kind of change
//		}
//	}
//
// Watch reads from any healthy replica. If that fails, or knows no master for
// long, it moves to another one by itself, after a random pause. It uses a
// stream of the server, or calls that wait if something on the way does not
// pass streams.
//
// Watches of one client for the same types of events, with or without contents,
// share one stream. It continues at its revision when their paths change. Each
// watch has its own position and end: a refusal or a gap of one does not
// concern the others.
//
// A slow loop delays no other. Up to 64 events, with up to 1 MiB of contents,
// wait for it in the client. After that it reads the events by itself until it
// has caught up; the server keeps no queue for it. If it is so slow that events
// are no longer kept, it gets Event.Compacted.
//
// The credential is checked for as long as the watch lasts. When it ends, or is
// revoked, the watch continues with the next token from Config.Token. It ends with ErrUnauthenticated if that token is invalid, too. It
// omits paths that the caller loses the right to read.
//
// An error is yielded last: the context's, a refusal, or ErrInternal if replica
// after replica gives invalid answers, with events that go back, repeat or were
// not requested.
func (c *Client) Watch(ctx context.Context, after uint64, filters ...Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		m := watcher{c: c, from: after, yield: yield}
		var err error
		if m.filter, err = makeFilter(filters); err == nil {
			err = m.run(ctx)
		}
		if err != errStopped {
			yield(Event{}, err)
		}
	}
}

// Ends of a connection of a watch.
var (
	errStopped  = errors.New("the caller ended the loop")
	errCutOff   = errors.New("the replica knows no master")
	errFailed   = errors.New("the replica does not answer other calls")
	errNoSSE    = errors.New("the answer is not an event stream")
	errChanged  = errors.New("other events are requested")
	errCaughtUp = errors.New("the watch has caught up")
)

// receiver gets what a watch learns. One goroutine calls it.
type receiver interface {
	// begin returns which events the next connection requests.
	begin() (filter, uint64)
	// opened reports that a connection has begun; change ends it with
	// errChanged.
	opened(change func())
	// accepted reports that the replica serves the connection's request.
	accepted()
	// event delivers an event. An error ends the watch.
	event(*lockapi.CellEvent) error
	// reached reports that all events up to a revision were delivered.
	reached(revision uint64)
	// gap reports that events are missing, and returns the revision after which
	// the watch continues.
	gap(lockapi.Compacted) (uint64, error)
}

// watch reads events, over one connection after another. One goroutine uses it.
type watch struct {
	c       *Client
	to      receiver
	filter  filter
	after   uint64      // all events up to it were delivered
	present func() bool // if set, the watch only reads old events, until it reports true

	at        *call.Endpoint               // asked last
	compacted map[string]lockapi.Compacted // by replicas that do not keep the next events
	bad       int                          // useless answers in a row
	useless   map[string]bool              // replicas that have given one
	connected bool                         // a replica has sent an event or bookmark
	heard     bool                         // the last connection has sent one
	lasted    bool                         // and was not short
	mute      int                          // streams in a row that did not begin
	polls     int                          // how many more connections use calls that wait
	pause     timing.Backoff
}

// A watch switches to calls that wait after mostMute streams that did not
// begin, for pollsLong connections.
const (
	mostMute  = 2
	pollsLong = 10
)

// spread is the least pause of a watch before it connects again, so that the
// watchers of one replica do not move all at once. The most is twice that.
const spread = 100 * time.Millisecond

// run runs one connection after another. It returns errCaughtUp, or the error
// that ends the watch.
func (w *watch) run(ctx context.Context) error {
	same := false // whether to ask the same replica again
	for ctx.Err() == nil {
		if !same {
			var err error
			if w.at, err = w.c.calls.Any(ctx, w.avoids); err != nil {
				timing.Sleep(ctx, w.pause.Next())
				continue
			}
		}
		err := w.listen(ctx)
		if same = err == errChanged; same {
			continue
		}
		if ctx.Err() != nil && err != errStopped {
			break
		}
		if over := w.classify(ctx, err); over != nil {
			return over
		}
		w.c.log.Debug("stout: watch moves to another replica", "replica", w.at.URL, "after", w.after, "error", err)
		timing.Sleep(ctx, w.pause.Next())
	}
	return stopped(ctx)
}

// stopped returns the error of a watch after the end of its context.
func stopped(ctx context.Context) error { return fmt.Errorf("stout: watch: %w", context.Cause(ctx)) }

// Revision returns the cell's revision. It includes all changes that were
// acknowledged before the call.
func (c *Client) Revision(ctx context.Context) (uint64, error) {
	var out lockapi.EventList
	q := call.Call{
		Method: http.MethodGet, Path: lockapi.RouteEvents, Query: "limit=1", Out: &out,
		Required: call.Required{Since: c.seen.highest()}, Check: verifyNow,
	}
	if err := c.calls.Do(ctx, &q); err != nil {
		return 0, err
	}
	c.seen.note(out.Revision)
	return out.Revision, nil
}

func verifyNow(q *call.Call) string {
	out := q.Out.(*lockapi.EventList)
	if out.Revision > lockapi.MaxToken {
		return fmt.Sprintf("revision %d", out.Revision)
	}
	return wrongDate(out.Revision, q.Required.Since)
}

// avoids reports whether to prefer another replica to this one.
func (w *watch) avoids(e *call.Endpoint) bool {
	_, compacted := w.compacted[e.URL]
	return compacted || w.useless[e.URL] || w.at != nil && e.URL == w.at.URL
}

// listen delivers the events of one replica until the connection ends.
func (w *watch) listen(ctx context.Context) error {
	filter, after := w.to.begin()
	if w.filter = filter; after != w.after {
		w.after, w.compacted = after, nil
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer w.c.calls.Listens(w.at, func() { leave(errFailed) })()
	began := w.c.clock.now()
	w.heard = false
	defer func() {
		if w.lasted = w.c.clock.now()-began > timing.MaxBackoff; w.lasted { // only immediate failures lengthen the pause
			w.pause.Reset(spread)
		}
	}()
	change := func() { leave(errChanged) }
	read, polls := w.stream, w.polls > 0 || w.present != nil
	if polls {
		read = w.poll
	}
	err := read(ctx, change)
	if context.Cause(ctx) == errChanged {
		return errChanged
	}
	if w.polls > 0 && polls {
		w.polls--
	}
	return err
}

// classify returns the error that ends the watch; nil if it continues.
func (w *watch) classify(ctx context.Context, err error) error {
	refused, isRefusal := call.Refusal(err)
	other, all := w.c.calls.IsOtherCell(err)
	switch {
	case err == errStopped, err == errCaughtUp:
		return err
	case other && all:
		return err
	case call.IsBadToken(err):
		return fmt.Errorf("stout: watch: %w", err)
	case other:
		return w.missed(lockapi.Compacted{})
	case !isRefusal:
		w.c.calls.Lost(w.at, err)
		return w.missed(lockapi.Compacted{})
	}
	switch refused.Code {
	case lockapi.CodeCompacted:
		return w.handleCompacted(refused.Compacted)
	case lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown, lockapi.CodeNotMaster:
		w.c.calls.Lost(w.at, err)
		return w.missed(lockapi.Compacted{})
	case lockapi.CodeTooMany:
		if w.connected { // keep the position reached so far
			return nil
		}
		return w.countUseless(refused)
	}
	switch {
	case isDenial(refused):
		return w.handleDenial(ctx, refused)
	case call.IsInvalid(err):
		return w.countUseless(refused)
	}
	return refused
}

// fewBad is how many useless answers never end a watch, however few replicas
// there are.
const fewBad = 2

// countUseless counts a useless answer. The watch ends when every replica has given
// one; it does not wait for learned replicas that cannot be reached.
func (w *watch) countUseless(err error) error {
	if w.useless == nil {
		w.useless = make(map[string]bool)
	}
	w.useless[w.at.URL] = true
	if w.bad++; w.bad <= fewBad {
		return nil
	}
	if !w.c.calls.Abandoned(func(base string) bool { return w.useless[base] }) {
		return nil
	}
	return err
}

// handleDenial handles a refusal for lack of rights. The replica uses its own copy
// of the rules, which may be old. It checks a stream with its first credential,
// which may have been replaced. Therefore the master is asked with the present
// one, and its refusal ends the watch. If there is no master, or it does not
// answer, the other replicas are asked. A connection that has served the watch
// until its credential ended is no useless answer.
func (w *watch) handleDenial(ctx context.Context, refused *lockapi.Error) error {
	ctx, cancel := context.WithTimeout(ctx, call.AnswerTime)
	defer cancel()
	_, err := w.c.Revision(ctx)
	if err, ok := err.(*lockapi.Error); ok && isDenial(err) {
		return err
	}
	if err == nil && w.heard && w.lasted {
		w.bad, w.useless = 0, nil
		return nil
	}
	return w.countUseless(refused)
}

// isDenial reports whether a refusal is about the caller's credential or
// rights.
func isDenial(e *lockapi.Error) bool {
	return e.Code == lockapi.CodeUnauthenticated || e.Code == lockapi.CodePermissionDenied
}

// handleCompacted handles a replica that does not keep the next events, or has not
// reached the watch's revision.
func (w *watch) handleCompacted(at lockapi.Compacted) error {
	if at.Oldest <= w.after && w.after <= at.Revision || at.Revision < at.Oldest || at.Revision > lockapi.MaxToken {
		return w.countUseless(w.lie("events after %d as compacted, but it keeps those after %d, up to %d", w.after, at.Oldest, at.Revision))
	}
	if w.compacted == nil {
		w.compacted = make(map[string]lockapi.Compacted)
	}
	return w.missed(at)
}

// missed records a replica's answer while another replica does not keep the
// next events. When all replicas have been asked, the caller gets the latest
// such answer as a gap. Learned replicas that cannot be reached are not waited
// for.
func (w *watch) missed(at lockapi.Compacted) error {
	if w.compacted == nil {
		return nil
	}
	if _, before := w.compacted[w.at.URL]; !before || at.Revision > 0 { // keep its earlier answer if it fails now
		w.compacted[w.at.URL] = at
	}
	asked := func(base string) bool { _, asked := w.compacted[base]; return asked }
	if !w.c.calls.Abandoned(asked) {
		return nil
	}
	for _, other := range w.compacted {
		if other.Revision > at.Revision {
			at = other
		}
	}
	w.compacted = nil
	after, err := w.to.gap(at)
	w.after = after
	return err
}

// lie returns the error for an invalid answer.
func (w *watch) lie(format string, args ...any) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeInternal, "%s sent a watcher %s", w.at.URL, fmt.Sprintf(format, args...))
}

// deliver checks an event and delivers it.
func (w *watch) deliver(e *lockapi.CellEvent) error {
	switch {
	case e.Revision <= w.after || e.Revision > lockapi.MaxToken:
		return w.lie("an event with revision %d after revision %d; they only grow", e.Revision, w.after)
	case !w.filter.passes(e):
		return w.lie("%s of %q, which was not requested", lockapi.Clip(string(e.Type)), lockapi.Clip(e.Path))
	}
	if e.File != nil && e.Type != lockapi.EventFileDeleted {
		if wrong := wrongStat(&e.File.FileStat); wrong != "" {
			return w.lie("%s", wrong)
		}
	}
	w.reach(e.Revision)
	return w.to.event(e)
}

// reach records that all events up to a revision were delivered.
func (w *watch) reach(revision uint64) {
	if revision > w.after {
		w.bad, w.useless = 0, nil
	}
	w.after, w.connected, w.heard, w.mute, w.compacted = revision, true, true, 0, nil
}
