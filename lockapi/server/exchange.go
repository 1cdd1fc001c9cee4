package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/codec"
	"github.com/stoutlock/stout/lockapi/server/internal/consul"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
	"github.com/stoutlock/stout/master"
)

// Media types of replies, as header values. They are never modified.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	typeYAML    = []string{"application/yaml"}
	bearer      = []string{"Bearer"}
)

// exchange is one request and its reply. Body and query are read before the
// route's handler runs.
type exchange struct {
	*Server
	c        *gin.Context
	master   Master            // nil if the replica is not a member
	way      http.RoundTripper // to the other members
	peer     bool              // forwarded by another member
	proven   bool              // members have shown each other their certificates
	route    *route
	node     string       // path in the call, once known
	also     []master.Ask // additional rights, if the route's is not enough
	secret   *[32]byte    // SHA-256 of the token
	asserted *assertion   // from the forwarding member; zero for none
	// enables reports that the caller may enable access control while it is
	// off.
	enables  bool
	by       master.Caller  // owned by caller
	whileOff error          // error while access control is off; nil for none
	broke    bool           // the call has the break-glass secret
	paced    bool           // it was counted against the caller's calls per second
	backoff  master.Backoff // how to answer if that count has refused it
	proof    identity.Proof // from the JWT or certificate
	how      string         // which of them; empty for neither
	// brought reports that the call has a credential, good or bad.
	brought bool
	began   time.Time // of the call, also before it waited without a goroutine
	waits   waiting   // the call, if it is one that may wait
	call    gate.Call
	hurried bool            // it must not wait
	arrived uint64          // number of a blocking query that has waited; 0 for other calls
	inTurn  bool            // it has a place in Server.lists
	parking *master.Parking // of a keepalive that may wait without a goroutine
	later   *wire.Later     // wakes it; nil if it has waited
	late    *peers.Answer   // another replica's answer, passed on after the call has returned; nil for none
	// misplaced reports that the call has the break-glass secret at a replica
	// where it is not valid.
	misplaced bool
	lost      error            // of an attempt that may have had an effect; nil for none
	noted     noted            // for the audit log
	span      trace.Span       // nil if the call is not traced
	timeline  *master.Timeline // set if the span is recorded
	body      []byte
	query     query
}

// handler wraps every operation: it runs the operation, writes its error,
// recovers from a panic, and counts the call. peer is set for calls that
// another member sends.
func (s *Server) handler(r route, peer bool) gin.HandlerFunc {
	usual := &tally{metrics: s.metrics, route: r.template, method: r.method, from: fromClient}
	if peer {
		usual.from = fromReplica
	}
	return func(c *gin.Context) {
		start := time.Now()
		x := &exchange{Server: s, c: c, asserted: noAssertion, peer: peer, route: &r}
		x.call.Of = x
		if at := s.attached.Load(); at != nil {
			x.master, x.way, x.proven = at.Master, at.way, at.proven
		}
		left := false // without a reply
		if began, again := x.goOn(); again {
			start = began
			defer x.parking.End()
		} else {
			s.metrics.inFlight.Inc()
			if s.opts.Tracer != nil && r.isTraced() {
				x.trace()
				defer x.endSpan()
			}
		}
		x.began = start
		defer func() {
			if left {
				return
			}
			s.metrics.inFlight.Dec()
			if took, status := time.Since(start), x.statusLabel(); c.Request.Method == r.method {
				usual.count(status, took)
			} else {
				s.metrics.count(r.template, x.methodLabel(), usual.from, status, took)
			}
		}()
		if s.opts.Audit != nil {
			defer func() {
				if !left {
					x.audit()
				}
			}()
		}
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler: // the answer is broken off
				panic(p)
			default:
				x.panicked(p)
			}
		}()
		if err := x.run(); err == master.ErrParked {
			left = true
			x.leave(start)
			return
		} else if err != nil {
			x.fail(cmp.Or(x.paceRefused(err), err))
			return
		}
		x.passLate()
	}
}

// run makes the call if it is permitted.
func (x *exchange) run() error {
	if !x.peer {
		if answered, err := x.screen(); answered || err != nil {
			return err
		}
	}
	body, err := x.readBody(x.route.maxBody())
	x.body = body
	switch {
	case x.master == nil && !onStandby[x.route.template]:
		return x.standbyProblem()
	case err != nil:
		return err
	}
	if err := x.admit(); err != nil {
		return err
	}
	if x.route.guest {
		if err := x.reservePlace(); err != nil {
			return err
		}
	}
	return x.hideFromAnonymous(x.handle())
}

func (x *exchange) handle() (err error) {
	if r := x.route; r.pattern != "" && !r.door {
		if x.query, err = parseQuery(x.c.Request.URL.RawQuery, r.params); err != nil {
			return err
		}
	}
	return x.route.handle(x)
}

// hideFromAnonymous replaces errors by 401 for a caller without a credential if access
// control is on and no rule names anonymous. The caller does not learn what is
// wrong with its call or which replica is the master.
func (x *exchange) hideFromAnonymous(err error) error {
	refused, ok := errors.AsType[*lockapi.Error](err)
	if !ok || refused.Code.Status() >= http.StatusInternalServerError {
		return err
	}
	if away := x.mastersRefusal(refused.Code); away != nil {
		return away
	}
	return err
}

// mastersRefusal is localRefusal by the master's state: a replica that is behind
// may not know that access control was turned off or a rule added. On other
// replicas it returns nil, except for a malformed call: the master never
// receives such a call, so the replica's own state decides.
func (x *exchange) mastersRefusal(refused lockapi.Code) error {
	away := x.localRefusal()
	if away == nil {
		return nil
	}
	if !x.master.Known().Self {
		if refused == lockapi.CodeInvalidArgument || refused == lockapi.CodeTooLarge {
			return away
		}
		return nil
	}
	_, _, err := x.master.Do(x.ctx(), &master.Caller{Ask: master.Ask{Right: master.KnownCaller}}, false, &lockapi.GetRevision{})
	if errors.Is(err, lockapi.CodeUnauthenticated) {
		return err
	}
	return nil
}

// localRefusal returns the refusal of a caller without a credential if, by this
// replica's own state, no call is open to it; otherwise nil.
func (x *exchange) localRefusal() error {
	if x.peer || x.brought || x.master == nil || x.route.asks == master.Nothing || x.route.asks == master.AnyCaller {
		return nil
	}
	return x.anonymousRefusal()
}

// isNameless reports whether the answer must hide the cell's id and the master:
// it is an error for a caller without a credential to which no call is open.
// The health probes keep these headers even when they fail, and so do calls
// that rules open to anonymous.
func (x *exchange) isNameless(status int) bool {
	switch {
	case x.peer || x.brought || status < http.StatusBadRequest:
		return false
	case status == http.StatusUnauthorized:
		return true
	case x.route.asks == master.Nothing && status >= http.StatusInternalServerError:
		return false
	}
	return x.anonymousRefusal() != nil
}

// anonymousRefusal returns the refusal of a caller without a credential if, by this
// replica's own state, it can only make calls that need no right; otherwise nil.
func (s *Server) anonymousRefusal() error {
	at := s.attached.Load()
	if at == nil {
		return nil
	}
	err := at.Authorize(&master.Caller{Ask: master.Ask{Right: master.KnownCaller}})
	if errors.Is(err, lockapi.CodeUnauthenticated) {
		return err
	}
	return nil
}

// admit reads the call's credential, and checks the call if this replica
// answers it itself.
func (x *exchange) admit() (err error) {
	if x.master == nil || x.route.asks == master.Nothing {
		return nil
	}
	if x.secret, err = x.credential(); err != nil {
		return err
	}
	if x.secret != nil {
		x.breakGlass()
	}
	if !x.route.local {
		return nil
	}
	if err := x.pace(false); err != nil {
		return err
	}
	return x.master.Authorize(x.caller())
}

// panicked answers after a panic of the operation, if nothing was written yet.
func (x *exchange) panicked(p any) {
	x.log.Error().Interface("panic", p).Str("route", x.route.method+" "+x.route.template).
		Bytes("stack", debug.Stack()).Msg("an HTTP handler panicked")
	if x.c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	x.fail(lockapi.Errorf(lockapi.CodeInternal, "the server failed to handle the call; see the log of stoutd"))
}

func (x *exchange) ctx() context.Context { return x.c.Request.Context() }

// path returns the request's path as it was sent, clipped for a message.
func (x *exchange) path() string {
	return strconv.Quote(lockapi.Clip(x.c.Request.URL.RawPath))
}

// reply writes body as JSON; nil sends a reply without a body.
func (x *exchange) reply(status int, body any) error {
	if body == nil {
		x.stamp(x.c.Writer.Header())
		x.identify()
		x.c.Writer.WriteHeader(status)
		x.c.Writer.WriteHeaderNow()
		return nil
	}
	b, err := x.encode(body)
	if err != nil {
		return err
	}
	defer b.Release()
	x.write(status, typeJSON, b.Bytes())
	return nil
}

// encode encodes a reply. A reply with large contents waits for a turn if the
// call has none. The turn ends before the reply is written, which may take
// long.
func (x *exchange) encode(body any) (*codec.Body, error) {
	defer x.endTurn()
	if !x.inTurn && contentBytes(body) > largeContent && x.AwaitTurn(x.ctx()) != nil {
		return nil, lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the call was made, but the caller has disconnected")
	}
	return codec.Encode(body)
}

// largeContent is the number of content bytes above which a reply needs a turn
// to be encoded.
const largeContent = 64 << 10

func contentBytes(body any) (n int) {
	switch b := body.(type) {
	case lockapi.File:
		n = contentOf(&b)
	case lockapi.TransactionResult:
		for i := range b.Results {
			n += contentOf(b.Results[i].File)
		}
	case lockapi.EventList:
		for i := range b.Events {
			n += contentOf(b.Events[i].File)
		}
	}
	return n
}

func contentOf(f *lockapi.File) int {
	switch {
	case f == nil:
		return 0
	case f.Content != nil:
		return len(*f.Content)
	}
	return len(f.ContentBase64)
}

// write sends a complete reply. The body may be reused after it returns.
func (x *exchange) write(status int, contentType []string, body []byte) {
	h := x.c.Writer.Header()
	x.stamp(h)
	h["Content-Type"] = contentType
	x.writeStamped(status, body)
}

// writeStamped sends a complete reply. Its headers are set except for the
// length.
func (x *exchange) writeStamped(status int, body []byte) {
	if x.peer {
		release, err := x.holdReply(len(body))
		if err != nil {
			if status < http.StatusBadRequest && x.methodLabel() != http.MethodGet && x.methodLabel() != http.MethodHead {
				err = lockapi.Errorf(lockapi.CodeOutcomeUnknown, "the call was made, but there is no room for its answer: %v", err)
			}
			x.fail(err)
			return
		}
		defer release()
	}
	if x.isNameless(status) {
		h := x.c.Writer.Header()
		delete(h, lockapi.HeaderMaster)
		delete(h, lockapi.HeaderCell)
	}
	x.identify()
	x.c.Writer.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.c.Writer.WriteHeader(status)
	// An error means that the caller has disconnected.
	_, _ = x.c.Writer.Write(body)
}

// fail writes err as a problem document. An error that is not a *lockapi.Error
// is a fault of the server: it is logged, and the caller gets no details.
func (x *exchange) fail(err error) {
	var e *lockapi.Error
	if !errors.As(err, &e) {
		x.log.Error().Err(err).Str("method", x.c.Request.Method).Str("path", lockapi.Clip(x.c.Request.URL.RawPath)).
			Msg("an HTTP handler failed with an error outside the contract")
		e = lockapi.Errorf(lockapi.CodeInternal, "the server failed to handle the call; see the log of stoutd")
	}
	if e.Code == lockapi.CodeUnauthenticated && x.misplaced {
		e = errMisplaced(x.master.Known())
	}
	if status := e.Code.Status(); status >= http.StatusInternalServerError && x.isNameless(status) {
		e = lockapi.Errorf(e.Code, "the cell could not decide the call; try again") // the details may name the master
	}
	x.noted.code = e.Code
	if retry := retryAfter(e); retry > 0 {
		x.c.Writer.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	if e.Code == lockapi.CodeUnauthenticated {
		x.c.Writer.Header()["Www-Authenticate"] = bearer
		x.penalize()
	}
	x.holdAnswer()
	if e.Replayed {
		x.c.Writer.Header().Set(lockapi.HeaderReplayed, "true")
	}
	if x.route.door && !x.peer {
		status, text := consul.Refusal(e)
		x.c.Writer.Header().Set("Cache-Control", "no-store")
		x.write(status, typeText, []byte(text))
		return
	}
	b, err := codec.EncodeProblem(e.Problem())
	if err != nil {
		x.log.Error().Err(err).Msg("a problem document cannot be encoded")
		x.c.Writer.WriteHeader(http.StatusInternalServerError)
		return
	}
	defer b.Release()
	x.write(e.Code.Status(), typeProblem, b.Bytes())
}

// retryAfter returns the advised delay in seconds for e; 0 for none.
func retryAfter(e *lockapi.Error) int {
	if e.RetryAfter > 0 {
		return e.RetryAfter
	}
	if e.Code == lockapi.CodeTooMany || e.Code == lockapi.CodeNoMaster || e.Code == lockapi.CodeBusy {
		return 1
	}
	return 0
}

// statusCallerGone labels calls of callers that disconnected before the answer,
// so that they do not look like failures of the cell (nginx's 499).
const statusCallerGone = 499

func (x *exchange) statusLabel() int {
	if x.ctx().Err() != nil {
		return statusCallerGone
	}
	return x.c.Writer.Status()
}

// methodLabel maps unknown methods to one label, so that callers cannot create
// time series.
func (x *exchange) methodLabel() string {
	switch m := x.c.Request.Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return m
	}
	return "other"
}
