//go:build unix

package main

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakePast is what a fake cell remembers, oldest first.
type fakePast struct {
	began  time.Time
	events []lockapi.PastEvent
}

// note remembers what happened to a hold.
func (c *fakeCell) note(path string, h lockapi.Holder, typ lockapi.EventType, more func(*lockapi.PastEvent)) {
	e := lockapi.PastEvent{Revision: uint64(len(c.past.events)) + 1, Type: typ, At: time.Now().UTC(), Path: path,
		Session: h.Session, SessionName: h.SessionName, Handle: h.Handle, Mode: h.Mode, Token: h.Token}
	if s := c.sessions[h.Session]; s != nil {
		e.TTLMS = s.TTLMS
	}
	more(&e)
	c.past.events = append(c.past.events, e)
}

func ms(d time.Duration) *int64 {
	n := d.Milliseconds()
	return &n
}

// granted remembers a grant that was asked for at an instant.
func (c *fakeCell) granted(path string, h lockapi.Holder, asked time.Time) {
	c.note(path, h, lockapi.EventLockAcquired, func(e *lockapi.PastEvent) {
		if waited := h.GrantedAt.Sub(asked); waited > 10*time.Millisecond {
			e.WaitedMS = ms(waited)
		}
	})
}

// ended remembers the end of a hold, and for how long its session was silent where it
// expired.
func (c *fakeCell) ended(path string, h lockapi.Holder, reason string, silent *int64) {
	if h.Token == 0 {
		return // it was a place in the queue
	}
	c.note(path, h, lockapi.EventLockReleased, func(e *lockapi.PastEvent) {
		e.Reason, e.HeldMS, e.SilentMS = reason, ms(e.At.Sub(h.GrantedAt)), silent
		if c.fault == evil {
			e.By, e.Principal = nasty, nasty
		}
	})
}

func (c *fakeCell) getHistory(r *http.Request) (any, error) {
	path := r.URL.Query().Get("path")
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = lockapi.DefaultHistoryLimit
	}
	out := lockapi.History{Path: path, Events: []lockapi.PastEvent{}, Since: &c.past.began, Revision: uint64(len(c.past.events)) + 1}
	if c.fault == evil {
		out.Events = append(out.Events, lockapi.PastEvent{Revision: out.Revision, Type: lockapi.EventMasterChanged, At: time.Now(), Master: nasty, Epoch: 3})
	}
	for _, e := range slices.Backward(c.past.events) {
		if e.Path != path {
			continue
		}
		if len(out.Events) == limit {
			out.More = true
			break
		}
		out.Events = append(out.Events, e)
	}
	return out, nil
}

// getDeadlocks finds circles of two sessions, each of which waits for what the other
// one holds.
func (c *fakeCell) getDeadlocks(*http.Request) (any, error) {
	out := lockapi.Deadlocks{Deadlocks: []lockapi.Deadlock{}}
	var all []lockapi.DeadlockLink
	holder := map[string]string{} // by path
	for path, l := range c.locks {
		for _, w := range l.waiters {
			all = append(all, lockapi.DeadlockLink{Session: w.Session, SessionName: w.SessionName, Path: path, Mode: w.Mode,
				Since: w.GrantedAt, WaitingMS: time.Since(w.GrantedAt).Milliseconds(), Token: l.holders[0].Token})
			holder[path] = l.holders[0].Session
		}
	}
	for _, a := range all {
		for _, b := range all {
			if a.Session <= b.Session && holder[a.Path] == b.Session && holder[b.Path] == a.Session {
				links := []lockapi.DeadlockLink{a, b}
				if a.Session == b.Session {
					links = links[:1]
				}
				out.Deadlocks = append(out.Deadlocks, lockapi.Deadlock{Links: links})
			}
		}
	}
	if c.fault == evil {
		link := lockapi.DeadlockLink{Session: nasty, SessionName: nasty, Path: nastyPath, Mode: nasty}
		out.Deadlocks = append(out.Deadlocks, lockapi.Deadlock{Links: []lockapi.DeadlockLink{link, link}})
	}
	return out, nil
}
