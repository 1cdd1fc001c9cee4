package history

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Recorder keeps the attempts of many clients in the order in which they ended.
// Its methods are safe for concurrent use.
type Recorder struct {
	began time.Time

	mu       sync.Mutex
	attempts []Attempt
}

// NewRecorder starts a record now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Now returns the time since the record began, which is the clock of its
// attempts.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Attempts returns a copy of the record so far. Attempts under way are missing:
// end them first.
func (r *Recorder) Attempts() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attempts)
}

func (r *Recorder) add(a Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, a)
}

// Transport records what a client sends through it. The attempts carry the
// client's name. If next is nil, it makes a transport of its own.
func (r *Recorder) Transport(client string, next http.RoundTripper) http.RoundTripper {
	if next == nil {
		dialer := &net.Dialer{Timeout: 2 * time.Second}
		next = &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 64, DisableCompression: true}
	}
	return &transport{recorder: r, client: client, next: next}
}

type transport struct {
	recorder *Recorder
	client   string
	next     http.RoundTripper
}

// RoundTrip makes the call and reads the whole answer, so that it returns when
// the answer is complete.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	a, ok, err := parseRequest(req)
	if err != nil {
		return nil, err
	}
	if !ok {
		return t.next.RoundTrip(req)
	}
	// net/http itself resends a request with a key when the connection breaks,
	// and then perhaps can't connect.
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	a.Client = t.client
	a.Call = int64(t.recorder.Now())
	resp, body, err := t.exchange(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	a.Return = int64(t.recorder.Now())
	if err != nil {
		a.Outcome, a.Detail = Unknown, err.Error()
		if notDialled(err) && !connected.Load() {
			a.Outcome = NoEffect
		}
	} else {
		a.parseReply(resp, body)
	}
	t.recorder.add(a)
	return resp, err
}

func (t *transport) exchange(req *http.Request) (*http.Response, []byte, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, body, nil
}

// notDialled reports whether a request got no connection.
func notDialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// CloseIdleConnections passes on a request of http.Client and the SDK.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
