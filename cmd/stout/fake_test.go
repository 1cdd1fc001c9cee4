//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakeCell is as much of a cell as the scripts need, in memory and by itself:
// sessions that expire, locks with first-come-first-served queues, tokens that
// grow. It can be made to fail as a real one does; see fault.
type fakeCell struct {
	url string

	mu       sync.Mutex
	third    string        // URL of r3; "" where nobody is there
	changed  chan struct{} // closed, and made anew, when anything changed
	fault    fault
	master   string
	next     string // the directory that is to be r3's
	steps    int    // how often was asked how far it is
	reads    int    // of single locks
	serial   int
	token    uint64
	sessions map[string]*fakeSession
	locks    map[string]*fakeLock
	files    fakeFiles
	access   fakeAccess
	past     fakePast
	expiries map[string]time.Time // by path: when the lease of its latest expired holder ended
}

// fault is how the cell fails at present.
type fault string

const (
	healthy  fault = ""
	mute     fault = "mute"      // takes calls and does not answer them
	noMaster fault = "no-master" // answers that there is no master
	noLease  fault = "no-lease"  // names a master that does not hold its lease
	quota    fault = "quota"     // has no room for another session
	unsafe   fault = "unsafe"    // has too few members that are well to replace one
	deaf     fault = "deaf"      // makes no token, and does not say so
	afar     fault = "afar"      // is called from elsewhere than a replica's host
	lossy    fault = "lossy"     // makes tokens, and changes members, and does not say so
	torn     fault = "torn"      // breaks its backups off
	evil     fault = "evil"      // whatever it may choose the words of is nasty
)

type fakeSession struct {
	lockapi.Session
	ends time.Time
}

type fakeLock struct {
	holders []lockapi.Holder
	waiters []lockapi.Holder // what each will be when its turn comes: no token, "granted" when it came
	limit   int64
}

func newFakeCell() *fakeCell {
	return &fakeCell{
		changed: make(chan struct{}), master: "r1", token: 100, past: fakePast{began: time.Now()},
		sessions: make(map[string]*fakeSession), locks: make(map[string]*fakeLock),
		expiries: make(map[string]time.Time), files: fakeFiles{revision: 1, files: make(map[string]*lockapi.File)},
		access: fakeAccess{rules: make(map[string]lockapi.AccessRule), groups: make(map[string]lockapi.Group), tokens: make(map[string]*lockapi.Token)},
	}
}

// change tells all that wait. c.mu is held, here and below.
func (c *fakeCell) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCell) open(req lockapi.SessionRequest) lockapi.Session {
	c.serial++
	s := &fakeSession{Session: lockapi.Session{
		ID: fmt.Sprintf("session-%d", c.serial), Name: req.Name, TTLMS: req.TTLMS,
		Epoch: 3, CreatedAt: time.Now().UTC(), Meta: req.Meta,
	}}
	c.sessions[s.ID] = s
	s.renew()
	return s.Session
}

func (s *fakeSession) renew() { s.ends = time.Now().Add(time.Duration(s.TTLMS) * time.Millisecond) }

// end closes a session and passes on what it held.
func (c *fakeCell) end(id string) { c.finish(id, lockapi.ReasonSessionClosed, nil) }

// finish ends a session for a reason, after it was silent for so long.
func (c *fakeCell) finish(id, reason string, silent *int64) {
	for path, l := range c.locks {
		for _, h := range l.holders {
			if h.Session == id {
				c.ended(path, h, reason, silent)
			}
		}
	}
	delete(c.sessions, id)
	c.endFiles(id)
	for path, l := range c.locks {
		gone := func(h lockapi.Holder) bool { return h.Session == id }
		l.holders = slices.DeleteFunc(l.holders, gone)
		l.waiters = slices.DeleteFunc(l.waiters, gone)
		c.pass(path)
	}
	c.change()
}

// expire ends the sessions that are past due. It is called before every call.
func (c *fakeCell) expire() {
	for id, s := range c.sessions {
		if time.Now().After(s.ends) {
			for _, h := range c.session(s).Holds {
				c.expiries[h.Path] = s.ends
			}
			c.finish(id, lockapi.ReasonSessionExpired, ms(time.Since(s.ends)+time.Duration(s.TTLMS)*time.Millisecond))
		}
	}
}

// pass grants a lock to those whose turn has come, and forgets it when it is
// free.
func (c *fakeCell) pass(path string) {
	l := c.locks[path]
	for len(l.waiters) > 0 && l.admits(l.waiters[0]) {
		h := l.waiters[0]
		l.waiters = l.waiters[1:]
		c.token++
		asked := h.GrantedAt
		h.Token, h.GrantedAt = c.token, time.Now().UTC()
		c.granted(path, h, asked)
		l.holders = append(l.holders, h)
	}
	if len(l.holders)+len(l.waiters) == 0 {
		delete(c.locks, path)
	}
	c.change()
}

func (l *fakeLock) admits(h lockapi.Holder) bool {
	if len(l.holders) == 0 {
		return true
	}
	return h.Mode == lockapi.Shared && l.holders[0].Mode == lockapi.Shared &&
		(l.limit == 0 || int64(len(l.holders)) < l.limit)
}

// request puts a caller into the queue, unless it is there or holds already.
func (c *fakeCell) request(path string, req lockapi.LockRequest) *lockapi.Error {
	l := c.locks[path]
	if l == nil {
		l = &fakeLock{limit: req.Limit}
		c.locks[path] = l
	}
	if l.limit != req.Limit {
		return lockapi.Errorf(lockapi.CodeConflict, "%s has limit %d, and %d was asked for", path, l.limit, req.Limit)
	}
	if l.find(req) == nil && !slices.ContainsFunc(l.waiters, same(req)) {
		l.waiters = append(l.waiters, lockapi.Holder{
			Session: req.Session, SessionName: c.sessions[req.Session].Name, SessionMeta: c.sessions[req.Session].Meta,
			Handle: req.Handle, Mode: req.Mode, GrantedAt: time.Now(),
		})
	}
	c.pass(path)
	return nil
}

func same(req lockapi.LockRequest) func(lockapi.Holder) bool {
	return func(h lockapi.Holder) bool { return h.Session == req.Session && h.Handle == req.Handle }
}

// find returns the caller's own hold, or nil.
func (l *fakeLock) find(req lockapi.LockRequest) *lockapi.Holder {
	if i := slices.IndexFunc(l.holders, same(req)); i >= 0 {
		return &l.holders[i]
	}
	return nil
}

// release ends a hold or a wait, for a reason, and reports whether there was one.
func (c *fakeCell) release(path, session, handle string, token uint64, reason string) bool {
	l := c.locks[path]
	if l == nil {
		return false
	}
	before := len(l.holders) + len(l.waiters)
	mine := same(lockapi.LockRequest{Session: session, Handle: handle})
	l.holders = slices.DeleteFunc(l.holders, func(h lockapi.Holder) bool {
		gone := mine(h) && (token == 0 || token == h.Token)
		if gone {
			c.ended(path, h, reason, nil)
		}
		return gone
	})
	l.waiters = slices.DeleteFunc(l.waiters, func(h lockapi.Holder) bool { return mine(h) && token == 0 })
	released := len(l.holders)+len(l.waiters) < before
	c.pass(path)
	return released
}

func (c *fakeCell) lock(path string) lockapi.Lock {
	out := lockapi.Lock{Path: path, State: lockapi.StateFree, Holders: []lockapi.Holder{}}
	if l := c.locks[path]; l != nil {
		out.State, out.Mode, out.Limit = lockapi.StateHeld, l.holders[0].Mode, l.limit
		out.Holders, out.Waiters = slices.Clone(l.holders), len(l.waiters)
	}
	return out
}

func (c *fakeCell) session(s *fakeSession) lockapi.SessionState {
	left := time.Until(s.ends).Milliseconds()
	out := lockapi.SessionState{Session: s.Session, LeaseRemainingMS: &left, Holds: []lockapi.Hold{}, Waits: []lockapi.Wait{}}
	for path, l := range c.locks {
		for _, h := range l.holders {
			if h.Session == s.ID {
				out.Holds = append(out.Holds, lockapi.Hold{
					Path: path, Handle: h.Handle, Mode: h.Mode, Token: h.Token, Sequencer: sequencer(path, h),
				})
			}
		}
		for i, h := range l.waiters {
			if h.Session == s.ID {
				out.Waits = append(out.Waits, lockapi.Wait{Path: path, Handle: h.Handle, Mode: h.Mode, Position: i + 1})
			}
		}
	}
	return out
}

func sequencer(path string, h lockapi.Holder) string {
	return lockapi.Sequencer{Mode: h.Mode, Token: h.Token, Path: path}.String()
}

func (c *fakeCell) check(value string) (lockapi.SequencerCheck, error) {
	want, err := lockapi.ParseSequencer(value)
	if err != nil {
		return lockapi.SequencerCheck{}, err
	}
	for _, h := range c.lock(want.Path).Holders {
		if h.Token == want.Token && h.Mode == want.Mode {
			return lockapi.SequencerCheck{Valid: true}, nil
		}
	}
	if c.fault == evil {
		return lockapi.SequencerCheck{Reason: nasty}, nil
	}
	return lockapi.SequencerCheck{Reason: "the grant is no longer held"}, nil
}

// state is the cell, of which only the first replica can be reached.
func (c *fakeCell) state() lockapi.Cell {
	urls := []string{c.url, "http://127.0.0.1:1", cmp.Or(c.third, "http://127.0.0.1:2")}
	out := lockapi.Cell{Cell: "fake", Epoch: 3}
	for i, url := range urls {
		r := lockapi.Replica{
			ID: fmt.Sprintf("r%d", i+1), URL: url, RaftAddr: fmt.Sprintf("127.0.0.1:720%d", i+1),
			Role: lockapi.RoleReplica, Healthy: i < 2, AppliedIndex: 991, LastContactMS: 12,
		}
		if c.fault != noMaster && r.ID == c.master {
			r.Role, r.LastContactMS = lockapi.RoleMaster, 0
			out.Master = &lockapi.MasterRef{ID: r.ID, URL: url}
			out.Lease = lockapi.Lease{Held: true, TermMS: 2000, RemainingMS: 1730, RenewedAgoMS: 120}
			if c.fault == noLease {
				out.Lease = lockapi.Lease{}
			}
		} else if c.fault == healthy && r.Healthy {
			r.Promise = &lockapi.Promise{To: c.master, RemainingMS: 1800}
		}
		if !r.Healthy {
			r.AppliedIndex, r.LastContactMS = 960, 252_000
		}
		out.Replicas = append(out.Replicas, r)
	}
	if c.fault == evil {
		out.Cell, out.Master.ID = nasty, nasty
		for i := range out.Replicas {
			r := &out.Replicas[i]
			r.ID, r.Role, r.RaftAddr, r.Promise = nasty, nasty, nasty, &lockapi.Promise{To: nasty}
			r.URL += "/" + nastyPath
		}
	}
	if out.Master != nil {
		waiters := 0
		for _, l := range c.locks {
			waiters += len(l.waiters)
		}
		sessions, locks := len(c.sessions), len(c.locks)
		files, content := 3, int64(3<<9)
		out.Sessions, out.Locks, out.Waiters, out.Files, out.ContentBytes = &sessions, &locks, &waiters, &files, &content
	}
	return out
}
