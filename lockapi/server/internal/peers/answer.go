package peers

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// Answer is another replica's complete reply.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// NoteSent returns a context that sets sent when a call with it has a
// connection. Before that the call was certainly never sent.
func NoteSent(ctx context.Context, sent *bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { *sent = true }})
}

// ReadAnswer reads the whole reply and closes it.
func ReadAnswer(resp *http.Response) (Answer, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, body}, err
}

// Reads lets callers with the same question, such as the blocking queries that
// one change wakes, share one read. A caller may use a read that began after
// the caller arrived: the answer then is the state at a moment during the call,
// as with a read of its own. K is what the callers must have in common.
type Reads[K comparable] struct {
	mu    sync.Mutex // guards the following fields
	last  uint64     // number of the latest caller or read
	under map[K]*read
}

type read struct {
	began uint64
	ended chan struct{}
	got   *Answer // set before ended is closed; nil if it cannot be shared
}

// Next returns the number of a caller that arrives now.
func (s *Reads[K]) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// Do calls send, or waits for the read of another caller if the caller with the
// number arrived may use it. Only good answers are shared.
func (s *Reads[K]) Do(ctx context.Context, key K, arrived uint64, send func() (Answer, bool, error)) (got Answer, sent bool, err error) {
	s.mu.Lock()
	of := s.under[key]
	joins := of != nil && of.began > arrived
	if !joins {
		s.last++
		of = &read{began: s.last, ended: make(chan struct{})}
		if s.under == nil {
			s.under = map[K]*read{}
		}
		s.under[key] = of
	}
	s.mu.Unlock()
	if !joins {
		defer func() { s.end(key, of, got, err) }()
		return send()
	}
	select {
	case <-of.ended:
	case <-ctx.Done():
		return Answer{}, true, ctx.Err()
	}
	if of.got == nil {
		return send()
	}
	return of.got.clone(), true, nil
}

// end ends a read with its answer. An answer that broke off has an error.
func (s *Reads[K]) end(key K, r *read, got Answer, err error) {
	if err == nil && (got.Status == http.StatusOK || got.Status == http.StatusNotFound) {
		kept := got.clone()
		r.got = &kept
	}
	s.mu.Lock()
	if s.under[key] == r {
		delete(s.under, key)
	}
	s.mu.Unlock()
	close(r.ended)
}

// clone copies the headers, which a receiver may change.
func (a Answer) clone() Answer { return Answer{a.Status, maps.Clone(a.Header), a.Body} }
