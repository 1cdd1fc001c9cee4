package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// answerTime is how long a replica may take for an answer, beyond the time
	// that the call asks it to wait.
	answerTime = 5 * time.Second
	// mostAnswer bounds the size of an answer's body.
	mostAnswer = 64 << 20
	// mostHops is how many 421 in a row are followed without a pause.
	mostHops = 3
)

// call is one call of the API, with what its attempts have shown so far.
type call struct {
	method  string
	path    string
	query   string
	body    []byte
	key     string          // Idempotency-Key
	out     any             // where a 2xx answer's JSON goes; nil to ignore it
	timeout time.Duration   // of one attempt; 0 stands for answerTime
	once    bool            // must not be sent again after it may have taken effect
	cut     context.Context // if set, attempts run under it rather than the caller's context

	attempts  int
	unsettled bool          // an attempt may have taken effect without our having its answer
	effective bool          // an attempt may have taken effect, answered or not
	firstSent time.Duration // clock when the first such attempt was sent
}

// attemptError is an attempt that got no answer of the contract.
type attemptError struct {
	base string
	sent bool // false where certainly nothing was sent
	err  error
}

func (e *attemptError) Error() string { return e.base + ": " + e.err.Error() }
func (e *attemptError) Unwrap() error { return e.err }

// callError is a call that was given up because its context ended.
type callError struct {
	op    string
	cause error // why it was given up
	class lockapi.Code
	last  error
}

func (e *callError) Error() string {
	if e.last == nil {
		return fmt.Sprintf("stout: %s: %v", e.op, e.cause)
	}
	return fmt.Sprintf("stout: %s: %s: %v (last attempt: %v)", e.op, e.class, e.cause, e.last)
}

func (e *callError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.class}
}

// errCut ends a call whose cut context ended before the caller's own.
var errCut = errors.New("stout: the call was cut off")

// do makes a call, again and again where that is safe, until it is answered or
// ctx ends. Refusals come back as *lockapi.Error.
func (c *Client) do(ctx context.Context, q *call) error {
	var (
		pause backoff
		last  error
		hops  int
	)
	under := ctx
	if q.cut != nil {
		under = q.cut
	}
	for {
		if err := ctx.Err(); err != nil {
			return q.givenUp(context.Cause(ctx), last)
		}
		if under.Err() != nil {
			return errCut
		}
		r := c.targets.pick()
		err := c.attempt(under, r, q)
		if err == nil {
			return nil
		}
		next := c.judge(under, r, q, err)
		if next == giveUp {
			return err
		}
		last = err
		c.log.Debug("stout: attempt failed", "method", q.method, "path", q.path, "replica", r.to.base, "error", err)
		if hops++; next == redirect && hops <= mostHops {
			continue
		}
		hops = 0
		pauseCall(ctx, under, pause.next())
	}
}

// pauseCall sleeps for d, or until either context ends.
func pauseCall(ctx, under context.Context, d time.Duration) {
	stop := func() bool { return true }
	if under != ctx {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		stop = context.AfterFunc(under, cancel)
	}
	sleep(ctx, d)
	stop()
}

// givenUp is the error of a call whose context ended after the given failure.
func (q *call) givenUp(cause, last error) error {
	class := lockapi.CodeNoMaster
	if q.unsettled && q.method != http.MethodGet {
		class = lockapi.CodeOutcomeUnknown
	}
	return &callError{op: q.method + " " + q.path, cause: cause, class: class, last: last}
}

// verdict says what follows a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error is the call's outcome
	retry                   // try again, after a pause
	redirect                // try again at once, elsewhere
)

// judge turns an attempt's failure into what to do next, and lets the choice of
// replica learn from it. ctx is the one that the attempt ran under.
func (c *Client) judge(ctx context.Context, r *route, q *call, err error) verdict {
	var refused *lockapi.Error
	if !errors.As(err, &refused) {
		if ctx.Err() != nil {
			return retry // the attempt was cut short; the replica is not to blame
		}
		c.targets.failed(r)
		if q.once && q.unsettled {
			return giveUp
		}
		return retry
	}
	switch refused.Code {
	case lockapi.CodeNotMaster:
		if c.targets.redirected(r, refused.Master) {
			return redirect
		}
		return retry
	case lockapi.CodeNoMaster:
		c.targets.skip(r)
		return retry
	case lockapi.CodeOutcomeUnknown:
		c.targets.skip(r)
		if q.once {
			return giveUp
		}
		return retry
	}
	return giveUp
}

// attempt sends a call once, over route r. The error is a *lockapi.Error where
// the cell has answered, else an *attemptError.
func (c *Client) attempt(ctx context.Context, r *route, q *call) error {
	timeout := q.timeout
	if timeout == 0 {
		timeout = answerTime
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q.attempts++
	sent := c.now()
	err := c.exchange(ctx, r, q)
	if !mayHaveTakenEffect(err) {
		return err
	}
	if !q.effective {
		q.effective, q.firstSent = true, sent
	}
	q.unsettled = q.unsettled || err != nil
	return err
}

// mayHaveTakenEffect says whether an attempt that ended so may have done its
// work. A refusal has not, except for those that leave it open.
func mayHaveTakenEffect(err error) bool {
	var failed *attemptError
	switch {
	case err == nil:
		return true
	case errors.As(err, &failed):
		return failed.sent
	}
	return errors.Is(err, lockapi.CodeOutcomeUnknown) || errors.Is(err, lockapi.CodeInternal)
}

// exchange is one HTTP round trip.
func (c *Client) exchange(ctx context.Context, r *route, q *call) error {
	resp, err := c.transport.RoundTrip(c.request(ctx, r, q))
	if err != nil {
		return &attemptError{base: r.to.base, sent: !isDialError(err), err: err}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	_, err = buf.ReadFrom(io.LimitReader(resp.Body, mostAnswer))
	resp.Body.Close()
	if err != nil {
		return &attemptError{base: r.to.base, sent: true, err: err}
	}
	if resp.StatusCode >= 300 {
		return c.refusal(r, resp, buf.Bytes())
	}
	c.targets.answered(r, resp.Header.Get(lockapi.HeaderMaster))
	if q.out == nil || len(buf.Bytes()) == 0 {
		return nil
	}
	if err := json.Unmarshal(buf.Bytes(), q.out); err != nil {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with what is not the JSON expected: %v", r.to.base, q.method, q.path, err)
	}
	return nil
}

// request builds one attempt's request. Its headers are shared and read-only,
// as RoundTripper's contract allows, except where a key has to be added.
func (c *Client) request(ctx context.Context, r *route, q *call) *http.Request {
	h := c.headers.direct
	if r.forward {
		h = c.headers.forward
	}
	if q.key != "" {
		h = h.Clone()
		h[lockapi.HeaderIdempotencyKey] = []string{q.key}
	}
	req := (&http.Request{
		Method: q.method, URL: r.to.url(q.path, q.query), Host: r.to.host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if q.body != nil {
		req.ContentLength = int64(len(q.body))
		req.Body = io.NopCloser(bytes.NewReader(q.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(q.body)), nil }
	}
	return req
}

// refusal reads an answer other than 2xx. What is not a problem document comes
// from something between us and the cell, which may have let the call through.
func (c *Client) refusal(r *route, resp *http.Response, body []byte) error {
	e := new(lockapi.Error)
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		code := lockapi.CodeInternal
		switch resp.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			code = lockapi.CodeOutcomeUnknown
		case http.StatusNotFound:
			code = lockapi.CodeNotFound
		}
		return lockapi.Errorf(code, "%s answered %s, which no replica does; is it the base URL of one?", r.to.base, resp.Status)
	}
	e.RetryAfter, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	switch e.Code {
	case lockapi.CodeNotMaster, lockapi.CodeNoMaster, lockapi.CodeOutcomeUnknown:
		// judge decides where to go.
	default:
		c.targets.answered(r, resp.Header.Get(lockapi.HeaderMaster))
	}
	return e
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// headers are the two sets of request headers.
type headers struct{ direct, forward http.Header }

func makeHeaders(agent string) headers {
	if agent == "" {
		agent = "stout-client"
	}
	forward := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {agent},
	}
	direct := forward.Clone()
	direct.Set(lockapi.HeaderForward, lockapi.ForwardNever)
	return headers{direct: direct, forward: forward}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	const most = 64 << 10 // a list's large answer is not worth keeping
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}
