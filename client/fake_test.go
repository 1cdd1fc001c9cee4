package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// fakeCell is a cell of three replicas in memory that keeps as much of the
// contract as the tests need. It is an http.RoundTripper (hosts r1, r2 and r3)
// and an http.Handler (one replica that is always the master).
type fakeCell struct {
	rawBackup    []byte // that it answers with, guarded by mu as all
	refuseBackup *lockapi.Error

	latency time.Duration // one way
	cost    time.Duration // of a replica's time, for each call: it serves one after another
	start   time.Time

	mu        sync.Mutex
	master    string
	epoch     uint64
	handed    uint64 // the last epoch that began with a hand-over
	token     uint64
	seq       uint64
	opened    int // sessions
	replicas  map[string]*fakeReplica
	sessions  map[string]*fakeSession
	keys      map[string]string // Idempotency-Key -> session
	locks     map[string]*fakeLock
	change    chan struct{} // closed at every change of state
	requests  []fakeRequest
	files     fakeFiles
	told      *lockapi.URLs   // where its replicas are; nil where it does not tell
	forbidden map[string]bool // paths whose locks nobody may have
	// gate, if set, says why a replica does not let a request in.
	gate func(*http.Request) *lockapi.Error
	// drop, if set, says which answers get lost after the work is done.
	drop func(*http.Request) bool
	// delay, if set, says for how long a request is under way before it
	// arrives.
	delay func(*http.Request) time.Duration
}

type fakeRequest struct {
	at     time.Duration
	host   string
	method string
	path   string
	query  string
	body   string
	header http.Header
}

type fakeReplica struct {
	dead   bool // refuses connections
	silent bool // swallows packets
	lonely bool // knows of no master
	events fakeEvents
	broken chan struct{}
	free   time.Duration // when it has served the calls that have arrived
}

type fakeSession struct {
	lockapi.Session
	deadline time.Time
	events   []lockapi.Event
}

type fakeLock struct {
	holders []*fakeHold
	queue   []*fakeHold
}

type fakeHold struct {
	req    lockapi.LockRequest
	keep   bool // queue: true
	told   bool // was answered 202
	calls  int
	token  uint64
	when   time.Time
	exited bool
	// claimBy is until when the grant may be asked for before it is taken back;
	// zero where it is the pair's own.
	claimBy time.Time
}

func newFakeCell() *fakeCell {
	f := &fakeCell{
		latency: 5 * time.Millisecond, start: time.Now(), master: "r1", epoch: 1,
		replicas: map[string]*fakeReplica{}, sessions: map[string]*fakeSession{}, keys: map[string]string{},
		locks: map[string]*fakeLock{}, change: make(chan struct{}), forbidden: map[string]bool{},
		files: fakeFiles{files: map[string]*fakeFile{}, answers: map[string]fakeAnswer{}},
	}
	for _, id := range []string{"r1", "r2", "r3"} {
		f.replicas[id] = &fakeReplica{broken: make(chan struct{})}
	}
	return f
}

// set changes the cell under its mutex and wakes whoever waits for a change.
func (f *fakeCell) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed()
}

func (f *fakeCell) changed() {
	close(f.change)
	f.change = make(chan struct{})
}

// kill makes a replica refuse connections and breaks those it has.
func (f *fakeCell) kill(id string) {
	f.set(func() {
		r := f.replicas[id]
		r.dead = true
		close(r.broken)
		r.broken = make(chan struct{})
		if f.master == id {
			f.master = ""
		}
	})
}

// silence makes a replica swallow what is sent to it, and all of its answers.
func (f *fakeCell) silence(id string, on bool) { f.set(func() { f.replicas[id].silent = on }) }

// elect puts a master in office; every session gets a whole ttl.
func (f *fakeCell) elect(id string) {
	f.set(func() {
		f.master = id
		f.epoch++
		for _, s := range f.sessions {
			s.deadline = time.Now().Add(time.Duration(s.TTLMS) * time.Millisecond)
		}
	})
}

// handOver makes a replica the master: the master before it sends away
// the keepalives that wait.
func (f *fakeCell) handOver(id string) {
	f.elect(id)
	f.set(func() { f.handed = f.epoch })
}

func (f *fakeCell) lag() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency
}

// sent lists the requests so far.
func (f *fakeCell) sent() []fakeRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fakeCell) count(match func(fakeRequest) bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if match(r) {
			n++
		}
	}
	return n
}

// held lists the tokens of the holders of a path.
func (f *fakeCell) held(path string) []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	tokens := []uint64{}
	if l := f.locks[path]; l != nil {
		for _, h := range l.holders {
			tokens = append(tokens, h.token)
		}
	}
	return tokens
}

func (f *fakeCell) waiting(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.locks[path]; l != nil {
		return len(l.queue)
	}
	return 0
}

// RoundTrip is the network between the client and the cell.
func (f *fakeCell) RoundTrip(req *http.Request) (*http.Response, error) {
	body := new(bytes.Buffer)
	if req.Body != nil {
		if _, err := body.ReadFrom(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	f.mu.Lock()
	f.requests = append(f.requests, fakeRequest{
		time.Since(f.start), req.URL.Host, req.Method, req.URL.Path, req.URL.RawQuery, body.String(), req.Header,
	})
	r := f.replicas[req.URL.Host]
	drop, delay := f.drop, f.delay
	if r == nil || r.dead {
		f.mu.Unlock()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	broken, silent := r.broken, r.silent
	f.mu.Unlock()
	if !silent && req.Header.Get("Accept") == lockapi.TypeEventStream && !r.events.noStream {
		sleep(req.Context(), f.lag())
		return f.stream(req, r, broken)
	}
	if silent {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	if delay != nil && delay(req) > 0 {
		return f.lateRoundTrip(req, body, delay(req))
	}
	sleep(req.Context(), f.lag()+f.queue(r))
	return f.deliver(req, body, broken, drop)
}

// queue is for how long a call waits for its replica, which serves also those
// whose callers have given up.
func (f *fakeCell) queue(r *fakeReplica) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Since(f.start)
	r.free = max(r.free, now) + f.cost
	return r.free - now
}

// lateRoundTrip lets a request arrive after a time, whatever became of the
// caller.
func (f *fakeCell) lateRoundTrip(req *http.Request, body *bytes.Buffer, d time.Duration) (*http.Response, error) {
	time.AfterFunc(d, func() {
		f.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(req.Method, req.URL.String(), body).WithContext(context.WithoutCancel(req.Context())))
	})
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func (f *fakeCell) deliver(req *http.Request, body *bytes.Buffer, broken chan struct{}, drop func(*http.Request) bool) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		in := httptest.NewRequest(req.Method, req.URL.String(), body).WithContext(ctx)
		in.Header = req.Header
		f.serveAs(req.URL.Host, w, in)
		done <- w
	}()
	select {
	case w := <-done:
		f.mu.Lock()
		silent := f.replicas[req.URL.Host].silent
		f.mu.Unlock()
		if silent {
			<-req.Context().Done()
		} else {
			sleep(req.Context(), f.lag())
		}
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		if drop != nil && drop(req) {
			return nil, errors.New("connection reset by peer")
		}
		return w.Result(), nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-broken:
		return nil, errors.New("connection reset by peer")
	}
}

// serveAs answers as the replica with the given id.
func (f *fakeCell) serveAs(id string, w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	master, epoch, gate := f.master, f.epoch, f.gate
	f.mu.Unlock()
	w.Header().Set(lockapi.HeaderEpoch, strconv.FormatUint(epoch, 10))
	if master != "" {
		w.Header().Set(lockapi.HeaderMaster, "http://"+master)
	}
	switch {
	case req.URL.Path == lockapi.RouteCell, req.URL.Path == lockapi.RouteReplica, req.URL.Path == lockapi.RouteReady:
	case req.URL.Path == lockapi.RouteEvents && req.URL.Query().Has("after"):
	case req.URL.Query().Get("consistency") == "stale":
		w.Header().Set(lockapi.HeaderStale, "true")
	case master == "":
		refuse(w, lockapi.Errorf(lockapi.CodeNoMaster, "no master"))
		return
	case master != id && req.Header.Get(lockapi.HeaderForward) == lockapi.ForwardNever:
		sendAway(w, master)
		return
	}
	if e := through(gate, req); e != nil {
		refuse(w, e)
		return
	}
	f.ServeHTTP(w, req)
}

func through(gate func(*http.Request) *lockapi.Error, req *http.Request) *lockapi.Error {
	if gate == nil {
		return nil
	}
	return gate(req)
}

// sendAway names the master to a call that asks not to be forwarded.
func sendAway(w http.ResponseWriter, master string) {
	e := lockapi.Errorf(lockapi.CodeNotMaster, "not the master")
	e.Master = "http://" + master
	refuse(w, e)
}

func refuse(w http.ResponseWriter, e *lockapi.Error) { reply(w, e.Code.Status(), e) }

func reply(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	if v != nil {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(err)
		}
	}
}

// ServeHTTP answers as the master.
func (f *fakeCell) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	switch {
	case path == lockapi.RouteSessions && req.Method == http.MethodPost:
		f.openSession(w, req)
	case path == lockapi.RouteSessions:
		f.listSessions(w)
	case strings.HasSuffix(path, "/keepalive"):
		f.keepalive(w, req, strings.TrimSuffix(strings.TrimPrefix(path, lockapi.RouteSessions+"/"), "/keepalive"))
	case strings.HasPrefix(path, lockapi.RouteSessions+"/"):
		f.session(w, req, strings.TrimPrefix(path, lockapi.RouteSessions+"/"))
	case path == lockapi.RouteLocks:
		f.listLocks(w, req)
	case strings.HasPrefix(path, lockapi.RouteLocks+"/"):
		f.lock(w, req, strings.TrimPrefix(path, lockapi.RouteLocks))
	case path == lockapi.RouteFiles, strings.HasPrefix(path, lockapi.RouteFiles+"/"), path == lockapi.RouteTransactions:
		f.fileCall(w, req)
	case path == lockapi.RouteEvents:
		f.pollEvents(w, req)
	case path == lockapi.RouteReady:
		f.ready(w, req)
	case path == lockapi.RouteSequencers:
		f.checkSequencer(w, req)
	case path == lockapi.RouteCell:
		f.mu.Lock()
		defer f.mu.Unlock()
		out := lockapi.Cell{Cell: "fake", Epoch: f.epoch}
		if r := f.replicas[req.URL.Host]; f.master != "" && (r == nil || !r.lonely) {
			out.Master = &lockapi.MasterRef{ID: f.master, URL: "http://" + f.master}
		}
		reply(w, 200, out)
	case path == lockapi.RouteURLs && f.members() != nil:
		reply(w, 200, f.members())
	case path == lockapi.RouteReplica:
		reply(w, 200, lockapi.Replica{ID: req.URL.Host, Role: lockapi.RoleReplica})
	case path == lockapi.RouteTransfer:
		f.transfer(w, req)
	case path == lockapi.RouteBackup:
		f.backup(w)
	default:
		refuse(w, lockapi.Errorf(lockapi.CodeNotFound, "no route %s", path))
	}
}

func (f *fakeCell) transfer(w http.ResponseWriter, req *http.Request) {
	var in lockapi.TransferRequest
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		panic(err)
	}
	if f.replicas[in.To] == nil {
		refuse(w, lockapi.Invalid("to", "no replica %q", in.To))
		return
	}
	f.elect(in.To)
	reply(w, 200, lockapi.Transferred{Master: in.To})
}

// expire ends the sessions that are past due. f.mu is held.
func (f *fakeCell) expire() {
	for id, s := range f.sessions {
		if time.Now().After(s.deadline) {
			f.end(id)
		}
	}
	for path, l := range f.locks {
		held := len(l.holders)
		l.holders = slices.DeleteFunc(l.holders, func(h *fakeHold) bool {
			h.exited = h.exited || !h.claimBy.IsZero() && time.Now().After(h.claimBy)
			return h.exited
		})
		if len(l.holders) < held {
			f.promote(path, l)
			f.changed()
		}
	}
}

// doubt lets a path's grants be taken back unless they are asked for within d,
// as a new master does of which the callers were never told.
func (f *fakeCell) doubt(path string, d time.Duration) {
	f.set(func() {
		for _, h := range f.locks[path].holders {
			h.claimBy = time.Now().Add(d)
		}
	})
}

func (f *fakeCell) end(id string) {
	delete(f.sessions, id)
	f.endFiles(id)
	for path, l := range f.locks {
		mine := func(h *fakeHold) bool { h.exited = h.exited || h.req.Session == id; return h.req.Session == id }
		l.holders = slices.DeleteFunc(l.holders, mine)
		l.queue = slices.DeleteFunc(l.queue, mine)
		f.promote(path, l)
	}
	f.changed()
}

func (f *fakeCell) listLocks(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := lockapi.LockList{Locks: []lockapi.Lock{}}
	for _, path := range slices.Sorted(maps.Keys(f.locks)) {
		if !strings.HasPrefix(path, req.URL.Query().Get("prefix")) || path <= req.URL.Query().Get("after") {
			continue
		}
		if len(out.Locks) == 2 { // small pages, so that the client has to turn them
			out.Next = out.Locks[1].Path
			break
		}
		out.Locks = append(out.Locks, f.state(path))
	}
	reply(w, 200, out)
}

func (f *fakeCell) state(path string) lockapi.Lock {
	out := lockapi.Lock{Path: path, State: lockapi.StateFree, Holders: []lockapi.Holder{}}
	if l := f.locks[path]; l != nil {
		out.Waiters = len(l.queue)
		for _, h := range l.holders {
			out.State, out.Mode, out.Limit = lockapi.StateHeld, h.req.Mode, h.req.Limit
			out.Holders = append(out.Holders, lockapi.Holder{
				Session: h.req.Session, SessionName: f.sessions[h.req.Session].Name, Handle: h.req.Handle,
				Mode: h.req.Mode, Token: h.token, GrantedAt: h.when,
			})
		}
	}
	return out
}

func (f *fakeCell) checkSequencer(w http.ResponseWriter, req *http.Request) {
	value := req.URL.Query().Get("value")
	parsed, err := lockapi.ParseSequencer(value)
	if err != nil {
		refuse(w, err.(*lockapi.Error))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.state(parsed.Path).Holders {
		if h.Token == parsed.Token {
			reply(w, 200, lockapi.SequencerCheck{Valid: true})
			return
		}
	}
	reply(w, 200, lockapi.SequencerCheck{Reason: fmt.Sprintf("token %d does not hold %s", parsed.Token, parsed.Path)})
}
