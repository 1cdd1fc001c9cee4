package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/memlog"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/state"
)

// standIn is a real master in office over its own in-memory log. A test sets
// which replica it reports as the cell's master. A hook runs first in each
// call, and may block, fail or panic.
type standIn struct {
	*master.Master
	id   string
	node *memlog.Node
	end  func()

	mu     sync.Mutex // guards the following fields
	where  server.Location
	view   master.View
	hangs  error
	hook   func(ctx context.Context, call string) error
	calls  []string
	backup func(io.Writer) error // content of a backup; nil for the state
}

// newStandIn starts a stand-in, which ends with the test.
func newStandIn(t testing.TB, id string) *standIn {
	f := makeStandIn(id)
	t.Cleanup(f.end)
	return f
}

// makeStandIn is newStandIn for a stand-in that the caller ends.
func makeStandIn(id string) *standIn {
	m, log, n := newOffice(memlog.Options{})
	f := &standIn{Master: m, id: id, node: n, view: m.View(), end: func() { endOffice(m, log) }}
	uptime := int64(1)
	f.view.Own = lockapi.Replica{ID: id, Role: lockapi.RoleReplica, Healthy: true, RaftAddr: "127.0.0.1:1", Directory: directoryOf(id), Version: "v1", UptimeMS: &uptime}
	f.view.Cell = lockapi.Cell{Cell: "test", Level: 1}
	f.setReplicas(lockapi.Replica{ID: id, Role: lockapi.RoleReplica, Healthy: true, RaftAddr: "127.0.0.1:1"})
	return f
}

// newOffice returns a master in office over an in-memory log.
func newOffice(o memlog.Options) (*master.Master, *memlog.Cell, *memlog.Node) {
	log := memlog.New(1, o)
	log.SetDelay(0)
	n := log.Nodes()[0]
	m := master.New(n, n, master.Options{Cell: "test", ID: n.ID(), Version: "v1", LeaseTerm: 2 * time.Second, Clock: n.Clock, Logger: zerolog.Nop()})
	log.Elect(n)
	for began := time.Now(); !m.Known().Self; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			panic("the master does not enter office")
		}
	}
	return m, log, n
}

func endOffice(m *master.Master, log *memlog.Cell) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Close(ctx)
	log.Close()
}

func directoryOf(id string) string { return fmt.Sprintf("%016x", id) }

func (f *standIn) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *standIn) setMaster(epoch uint64, id, url string) {
	f.set(func() {
		self := id != "" && id == f.id
		f.where = server.Location{Epoch: epoch, Self: self, ID: id, URL: url}
		f.view.Cell.Epoch, f.view.Cell.Master, f.view.Own.Role = epoch, nil, lockapi.RoleReplica
		if id != "" {
			f.view.Cell.Master = &lockapi.MasterRef{ID: id, URL: url}
		}
		if self {
			f.view.Own.Role = lockapi.RoleMaster
			f.view.Cell.Lease = lockapi.Lease{Held: true, TermMS: 2000, RemainingMS: 1000}
		}
	})
}

// setLeads makes the stand-in a Raft leader without an office.
func (f *standIn) setLeads() {
	f.set(func() { f.where = server.Location{Epoch: f.where.Epoch, Leads: true} })
}

func (f *standIn) setHook(hook func(context.Context, string) error) { f.set(func() { f.hook = hook }) }
func (f *standIn) setUnfit(reason error)                            { f.set(func() { f.view.Ready = reason }) }
func (f *standIn) setHangs(reason error)                            { f.set(func() { f.hangs = reason }) }

func (f *standIn) setReplicas(all ...lockapi.Replica) {
	f.set(func() { f.view.Cell.Replicas = all })
}

func (f *standIn) setApplied(index uint64) {
	f.set(func() {
		f.view.Own.AppliedIndex, f.view.Own.LastContactMS = index, 12
		f.view.Own.Promise = &lockapi.Promise{To: "r1", RemainingMS: 7}
	})
}

func (f *standIn) addSession(s lockapi.Session) {
	f.node.Put(state.Command{Time: time.Now().UnixNano(), Operation: &state.OpenSession{Session: s.ID, Name: s.Name, TTLMS: cmp.Or(s.TTLMS, lockapi.MaxTTLMS), Meta: s.Meta}})
	f.must(&lockapi.OpenSession{SessionRequest: lockapi.SessionRequest{TTLMS: lockapi.MaxTTLMS}}) // applies the entry as well
}

// happened changes a file, and thereby the revision.
func (f *standIn) happened(path string) { f.must(&lockapi.WriteFile{Path: path}) }

// compact makes so many changes that older events are dropped.
func (f *standIn) compact() {
	for range 1000 {
		f.happened("/more")
	}
}

// must makes a call without recording it or running the hook.
func (f *standIn) must(c lockapi.Call) {
	if _, _, err := f.Master.Do(context.Background(), &master.Caller{}, false, c); err != nil {
		panic(err)
	}
}

// revision returns the revision of the stand-in's own state.
func (f *standIn) revision() uint64 { return f.Master.Known().Revision }

// made returns the calls so far.
func (f *standIn) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// wantNoCalls checks that no call was made so far.
func (f *standIn) wantNoCalls(t *testing.T) {
	t.Helper()
	if calls := f.made(); len(calls) > 0 {
		t.Errorf("%s was called: %.1000q", f.id, calls)
	}
}

func (f *standIn) forget() { f.set(func() { f.calls = nil }) }

// urlOf returns the URL that it knows for the named replica.
func (f *standIn) urlOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.where.ID == id {
		return f.where.URL
	}
	for _, r := range f.view.Cell.Replicas {
		if r.ID == id {
			return r.URL
		}
	}
	return ""
}

// begin records a call and runs the hook.
func (f *standIn) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, call)
}

// Do records the call, runs the hook, and lets the office serve the call.
func (f *standIn) Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	if err := f.begin(ctx, spell(c)); err != nil {
		return nil, master.Outcome{}, err
	}
	f.mu.Lock()
	backup := f.backup
	f.mu.Unlock()
	if at := f.Known(); !stale && !at.Self && !at.Leads && !master.RowOf(reflect.TypeOf(c)).Own {
		return nil, master.Outcome{}, lockapi.Errorf(lockapi.CodeNoMaster, "%s is not in office", f.id)
	}
	if answer, err := ofMembers(c); answer != nil || err != nil {
		return answer, master.Outcome{}, err
	}
	answer, out, err := f.Master.Do(ctx, by, stale, c)
	if b, ok := answer.(master.Backup); ok && backup != nil {
		b.Snapshot = backup
		answer = b
	}
	return answer, out, err
}

const directoryBefore = "0123456789abcdef"

// ofMembers answers a change of the members as if it was made, because an
// in-memory log does not support it. Both results are nil for other calls.
func ofMembers(c lockapi.Call) (answer any, err error) {
	var id, before string
	switch c := c.(type) {
	case *lockapi.AddMember:
		id, answer = c.ID, lockapi.MemberChange{ID: c.ID, Directory: c.Directory}
	case *lockapi.SetMember:
		id, answer = c.ID, lockapi.Member{ID: c.ID, Directory: directoryOf(c.ID), Suffrage: lockapi.SuffrageVoter, Role: lockapi.RoleReplica, Since: time.Unix(1, 0).UTC()}
	case *lockapi.RemoveMember:
		id, before, answer = c.ID, c.Directory, lockapi.MemberRemoved{ID: c.ID, Removed: true}
	case *lockapi.ReplaceMember:
		id, before, answer = c.ID, c.InPlaceOf, lockapi.MemberChange{ID: c.ID, Directory: c.Directory}
	case *lockapi.TransferMastership:
		answer = lockapi.Transferred{Master: c.To}
	}
	switch {
	case id == "nobody":
		return nil, lockapi.Errorf(lockapi.CodeNotFound, "replica %q is not a member", id)
	case before == directoryBefore:
		return nil, lockapi.Errorf(lockapi.CodeConflict, "replica %q has another directory now", id)
	}
	return answer, nil
}

func (f *standIn) Known() server.Location {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.where
	at.Revision = f.revision()
	return at
}

// Locate waits for a master as long as ctx lets it.
func (f *standIn) Locate(ctx context.Context) (server.Location, error) {
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

func (f *standIn) Hangs() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hangs
}

func (f *standIn) View() master.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.view
	v.Cell.Replicas = append([]lockapi.Replica(nil), v.Cell.Replicas...)
	return v
}

// spell writes a call as its type and its nonzero fields.
func spell(c lockapi.Call) string {
	v := reflect.ValueOf(c).Elem()
	return v.Type().Name() + fields(v)
}

func fields(v reflect.Value) string {
	var s strings.Builder
	for i := range v.NumField() {
		f, t := v.Field(i), v.Type().Field(i)
		switch {
		case f.IsZero(), t.Name == "Query":
			continue
		case (f.Kind() == reflect.Map || f.Kind() == reflect.Slice) && f.Len() == 0:
			continue
		case t.Type == reflect.TypeFor[lockapi.Transaction]():
			text, _ := json.Marshal(f.Interface())
			s.WriteString(" " + string(text))
			continue
		case t.Anonymous && t.Type.Kind() == reflect.Struct:
			s.WriteString(fields(f))
			continue
		case f.Kind() == reflect.Pointer:
			f = f.Elem()
		}
		verb := " %s=%v"
		if _, bytes := f.Interface().([]byte); bytes {
			verb = " %s=%q"
		}
		fmt.Fprintf(&s, verb, t.Name, f.Interface())
	}
	return s.String()
}

// links are a node's connections to the others, on loopback, without a hello.
// They dial the replica that the node's stand-in has under that name.
type links struct {
	calls  net.Listener
	of     *standIn
	proven bool
	gone   atomic.Bool // the other replica was removed
}

// callPorts maps the API address of a node to its address for calls of others.
// An address without an entry is dialed itself.
var callPorts sync.Map

func newLinks(t testing.TB, of *standIn) *links {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return &links{calls: l, of: of}
}

func (l *links) Calls() net.Listener { return l.calls }
func (l *links) Proven() bool        { return l.proven }

// Caller returns the only other replica of a test.
func (l *links) Caller(net.Conn) string { return "r2/directory" }

func (l *links) Member(server string) error {
	if l.gone.Load() {
		return fmt.Errorf("%q is not a member", server)
	}
	return nil
}

// proven makes the connections between members authenticated ones.
func proven(o *server.Options) { o.Links.(*links).proven = true }

func (l *links) DialCall(ctx context.Context, id string) (net.Conn, error) {
	address := strings.TrimPrefix(strings.TrimSuffix(l.of.urlOf(id), "/"), "http://")
	if address == "" {
		return nil, errors.New("no member of that name")
	}
	if calls, ok := callPorts.Load(address); ok {
		address = calls.(string)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// startOther serves a handler in another replica's place. It answers greetings
// itself.
func startOther(t *testing.T, h http.HandlerFunc, tune ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != lockapi.RouteLive {
			h(w, r)
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	for _, f := range tune {
		f(s)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// startReal serves a real master over an in-memory log until the test ends, and
// accepts calls of others, too.
func startReal(t *testing.T, tune ...func(*server.Options)) (url string, s *server.Server) {
	t.Helper()
	url, _, s = startOneLog(t, tune...)
	return url, s
}

// startOneLog is startReal, and returns the log as well.
func startOneLog(t *testing.T, tune ...func(*server.Options)) (url string, log *memlog.Cell, s *server.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url = "http://" + l.Addr().String()
	m, log, _ := newOffice(memlog.Options{URL: func(string) string { return url }, Broken: func(err error) { t.Error(err) }})
	calls := newLinks(t, newStandIn(t, "r1"))
	callPorts.Store(l.Addr().String(), calls.Calls().Addr().String())
	opts := server.Options{Master: m, Links: calls, Logger: zerolog.Nop(), AttemptEvery: time.Nanosecond}
	for _, f := range tune {
		f(&opts)
	}
	s = server.New(opts)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		callPorts.Delete(l.Addr().String())
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		endOffice(m, log)
	})
	return url, log, s
}
