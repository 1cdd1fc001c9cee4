package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
)

// Headers forwarded with a request, and headers passed back with a reply, in
// addition to the Stout-* headers. assert adds the header that describes the
// caller.
var (
	forwardedHeaders = []string{lockapi.HeaderIdempotencyKey, headerIfMatch, headerIfNoneMatch}
	passedHeaders    = []string{"Content-Type", "Retry-After", "Etag", "Last-Modified", "Location", "X-Content-Type-Options", "Www-Authenticate"}
)

// forward forwards the call to the master and passes its answer back. The error
// is no_master if the call certainly had no effect or is repeatable, and
// outcome_unknown if it may have had one.
func (x *exchange) forward(at Location, t task) error {
	if err := x.keepGlass(); err != nil {
		return err
	}
	if !x.sends() {
		return x.errSent(at)
	}
	defer x.sent.Leave(1)
	ctx, cancel := context.WithCancelCause(x.ctx())
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, x.left(t)+x.opts.AnswerTimeout)
	defer stop()
	defer x.watched.Forward(at.ID, cancel).Done()

	got, sent, err := x.sendOrJoin(ctx, at.ID)
	if err != nil {
		x.metrics.forwarded.WithLabelValues(forwardFailed).Inc()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if sent && t.keyed {
			x.lost = fmt.Errorf("the answer of master %s was lost: %w", at.ID, err)
		}
		if sent && !t.repeatable {
			return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the call was forwarded to master %s and may have taken effect, but its answer was lost: %v", at.ID, err)
		}
		return lockapi.Errorf(lockapi.CodeNoMaster, "master %s at %s cannot be reached: %v", at.ID, at.URL, err)
	}
	return x.conclude(got, t)
}

// sends takes a place for a forwarded call. Some places are for keepalives
// only.
func (x *exchange) sends() bool {
	if x.call.Keeps {
		return x.sent.Enter(1)
	}
	return x.sent.EnterBelow(1, peers.KeptFree) || !x.isStranger() && x.conns.Yield(&x.call, gate.CallsOnly) && x.sent.Add(1)
}

func (s *Server) errSent(at Location) error {
	return lockapi.TooMany("forwarded-calls", int64(s.sent.Most), int64(s.sent.Most), "this replica already has %d forwarded calls under way, the most allowed; call the master at %s", s.sent.Most, at.URL)
}

// conclude passes the master's answer to the caller, good or bad, unless another
// attempt must follow.
func (x *exchange) conclude(got peers.Answer, t task) error {
	if err := x.refusal(got, t); err != nil {
		x.metrics.forwarded.WithLabelValues(forwardRefused).Inc()
		return err
	}
	x.metrics.forwarded.WithLabelValues(forwardAnswered).Inc()
	if got.Status == http.StatusUnauthorized && x.misplaced {
		return lockapi.Errorf(lockapi.CodeUnauthenticated, "the master refused the credential") // fail adds the details
	}
	if got.Status == http.StatusUnauthorized || x.detachBackoff(got.Header) {
		x.late = &got
		return nil
	}
	x.pass(got)
	return nil
}

// readKey is what reads must have in common to be shared: the master, the path
// and query, and the credential or principal, on which the right to read
// depends.
type readKey struct {
	master, url, credential string
	by                      assertion
}

// sendOrJoin is send, except that a blocking query waits for the read of another
// one if it may use it.
func (x *exchange) sendOrJoin(ctx context.Context, id string) (got peers.Answer, sent bool, err error) {
	if x.arrived == 0 {
		return x.send(ctx, id)
	}
	by := x.assertion()
	by.Remote = ""
	key := readKey{id, x.c.Request.URL.RequestURI(), strings.Join(x.c.Request.Header[headerAuthorization], "\n"), by}
	return x.shared.Do(ctx, key, x.arrived, func() (peers.Answer, bool, error) { return x.send(ctx, id) })
}

// send sends the request to the named replica, which must answer it itself.
// sent is false if the request was certainly never sent.
func (x *exchange) send(ctx context.Context, id string) (got peers.Answer, sent bool, err error) {
	resp, sent, err := x.ask(ctx, id)
	if err == nil {
		got, err = peers.ReadAnswer(resp)
	}
	return got, sent, err
}

// ask is send without reading the answer's body.
func (x *exchange) ask(ctx context.Context, id string) (resp *http.Response, sent bool, err error) {
	in := x.c.Request
	ctx = peers.NoteSent(ctx, &sent)
	target, err := peers.URL(id, in.URL.EscapedPath(), in.URL.RawQuery)
	if err != nil {
		return nil, false, err
	}
	method := methodOf(in) // for HEAD the code of an error is in the body
	out, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(x.body))
	if err != nil {
		return nil, false, err
	}
	if len(x.body) > 0 {
		out.Header["Content-Type"] = typeJSON
	}
	for _, name := range forwardedHeaders {
		if values := in.Header.Values(name); len(values) > 0 {
			out.Header[name] = values
		}
	}
	out.Header.Set(lockapi.HeaderForward, lockapi.ForwardNever)
	if err := x.assert(out.Header); err != nil {
		return nil, false, err
	}
	end := x.traceForward(ctx, id, out.Header)
	resp, err = x.way.RoundTrip(out)
	end(err)
	return resp, sent, err
}

// refusal returns the answer as an error if it must not be passed on as it is.
// The error is no_master if the call had no effect because the replica is not
// the master, or if a repeatable call has an unknown outcome. It is the refusal
// itself if that does not settle an earlier attempt without an answer.
func (x *exchange) refusal(got peers.Answer, t task) error {
	switch {
	case got.Status == http.StatusMisdirectedRequest, got.Status == http.StatusServiceUnavailable:
	case got.Status >= http.StatusBadRequest && x.lost != nil:
	default:
		return nil
	}
	var e lockapi.Error
	if err := json.Unmarshal(got.Body, &e); err != nil && x.lost == nil {
		return nil
	}
	if e.Code == lockapi.CodeOutcomeUnknown && t.keyed {
		x.lost = &e
	}
	switch {
	case e.Code == lockapi.CodeNotMaster, e.Code == lockapi.CodeNoMaster,
		e.Code == lockapi.CodeOutcomeUnknown && t.repeatable:
		return lockapi.Errorf(lockapi.CodeNoMaster, "the replica known as the master answered %v", &e)
	case x.lost != nil && !e.Code.Settles():
		return &e
	}
	return nil
}

// pass writes another replica's answer as this one's. It keeps the
// Stout-* headers of the answer.
func (x *exchange) pass(got peers.Answer) {
	x.noted.elsewhere = true
	if x.route.door {
		got = x.plain(got)
	}
	x.copyHeaders(got.Header)
	if got.Status == http.StatusNoContent || got.Status == http.StatusNotModified {
		x.c.Writer.WriteHeader(got.Status)
		x.c.Writer.WriteHeaderNow()
		return
	}
	x.writeStamped(got.Status, got.Body)
}

func (x *exchange) copyHeaders(from http.Header) {
	h := x.c.Writer.Header()
	x.stamp(h)
	for name, values := range from {
		if slices.Contains(passedHeaders, name) || strings.HasPrefix(name, "Stout-") || x.route.door && (strings.HasPrefix(name, "X-Consul-") || name == "Content-Security-Policy" || name == "Cache-Control" || name == "Vary") {
			h[name] = values
		}
	}
}
