package server

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/lockapi/server/internal/stream"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
	"github.com/stoutlock/stout/master"
)

// enterWatch takes a place for a call that waits for events. If no place is
// free, a waiting call of a caller with more of them is closed to make room.
func (x *exchange) enterWatch() (leave func(), err error) {
	var leaves []func()
	free := func() {
		for _, f := range slices.Backward(leaves) {
			f()
		}
	}
	defer func() {
		if err != nil {
			x.metrics.watchersRefused.Inc()
			free()
		}
	}()
	if x.isAnonymous() {
		from, most := x.Source(), boundOf(x.opts.MaxAnonymousWatchers)
		if _, ok := x.strangers.Enter(from, most); !ok {
			return nil, lockapi.TooMany("max-anonymous-watchers", most, most, "quota max-anonymous-watchers is used up: %d calls without a credential already wait for events from your address; send a credential, or raise the quota",
				most)
		}
		leaves = append(leaves, func() { x.strangers.Leave(from) })
	}
	if who, most, bounded := x.master.Watcher(x.caller()); bounded {
		if n, ok := x.watchers.Enter(who, most); !ok {
			return nil, x.master.RefuseWatch(who, n, most)
		}
		leaves = append(leaves, func() { x.watchers.Leave(who) })
	}
	if !x.watching.Enter(1) && !(x.conns.Yield(&x.call, gate.WatchesOnly) && x.watching.Add(1)) {
		used := x.watching.Count()
		return nil, lockapi.TooMany("max-watchers", int64(used), int64(x.watching.Most), "quota max-watchers is used up: %d calls wait for events at this replica, at most %d are allowed; call another replica, or raise the quota",
			used, x.watching.Most)
	}
	leaves = append(leaves, func() { x.watching.Leave(1) }, x.call.Unpark)
	x.call.Watches = true
	x.call.Park(x.ctx())
	return free, nil
}

// boundOf returns the bound of a setting, in which 0 means no bound.
func boundOf(setting int) int64 {
	if setting == 0 {
		return math.MaxInt
	}
	return int64(setting)
}

// isAnonymous reports whether access control is on and the call has no
// credential.
func (x *exchange) isAnonymous() bool {
	return !x.peer && !x.brought && x.master.Authorize(&master.Caller{Ask: master.Ask{Right: master.Known}}) != nil
}

// readEvents answers with events, as JSON or as a stream, from this replica's
// own log. It needs the master only to find the present revision.
func readEvents(x *exchange) error {
	streams := x.acceptsStream()
	filter, err := x.eventFilter()
	if err != nil {
		return err
	}
	if streams {
		for _, p := range []param{paramWaitMS, paramLimit} {
			if _, given := x.query[p.name]; given {
				return lockapi.Invalid(p.name, "%s has no meaning for a stream, which has no end; omit it, or request JSON", p.name)
			}
		}
	}
	limit, err := x.query.limit()
	if err != nil {
		return err
	}
	waitMS, err := x.query.number(paramWaitMS, 0, lockapi.MaxWaitMS, 0)
	if err != nil {
		return err
	}
	from, given, err := x.eventsAfter(streams)
	if err != nil {
		return err
	}
	wait := time.Duration(waitMS) * time.Millisecond
	if wait > 0 || streams {
		leave, err := x.enterWatch()
		if err != nil {
			return err
		}
		defer leave()
	}
	events, err := x.master.WatchEvents(filter)
	if err != nil {
		return err
	}
	defer events.Close()
	w := &stream.Watch{Shared: x.streams, Events: events, After: from, Conn: wire.ConnOf(x.ctx())}
	if given {
		err = x.checkReached(events, from)
	} else {
		w.After, err = x.presentRevision()
	}
	if streams && (err == nil || errors.Is(err, lockapi.CodeCompacted)) {
		x.noteEnd(x.stream(w, !given, err))
		return nil
	}
	if err == nil {
		err = x.list(w, wait, limit)
	}
	x.noteEnd(err)
	return err
}

// noteEnd counts a watch that ends because its events are no longer kept, and
// notes a denial for the audit log.
func (x *exchange) noteEnd(err error) {
	if errors.Is(err, lockapi.CodeCompacted) {
		x.metrics.compacted.Inc()
	}
	if denied, ok := errors.AsType[*lockapi.Error](err); ok && isDenial(denied.Code) {
		x.noted.code = denied.Code
	}
}

// checkReached refuses a revision that the cell has not reached. It belongs to
// another cell or to a lost state, and the events up to it would be missing.
// This replica may be behind, so the master's revision counts.
func (x *exchange) checkReached(events master.EventWatch, after uint64) error {
	oldest, sent := events.Bounds()
	if after <= sent {
		return nil
	}
	present, err := x.presentRevision()
	if err != nil || after <= present {
		return err
	}
	return master.ErrCompacted(min(oldest, present), present,
		"after=%d is beyond the present revision %d: it belongs to another cell (header %s has the id of this one) or to a lost state; read the data again and continue from the present revision",
		after, present, lockapi.HeaderCell)
}

// Header values of a stream. They are never modified.
var (
	typeEvents  = []string{lockapi.TypeEventStream}
	noBuffering = []string{"no"} // for proxies (nginx)
)

// stream answers with server-sent events, and returns why they ended.
func (x *exchange) stream(w *stream.Watch, fresh bool, refused error) error {
	h := x.c.Writer.Header()
	x.stamp(h)
	x.identify()
	h["Content-Type"], h["X-Accel-Buffering"] = typeEvents, noBuffering
	x.c.Writer.WriteHeader(http.StatusOK)
	if x.c.Request.Method == http.MethodHead {
		x.c.Writer.WriteHeaderNow()
		return nil
	}
	x.trimHeaders()
	x.c.Writer.Flush()
	return w.Stream(x.ctx(), x.c.Writer, x.attached.Load().cell[0], fresh, refused)
}

// list answers when there are events or the wait is over.
func (x *exchange) list(w *stream.Watch, wait time.Duration, limit int) error {
	if wait > 0 {
		x.trimHeaders()
	}
	found, err := w.Next(x.ctx(), time.Now().Add(wait), limit)
	if err != nil {
		return err
	}
	w.Sent(float64(len(found)))
	return x.reply(http.StatusOK, lockapi.EventList{Events: found, Revision: w.After})
}

// acceptsStream reports whether the request names the type of a stream and does
// not prefer JSON.
func (x *exchange) acceptsStream() bool {
	weights := x.accepted()
	stream := weights[lockapi.TypeEventStream]
	return stream > 0 && stream >= weights["application/json"]
}

// accepted returns the weights of the media types that the Accept header names.
func (x *exchange) accepted() map[string]float64 {
	weights := map[string]float64{}
	for _, values := range x.c.Request.Header.Values("Accept") {
		for one := range strings.SplitSeq(values, ",") {
			media, weight := weighed(one)
			weights[media] = weight
		}
	}
	return weights
}

// weighed parses one media type of an Accept header and its weight (RFC 9110,
// section 12.4.2). A malformed weight counts as 1.
func weighed(one string) (media string, weight float64) {
	media, params, _ := strings.Cut(one, ";")
	weight = 1
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if q, err := strconv.ParseFloat(value, 64); err == nil && strings.EqualFold(name, "q") && q >= 0 && q < 1 {
			weight = q
		}
	}
	return strings.ToLower(strings.TrimSpace(media)), weight
}

func (x *exchange) eventFilter() (none master.EventFilter, err error) {
	paths, prefixes := x.query.all(paramPaths), x.query.all(paramPrefixes)
	for _, path := range paths {
		if err := lockapi.ValidatePath(path); err != nil {
			return none, err
		}
	}
	for _, prefix := range prefixes {
		if err := checkPrefix(prefix); err != nil {
			return none, err
		}
	}
	var types []lockapi.EventType
	if given, ok := x.query[paramTypes.name]; ok {
		for name := range strings.SplitSeq(given, ",") {
			types = append(types, lockapi.EventType(name))
		}
	}
	content, err := x.query.flag(paramContent)
	if err != nil {
		return none, err
	}
	filter, err := master.NewEventFilter(paths, prefixes, types, content)
	if err != nil {
		return none, err
	}
	x.also = seen(paths, prefixes)
	by := x.caller()
	if err := x.master.Authorize(by); err != nil {
		return none, err
	}
	return filter.For(*by), nil
}

// seen returns the rights that a watch of these nodes needs: of all nodes if it
// names none.
func seen(paths, prefixes []string) (asks []master.Ask) {
	for _, path := range paths {
		asks = append(asks, master.Ask{Right: master.Reader, Path: path})
	}
	for _, prefix := range prefixes {
		asks = append(asks, master.Ask{Right: master.Reader, Path: top(prefix)})
	}
	if asks == nil {
		asks = []master.Ask{{Right: master.Reader, Path: top("")}}
	}
	return asks
}

// eventsAfter returns the last revision that the caller knows, or false if it
// names none. In a stream the header that a browser sends on reconnection
// overrides the parameter.
func (x *exchange) eventsAfter(streams bool) (after uint64, given bool, err error) {
	value, given := x.query[paramAfter.name]
	if given {
		if after, err = wholeNumber(paramAfter.name, value, 0, lockapi.MaxToken); err != nil {
			return 0, true, err
		}
	}
	if !streams || len(x.c.Request.Header.Values(lockapi.HeaderLastEventID)) == 0 {
		return after, given, nil
	}
	last, err := x.header(lockapi.HeaderLastEventID)
	if err == nil {
		after, err = wholeNumber(lockapi.HeaderLastEventID, last, 0, lockapi.MaxToken)
	}
	return after, true, err
}

// presentRevision returns the cell's present revision, linearizable, from this
// replica or the master.
func (x *exchange) presentRevision() (revision uint64, err error) {
	err = x.seek(task{repeatable: true}, func() error {
		_, out, err := x.master.Do(x.ctx(), x.caller(), false, &lockapi.GetRevision{})
		revision = out.Revision
		return err
	}, func(at Location) error {
		revision, err = x.askRevision(at)
		return err
	})
	return revision, err
}

// askRevision requests events from the present revision on from the master. The
// answer has no events, but the revision.
func (x *exchange) askRevision(at Location) (uint64, error) {
	ctx, cancel := context.WithTimeout(x.ctx(), x.opts.ForwardTimeout)
	defer cancel()
	var now lockapi.EventList
	if _, err := peers.Ask(ctx, x.way, at.ID, lockapi.RouteEvents, &now); err != nil {
		return 0, lockapi.Errorf(lockapi.CodeNoMaster, "master %s at %s did not report the present revision: %v", at.ID, at.URL, err)
	}
	return now.Revision, nil
}
