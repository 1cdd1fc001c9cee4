package client

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/lockapi"
)

const mostRetryAfter = 24 * 60 * 60 // seconds

// exchange makes one HTTP round trip and checks its answer, which must arrive
// within the given time.
func (c *caller) exchange(ctx context.Context, r *route, q *call, within time.Duration) error {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	a, err := c.roundTrip(ctx, r, q, within, buf)
	if err != nil {
		return &attemptError{base: r.to.base, sent: !neverSent(err), err: err}
	}
	if err := c.cell.check(r.to.base, q, a.StatusCode, a.Header); err != nil {
		return err
	}
	if a.StatusCode >= 300 {
		err := c.refusal(r, &a)
		if wrong := q.wrongCurrent(err); wrong != "" {
			err = lockapi.Errorf(lockapi.CodeInternal, "%s refused %s %s with %s", r.to.base, q.method, q.path, wrong)
		}
		return err
	}
	stale := a.Header.Get(lockapi.HeaderStale) != ""
	if wrong := q.read(&a, stale); wrong != "" {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %s", r.to.base, q.method, q.path, wrong)
	}
	c.targets.answered(r, a.Header.Get(lockapi.HeaderMaster))
	if !q.any && !stale {
		r.answered(c.clock.now(), q)
	}
	return nil
}

// read decodes a successful answer. It describes what is wrong with it, or
// returns "".
func (q *call) read(a *wire.Answer, stale bool) string {
	if wrong := q.verify(a.StatusCode, stale); wrong != "" || q.out == nil {
		return wrong
	}
	if err := decode(a.Body, q.out); err != nil {
		return "unexpected JSON: " + err.Error()
	}
	if d, ok := q.out.(dated); ok {
		revision, err := strconv.ParseUint(a.Header.Get(lockapi.HeaderRevision), 10, 64)
		if err != nil || revision > lockapi.MaxToken {
			return "no revision in the header " + lockapi.HeaderRevision
		}
		d.date(revision)
	}
	if q.check == nil {
		return ""
	}
	return q.check(q)
}

// refusal decodes an answer other than 2xx. An answer that is not a problem
// document of the contract comes from a proxy or gateway, which may have passed
// the call on; gateways, too, answer in JSON, with codes of their own.
func (c *caller) refusal(r *route, a *wire.Answer) error {
	var p lockapi.Problem
	if decode(a.Body, &p) != nil || !p.Code.Valid() || p.Code.Status() != a.StatusCode {
		code := lockapi.CodeInternal
		switch a.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			code = lockapi.CodeOutcomeUnknown
		case http.StatusNotFound:
			code = lockapi.CodeNotFound
		}
		return &foreignAnswer{lockapi.Errorf(code, "%s answered %d %s, which is not an answer of a replica; check the base URL", r.to.base, a.StatusCode, http.StatusText(a.StatusCode))}
	}
	e := p.Err()
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = min(max(n, 0), mostRetryAfter)
	}
	if n, err := strconv.ParseUint(a.Header.Get(lockapi.HeaderRevision), 10, 64); err == nil && e.Code == lockapi.CodeNotFound {
		e.Revision = n
	}
	e.DelayRemainingMS = max(e.DelayRemainingMS, 0)
	switch e.Code {
	case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown:
		// classify decides where to go.
	default:
		c.targets.answered(r, a.Header.Get(lockapi.HeaderMaster))
	}
	return e
}

// unsentError reports an attempt that was not made.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

func neverSent(err error) bool {
	_, unsent := errors.AsType[*unsentError](err)
	return unsent || isDialError(err)
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
