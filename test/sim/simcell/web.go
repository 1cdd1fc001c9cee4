package simcell

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// endpoint is the HTTP transport of one sender. It ends with ctx.
type endpoint struct {
	w    *world
	from string
	ctx  context.Context
}

func (w *world) endpoint(from string, ctx context.Context) *endpoint { return &endpoint{w, from, ctx} }

// mostRequests is far more than the users' pace and retries can make in a time.
func mostRequests(within time.Duration) int { return 20_000 + 200*int(within/time.Second) }

// answer is the result of a request.
type answer struct {
	resp *http.Response
	err  error
}

// RoundTrip implements http.RoundTripper.
func (e *endpoint) RoundTrip(q *http.Request) (*http.Response, error) {
	e.w.stats.Requests++
	with := e.w.access.credential(e.from, q)
	e.w.oracle.revisions.endsBy(q)
	if e.w.requests++; e.w.requests > mostRequests(e.w.now()) {
		e.w.fail("%s calls without end: %d requests, the last one %s %s", e.from, e.w.requests, q.Method, q.URL)
	}
	var body []byte
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body)
		_ = q.Body.Close()
	}
	got := make(chan answer, 1)
	go e.carry(q, body, got)
	e.repeat(q, body)
	select {
	case a := <-got:
		if with && a.err == nil && !ownState(q) && (a.resp.StatusCode == http.StatusUnauthorized || a.resp.StatusCode == http.StatusForbidden) {
			e.w.fail("%s, which has the right to all its calls, gets %s for %s %s", e.from, a.resp.Status, q.Method, q.URL)
		}
		return a.resp, a.err
	case <-q.Context().Done():
		return nil, q.Context().Err()
	case <-e.ctx.Done():
		return nil, errReset
	}
}

// repeat may deliver a late copy of a request (see network.repeat), over a
// connection that lasts or breaks soon.
func (e *endpoint) repeat(q *http.Request, body []byte) {
	if !repeatable(q) || !e.w.net.repeat(e.w.net.again, func() {
		ctx, breakOff := context.WithCancel(context.Background())
		defer breakOff()
		if e.w.net.lates.IntN(2) == 0 {
			e.w.later(between(e.w.net.lates, time.Millisecond, time.Second), breakOff)
		}
		e.carry(q.Clone(ctx), body, make(chan answer, 1))
	}) {
		return
	}
	e.w.oracle.repeated(q, body)
}

// ownState reports whether the receiver's own state decides a request, which
// may be an old one.
func ownState(q *http.Request) bool {
	return q.URL.Path == lockapi.RouteEvents || q.URL.Path == lockapi.RouteHistory || stale(q) || atDoor(q) && q.URL.Query().Has("index")
}

// stale reports whether a request asks for the receiver's own state.
func stale(q *http.Request) bool {
	return q.URL.Query().Get("consistency") == "stale" || atDoor(q) && q.URL.Query().Has("stale")
}

// carry takes the request to its receiver and the answer back. A request that
// its sender has given up may still arrive.
func (e *endpoint) carry(q *http.Request, body []byte, got chan<- answer) {
	w := e.w
	m, listens := w.at(q.URL.Host)
	to := m.id
	if !w.net.arrives(e.from, to) {
		return
	}
	p := m.process
	if p == nil || p.api == nil || !listens || p.deaf && !w.isReplica(e.from) {
		got <- answer{err: &net.OpError{Op: "dial", Net: "tcp", Err: errRefused}}
		return
	}
	if e.w.isReplica(e.from) {
		if sender := e.w.machine(e.from).process; sender != nil && !p.believes(sender) {
			got <- answer{err: &net.OpError{Op: "dial", Net: "tcp", Err: errRefused}}
			return
		}
	}
	if trace := httptrace.ContextClientTrace(q.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	p.awake()
	resp := e.served(p, q, body)
	switch {
	case resp == nil:
		if !w.net.isCut(to, e.from) {
			got <- answer{err: errReset}
		}
	case w.net.arrives(to, e.from):
		got <- answer{resp: resp}
	}
}

// served returns the process's answer, or nil if the process dies before.
func (e *endpoint) served(p *process, q *http.Request, body []byte) *http.Response {
	ctx, cancel := context.WithCancel(p.gone)
	// The receiver learns that its caller has gone, unless the link is cut.
	stop := context.AfterFunc(q.Context(), func() {
		if e.w.net.arrives(e.from, p.m.id) {
			cancel()
		}
	})
	in, err := http.NewRequestWithContext(ctx, q.Method, q.URL.String(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	in.Header, in.RequestURI, in.RemoteAddr = q.Header, q.URL.RequestURI(), e.from
	pairs, keeps := requesters(q, body)
	for _, who := range pairs {
		if keeps {
			e.w.keeps[who] = true
			continue
		}
		e.w.calling[who]++
		e.w.called[who] = e.w.now()
	}
	if keeps {
		pairs = nil
	}
	came := p.master.Known()
	var ahead []denial
	if who, releases := releaser(q); releases {
		ahead = e.w.oracle.underway(who)
	}
	api := p.api
	switch {
	case e.w.isReplica(e.from):
		api = p.peers
	case atDoor(q):
		api = p.door
	}
	done := make(chan *http.Response, 1)
	out := &reply{ResponseRecorder: httptest.NewRecorder(), stream: &stream{e: e, q: q, at: p, more: make(chan struct{})}, began: make(chan struct{})}
	began, query := e.w.now(), e.w.oracle.blocks(p, q)
	go func() {
		defer cancel()
		defer stop()
		api.ServeHTTP(out, in)
		out.over()
		e.w.oracle.deny(ahead, out.ResponseRecorder)
		e.w.oracle.answered(q, out.ResponseRecorder)
		e.w.oracle.unblocks(p, query, out.Code, out.Header())
		if !p.dead() {
			e.w.oracle.ownAnswer(p, q, began, out.ResponseRecorder)
			if out.Code == http.StatusInternalServerError && strings.Contains(out.Body.String(), "failed to handle the call") {
				e.w.fail("%s answers %s %s with: %s", p.m.id, q.Method, q.URL, out.Body)
			}
		}
		for _, who := range pairs {
			e.w.calling[who]--
			e.w.called[who] = e.w.now()
			if out.Code == http.StatusOK {
				e.w.granted[who] = true
			}
		}
		if ctx.Err() != nil && !p.dead() {
			for _, who := range pairs {
				p.broke(who, came, out.Code)
			}
		}
		p.awake()
		done <- out.Result()
	}()
	select {
	case resp := <-done:
		if p.dead() {
			return nil
		}
		e.w.oracle.look()
		return resp
	case <-out.began:
		return out.begun(cancel)
	case <-p.gone.Done():
		return nil
	}
}
