package server

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// sharedReads lets the blocking queries that one change wakes share one
// forwarded read. A query may use a read that began after the query arrived: its
// answer then is the state at a moment during the query, as with a read of its
// own.
type sharedReads struct {
	mu    sync.Mutex // guards the following fields
	last  uint64     // number of the latest query or read
	under map[sharedKey]*sharedRead
}

// sharedKey is what reads must have in common: the master, the path and query,
// and the credential or principal, on which the right to read depends.
type sharedKey struct {
	master, url, credential string
	by                      assertion
}

type sharedRead struct {
	key   sharedKey
	began uint64
	ended chan struct{}
	got   *answer // set before ended is closed; nil if it cannot be shared
}

// next numbers a query that arrives.
func (s *sharedReads) next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// sendOrJoin is send, except that a blocking query waits for the read of another
// one if it may use it. Only good answers are shared.
func (x *exchange) sendOrJoin(ctx context.Context, id string) (got answer, sent bool, err error) {
	if x.arrived == 0 {
		return x.send(ctx, id)
	}
	read, joins := x.sharedRead(id)
	if !joins {
		defer func() { x.shared.end(read, got, err) }()
		return x.send(ctx, id)
	}
	select {
	case <-read.ended:
	case <-ctx.Done():
		return answer{}, true, ctx.Err()
	}
	if read.got == nil {
		return x.send(ctx, id)
	}
	return answer{read.got.status, maps.Clone(read.got.header), read.got.body}, true, nil
}

// sharedRead returns the read that a blocking query joins, or the one that it
// begins and must end.
func (x *exchange) sharedRead(id string) (read *sharedRead, joins bool) {
	by := x.assertion()
	by.Remote = ""
	key := sharedKey{id, x.c.Request.URL.RequestURI(), strings.Join(x.c.Request.Header[headerAuthorization], "\n"), by}
	s := &x.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if read := s.under[key]; read != nil && read.began > x.arrived {
		return read, true
	}
	s.last++
	read = &sharedRead{key: key, began: s.last, ended: make(chan struct{})}
	if s.under == nil {
		s.under = map[sharedKey]*sharedRead{}
	}
	s.under[key] = read
	return read, false
}

// end ends a read with its answer. An answer that broke off has an error.
func (s *sharedReads) end(r *sharedRead, got answer, err error) {
	if err == nil && (got.status == http.StatusOK || got.status == http.StatusNotFound) {
		r.got = &answer{got.status, maps.Clone(got.header), got.body}
	}
	s.mu.Lock()
	if s.under[r.key] == r {
		delete(s.under, r.key)
	}
	s.mu.Unlock()
	close(r.ended)
}
