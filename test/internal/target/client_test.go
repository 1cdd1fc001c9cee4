package target

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// replica gives the answers that a client must handle: it names master in every
// answer, and reports no master while lame is set.
type replica struct {
	*httptest.Server
	master atomic.Pointer[string]
	calls  atomic.Int64
	lame   atomic.Bool // reports no master
	handle atomic.Pointer[string]
}

func newReplica(t *testing.T) *replica {
	r := &replica{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	r.master.Store(&r.URL)
	return r
}

func (r *replica) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.calls.Add(1)
	w.Header().Set(lockapi.HeaderMaster, *r.master.Load())
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	switch {
	case r.lame.Load():
		answer(http.StatusServiceUnavailable, lockapi.Errorf(lockapi.CodeNoMaster, "none"))
	case strings.HasSuffix(req.URL.Path, "/keepalive"):
		// The server notices the end of a connection only after reading the
		// body.
		_, _ = io.Copy(io.Discard, req.Body)
		<-req.Context().Done()
	case req.Method == http.MethodPost:
		answer(http.StatusCreated, lockapi.Session{ID: "s1", TTLMS: 12000, Epoch: 1})
	case req.Method == http.MethodPut:
		var in lockapi.LockRequest
		_ = json.NewDecoder(req.Body).Decode(&in)
		r.handle.Store(&in.Handle)
		answer(http.StatusOK, lockapi.Grant{Path: "/a", State: lockapi.StateHeld, Session: in.Session, Handle: in.Handle, Mode: lockapi.Exclusive, Token: 7, Sequencer: "exclusive:7:/a"})
	case req.Method == http.MethodGet:
		answer(http.StatusOK, lockapi.Lock{Path: "/a", State: lockapi.StateFree, Holders: []lockapi.Holder{}})
	default:
		answer(http.StatusOK, lockapi.Released{Released: true})
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestUnknownWay(t *testing.T) {
	if _, err := Clients("fax", Way{URLs: []string{"http://a"}}, 1); err == nil {
		t.Error("an unknown way is no error")
	}
}

// TestRawFollowsTheMaster: Raw switches to the master that an answer names. It
// leaves a replica that knows no master, and one that is gone.
func TestRawFollowsTheMaster(t *testing.T) {
	a, b, ctx := newReplica(t), newReplica(t), bounded(t)
	a.master.Store(&b.URL)
	c := NewRaw(Way{URLs: []string{a.URL, b.URL}})
	defer c.Close()
	for range 3 {
		if err := c.Read(ctx, "/x"); err != nil {
			t.Fatal(err)
		}
	}
	if a.calls.Load() != 1 || b.calls.Load() != 2 {
		t.Errorf("calls: %d to the replica, %d to the master; want 1 and 2", a.calls.Load(), b.calls.Load())
	}
	b.lame.Store(true)
	a.master.Store(&a.URL)
	if err := c.Read(ctx, "/x"); !errors.Is(err, lockapi.CodeNoMaster) {
		t.Errorf("a replica without a master: %v", err)
	}
	if *c.base.Load() != a.URL && c.Read(ctx, "/x") != nil && *c.base.Load() != a.URL {
		t.Error("the client stays with a replica that knows of no master")
	}
	b.lame.Store(false)
	a.Close()
	failures := 0
	for c.Read(ctx, "/x") != nil {
		if failures++; failures > 2 {
			t.Fatal("the client stays with a replica that is gone")
		}
	}
}

// TestRawHandles: a handle is reused until its release was answered.
func TestRawHandles(t *testing.T) {
	r, ctx := newReplica(t), bounded(t)
	s, err := NewRaw(Way{URLs: []string{r.URL}}).Open(ctx, 12*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	lock := func(want string) {
		t.Helper()
		if _, err := s.Lock(ctx, "/a"); err != nil {
			t.Fatal(err)
		}
		if got := *r.handle.Load(); got != want {
			t.Errorf("the handle is %q, want %q", got, want)
		}
	}
	lock("h0")
	r.lame.Store(true)
	if s.Unlock(ctx) == nil {
		t.Fatal("a failed release is no error")
	}
	r.lame.Store(false)
	lock("h0")
	if err := s.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	lock("h1")
}

// TestOpenAllIsAllOrNothing: one failure stops the opening and closes the
// opened sessions.
func TestOpenAllIsAllOrNothing(t *testing.T) {
	good, ctx := &counting{}, bounded(t)
	clients := []Client{good, good, failing{good}, good, good}
	if sessions, err := OpenAll(ctx, clients, time.Second); err == nil || sessions != nil {
		t.Errorf("sessions %v, error %v; want an error alone", sessions, err)
	}
	if n := good.open.Load(); n != 0 {
		t.Errorf("%d sessions are left open", n)
	}
}

type counting struct {
	Client
	open atomic.Int64
}

func (c *counting) Open(context.Context, time.Duration) (Session, error) {
	c.open.Add(1)
	return counted{c: c}, nil
}

type counted struct {
	Session
	c *counting
}

func (s counted) Close(context.Context) error {
	s.c.open.Add(-1)
	return nil
}

type failing struct{ Client }

func (failing) Open(context.Context, time.Duration) (Session, error) {
	return nil, errors.New("no")
}
