package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/stoutlock/stout/client/internal/decode"
	"github.com/stoutlock/stout/client/internal/timing"
	"github.com/stoutlock/stout/client/internal/wire"
	"github.com/stoutlock/stout/internal/dial"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// AnswerTime bounds the time until a replica's answer, beyond the time that
	// the call asks it to wait.
	AnswerTime = 5 * time.Second
	// MostFollowed bounds how many 421 in a row are followed without a pause.
	MostFollowed = 3
)

// Caller makes calls to replicas that it chooses. It repeats a call while that
// is safe, and asks several replicas if one is silent. It is safe for
// concurrent use.
type Caller struct {
	Settings
	*router
	*finder
	sameCell
	transports map[string]*transport // by Endpoint.name

	direct, forward headers // without and with permission to forward the call
}

// Settings are the part of a client's configuration that concerns its calls;
// see client.Config.
type Settings struct {
	URLs      []string
	OnlyURLs  bool
	Resolver  resolver
	Scheme    string             // of a host:port, or a DNS name, without one
	TLS       func() *tls.Config // may return nil
	Transport http.RoundTripper  // may be nil
	AnyCell   bool
	UserAgent string
	Token     func(context.Context) (string, error) // nil: sends no token
	Tracer    tracer                                // nil: records no spans
	Metrics   metrics                               // nil: drops all measurements
	Log       *slog.Logger
	Now       func() time.Duration // the clock of the leases
}

// resolver is a client.Resolver.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// tracer is a client.Tracer.
type tracer interface {
	Call(ctx context.Context, method, path string) (_ context.Context, end func(error))
	Attempt(ctx context.Context, method, path, base string) (fields [][2]string, end func(status int, err error))
}

// metrics is the part of client.Metrics that is about attempts.
type metrics interface {
	Attempt(method, route string, status int, took time.Duration)
}

// New makes a caller, or reports the URL that is wrong.
func New(s Settings) (*Caller, error) {
	fixed, names, err := s.given()
	if err != nil {
		return nil, err
	}
	d := &dial.Dialer{KeepAlive: probing}
	transports := map[string]*transport{"": newTransport(d, s.TLS, "")}
	for _, n := range names {
		if n.scheme == "https" && transports[n.cert] == nil {
			transports[n.cert] = newTransport(d, s.TLS, n.cert)
		}
	}
	transports[""].given = s.Transport
	c := &Caller{
		Settings: s, transports: transports, router: newRouter(fixed, s.Now), sameCell: sameCell{any: s.AnyCell, now: s.Now},
		direct: makeHeaders(s.UserAgent, lockapi.ForwardNever), forward: makeHeaders(s.UserAgent, ""),
	}
	c.finder = newFinder(c, fixed, names)
	c.router.finder, c.router.probe = c.finder, c.probe
	return c, nil
}

// given parses the URLs and the DNS names in them.
func (s *Settings) given() (fixed []*Endpoint, names []*dnsName, err error) {
	for _, text := range s.URLs {
		if !isName(text) {
			e, err := givenEndpoint(text, s.Scheme)
			if err != nil {
				return nil, nil, err
			}
			fixed = append(fixed, e)
			continue
		}
		n, err := parseName(text, s.Scheme)
		switch {
		case err != nil:
			return nil, nil, err
		case s.Transport != nil && n.scheme == "https":
			return nil, nil, fmt.Errorf("stout: %q with a Transport: a Transport cannot verify certificates against that name; give TLS or TLSSource instead of the Transport, or URLs", text)
		}
		names = append(names, n)
	}
	return fixed, names, nil
}

// Do makes a call, and repeats it while that is safe, until it is answered or
// ctx ends. It returns refusals as *lockapi.Error.
func (c *Caller) Do(ctx context.Context, q *Call) error {
	if c.Tracer == nil {
		return c.repeat(ctx, q)
	}
	under, end := c.Tracer.Call(ctx, q.Method, q.Path)
	q.span = under
	err := c.repeat(ctx, q)
	end(err)
	return err
}

// repeat is Do without a span of its own.
func (c *Caller) repeat(ctx context.Context, q *Call) error {
	var (
		pause timing.Backoff
		last  error
		hops  int
	)
	under := ctx
	if q.Cut != nil {
		under = q.Cut
	}
	if err := c.findMaster(under, q); err != nil {
		last = err
	}
	for {
		if ctx.Err() != nil && context.Cause(ctx) != ErrCut {
			return q.GivenUp(context.Cause(ctx), last)
		}
		if under.Err() != nil {
			return ErrCut
		}
		next, at := retry, ""
		r, err := c.Route(under)
		if err == nil {
			at = r.To.URL
			next, err = c.hedged(under, r, q)
		}
		if next == giveUp {
			return q.outcome(err)
		}
		last = err
		c.Log.Debug("stout: attempt failed", "method", q.Method, "path", q.Path, "replica", at, "error", err)
		if q.Renew != nil {
			q.Renew(q)
		}
		if q.Wait > 0 && c.Now()-q.sent >= timing.MaxBackoff {
			pause.Reset(0) // it waited as intended; something on the way ended it
		}
		if hops++; next == redirect && hops <= MostFollowed {
			continue
		}
		hops = 0
		pauseCall(ctx, under, max(pause.Next(), retryAfter(err)))
	}
}

// retryAfter returns how long a used-up quota asks to wait. Other advice is in
// whole seconds, and a fail-over is faster.
func retryAfter(err error) time.Duration {
	if refused, ok := Refusal(err); ok && refused.Code == lockapi.CodeTooMany {
		return time.Duration(refused.RetryAfter) * time.Second
	}
	return 0
}

// Route returns the route to use now. While no replica is known it waits for the
// DNS.
func (c *Caller) Route(ctx context.Context) (*Route, error) {
	if r := c.router.pick(); r != nil {
		return r, nil
	}
	if err := c.finder.first(ctx); err != nil {
		return nil, err
	}
	return c.router.pick(), nil
}

// findMaster finds the master by a read before a call that is not hedged.
func (c *Caller) findMaster(ctx context.Context, q *Call) error {
	if q.isHedged() {
		return nil
	}
	r, err := c.Route(ctx)
	if err != nil || r.heard.Load() != 0 || !c.router.hasOther(r) {
		return err
	}
	return c.Do(ctx, &Call{Method: http.MethodGet, Path: lockapi.RouteLocks, Query: "limit=1", Out: new(lockapi.LockList)})
}

// pauseCall sleeps for d, or until either context ends.
func pauseCall(ctx, under context.Context, d time.Duration) {
	if under != ctx {
		both, _, done := timing.Join(ctx, under)
		defer done()
		ctx = both
	}
	timing.Sleep(ctx, d)
}

// verdict is what follows a failed attempt.
type verdict int

const (
	giveUp   verdict = iota // the error, or nil, is the call's outcome
	retry                   // try again, after a pause
	redirect                // try again at once, elsewhere
)

// classify decides what follows an attempt's failure, and updates the choice of
// replica. With redirect it also returns the next route. ctx is the context of
// the attempt.
func (c *Caller) classify(ctx context.Context, r *Route, q *Call, err error) (verdict, *Route) {
	if other, all := c.IsOtherCell(err); other {
		c.router.failed(r)
		if all {
			return giveUp, nil
		}
		return retry, nil
	}
	refused, ok := Refusal(err)
	if !ok {
		if IsBadToken(err) {
			return giveUp, nil
		}
		if ctx.Err() != nil {
			return retry, nil // the attempt was cut short; the replica is not to blame
		}
		if !q.Delayed && !errors.Is(err, errNoToken) {
			c.router.failed(r)
		}
		if q.NoRetry && q.Unanswered {
			return giveUp, nil
		}
		return retry, nil
	}
	switch refused.Code {
	case lockapi.CodeNotMaster:
		if to := c.router.redirected(r, refused.Master); to != nil {
			return redirect, to
		}
		return retry, nil
	case lockapi.CodeNoMaster:
		c.router.skip(r)
		return retry, nil
	case lockapi.CodeTooMany:
		// Another request adds to the load, so the caller decides. Calls
		// that free a quota are repeated.
		if q.Method == http.MethodDelete {
			return retry, nil
		}
	case lockapi.CodeOutcomeUnknown:
		c.router.skip(r)
		if q.NoRetry {
			return giveUp, nil
		}
		return retry, nil
	case lockapi.CodeBusy:
		if q.Unanswered { // the uncommitted change may come from an earlier attempt
			return retry, nil
		}
	}
	if IsInvalid(err) {
		c.router.skip(r) // others may answer better; r is not asked in a loop
	}
	return giveUp, nil
}

// Attempt sends a call once, over route r. The error is a *lockapi.Error if the
// cell answered, an *otherCell if another cell did, a *foreignAnswer if
// something else did, and an *AttemptError if there was no answer.
//
// A master that has answered another call since this answer was due is busy,
// not gone. A penalty would send all the client's sessions to a replica that
// can only name the same master again. The second time in a row there is a
// penalty: the link may carry short answers only.
func (c *Caller) Attempt(ctx context.Context, r *Route, q *Call) error {
	late := q.AnswerTime
	if late == 0 {
		late = AnswerTime
	}
	sent := c.Now()
	q.sent = sent
	err := c.exchange(ctx, r, q, q.Wait+late)
	q.Delayed = !q.Delayed && errors.Is(err, wire.ErrLate) && r.Alive(c.Now(), late)
	q.add(account{answered: IsAnswer(err), effective: mayHaveTakenEffect(err), Unanswered: err != nil, FirstSent: sent})
	return err
}

// Follow is Attempt for a caller that repeats the call itself. It updates the
// choice of replica, and returns the next route if the replica redirects.
func (c *Caller) Follow(ctx context.Context, r *Route, q *Call) (next *Route, err error) {
	if err = c.Attempt(ctx, r, q); err != nil && ctx.Err() == nil {
		_, next = c.classify(ctx, r, q, err)
	}
	return next, err
}

// probe asks an endpoint whether it is ready, which needs no master, and reports
// whether it answers. On a route that forwards it makes a small read instead:
// the replica may have lost its way to the master, but answer for itself. Any
// answer ends its penalty, even a refusal or a proxy's, and silence begins one.
func (c *Caller) probe(r *Route, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(c.finder.ctx, 2*within) // for the credential, too
	defer cancel()
	q := Call{Method: http.MethodGet, Path: lockapi.RouteReady, Any: true, AnswerTime: within}
	if r.forward {
		q = Call{Method: http.MethodGet, Path: lockapi.RouteLocks, Query: "limit=1", AnswerTime: within}
	}
	err := c.Attempt(ctx, r, &q)
	switch {
	case IsAnswer(err) || isForeign(err):
		c.router.absolve(r.To)
		return true
	case !errors.Is(err, errNoToken) && !q.Delayed && c.finder.ctx.Err() == nil:
		c.router.failed(r)
	}
	return false
}

const mostRetryAfter = 24 * 60 * 60 // seconds

// exchange makes one HTTP round trip and checks its answer, which must arrive
// within the given time.
func (c *Caller) exchange(ctx context.Context, r *Route, q *Call, within time.Duration) error {
	if q.StreamType != "" {
		return c.openStream(ctx, r, q, within)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	a, err := c.roundTrip(ctx, r, q, within, buf)
	if err != nil {
		return &AttemptError{URL: r.To.URL, Sent: !NeverSent(err), Err: err}
	}
	if err := c.sameCell.check(r.To.URL, q, a.StatusCode, a.Header); err != nil {
		return err
	}
	if a.StatusCode >= 300 {
		err := c.refusal(r, &a)
		if e, ok := err.(*lockapi.Error); ok && q.Current != nil && e.Code == lockapi.CodePrecondition && e.Current != nil {
			if wrong := q.Current(q, e.Current); wrong != "" {
				return lockapi.Errorf(lockapi.CodeInternal, "%s refused %s %s with %s", r.To.URL, q.Method, q.Path, wrong)
			}
		}
		return err
	}
	stale := a.Header.Get(lockapi.HeaderStale) != ""
	if wrong := q.read(&a, stale); wrong != "" {
		return lockapi.Errorf(lockapi.CodeInternal, "%s answered %s %s with %s", r.To.URL, q.Method, q.Path, wrong)
	}
	c.router.answered(r, a.Header.Get(lockapi.HeaderMaster))
	if !q.Any && !stale {
		r.answered(c.Now(), q)
	}
	return nil
}

// read decodes a successful answer. It describes what is wrong with it, or
// returns "".
func (q *Call) read(a *wire.Answer, stale bool) string {
	switch {
	case q.Status != 0 && a.StatusCode != q.Status:
		return strconv.Itoa(a.StatusCode) + " " + http.StatusText(a.StatusCode)
	case stale && !q.Stale && !q.Any:
		return "a possibly stale answer, which the call does not allow"
	case q.Out == nil:
		return ""
	}
	if err := decode.JSON(a.Body, q.Out); err != nil {
		return "unexpected JSON: " + err.Error()
	}
	if q.Dated {
		revision, err := strconv.ParseUint(a.Header.Get(lockapi.HeaderRevision), 10, 64)
		if err != nil || revision > lockapi.MaxToken {
			return "no revision in the header " + lockapi.HeaderRevision
		}
		q.AsOf = revision
	}
	if q.Check == nil {
		return ""
	}
	return q.Check(q)
}

// refusal decodes an answer other than 2xx. An answer that is not a problem
// document of the contract comes from a proxy or gateway, which may have passed
// the call on; gateways, too, answer in JSON, with codes of their own.
func (c *Caller) refusal(r *Route, a *wire.Answer) error {
	var p lockapi.Problem
	if decode.JSON(a.Body, &p) != nil || !p.Code.Valid() || p.Code.Status() != a.StatusCode {
		code := lockapi.CodeInternal
		switch a.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			code = lockapi.CodeOutcomeUnknown
		}
		return &foreignAnswer{lockapi.Errorf(code, "%s answered %d %s, which is not an answer of a replica; check the base URL", r.To.URL, a.StatusCode, http.StatusText(a.StatusCode))}
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
		c.router.answered(r, a.Header.Get(lockapi.HeaderMaster))
	}
	return e
}
