package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// task is one validated call for the master.
type task struct {
	repeatable bool          // a repetition cannot double its effect
	keyed      bool          // it has an effect and may be repeated, because the cell recognizes it
	stale      bool          // this replica's own state is enough
	leads      bool          // a Raft leader can do it, even out of office
	wait       time.Duration // how long the master may hold it
	// run makes the call on this replica. A nil body means a reply without one.
	run func(context.Context) (status int, body any, err error)
}

// Pauses between attempts to reach a master.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// dispatch lets the master do the task, wherever it is. An attempt that ends in
// no_master had no effect that another attempt could double, so the search
// continues until ForwardTimeout is over. The time for which a master held a
// waiting call does not count. Any other error is the answer.
func (x *exchange) dispatch(t task) error {
	if t.stale {
		x.c.Writer.Header().Set(lockapi.HeaderStale, "true")
		return x.answer(t)
	}
	t.repeatable = t.repeatable || t.keyed
	return x.seek(t, func() error { return x.answer(t) }, func(at Location) error { return x.forward(at, t) })
}

// seek finds the master and calls here if it is this replica, otherwise there,
// until the result is not no_master or the time is over. If an earlier attempt
// got no answer, a refusal that does not settle that attempt becomes
// outcome_unknown.
func (x *exchange) seek(t task, here func() error, there func(at Location) error) error {
	follow, err := x.mayForward()
	if err != nil {
		return err
	}
	if t.wait > 0 {
		x.trimHeaders()
		x.call.Park(x.ctx())
		defer x.call.Unpark()
	}
	err = x.search(t, follow, here, there)
	if refused, ok := errors.AsType[*lockapi.Error](err); ok && x.lost != nil && !refused.Code.Settles() {
		if refused.Code == lockapi.CodeUnauthenticated {
			x.penalize()
		}
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the call may have taken effect: %v; the next attempt failed: %v; sending the same call again is safe", x.lost, err)
	}
	return err
}

func (x *exchange) search(t task, follow bool, here func() error, there func(at Location) error) error {
	deadline := time.Now().Add(x.opts.ForwardTimeout)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		at, err := x.locate(t, deadline)
		if err != nil {
			return err
		}
		if t.wait > 0 && !at.Self && follow && x.isDraining() {
			return lockapi.Errorf(lockapi.CodeNoMaster, "this replica is stopping; send the call to another replica, such as the master %s at %s", at.ID, at.URL)
		}
		if follow && x.isCutOff(at) {
			return lockapi.Errorf(lockapi.CodeNoMaster, "this replica gets heartbeats from master %s, but no answers to calls; send the call to another replica", at.ID)
		}
		shorter := x.shorten(t)
		began := time.Now()
		switch {
		case at.Self:
			err = here()
		case !follow && x.localRefusal() == nil:
			x.c.Writer.Header().Set(lockapi.HeaderMaster, at.URL)
			refused := lockapi.Errorf(lockapi.CodeNotMaster, "this replica is not the master, and the call must not be forwarded; the master is %s at %s", at.ID, at.URL)
			refused.Master = at.URL
			err = refused
		default: // even without permission to forward, if a stranger would otherwise learn which replica is the master
			if shorter {
				if err := x.encodeWait(); err != nil {
					return err
				}
			}
			err = there(at)
		}
		if !errors.Is(err, lockapi.CodeNoMaster) || x.noted.refused {
			return err
		}
		if t.wait > 0 {
			deadline = deadline.Add(time.Since(began))
		}
		if time.Now().Add(pause).After(deadline) {
			return err
		}
		select {
		case <-x.ctx().Done():
			return err
		case <-time.After(pause):
		}
	}
}

func (x *exchange) left(t task) time.Duration {
	if t.wait == 0 {
		return 0
	}
	return max(0, t.wait-time.Since(x.began))
}

// shorten makes the next attempt wait only for the rest of the call's wait if
// earlier attempts, or the search, have taken some of it.
func (x *exchange) shorten(t task) bool {
	left := x.left(t)
	if t.wait-left < firstPause {
		return false
	}
	waitMS, _ := x.waits.Waiting()
	*waitMS = left.Milliseconds()
	return true
}

// encodeWait encodes the body again for another replica. It is no longer than the
// caller's: HTML is not escaped.
func (x *exchange) encodeWait() error {
	_, body := x.waits.Waiting()
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	err := to.Encode(body)
	x.body = out.Bytes()
	return err
}

// isCutOff reports whether the master sends Raft heartbeats to this replica but
// does not answer its calls. Then the path for calls is dead, and Raft will not
// elect another master.
func (x *exchange) isCutOff(at Location) bool {
	return !at.Self && x.others.IsUnreached(at.ID) && x.master.View().Own.LastContactMS < peers.Every.Milliseconds()
}

// mayForward reports whether the call may be forwarded. A call that another
// member forwarded stays here.
func (x *exchange) mayForward() (bool, error) {
	if x.peer {
		return false, nil
	}
	values := x.c.Request.Header.Values(lockapi.HeaderForward)
	switch {
	case len(values) == 0:
		return true, nil
	case len(values) == 1 && values[0] == lockapi.ForwardNever:
		return false, nil
	}
	return false, lockapi.Invalid(lockapi.HeaderForward, "%s is %q; it must be %q",
		lockapi.HeaderForward, lockapi.Clip(values[0]), lockapi.ForwardNever)
}

// locate finds the master. If the search takes too long, the error is
// no_master.
func (x *exchange) locate(t task, deadline time.Time) (Location, error) {
	if at := x.master.Known(); at.Self || at.Leads && t.leads {
		at.Self = true
		return at, nil
	}
	search, cancel := context.WithDeadline(x.ctx(), deadline)
	defer cancel()
	at, err := x.master.Locate(search)
	if err != nil && search.Err() != nil {
		return at, lockapi.Errorf(lockapi.CodeNoMaster, "no master was found within %v", x.opts.ForwardTimeout)
	}
	return at, err
}

func (x *exchange) answer(t task) error {
	defer x.endTurn()
	status, body, err := t.run(x.ctx())
	if err != nil {
		return err
	}
	if d, ok := body.(*document); ok {
		return x.replyDocument(status, d)
	}
	return x.reply(status, body)
}

// AwaitTurn waits for one of the places in Server.lists, and keeps it until
// endTurn. A request that makes several calls takes one place.
func (x *exchange) AwaitTurn(ctx context.Context) error {
	if x.inTurn {
		return nil
	}
	select {
	case x.lists <- struct{}{}:
		x.inTurn = true
		return nil
	case <-ctx.Done():
		return lockapi.Errorf(lockapi.CodeNoMaster, "the caller has disconnected")
	}
}

func (x *exchange) endTurn() {
	if x.inTurn {
		x.inTurn = false
		<-x.lists
	}
}
