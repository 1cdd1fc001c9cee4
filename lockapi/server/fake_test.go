package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// fakeMaster is a replica of a cell in memory: enough of a lock service for one
// caller at a time. hook, where set, runs first in every call on the master and
// may block, fail or panic.
type fakeMaster struct {
	mu     sync.Mutex
	id     string
	where  server.Location
	cell   lockapi.Cell
	own    lockapi.Replica
	unfit  error
	hangs  error
	vitals master.Vitals
	hook   func(ctx context.Context, call string) error
	office func() *master.Master

	calls    []string
	sessions map[string]lockapi.Session
	locks    map[string]*fakeLock
	files    map[string]*fakeFile
	ring     fakeRing
	lastID   uint64
	revision uint64

	backupSize   int   // bytes
	backupBroken error // behind them
}

// crowded is the lock, and the session, with more than a list is long.
const crowded = "crowded"

func (f *fakeMaster) Heavy(r *master.Row, c lockapi.Call) bool {
	switch c := c.(type) {
	case *lockapi.GetLock:
		return c.Path == "/"+crowded || c.Waiters > lockapi.DefaultListLimit
	case *lockapi.GetSession:
		return c.Session == crowded
	}
	return new(master.Master).Heavy(r, c)
}

type fakeLock struct {
	holder *lockapi.Grant
	queue  []lockapi.Grant
}

func newFake(t testing.TB, id string) *fakeMaster {
	uptime := int64(1)
	own := lockapi.Replica{ID: id, Role: lockapi.RoleReplica, Healthy: true, RaftAddr: "127.0.0.1:1"}
	f := &fakeMaster{id: id, sessions: map[string]lockapi.Session{}, locks: map[string]*fakeLock{}, files: map[string]*fakeFile{}, own: own, office: newOffice(t)}
	f.own.Version, f.own.UptimeMS = "v1", &uptime
	f.cell = lockapi.Cell{Cell: "test", Level: 1, Replicas: []lockapi.Replica{own}}
	return f
}

// setMaster tells the fake who is master.
func (f *fakeMaster) setMaster(epoch uint64, id, url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.where = server.Location{Epoch: epoch, Self: id != "" && id == f.id, ID: id, URL: url}
	f.own.Role = lockapi.RoleReplica
	f.cell.Master = nil
	f.cell.Epoch = epoch
	if id != "" {
		f.cell.Master = &lockapi.MasterRef{ID: id, URL: url}
	}
	if f.where.Self {
		f.own.Role = lockapi.RoleMaster
		f.cell.Lease = lockapi.Lease{Held: true, TermMS: 2000, RemainingMS: 1000}
	}
}

// setLeads makes it one that leads, and has no office.
func (f *fakeMaster) setLeads() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.where = server.Location{Epoch: f.where.Epoch, Leads: true}
}

func (f *fakeMaster) setHook(hook func(context.Context, string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *fakeMaster) Vitals() master.Vitals {
	known := f.Known()
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.vitals
	v.Location = known
	return v
}

func (f *fakeMaster) setVitals(v master.Vitals) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.vitals = v
}

func (f *fakeMaster) setUnfit(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfit = reason
}

func (f *fakeMaster) setHangs(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hangs = reason
}

// setReplicas makes up what this replica knows of the cell's replicas.
func (f *fakeMaster) setReplicas(all ...lockapi.Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cell.Replicas = all
}

// setApplied is how far this replica says that it has come.
func (f *fakeMaster) setApplied(index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.own.AppliedIndex = index
	f.own.LastContactMS = 12
	f.own.Promise = &lockapi.Promise{To: "r1", RemainingMS: 7}
}

// addSession puts a session there that nobody opened.
func (f *fakeMaster) addSession(s lockapi.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[s.ID] = s
}

func (f *fakeMaster) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// enter begins a call and leaves f locked where it returns nil.
func (f *fakeMaster) enter(ctx context.Context, call string, stale bool) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, call); err != nil {
			return err
		}
	}
	f.mu.Lock()
	if !stale && !f.where.Self {
		f.mu.Unlock()
		return lockapi.Errorf(lockapi.CodeNoMaster, "%s is not in office", f.id)
	}
	return nil
}

func (f *fakeMaster) session(id string) error {
	if _, ok := f.sessions[id]; !ok {
		return lockapi.Errorf(lockapi.CodeSessionNotFound, "there is no session %q", lockapi.Clip(id))
	}
	return nil
}

// urlOf is where the fake believes the replica of that name to be.
func (f *fakeMaster) urlOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.where.ID == id {
		return f.where.URL
	}
	for _, r := range f.cell.Replicas {
		if r.ID == id {
			return r.URL
		}
	}
	return ""
}

func (f *fakeMaster) CellID() string { return "cell-1" }

// directoryOf is the id of a fake's data directory.
func directoryOf(id string) string { return fmt.Sprintf("%016x", id) }

func (f *fakeMaster) Directory() string { return directoryOf(f.id) }

func (f *fakeMaster) ListMembers(ctx context.Context, stale bool) (lockapi.Members, error) {
	if err := f.enter(ctx, "members", stale); err != nil {
		return lockapi.Members{}, err
	}
	defer f.mu.Unlock()
	return lockapi.Members{CellID: "cell-1", Tolerates: 1, Members: []lockapi.Member{{
		ID: f.id, Directory: directoryOf(f.id), RaftAddr: "127.0.0.1:1", URL: f.own.URL, Suffrage: lockapi.SuffrageVoter,
		Role: f.own.Role, Healthy: true, AppliedIndex: f.own.AppliedIndex, Version: "v1", Since: time.Unix(1, 0).UTC(),
	}}}, nil
}

func (f *fakeMaster) GetURLs(ctx context.Context, stale bool) (lockapi.URLs, error) {
	if err := f.enter(ctx, "urls", stale); err != nil {
		return lockapi.URLs{}, err
	}
	defer f.mu.Unlock()
	return lockapi.URLs{CellID: "cell-1", Replicas: []lockapi.ReplicaURL{{ID: f.id, URL: f.own.URL}}}, nil
}

func (f *fakeMaster) Add(ctx context.Context, req *lockapi.AddMember) error {
	if err := f.enter(ctx, fmt.Sprintf("add %s %s %s %s %s", req.ID, req.Directory, req.RaftAddr, req.URL, req.Suffrage), false); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return nil
}

func (f *fakeMaster) Set(ctx context.Context, req *lockapi.SetMember) (lockapi.Member, error) {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	if err := f.enter(ctx, fmt.Sprintf("set %s %s %s %s %v", req.ID, text(req.RaftAddr), text(req.URL), text(req.Suffrage), req.Force), false); err != nil {
		return lockapi.Member{}, err
	}
	defer f.mu.Unlock()
	if req.ID == "nobody" {
		return lockapi.Member{}, lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member", req.ID)
	}
	return lockapi.Member{ID: req.ID, Directory: directoryOf(f.id), Suffrage: lockapi.SuffrageVoter, Role: lockapi.RoleReplica, Since: time.Unix(1, 0).UTC()}, nil
}

// directoryBefore is one that no member has any more.
const directoryBefore = "0123456789abcdef"

func (f *fakeMaster) Remove(ctx context.Context, req *lockapi.RemoveMember) error {
	if err := f.enter(ctx, strings.TrimSpace(fmt.Sprintf("remove %s %v %s", req.ID, req.Force, req.Directory)), false); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if req.ID == "nobody" {
		return lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member", req.ID)
	}
	if req.Directory == directoryBefore {
		return lockapi.Errorf(lockapi.CodeConflict, "replica %q has another directory now", req.ID)
	}
	return nil
}

func (f *fakeMaster) Replace(ctx context.Context, req *lockapi.ReplaceMember) error {
	if err := f.enter(ctx, strings.TrimSpace(fmt.Sprintf("replace %s %s %v %s", req.ID, req.Directory, req.Force, req.InPlaceOf)), false); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if req.ID == "nobody" {
		return lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member", req.ID)
	}
	if req.InPlaceOf == directoryBefore {
		return lockapi.Errorf(lockapi.CodeConflict, "replica %q has another directory now", req.ID)
	}
	return nil
}

func (f *fakeMaster) Known() server.Location {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.where
	at.Revision = f.revision
	return at
}

// Locate waits for a master as long as ctx lets it.
func (f *fakeMaster) Locate(ctx context.Context) (server.Location, error) {
	for {
		if at := f.Known(); at.ID != "" {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return server.Location{}, lockapi.Errorf(lockapi.CodeNoMaster, "no master")
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *fakeMaster) OpenSession(ctx context.Context, req *lockapi.OpenSession) (lockapi.Session, error) {
	if err := f.enter(ctx, "open "+req.Key, false); err != nil {
		return lockapi.Session{}, err
	}
	defer f.mu.Unlock()
	f.lastID++
	s := lockapi.Session{ID: "s" + strconv.FormatUint(f.lastID, 10), Name: req.Name, TTLMS: req.TTLMS, Epoch: f.where.Epoch, CreatedAt: time.Now().UTC(), Meta: req.Meta}
	f.sessions[s.ID] = s
	return s, nil
}

func (f *fakeMaster) Keepalive(ctx context.Context, req *lockapi.KeepAlive) (lockapi.Keepalive, error) {
	if err := f.enter(ctx, "keepalive "+req.Session, false); err != nil {
		return lockapi.Keepalive{}, err
	}
	defer f.mu.Unlock()
	k := lockapi.Keepalive{TTLMS: f.sessions[req.Session].TTLMS, HeldMS: 1, Epoch: f.where.Epoch}
	for path, l := range f.locks {
		if h := l.holder; h != nil && h.Session == req.Session && req.WaitMS > 0 {
			k.Events = append(k.Events, lockapi.Event{Seq: 1, Type: lockapi.EventLockGranted, Path: path, Handle: h.Handle, Mode: h.Mode, Token: h.Token, Sequencer: h.Sequencer})
		}
	}
	return k, f.session(req.Session)
}

func (f *fakeMaster) CloseSession(ctx context.Context, req *lockapi.CloseSession) error {
	if err := f.enter(ctx, "close "+req.Session, false); err != nil {
		return err
	}
	defer f.mu.Unlock()
	delete(f.sessions, req.Session)
	for path, l := range f.locks {
		if l.holder != nil && l.holder.Session == req.Session {
			delete(f.locks, path)
		}
	}
	return nil
}

func (f *fakeMaster) state(s lockapi.Session, stale bool) lockapi.SessionState {
	out := lockapi.SessionState{Session: s}
	if !stale {
		out.LeaseRemainingMS = &s.TTLMS
	}
	for path, l := range f.locks {
		if h := l.holder; h != nil && h.Session == s.ID {
			out.Holds = append(out.Holds, lockapi.Hold{Path: path, Handle: h.Handle, Mode: h.Mode, Token: h.Token, Sequencer: h.Sequencer})
		}
		for _, w := range l.queue {
			out.Waits = append(out.Waits, lockapi.Wait{Path: path, Handle: w.Handle, Mode: w.Mode, Position: 1})
		}
	}
	return out
}

func (f *fakeMaster) Session(ctx context.Context, stale bool, q *lockapi.GetSession) (lockapi.SessionState, error) {
	if err := f.enter(ctx, "session "+q.Session, stale); err != nil {
		return lockapi.SessionState{}, err
	}
	defer f.mu.Unlock()
	return f.state(f.sessions[q.Session], stale), f.session(q.Session)
}

func (f *fakeMaster) Sessions(ctx context.Context, stale bool, q *lockapi.ListSessions) (lockapi.SessionList, error) {
	if err := f.enter(ctx, "sessions "+q.After+" "+strconv.Itoa(q.Limit), stale); err != nil {
		return lockapi.SessionList{}, err
	}
	defer f.mu.Unlock()
	list := lockapi.SessionList{}
	for _, s := range f.sessions {
		if len(list.Sessions) == q.Limit {
			list.Next = list.Sessions[q.Limit-1].ID
			break
		}
		list.Sessions = append(list.Sessions, f.state(s, stale))
	}
	return list, nil
}

func (f *fakeMaster) Acquire(ctx context.Context, req *lockapi.AcquireLock) (lockapi.Grant, error) {
	if err := f.enter(ctx, "acquire "+req.Path, false); err != nil {
		return lockapi.Grant{}, err
	}
	defer f.mu.Unlock()
	if err := f.session(req.Session); err != nil {
		return lockapi.Grant{}, err
	}
	l := f.locks[req.Path]
	if l == nil {
		l = &fakeLock{}
		f.locks[req.Path] = l
	}
	g := lockapi.Grant{Path: req.Path, Session: req.Session, Handle: req.Handle, Mode: req.Mode}
	switch {
	case l.holder == nil:
		l.holder = f.grant(g)
		return *l.holder, nil
	case l.holder.Session == req.Session && l.holder.Mode != req.Mode:
		return lockapi.Grant{}, lockapi.Errorf(lockapi.CodeConflict, "held in another mode")
	case req.Queue:
		g.State, g.Position = lockapi.StateQueued, 1
		l.queue = append(l.queue, g)
		return g, nil
	}
	e := lockapi.Errorf(lockapi.CodeLockHeld, "%s is held", req.Path)
	e.Holders = holders(l)
	return lockapi.Grant{}, e
}

func (f *fakeMaster) grant(g lockapi.Grant) *lockapi.Grant {
	f.lastID++
	now := time.Now().UTC()
	g.State, g.Token, g.GrantedAt, g.Position = lockapi.StateHeld, f.lastID, &now, 0
	g.Sequencer = lockapi.Sequencer{Mode: g.Mode, Token: g.Token, Path: g.Path}.String()
	return &g
}

func holders(l *fakeLock) []lockapi.Holder {
	if l == nil || l.holder == nil {
		return nil
	}
	h := l.holder
	return []lockapi.Holder{{Session: h.Session, Handle: h.Handle, Mode: h.Mode, Token: h.Token, GrantedAt: *h.GrantedAt}}
}

func (f *fakeMaster) Release(ctx context.Context, req *lockapi.ReleaseLock) (lockapi.Released, error) {
	if err := f.enter(ctx, "release "+req.Path+" "+req.Session+" "+req.Handle+" "+strconv.FormatUint(req.Token, 10), false); err != nil {
		return lockapi.Released{}, err
	}
	defer f.mu.Unlock()
	if err := f.session(req.Session); err != nil {
		return lockapi.Released{}, err
	}
	l := f.locks[req.Path]
	if l == nil || l.holder == nil || l.holder.Session != req.Session {
		return lockapi.Released{}, nil
	}
	l.holder = nil
	if len(l.queue) > 0 {
		l.holder, l.queue = f.grant(l.queue[0]), l.queue[1:]
	}
	return lockapi.Released{Released: true}, nil
}

func (f *fakeMaster) lock(path string) lockapi.Lock {
	l := f.locks[path]
	out := lockapi.Lock{Path: path, State: lockapi.StateFree, Holders: holders(l)}
	if len(out.Holders) > 0 {
		out.State, out.Mode, out.Waiters = lockapi.StateHeld, l.holder.Mode, len(l.queue)
	}
	return out
}

func (f *fakeMaster) Lock(ctx context.Context, stale bool, q *lockapi.GetLock) (lockapi.Lock, error) {
	call := "lock " + q.Path
	if q.Waiters > 0 {
		call += " " + strconv.Itoa(q.Waiters)
	}
	if err := f.enter(ctx, call, stale); err != nil {
		return lockapi.Lock{}, err
	}
	defer f.mu.Unlock()
	out := f.lock(q.Path)
	if q.Waiters > 0 {
		out.Queue = []lockapi.Waiter{}
	}
	if l := f.locks[q.Path]; l != nil {
		for i, w := range l.queue[:min(q.Waiters, len(l.queue))] {
			out.Queue = append(out.Queue, lockapi.Waiter{Session: w.Session, Handle: w.Handle, Mode: w.Mode, Position: i + 1,
				Since: time.Now().Add(-time.Second).UTC(), WaitingMS: 1000})
		}
	}
	return out, nil
}

func (f *fakeMaster) Locks(ctx context.Context, stale bool, q *lockapi.ListLocks) (lockapi.LockList, error) {
	if err := f.enter(ctx, "locks "+q.Prefix+" "+q.After+" "+strconv.Itoa(q.Limit), stale); err != nil {
		return lockapi.LockList{}, err
	}
	defer f.mu.Unlock()
	list := lockapi.LockList{}
	for path := range f.locks {
		list.Locks = append(list.Locks, f.lock(path))
	}
	return list, nil
}

func (f *fakeMaster) CheckSequencer(ctx context.Context, stale bool, q *lockapi.CheckSequencer) (lockapi.SequencerCheck, error) {
	if err := f.enter(ctx, "check "+q.Sequencer.String(), stale); err != nil {
		return lockapi.SequencerCheck{}, err
	}
	defer f.mu.Unlock()
	if l := f.locks[q.Path]; l != nil && l.holder != nil && l.holder.Token == q.Token {
		return lockapi.SequencerCheck{Valid: true}, nil
	}
	return lockapi.SequencerCheck{Reason: "not held now"}, nil
}

func (f *fakeMaster) Cell() lockapi.Cell {
	f.mu.Lock()
	defer f.mu.Unlock()
	cell := f.cell
	cell.Replicas = append([]lockapi.Replica(nil), cell.Replicas...)
	return cell
}

func (f *fakeMaster) Replica() lockapi.Replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own
}

func (f *fakeMaster) Quotas() []master.QuotaUse {
	return []master.QuotaUse{
		{Name: "max-holds", Max: 10, Used: 7, Known: true, Refused: 2},
		{Name: "max-session-holds", Max: 5, Refused: 1},
	}
}

func (f *fakeMaster) Transfer(ctx context.Context, req *lockapi.TransferMastership) (lockapi.Transferred, error) {
	if err := f.enter(ctx, "transfer "+req.To, f.Known().Leads); err != nil {
		return lockapi.Transferred{}, err
	}
	defer f.mu.Unlock()
	return lockapi.Transferred{Master: req.To}, nil
}

func (f *fakeMaster) Hangs() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hangs
}

func (f *fakeMaster) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unfit
}

// forget drops what was called so far.
func (f *fakeMaster) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// Deadlocks is one circle of one session.
func (f *fakeMaster) Deadlocks(ctx context.Context, stale bool) (lockapi.Deadlocks, error) {
	if err := f.enter(ctx, "deadlocks", stale); err != nil {
		return lockapi.Deadlocks{}, err
	}
	defer f.mu.Unlock()
	link := lockapi.DeadlockLink{Session: "s1", Path: "/a", Mode: lockapi.Exclusive, Since: time.Unix(1, 0), Token: 1}
	return lockapi.Deadlocks{Deadlocks: []lockapi.Deadlock{{Links: []lockapi.DeadlockLink{link}}}}, nil
}

// Backup is of so many bytes as the fake was told, all of them the same.
func (f *fakeMaster) Backup(ctx context.Context, r *master.Read) (master.Backup, error) {
	if err := f.enter(ctx, "backup", false); err != nil {
		return master.Backup{}, err
	}
	defer f.mu.Unlock()
	size, broken := f.backupSize, f.backupBroken
	return master.Backup{
		Header: lockapi.BackupHeader{Cell: "test", CellID: "cell-1", Replica: f.id, Time: time.Unix(1, 0).UTC(), Release: "v1", Index: 9, Revision: 57},
		Snapshot: func(w io.Writer) error {
			for left := size; left > 0; left -= 1000 {
				if _, err := w.Write(bytes.Repeat([]byte("s"), min(left, 1000))); err != nil {
					return err
				}
			}
			return broken
		},
	}, nil
}
