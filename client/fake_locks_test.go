package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func (f *fakeCell) openSession(w http.ResponseWriter, req *http.Request) {
	in := lockapi.NewSessionRequest()
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	key := req.Header.Get(lockapi.HeaderIdempotencyKey)
	s := f.sessions[f.keys[key]] // the key is kept as long as its session
	if s == nil {
		f.opened++
		id := fmt.Sprintf("s%d", f.opened)
		f.keys[key] = id
		s = &fakeSession{Session: lockapi.Session{ID: id, Name: in.Name, TTLMS: in.TTLMS, Epoch: f.epoch, CreatedAt: time.Now(), Meta: in.Meta}}
		f.sessions[id] = s
	}
	s.deadline = time.Now().Add(time.Duration(in.TTLMS) * time.Millisecond)
	reply(w, 201, s.Session)
}

func (f *fakeCell) keepalive(w http.ResponseWriter, req *http.Request, id string) {
	var in lockapi.KeepaliveRequest
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		panic(err)
	}
	began, epoch := time.Now(), uint64(0)
	timer := time.NewTimer(time.Duration(in.WaitMS) * time.Millisecond)
	defer timer.Stop()
	for waited := false; ; {
		f.mu.Lock()
		f.expire()
		if epoch == 0 {
			epoch = f.epoch
		}
		if epoch < f.handed {
			sendAway(w, f.master)
			f.mu.Unlock()
			return
		}
		s := f.sessions[id]
		if s == nil {
			f.mu.Unlock()
			refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", id))
			return
		}
		s.events = slices.DeleteFunc(s.events, func(e lockapi.Event) bool { return e.Seq <= in.Ack })
		if waited || in.WaitMS == 0 || len(s.events) > 0 {
			s.deadline = time.Now().Add(time.Duration(s.TTLMS) * time.Millisecond)
			out := lockapi.Keepalive{TTLMS: s.TTLMS, HeldMS: time.Since(began).Milliseconds(), Epoch: f.epoch, Events: slices.Clone(s.events)}
			f.mu.Unlock()
			reply(w, 200, out)
			return
		}
		change := f.change
		f.mu.Unlock()
		select {
		case <-change:
		case <-timer.C:
			waited = true
		case <-req.Context().Done():
			return
		}
	}
}

func (f *fakeCell) listSessions(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := lockapi.SessionList{Sessions: []lockapi.SessionState{}}
	for _, s := range f.sessions {
		out.Sessions = append(out.Sessions, f.sessionState(s))
	}
	reply(w, 200, out)
}

func (f *fakeCell) sessionState(s *fakeSession) lockapi.SessionState {
	out := lockapi.SessionState{Session: s.Session, Holds: []lockapi.Hold{}, Waits: []lockapi.Wait{}}
	for path, l := range f.locks {
		for _, h := range l.holders {
			if h.req.Session == s.ID {
				hold := lockapi.Hold{Path: path, Handle: h.req.Handle, Mode: h.req.Mode, Token: h.token}
				if !h.claimBy.IsZero() {
					hold.UnclaimedMS = max(time.Until(h.claimBy).Milliseconds(), 1)
				}
				out.Holds = append(out.Holds, hold)
			}
		}
		for i, h := range l.queue {
			if h.req.Session == s.ID {
				out.Waits = append(out.Waits, lockapi.Wait{Path: path, Handle: h.req.Handle, Mode: h.req.Mode, Position: i + 1})
			}
		}
	}
	return out
}

func (f *fakeCell) session(w http.ResponseWriter, req *http.Request, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	if req.Method == http.MethodDelete {
		f.end(id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s := f.sessions[id]
	if s == nil {
		refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", id))
		return
	}
	reply(w, 200, f.sessionState(s))
}

func (f *fakeCell) lock(w http.ResponseWriter, req *http.Request, path string) {
	switch req.Method {
	case http.MethodPut:
		var in lockapi.LockRequest
		if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
			panic(err)
		}
		f.acquire(w, req, path, in)
	case http.MethodDelete:
		f.release(w, req, path)
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		reply(w, 200, f.state(path))
	}
}

func (f *fakeCell) acquire(w http.ResponseWriter, req *http.Request, path string, in lockapi.LockRequest) {
	f.mu.Lock()
	f.expire()
	if f.sessions[in.Session] == nil {
		f.mu.Unlock()
		refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", in.Session))
		return
	}
	if f.forbidden[path] {
		f.mu.Unlock()
		refuse(w, lockapi.Errorf(lockapi.CodePermissionDenied, "it takes lock at %s", path))
		return
	}
	l := f.locks[path]
	if l == nil {
		l = &fakeLock{}
		f.locks[path] = l
	}
	h := l.find(in.Session, in.Handle)
	if h == nil {
		if len(l.holders) > 0 && l.holders[0].req.Mode == in.Mode && l.holders[0].req.Limit != in.Limit {
			f.mu.Unlock()
			refuse(w, lockapi.Errorf(lockapi.CodeConflict, "the limit is %d", l.holders[0].req.Limit))
			return
		}
		h = &fakeHold{req: in}
		l.queue = append(l.queue, h)
		f.promote(path, l)
	}
	h.keep = h.keep || in.Queue
	h.claimBy = time.Time{}
	h.calls++
	f.mu.Unlock()
	f.awaitGrant(w, req, path, l, h, in)
}

func (l *fakeLock) find(session, handle string) *fakeHold {
	for _, h := range append(slices.Clone(l.holders), l.queue...) {
		if h.req.Session == session && h.req.Handle == handle {
			return h
		}
	}
	return nil
}

// awaitGrant answers a request for a lock once there is something to say.
func (f *fakeCell) awaitGrant(w http.ResponseWriter, req *http.Request, path string, l *fakeLock, h *fakeHold, in lockapi.LockRequest) {
	timer := time.NewTimer(time.Duration(in.WaitMS) * time.Millisecond)
	defer timer.Stop()
	over := in.WaitMS == 0
	for {
		f.mu.Lock()
		f.expire()
		switch {
		case f.sessions[in.Session] == nil:
			refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", in.Session))
		case h.exited && f.forbidden[path]:
			refuse(w, lockapi.Errorf(lockapi.CodePermissionDenied, "it takes lock at %s", path))
		case h.exited:
			refuse(w, lockapi.Errorf(lockapi.CodeLockHeld, "left the queue"))
		case h.token != 0:
			reply(w, 200, lockapi.Grant{
				Path: path, State: lockapi.StateHeld, Session: in.Session, Handle: in.Handle, Mode: h.req.Mode,
				Token: h.token, Sequencer: sequencer(path, h), GrantedAt: &h.when,
			})
		case over && h.keep:
			h.told = true
			reply(w, 202, lockapi.Grant{Path: path, State: lockapi.StateQueued, Session: in.Session, Handle: in.Handle, Mode: h.req.Mode, Position: 1 + slices.Index(l.queue, h)})
		case over:
			h.exited = true
			l.queue = slices.DeleteFunc(l.queue, func(o *fakeHold) bool { return o == h })
			e := lockapi.Errorf(lockapi.CodeLockHeld, "%s is held", path)
			e.Holders = f.state(path).Holders
			refuse(w, e)
		default:
			change := f.change
			f.mu.Unlock()
			select {
			case <-change:
			case <-timer.C:
				over = true
			case <-req.Context().Done():
				f.mu.Lock()
				if h.calls--; !h.keep && h.calls == 0 && h.token == 0 {
					l.queue = slices.DeleteFunc(l.queue, func(o *fakeHold) bool { return o == h })
				}
				f.mu.Unlock()
				return
			}
			continue
		}
		h.calls--
		f.mu.Unlock()
		return
	}
}

// forbid takes the right to a lock away from everybody: those who wait for it
// are told, and its holders stay.
func (f *fakeCell) forbid(path string) {
	f.set(func() {
		f.forbidden[path] = true
		l := f.locks[path]
		for _, h := range l.queue {
			h.exited = true
			if s := f.sessions[h.req.Session]; h.told && s != nil {
				f.seq++
				s.events = append(s.events, lockapi.Event{
					Seq: f.seq, Type: lockapi.EventLockWithdrawn, Path: path, Handle: h.req.Handle, Mode: h.req.Mode, Reason: lockapi.ReasonDenied,
				})
			}
		}
		l.queue = nil
	})
}

func sequencer(path string, h *fakeHold) string {
	return lockapi.Sequencer{Mode: h.req.Mode, Token: h.token, Path: path}.String()
}

// promote grants what can be granted. f.mu is held.
func (f *fakeCell) promote(path string, l *fakeLock) {
	for len(l.queue) > 0 {
		h := l.queue[0]
		if len(l.holders) > 0 {
			first := l.holders[0].req
			if h.req.Mode == lockapi.Exclusive || first.Mode == lockapi.Exclusive {
				return
			}
			if first.Limit > 0 && int64(len(l.holders)) >= first.Limit {
				return
			}
		}
		f.token++
		h.token, h.when = f.token, time.Now()
		l.queue, l.holders = l.queue[1:], append(l.holders, h)
		if s := f.sessions[h.req.Session]; h.told && s != nil {
			f.seq++
			s.events = append(s.events, lockapi.Event{
				Seq: f.seq, Type: lockapi.EventLockGranted, Path: path, Handle: h.req.Handle,
				Mode: h.req.Mode, Token: h.token, Sequencer: sequencer(path, h),
			})
		}
		f.changed()
	}
}

func (f *fakeCell) release(w http.ResponseWriter, req *http.Request, path string) {
	q := req.URL.Query()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	s := f.sessions[q.Get("session")]
	if s == nil {
		refuse(w, lockapi.Errorf(lockapi.CodeSessionNotFound, "no session %s", q.Get("session")))
		return
	}
	l := f.locks[path]
	if l == nil {
		reply(w, 200, lockapi.Released{})
		return
	}
	token, _ := strconv.ParseUint(q.Get("token"), 10, 64)
	h := l.find(s.ID, q.Get("handle"))
	if h == nil || token != 0 && h.token != token {
		reply(w, 200, lockapi.Released{})
		return
	}
	h.exited = true
	gone := func(o *fakeHold) bool { return o == h }
	l.holders, l.queue = slices.DeleteFunc(l.holders, gone), slices.DeleteFunc(l.queue, gone)
	s.events = slices.DeleteFunc(s.events, func(e lockapi.Event) bool { return e.Handle == h.req.Handle })
	f.promote(path, l)
	if len(l.holders)+len(l.queue) == 0 {
		delete(f.locks, path)
	}
	f.changed()
	reply(w, 200, lockapi.Released{Released: true})
}
