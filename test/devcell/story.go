package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// story prints observations of a cell, each with the time since the beginning.
type story struct {
	cell  *cell.Cell
	began time.Time
}

func (s *story) print(subject, format string, args ...any) {
	say("%6.1fs  %-10s %s", time.Since(s.began).Seconds(), subject, fmt.Sprintf(format, args...))
}

// call makes one API call through any replica that accepts it. Until ctx ends
// it repeats calls that had no effect or may be sent again, and calls to
// replicas that it cannot reach. All calls here may be sent again.
func (s *story) call(ctx context.Context, method, path string, in, out any) error {
	var refused error
	err := cell.Wait(ctx, method+" "+path+" gets an answer", func(ctx context.Context) error {
		var last error
		for _, r := range s.cell.Replicas() {
			_, last = r.Call(ctx, method, path, in, out)
			if last == nil {
				return nil
			}
			if problem := (&lockapi.Error{}); errors.As(last, &problem) && !again(problem.Code) {
				refused = last
				return nil
			}
		}
		return last
	})
	return errors.Join(err, refused)
}

func again(c lockapi.Code) bool { return c == lockapi.CodeNoMaster || c == lockapi.CodeOutcomeUnknown }

func (s *story) lock(ctx context.Context, path string) (l lockapi.Lock, err error) {
	return l, s.call(ctx, http.MethodGet, lockapi.RouteLocks+path, nil, &l)
}

// member is one client of the cell: a session with keepalives under any master,
// until stopKeepalives.
type member struct {
	story   *story
	name    string
	session lockapi.Session
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	epoch  uint64 // from the latest keepalive's answer
	grants []lockapi.Event
}

func (s *story) join(ctx context.Context, name string, ttl time.Duration) (*member, error) {
	m := &member{story: s, name: name, done: make(chan struct{})}
	req := lockapi.SessionRequest{TTLMS: ttl.Milliseconds(), Name: name}
	if err := s.call(ctx, http.MethodPost, lockapi.RouteSessions, req, &m.session); err != nil {
		return nil, err
	}
	ctx, m.stop = context.WithCancel(ctx)
	go m.keepAlive(ctx)
	return m, nil
}

// keepAlive sends keepalives one after the other; the server holds each for up
// to a quarter of the ttl.
func (m *member) keepAlive(ctx context.Context) {
	defer close(m.done)
	path := lockapi.RouteSessions + "/" + m.session.ID + "/keepalive"
	req := lockapi.KeepaliveRequest{WaitMS: m.session.TTLMS / 4}
	for ctx.Err() == nil {
		var reply lockapi.Keepalive
		if err := m.story.call(ctx, http.MethodPost, path, req, &reply); err != nil {
			return
		}
		m.mu.Lock()
		m.epoch = max(m.epoch, reply.Epoch)
		for _, e := range reply.Events {
			if e.Seq > req.Ack {
				req.Ack = e.Seq
				m.grants = append(m.grants, e)
			}
		}
		m.mu.Unlock()
	}
}

// stopKeepalives stops the keepalives, as a crash of the client would.
func (m *member) stopKeepalives() {
	m.stop()
	<-m.done
}

// latest returns the epoch of the latest keepalive's answer and the grants so
// far.
func (m *member) latest() (epoch uint64, grants []lockapi.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch, m.grants
}

func (m *member) acquire(ctx context.Context, path string) (g lockapi.Grant, err error) {
	req := lockapi.NewLockRequest(m.session.ID)
	req.Handle, req.Queue = m.name, true
	return g, m.story.call(ctx, http.MethodPut, lockapi.RouteLocks+path, req, &g)
}

// holds returns an error unless m holds the lock with token.
func (m *member) holds(ctx context.Context, path string, token uint64) error {
	l, err := m.story.lock(ctx, path)
	if err != nil {
		return err
	}
	if l.State != lockapi.StateHeld || len(l.Holders) != 1 || l.Holders[0].Session != m.session.ID || l.Holders[0].Token != token {
		return fmt.Errorf("%s should hold %s with token %d; the cell reports %+v", m.name, path, token, l)
	}
	return nil
}
