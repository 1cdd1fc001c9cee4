package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// FromNow has Watch tell what is acknowledged after it has begun.
const FromNow = math.MaxUint64

// Event is what Watch tells: a change of the cell, or that changes were missed.
type Event struct {
	lockapi.CellEvent
	// Compacted is set, and nothing else is, where the events that come next
	// are not kept by any replica that is given, or that was learned and can be
	// reached, or where the cell has not reached the revision that was given to
	// Watch: read what matters again before going on. The events after
	// Compacted.Revision follow.
	Compacted *lockapi.Compacted
}

// Watch tells every change of the cell after a revision, in order, none twice
// and none left out, until ctx ends or the caller breaks the loop. after may be
// File.AsOf, the revision of an event that was dealt with, or FromNow, which
// needs a master: from when the loop begins.
//
//	for event, err := range cell.Watch(ctx, file.AsOf, client.OnPath("/app/conf")) {
//		switch {
//		case err != nil:
//			return err
//		case event.Compacted != nil:
//			... // read the file again
//		default:
//			... // event.Type says what happened
//		}
//	}
//
// It hears of them from any replica that is well. Where that fails, or knows of
// no master for long, it goes on at another one by itself, after a pause that
// no two watchers have alike. It uses a stream of the server, or, where
// something on the way does not let one through, calls that wait.
//
// A loop that takes its time holds nothing up: the server keeps no queue for
// it. One that takes so long that events are not kept any more is told of it by
// Event.Compacted.
//
// A credential is looked at for as long as the watch lasts. When it ends, or is
// revoked, the watch goes on with what the function given to WithToken gives
// then; it ends with ErrUnauthenticated where that is no good either. What the
// caller loses the right to read is left out from then on.
//
// An error is yielded last: the context's, a refusal, or ErrInternal where
// replica after replica tells what is not to be believed: events that go back,
// come twice, or were not asked for.
func (c *Client) Watch(ctx context.Context, after uint64, filters ...Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := watch{c: c, after: after, yield: yield}
		var err error
		if w.filter, err = makeFilter(filters); err == nil {
			err = w.run(ctx)
		}
		if err != errStopped {
			yield(Event{}, err)
		}
	}
}

// Ends of a connection of a watch.
var (
	errStopped = errors.New("the caller has enough")
	errCutOff  = errors.New("the replica knows of no master")
	errSilent  = errors.New("the replica is silent")
	errNoSSE   = errors.New("what answers gives no stream")
)

// watch is one loop over events. It runs in the caller's goroutine.
type watch struct {
	c      *Client
	filter filter
	yield  func(Event, error) bool
	after  uint64 // told is everything up to it

	at        *endpoint                    // asked last
	compacted map[string]lockapi.Compacted // by replicas that do not keep what comes next
	bad       int                          // answers of no use in a row
	useless   map[string]bool              // replicas that have given one
	connected bool                         // a replica has told something
	mute      int                          // streams in a row that did not begin
	polls     int                          // how many more connections are not to be streams
	pause     backoff
}

// How a watch goes over to calls that wait: after so many streams that did not
// begin, for so many connections.
const (
	mostMute  = 2
	pollsLong = 10
)

// spread is for how long at least the watchers that a replica leaves alone in
// one instant stay away, and half of how long at most.
const spread = 100 * time.Millisecond

// run goes from one connection to the next.
func (w *watch) run(ctx context.Context) error {
	if w.after == FromNow {
		now, err := w.c.Revision(ctx)
		if err != nil {
			return err
		}
		w.after = now
	}
	for ctx.Err() == nil {
		if _, err := w.c.calls.pick(ctx); err != nil {
			sleep(ctx, w.pause.next())
			continue
		}
		w.at = w.c.calls.targets.any(w.avoids)
		err := w.listen(ctx)
		if ctx.Err() != nil && err != errStopped {
			break
		}
		if over := w.classify(ctx, err); over != nil {
			return over
		}
		w.c.log.Debug("stout: watch goes on elsewhere", "replica", w.at.base, "after", w.after, "error", err)
		sleep(ctx, w.pause.next())
	}
	return fmt.Errorf("stout: watch: %w", context.Cause(ctx))
}

// Revision is the revision of the cell: whatever was acknowledged before the
// call is part of it.
func (c *Client) Revision(ctx context.Context) (uint64, error) {
	var out lockapi.EventList
	q := call{
		method: http.MethodGet, path: lockapi.RouteEvents, query: "limit=1", out: &out,
		want: wanted{since: c.seen.highest()}, check: verifyNow,
	}
	if err := c.calls.do(ctx, &q); err != nil {
		return 0, err
	}
	c.seen.note(out.Revision)
	return out.Revision, nil
}

func verifyNow(q *call) string {
	out := q.out.(*lockapi.EventList)
	if out.Revision > lockapi.MaxToken {
		return fmt.Sprintf("revision %d", out.Revision)
	}
	return wrongDate(out.Revision, q.want.since)
}

// avoids says which replicas not to ask next where there is another.
func (w *watch) avoids(e *endpoint) bool {
	_, compacted := w.compacted[e.base]
	return compacted || w.useless[e.base] || w.at != nil && e.base == w.at.base
}

// listen tells what one replica has to say until its connection ends.
func (w *watch) listen(ctx context.Context) error {
	began := w.c.clock.now()
	defer func() {
		if w.c.clock.now()-began > mostPause { // what fails at once is asked ever more seldom
			w.pause.last = spread
		}
	}()
	if w.polls > 0 {
		w.polls--
		return w.poll(ctx)
	}
	return w.stream(ctx)
}

// classify says with which error the watch is over; nil where it goes on.
func (w *watch) classify(ctx context.Context, err error) error {
	refused, isRefusal := errors.AsType[*lockapi.Error](err)
	switch {
	case err == errStopped:
		return err
	case errors.Is(err, ErrOtherCell):
		if _, all := w.c.calls.isStrange(err); all {
			return err
		}
		return w.missed(lockapi.Compacted{})
	case !isRefusal:
		if isDialError(err) {
			w.c.calls.targets.failed(&route{to: w.at})
		} else {
			w.c.calls.finder.want(soon)
		}
		return w.missed(lockapi.Compacted{})
	}
	switch refused.Code {
	case lockapi.CodeCompacted:
		return w.isCompacted(refused.Compacted)
	case lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown, lockapi.CodeNotMaster:
		w.c.calls.finder.want(soon)
		return w.missed(lockapi.Compacted{})
	case lockapi.CodeTooMany:
		if w.connected { // what was told so far is not to be in vain
			return nil
		}
		return w.isBad(refused)
	}
	switch {
	case isDenial(refused):
		return w.isDenied(ctx, refused)
	case isNonsense(err):
		return w.isBad(refused)
	}
	return refused
}

// fewBad is how many answers of no use are no end of a watch, however few
// replicas there are to ask.
const fewBad = 2

// isBad counts an answer of no use. When every replica has given one it is the
// watch's end; those that were learned and can't be reached are not waited for.
func (w *watch) isBad(err error) error {
	if w.useless == nil {
		w.useless = make(map[string]bool)
	}
	w.useless[w.at.base] = true
	if w.bad++; w.bad <= fewBad {
		return nil
	}
	if !w.c.calls.targets.abandoned(func(base string) bool { return w.useless[base] }) {
		return nil
	}
	return err
}

// isDenied deals with a replica that will not tell us anything. It judges by its
// own copy of who may do what, which may be old, and a stream by the credential
// that it began with, which may have been exchanged since. So the master is asked
// by the present one, and its refusal is the watch's end. Where it has none, or
// does not answer, the other replicas are asked.
func (w *watch) isDenied(ctx context.Context, refused *lockapi.Error) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := w.c.Revision(ctx)
	if err, ok := err.(*lockapi.Error); ok && isDenial(err) {
		return err
	}
	return w.isBad(refused)
}

// isDenial says whether a refusal is about who asks.
func isDenial(e *lockapi.Error) bool {
	return e.Code == lockapi.CodeUnauthenticated || e.Code == lockapi.CodePermissionDenied
}

// isCompacted deals with a replica that does not keep what comes next, or that has not
// reached what came before.
func (w *watch) isCompacted(at lockapi.Compacted) error {
	if at.Oldest <= w.after && w.after <= at.Revision || at.Revision < at.Oldest || at.Revision > lockapi.MaxToken {
		return w.isBad(w.lie("that of the events after %d those after %d are kept, up to %d", w.after, at.Oldest, at.Revision))
	}
	if w.compacted == nil {
		w.compacted = make(map[string]lockapi.Compacted)
	}
	return w.missed(at)
}

// missed notes, where a replica does not keep what comes next, what another one
// has to say of it, if it says anything. When all have been asked the caller is
// told of the latest; those that were learned and can't be reached are not waited
// for.
func (w *watch) missed(at lockapi.Compacted) error {
	if w.compacted == nil {
		return nil
	}
	if _, before := w.compacted[w.at.base]; !before || at.Revision > 0 { // asked again, it need not answer
		w.compacted[w.at.base] = at
	}
	asked := func(base string) bool { _, asked := w.compacted[base]; return asked }
	if !w.c.calls.targets.abandoned(asked) {
		return nil
	}
	for _, other := range w.compacted {
		if other.Revision > at.Revision {
			at = other
		}
	}
	w.after, w.compacted = at.Revision, nil
	if !w.yield(Event{Compacted: &at}, nil) {
		return errStopped
	}
	return nil
}

// lie is an answer that is not believed.
func (w *watch) lie(format string, args ...any) *lockapi.Error {
	return lockapi.Errorf(lockapi.CodeInternal, "%s told a watcher %s", w.at.base, fmt.Sprintf(format, args...))
}

// deliver passes an event on.
func (w *watch) deliver(e *lockapi.CellEvent) error {
	switch {
	case e.Revision <= w.after || e.Revision > lockapi.MaxToken:
		return w.lie("an event with revision %d after revision %d; they only grow", e.Revision, w.after)
	case !w.filter.passes(e):
		return w.lie("%s of %q, which was not asked for", lockapi.Clip(string(e.Type)), lockapi.Clip(e.Path))
	}
	if e.File != nil && e.Type != lockapi.EventFileDeleted {
		if wrong := wrongStat(&e.File.FileStat); wrong != "" {
			return w.lie("%s", wrong)
		}
	}
	w.reach(e.Revision)
	if !w.yield(Event{CellEvent: *e}, nil) {
		return errStopped
	}
	return nil
}

// reach notes that everything up to a revision is told.
func (w *watch) reach(revision uint64) {
	if revision > w.after {
		w.bad, w.useless = 0, nil
	}
	w.after, w.connected, w.mute, w.compacted = revision, true, 0, nil
}
