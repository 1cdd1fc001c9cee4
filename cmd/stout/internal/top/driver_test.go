package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// cellServer is as much of a cell as a driver asks for: 2500 locks and sessions, a
// revision, and no events. It counts what it is asked.
type cellServer struct {
	mu    sync.Mutex
	asked map[string]int
	err   *lockapi.Error // that it answers with, where it is not nil
}

func (s *cellServer) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *cellServer) fail(err *lockapi.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

const manyThings = 2500

func (s *cellServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	what := strings.TrimPrefix(r.URL.Path, "/v1/")
	s.mu.Lock()
	s.asked[what]++
	err := s.err
	s.mu.Unlock()
	w.Header().Set(lockapi.HeaderEpoch, "3")
	w.Header().Set(lockapi.HeaderRevision, "7")
	if err != nil {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(err.Code.Status())
		_ = json.NewEncoder(w).Encode(err)
		return
	}
	from, to := 0, manyThings
	if after := q.Get("after"); len(after) >= 5 {
		n, _ := strconv.Atoi(after[len(after)-5:])
		from = n + 1
	}
	next := ""
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		next = fmt.Sprintf("/l/%05d", to-1)
	}
	var out any
	switch {
	case what == "locks":
		page := lockapi.LockList{Next: next}
		for i := from; i < to; i++ {
			page.Locks = append(page.Locks, held(fmt.Sprintf("/l/%05d", i), 1, holder("S", "s", 1)))
		}
		out = page
	case strings.HasPrefix(what, "locks/"):
		out = held(strings.TrimPrefix(r.URL.Path, "/v1/locks"), 2, holder("S", "s", 1))
	case what == "sessions":
		page := lockapi.SessionList{Next: next}
		for i := from; i < to; i++ {
			page.Sessions = append(page.Sessions, theSession(fmt.Sprintf("/l/%05d", i), "s", 1000))
		}
		out = page
	case what == "members":
		out = theMembers(3, 1)
	case what == "deadlocks":
		out = lockapi.Deadlocks{}
	case what == "history":
		out = lockapi.History{Path: q.Get("path"), Revision: 7}
	case what == "events" && q.Get("limit") == "1":
		out = lockapi.EventList{Revision: 7}
	default:
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// source is a Source of a healthy cell, or with the given look.
type source struct {
	look func() (Look, error)
}

func (s *source) Look(context.Context) (Look, error) {
	if s.look != nil {
		return s.look()
	}
	return Look{Cell: theCell(3, "r1")}, nil
}

func (*source) Explain(_ context.Context, path string, _ int, _ bool) (string, error) {
	return "all of " + path, nil
}

func (*source) Session(context.Context, string, int, bool) (string, error) {
	return "", client.ErrSessionNotFound
}

func (*source) Describe(err error) *Trouble {
	return &Trouble{Text: err.Error(), Denied: errors.Is(err, client.ErrPermissionDenied)}
}

// driving runs a driver with a short second on a cell and feeds its messages to
// a model. The returned function continues until a condition holds.
func driving(t *testing.T, src Source) (*cellServer, *Model, func(what string, until func() bool)) {
	t.Helper()
	s := &cellServer{asked: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan any)
	d := newDriver(src, c, func(msg any) {
		select {
		case sent <- msg:
		case <-ctx.Done():
		}
	})
	d.beat = 2 * time.Millisecond
	var ended sync.WaitGroup
	ended.Go(func() { d.run(ctx) })
	t.Cleanup(func() { cancel(); ended.Wait(); _ = c.Close() })

	m := model()
	limit := time.After(20 * time.Second)
	return s, m, func(what string, until func() bool) {
		t.Helper()
		for !until() {
			select {
			case msg := <-sent:
				if p, ok := msg.(panicked); ok {
					t.Fatalf("%v\n%s", p.what, p.stack)
				}
				m.Update(Tick(time.Now()))
				m.Update(msg)
				m.View()
			case <-limit:
				t.Fatalf("not within 20s: %s; asked was %v", what, s.asked)
			}
			d.wants(m.Wanted())
		}
	}
}

// beats is a condition that is met once so many looks have come.
func beats(m *Model, n int) func() bool {
	last := m.lookedAt
	return func() bool {
		if m.lookedAt != last {
			last, n = m.lookedAt, n-1
		}
		return n <= 0
	}
}

// The locks are listed once, in parts; then only some visible ones are read.
// Other pages and pauses read none.
func TestDriverListsOnce(t *testing.T) {
	s, m, until := driving(t, &source{})
	until("looks", beats(m, 20))
	if n := s.count("locks") + s.count("sessions") + s.count("files"); n > 0 {
		t.Errorf("lists were read %d times, and none is shown", n)
	}
	m.Update(Key{Name: "2"})
	until("all locks", func() bool { return m.locks.read && len(m.locks.rows) == manyThings })
	until("looks", beats(m, 20))
	if n := s.count("locks"); n != 3 {
		t.Errorf("%d pages of 1000 were read for 2500 locks", n)
	}
	if m.locks.rows["/l/00000"].Waiters != 2 || m.locks.rows["/l/02000"].Waiters != 1 {
		t.Error("what is in sight was not read again, or what is not was")
	}
	m.Update(Key{Name: "p"})
	until("the pause", func() bool { return len(m.held) > 0 || m.paused })
	m.Update(Key{Name: "p"})
	m.Update(Missed{At: time.Now()})
	until("all locks once more", func() bool { return s.count("locks") == 6 })
}

// Sessions come round and round.
func TestDriverGoesRoundSessions(t *testing.T) {
	s, m, until := driving(t, &source{})
	m.Update(Key{Name: "3"})
	until("three rounds", func() bool { return m.sessions.read && s.count("sessions") >= 9 })
	if len(m.sessions.rows) != manyThings {
		t.Errorf("%d sessions", len(m.sessions.rows))
	}
}

// An open lock is read with its history; an open session that has ended is
// reported.
func TestDriverLooksClosely(t *testing.T) {
	s, m, until := driving(t, &source{})
	m.detail = subject{lockKind, "/x"}
	until("its reading", func() bool { return m.reading.of == m.detail && m.reading.History != nil && s.count("history") > 2 })
	if !strings.Contains(m.View(), "all of /x") {
		t.Errorf("shown is\n%s", m.View())
	}
	m.detail = subject{sessionKind, "gone"}
	until("its end", func() bool { return m.reading.of == m.detail && m.reading.Err != nil })
}

// Failures are shown, and so is their end.
func TestDriverTellsOfTrouble(t *testing.T) {
	var mu sync.Mutex
	var broken error
	set := func(err error) { mu.Lock(); broken = err; mu.Unlock() }
	src := &source{look: func() (Look, error) {
		mu.Lock()
		defer mu.Unlock()
		return Look{Cell: theCell(3, "r1")}, broken
	}}
	s, m, until := driving(t, src)
	until("a look", func() bool { return !m.lookedAt.IsZero() && m.unheard == nil })
	set(errors.New("nobody is there"))
	s.fail(lockapi.Errorf(lockapi.CodePermissionDenied, "you may not"))
	m.Update(Key{Name: "2"})
	until("the trouble", func() bool { return m.lost != nil && m.noMembers != nil && m.locks.err != nil })
	if got := m.View(); !strings.Contains(got, "nobody is there") || !strings.Contains(got, "you may not") {
		t.Errorf("shown is\n%s", got)
	}
	set(nil)
	s.fail(nil)
	until("it is over", func() bool { return m.lost == nil && m.noMembers == nil && m.locks.err == nil && m.locks.read })
}

// A caller that may not observe the cell is not refused each second, because
// each refusal is in the audit log. The locks that it may read stay live.
func TestDriverDenied(t *testing.T) {
	var looks atomic.Int32
	src := &source{look: func() (Look, error) {
		looks.Add(1)
		return Look{}, lockapi.Errorf(lockapi.CodePermissionDenied, "you may not")
	}}
	s, m, until := driving(t, src)
	m.Update(Key{Name: "2"})
	until("locks", func() bool { return m.lost != nil && m.locks.read })
	before, read := looks.Load(), s.count("locks/l/00000")
	until("a lock in sight 60 times more", func() bool { return s.count("locks/l/00000") >= read+60 })
	if n := looks.Load() - before; n > 30 {
		t.Errorf("%d looks in 60 beats", n)
	}
}

// A panic of the driver is reported, so that the screen can restore the
// terminal.
func TestDriverPanics(t *testing.T) {
	sent := make(chan any, 100)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := client.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(&source{look: func() (Look, error) { panic("oh") }}, c, func(msg any) { sent <- msg })
	done := make(chan struct{})
	go func() { d.run(ctx); close(done) }()
	for msg := range sent {
		if p, ok := msg.(panicked); ok {
			if p.what != "oh" || len(p.stack) == 0 {
				t.Errorf("it is %v", p)
			}
			break
		}
	}
	cancel()
	<-done
}
