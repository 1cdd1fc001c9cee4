package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// Raw is a minimal client: it sends each call once, to the replica that an
// answer last named as the master, and switches to the next replica after a
// failure.
type Raw struct {
	transport *http.Transport
	urls      []string
	doors     map[string]string // by the URL of the API; nil: urls are the API's
	bearer    []string          // the value of Authorization; nil: none
	base      atomic.Pointer[string]
	turn      atomic.Int64
}

// NewRaw makes a client by plain HTTP, with as many connections as concurrent
// calls.
func NewRaw(way Way) *Raw {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	c := &Raw{urls: way.URLs, transport: &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 1 << 16, // so that no connection is closed between two calls
		TLSClientConfig:     way.TLS,
		DisableCompression:  true,
		WriteBufferSize:     2 << 10, // a call has a few hundred bytes
		ReadBufferSize:      2 << 10,
	}}
	if way.Token != "" {
		c.bearer = []string{"Bearer " + way.Token}
	}
	c.base.Store(&way.URLs[0])
	return c
}

// Call sends one call once. If in is nil, the body is empty; if out is nil, the
// answer is not decoded. An unsuccessful answer is returned as a
// *lockapi.Error.
func (c *Raw) Call(ctx context.Context, method, pathAndQuery string, in, out any) error {
	return c.call(ctx, method, pathAndQuery, nil, in, out)
}

// Close closes the idle connections.
func (c *Raw) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

func (c *Raw) Open(ctx context.Context, ttl time.Duration) (Session, error) {
	s := &rawSession{c: c, ttl: ttl, ended: make(chan struct{})}
	req := lockapi.NewSessionRequest()
	req.TTLMS, req.Name = ttl.Milliseconds(), "bench"
	var opened lockapi.Session
	if err := c.call(ctx, http.MethodPost, lockapi.RouteSessions, nil, req, &opened); err != nil {
		return nil, err
	}
	s.id = opened.ID
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.keepAlive(ctx)
	return s, nil
}

func (c *Raw) Read(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodGet, lockapi.RouteLocks+path, nil, nil, nil)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// call is Call with header fields. in may also be the content of a file, which
// is sent unchanged.
func (c *Raw) call(ctx context.Context, method, pathAndQuery string, fields http.Header, in, out any) error {
	_, err := c.exchange(ctx, method, pathAndQuery, fields, in, out)
	return err
}

// exchange is call, and returns the header of a successful answer.
func (c *Raw) exchange(ctx context.Context, method, pathAndQuery string, fields http.Header, in, out any) (http.Header, error) {
	base := c.base.Load()
	req, err := http.NewRequestWithContext(ctx, method, *base+pathAndQuery, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, fields)
	if c.bearer != nil {
		req.Header["Authorization"] = c.bearer
	}
	if in != nil {
		body, isFile := in.([]byte)
		if !isFile {
			if body, err = json.Marshal(in); err != nil {
				return nil, err
			}
		}
		if len(body) > 0 { // else the transport would send chunks
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
	}
	reply, err := c.transport.RoundTrip(req)
	if err != nil {
		c.turnFrom(base)
		return nil, err
	}
	defer reply.Body.Close()
	buf := buffers.Get().(*bytes.Buffer)
	defer func() { buf.Reset(); buffers.Put(buf) }()
	if _, err := buf.ReadFrom(reply.Body); err != nil {
		c.turnFrom(base)
		return nil, err
	}
	c.follow(base, reply)
	if reply.StatusCode >= 300 {
		return nil, problem(method+" "+pathAndQuery, reply.Status, buf.Bytes())
	}
	if out == nil {
		return reply.Header, nil
	}
	return reply.Header, json.Unmarshal(buf.Bytes(), out)
}

// problem returns the error of an unsuccessful answer.
func problem(call, status string, body []byte) error {
	e := new(lockapi.Error)
	if json.Unmarshal(body, e) != nil || e.Code == "" {
		return fmt.Errorf("%s: %s", call, status)
	}
	return e
}

// follow switches to the master that an answer names, or away from a replica
// that knows no master.
func (c *Raw) follow(base *string, reply *http.Response) {
	master := reply.Header.Get(lockapi.HeaderMaster)
	if c.doors != nil {
		master = c.doors[master]
	}
	switch {
	case reply.StatusCode == http.StatusServiceUnavailable:
		c.turnFrom(base)
	case master != "" && master != *base:
		c.base.CompareAndSwap(base, &master)
	}
}

// turnFrom switches to the next replica, unless another call already did.
func (c *Raw) turnFrom(base *string) {
	next := c.urls[int(c.turn.Add(1))%len(c.urls)]
	c.base.CompareAndSwap(base, &next)
}

// rawSession numbers its holds. A handle is reused until its release was
// answered, so that a call with a lost answer can be repeated.
type rawSession struct {
	c      *Raw
	id     string
	ttl    time.Duration
	stop   context.CancelFunc
	ended  chan struct{} // closed when keepAlive has ended
	serial int
	path   string // of the lock acquired last
}

// mostWait is the waiting time in a call for a lock. The call returns early
// with a grant, and is repeated without one.
const mostWait = 60 * time.Second

func (s *rawSession) handle() string { return fmt.Sprintf("h%d", s.serial) }

func (s *rawSession) Lock(ctx context.Context, path string) (uint64, error) {
	return s.acquire(ctx, path, mostWait)
}

func (s *rawSession) TryLock(ctx context.Context, path string) (uint64, error) {
	return s.acquire(ctx, path, 0)
}

func (s *rawSession) acquire(ctx context.Context, path string, wait time.Duration) (uint64, error) {
	req := lockapi.NewLockRequest(s.id)
	req.Handle, req.WaitMS = s.handle(), wait.Milliseconds()
	var grant lockapi.Grant
	if err := s.c.call(ctx, http.MethodPut, lockapi.RouteLocks+path, nil, req, &grant); err != nil {
		return 0, err
	}
	s.path = path
	return grant.Token, nil
}

func (s *rawSession) Unlock(ctx context.Context) error {
	query := "?session=" + url.QueryEscape(s.id) + "&handle=" + s.handle()
	if err := s.c.call(ctx, http.MethodDelete, lockapi.RouteLocks+s.path+query, nil, nil, nil); err != nil {
		return err
	}
	s.serial++
	return nil
}

func (s *rawSession) Close(ctx context.Context) error {
	s.stop()
	<-s.ended
	return s.c.call(ctx, http.MethodDelete, lockapi.RouteSessions+"/"+s.id, nil, nil, nil)
}

// keepAlive always has one keepalive waiting at the server, for two thirds of
// the ttl. After a failure it asks for an immediate answer.
func (s *rawSession) keepAlive(ctx context.Context) {
	defer close(s.ended)
	wait := s.ttl * 2 / 3
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, wait+s.ttl/8)
		req := lockapi.KeepaliveRequest{WaitMS: wait.Milliseconds()}
		err := s.c.call(bounded, http.MethodPost, lockapi.RouteSessions+"/"+s.id+"/keepalive", nil, req, nil)
		cancel()
		wait = s.ttl * 2 / 3
		if err != nil {
			wait = 0
			cell.Pause(ctx, 20*time.Millisecond)
		}
	}
}
