//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// serveFakeCell starts a fake cell and returns it with what stops it, calls
// that are under way included.
func serveFakeCell() (*fakeCell, func()) {
	c := newFakeCell()
	ctx, cancel := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(c.handler())
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	c.url = "http://" + s.Listener.Addr().String()
	s.Start()
	return c, func() { cancel(); s.CloseClientConnections(); s.Close() }
}

// handler serves the cell's API, as the master.
func (c *fakeCell) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*http.Request) (any, error){
		"GET /v1/cell":                     c.getCell,
		"GET /v1/replica":                  c.getReplica,
		"POST /v1/cell/transfer":           c.postTransfer,
		"GET /v1/members":                  c.getMembers,
		"POST /v1/members":                 c.postMember,
		"PATCH /v1/members/{id}":           c.patchMember,
		"DELETE /v1/members/{id}":          c.deleteMember,
		"POST /v1/members/{id}/replace":    c.postReplace,
		"POST /v1/sessions":                c.postSession,
		"GET /v1/sessions":                 c.getSessions,
		"GET /v1/sessions/{id}":            c.getSession,
		"DELETE /v1/sessions/{id}":         c.deleteSession,
		"POST /v1/sessions/{id}/keepalive": c.postKeepalive,
		"GET /v1/locks":                    c.getLocks,
		"GET /v1/locks/{path...}":          c.getLock,
		"PUT /v1/locks/{path...}":          c.putLock,
		"DELETE /v1/locks/{path...}":       c.deleteLock,
		"GET /v1/sequencers":               c.getSequencer,
		"GET /v1/files":                    c.getFiles,
		"DELETE /v1/files":                 c.deleteFiles,
		"GET /v1/files/{path...}":          c.getFile,
		"PUT /v1/files/{path...}":          c.putFile,
		"DELETE /v1/files/{path...}":       c.deleteFile,
		"GET /v1/events":                   c.getEvents,
		"GET /v1/history":                  c.getHistory,
		"GET /v1/deadlocks":                c.getDeadlocks,
	} {
		mux.HandleFunc(pattern, c.serve(h))
	}
	mux.HandleFunc("GET /v1/backup", c.getBackup)
	for pattern, h := range c.routesOfAccess() {
		mux.HandleFunc(pattern, c.serve(h))
	}
	return mux
}

// serve runs one call under the present fault, with c.mu held.
func (c *fakeCell) serve(h func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The server only notices that a caller went away once the body is
		// read.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		c.mu.Lock()
		defer c.mu.Unlock()
		for c.fault == mute {
			if c.wait(r, nil) != nil {
				return
			}
		}
		c.expire()
		w.Header().Set(lockapi.HeaderEpoch, "3")
		w.Header().Set(lockapi.HeaderRevision, strconv.FormatUint(c.files.revision, 10))
		if c.fault == noMaster && r.URL.Path != lockapi.RouteCell && r.URL.Path != lockapi.RouteReplica {
			writeError(w, lockapi.Errorf(lockapi.CodeNoMaster, "no replica is in office"))
			return
		}
		if c.fault == healthy {
			w.Header().Set(lockapi.HeaderMaster, c.url)
		}
		var out any
		err = c.judgeCall(r)
		if err == nil {
			out, err = h(r)
		}
		if api, ok := errors.AsType[*lockapi.Error](err); ok {
			if c.fault == evil {
				api.Detail += nasty
			}
			writeError(w, api)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch out.(type) {
		case nil:
			w.WriteHeader(http.StatusNoContent)
			return
		case lockapi.Session, lockapi.Token:
			w.WriteHeader(http.StatusCreated)
		case lockapi.MemberChange:
			w.WriteHeader(http.StatusAccepted)
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

func (c *fakeCell) judgeCall(r *http.Request) error {
	if refused := c.judge(r); refused != nil {
		return refused
	}
	return nil
}

func writeError(w http.ResponseWriter, err *lockapi.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(err.Code.Status())
	_ = json.NewEncoder(w).Encode(err)
}

// wait lets others in until something changed or over is closed, and returns an
// error if the caller went away.
func (c *fakeCell) wait(r *http.Request, over <-chan time.Time) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-changed:
	case <-over:
	case <-r.Context().Done():
	}
	return r.Context().Err()
}

func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && err != io.EOF {
		return lockapi.Invalid("body", "%v", err)
	}
	return nil
}

func (c *fakeCell) getCell(*http.Request) (any, error) { return c.state(), nil }

func (c *fakeCell) getReplica(*http.Request) (any, error) { return c.state().Replicas[0], nil }

func (c *fakeCell) postTransfer(r *http.Request) (any, error) {
	var req lockapi.TransferRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if req.To == "" {
		req.To = "r2"
	}
	if !slices.Contains([]string{"r1", "r2", "r3"}, req.To) {
		return nil, lockapi.Invalid("to", "the cell has no replica %q; it has r1, r2, r3", req.To)
	}
	c.master = req.To
	if c.fault == evil {
		req.To = nasty
	}
	return lockapi.Transferred{Master: req.To}, nil
}

func (c *fakeCell) postSession(r *http.Request) (any, error) {
	req := lockapi.NewSessionRequest()
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if c.fault == quota {
		return nil, lockapi.Errorf(lockapi.CodeTooMany, "quota max-sessions is used up")
	}
	return c.open(req), nil
}

func (c *fakeCell) find(r *http.Request) (*fakeSession, error) {
	id := r.PathValue("id")
	if s := c.sessions[id]; s != nil {
		return s, nil
	}
	return nil, lockapi.Errorf(lockapi.CodeSessionNotFound, "there is no session %q", id)
}

func (c *fakeCell) getSession(r *http.Request) (any, error) {
	s, err := c.find(r)
	if err != nil {
		return nil, err
	}
	return c.session(s), nil
}

func (c *fakeCell) getSessions(*http.Request) (any, error) {
	out := lockapi.SessionList{Sessions: []lockapi.SessionState{}}
	for _, id := range slices.Sorted(maps.Keys(c.sessions)) {
		out.Sessions = append(out.Sessions, c.session(c.sessions[id]))
	}
	return out, nil
}

func (c *fakeCell) deleteSession(r *http.Request) (any, error) {
	c.end(r.PathValue("id"))
	return nil, nil
}

func (c *fakeCell) postKeepalive(r *http.Request) (any, error) {
	var req lockapi.KeepaliveRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	began := time.Now()
	over := time.After(time.Duration(req.WaitMS) * time.Millisecond)
	for {
		s, err := c.find(r)
		if err != nil {
			return nil, err
		}
		held := time.Since(began).Milliseconds()
		if held >= req.WaitMS && c.fault == healthy {
			s.renew()
			return lockapi.Keepalive{TTLMS: s.TTLMS, HeldMS: held, Epoch: 3, Events: []lockapi.Event{}}, nil
		}
		if err := c.wait(r, over); err != nil {
			return nil, err
		}
		c.expire()
	}
}

func lockPath(r *http.Request) string { return "/" + r.PathValue("path") }

func (c *fakeCell) getLock(r *http.Request) (any, error) {
	c.reads++
	path := lockPath(r)
	out := c.lock(path)
	if most, _ := strconv.Atoi(r.URL.Query().Get("waiters")); most > 0 && c.locks[path] != nil {
		out.Queue = []lockapi.Waiter{}
		for i, w := range c.locks[path].waiters[:min(most, out.Waiters)] {
			out.Queue = append(out.Queue, lockapi.Waiter{
				Session: w.Session, SessionName: w.SessionName, SessionMeta: w.SessionMeta, Handle: w.Handle, Mode: w.Mode,
				Position: i + 1, Since: w.GrantedAt, WaitingMS: time.Since(w.GrantedAt).Milliseconds(),
			})
		}
	}
	return out, nil
}

func (c *fakeCell) getLocks(r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = lockapi.DefaultListLimit
	}
	out := lockapi.LockList{Locks: []lockapi.Lock{}}
	for _, path := range slices.Sorted(maps.Keys(c.locks)) {
		if !strings.HasPrefix(path, q.Get("prefix")) || path <= q.Get("after") {
			continue
		}
		if len(out.Locks) == limit {
			out.Next = out.Locks[limit-1].Path
			break
		}
		out.Locks = append(out.Locks, c.lock(path))
	}
	return out, nil
}

func (c *fakeCell) putLock(r *http.Request) (any, error) {
	req, path := lockapi.NewLockRequest(""), lockPath(r)
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	over := time.After(time.Duration(req.WaitMS) * time.Millisecond)
	began := time.Now()
	for {
		if c.sessions[req.Session] == nil {
			return nil, lockapi.Errorf(lockapi.CodeSessionNotFound, "there is no session %q", req.Session)
		}
		if err := c.request(path, req); err != nil {
			return nil, err
		}
		grant := lockapi.Grant{Path: path, State: lockapi.StateHeld, Session: req.Session, Handle: req.Handle, Mode: req.Mode}
		l := c.locks[path]
		if h := l.find(req); h != nil {
			grant.Token, grant.GrantedAt, grant.Sequencer = h.Token, &h.GrantedAt, sequencer(path, *h)
			return grant, nil
		}
		if time.Since(began) >= time.Duration(req.WaitMS)*time.Millisecond {
			if req.Queue {
				grant.State, grant.Position = lockapi.StateQueued, slices.IndexFunc(l.waiters, same(req))+1
				return grant, nil
			}
			holders := slices.Clone(l.holders)
			c.release(path, req.Session, req.Handle, 0, lockapi.ReasonReleased)
			return nil, &lockapi.Error{Code: lockapi.CodeLockHeld, Detail: path + " is held", Holders: holders}
		}
		if c.wait(r, over) != nil {
			c.release(path, req.Session, req.Handle, 0, lockapi.ReasonReleased)
			return nil, nil
		}
		c.expire()
	}
}

func (c *fakeCell) deleteLock(r *http.Request) (any, error) {
	q := r.URL.Query()
	if c.sessions[q.Get("session")] == nil {
		return nil, lockapi.Errorf(lockapi.CodeSessionNotFound, "there is no session %q", q.Get("session"))
	}
	token, _ := strconv.ParseUint(q.Get("token"), 10, 64)
	reason := lockapi.ReasonReleased
	if q.Get("by_force") == "true" {
		reason = lockapi.ReasonForced
	}
	return lockapi.Released{Released: c.release(lockPath(r), q.Get("session"), q.Get("handle"), token, reason)}, nil
}

func (c *fakeCell) getSequencer(r *http.Request) (any, error) {
	return c.check(r.URL.Query().Get("value"))
}
