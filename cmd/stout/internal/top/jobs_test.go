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
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// cellServer is as much of a cell as the jobs ask for: 2500 locks and sessions, a
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
	look   func() (Look, error)
	broken error
	unread error // of Read
}

func (s *source) Members(context.Context, int, bool) (Members, error) {
	return theMembers("one more failure"), s.broken
}

func (s *source) Look(context.Context, int) (Look, error) {
	if s.look != nil {
		return s.look()
	}
	return Look{Cell: theCell(3, "r1")}, nil
}

func (s *source) Read(_ context.Context, of Subject, _ int, _ bool) (string, error) {
	if of.Kind == Session {
		return "", client.ErrSessionNotFound
	}
	return "all of " + of.Name, s.unread
}

func (*source) Describe(err error) *Trouble {
	return &Trouble{Text: err.Error(), Denied: errors.Is(err, client.ErrPermissionDenied)}
}

// readingModel returns a model of a cell, and what lets a beat pass: all jobs that
// are due then read, one after another.
func readingModel(t *testing.T, src Source) (*cellServer, *Model, func(beats int)) {
	t.Helper()
	s := &cellServer{asked: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	m := New(src, c, false, time.UTC)
	m.clock = time.Now()
	m.width, m.height = 80, 24
	var run func(tea.Cmd)
	run = func(cmd tea.Cmd) {
		if cmd == nil {
			return
		}
		switch msg := cmd().(type) {
		case tea.BatchMsg:
			for _, cmd := range msg {
				run(cmd)
			}
		default:
			_, next := m.Update(msg)
			m.screen()
			run(next)
		}
	}
	return s, m, func(beats int) {
		for range beats {
			m.clock = m.clock.Add(beat)
			m.now = m.clock
			run(m.start())
		}
	}
}

// The locks are listed once, in parts; then only some visible ones are read.
// Other pages and pauses read none.
func TestListsOnce(t *testing.T) {
	s, m, pass := readingModel(t, &source{})
	pass(20)
	if n := s.count("locks") + s.count("sessions") + s.count("files"); n > 0 {
		t.Errorf("lists were read %d times, and none is shown", n)
	}
	m.press("2", "2")
	pass(20)
	if n := s.count("locks"); n != 3 || !m.locks.known || len(m.locks.records) != manyThings {
		t.Errorf("%d pages of 1000 were read for 2500 locks", n)
	}
	if m.locks.records["/l/00000"].item.Waiters != 2 || m.locks.records["/l/02000"].item.Waiters != 1 {
		t.Error("what is in sight was not read again, or what is not was")
	}
	m.press("p", "p")
	again := s.count("locks/l/00000")
	if pass(5); s.count("locks/l/00000") != again {
		t.Error("locks are read in a pause")
	}
	m.press("p", "p")
	m.miss(m.clock)
	if pass(1); s.count("locks") != 6 {
		t.Errorf("after missed events, %d pages are read", s.count("locks"))
	}
}

// The list of sessions is read in a loop, at most 1000 each second.
func TestReadsSessionsInALoop(t *testing.T) {
	s, m, pass := readingModel(t, &source{})
	m.press("3", "3")
	if pass(1); s.count("sessions") != 3 || len(m.sessions.records) != manyThings {
		t.Errorf("%d sessions in %d parts", len(m.sessions.records), s.count("sessions"))
	}
	if pass(8); s.count("sessions") != 15 {
		t.Errorf("%d parts in 9 seconds", s.count("sessions"))
	}
}

// An open subject is read each second, also in a pause; a file only after an
// event about it. A session that has ended is reported.
func TestReadsDetail(t *testing.T) {
	_, m, pass := readingModel(t, &source{})
	m.closely(Subject{Lock, "/x"})
	m.press("p", "p")
	if pass(1); !strings.Contains(m.screen(), "all of /x") {
		t.Errorf("shown is\n%s", m.screen())
	}
	m.press("p", "p")
	m.closely(Subject{Session, "gone"})
	if pass(1); m.read.err == nil {
		t.Error("its end is not reported")
	}
	m.closely(Subject{File, "/f"})
	pass(1)
	at := m.read.at
	if pass(2); m.read.at != at {
		t.Error("it was read without an event")
	}
	m.happened(m.clock, lockapi.CellEvent{Type: lockapi.EventFileChanged, Path: "/f"})
	if pass(1); m.read.at == at {
		t.Error("it was not read after an event")
	}
}

// An open file is read again after a failure, after missed events, and when there
// is a master again. A refusal is not repeated: it is a line in the audit log.
func TestReadsFileAgain(t *testing.T) {
	src := new(source)
	_, m, pass := readingModel(t, src)
	src.unread = errors.New("no answer")
	m.closely(Subject{File, "/f"})
	if pass(1); m.read.err == nil {
		t.Error("the failure is not shown")
	}
	src.unread = nil
	if pass(2); m.read.err != nil {
		t.Error("it was not read after a failure")
	}
	at := m.read.at
	m.miss(m.clock)
	if pass(2); m.read.at == at {
		t.Error("it was not read after missed events")
	}
	src.look = func() (Look, error) { return Look{Cell: lockapi.Cell{Cell: "prod"}}, nil }
	pass(2)
	m.closely(Subject{File, "/g"})
	if pass(2); !m.read.stale {
		t.Error("it was read without a master")
	}
	src.look = nil
	if pass(3); m.read.stale {
		t.Error("it was not read when there was a master again")
	}
	src.unread = client.ErrPermissionDenied
	m.closely(Subject{File, "/h"})
	pass(1)
	at = m.read.at
	if pass(3); m.read.at != at {
		t.Error("a refused reading was repeated")
	}
}

// Failures are shown, and so is their end.
func TestShowsTrouble(t *testing.T) {
	src := new(source)
	src.look = func() (Look, error) { return Look{Cell: theCell(3, "r1")}, src.broken }
	s, m, pass := readingModel(t, src)
	src.broken = errors.New("no replica is there")
	s.fail(lockapi.Errorf(lockapi.CodePermissionDenied, "you may not"))
	m.press("2", "2")
	pass(4)
	if got := m.screen(); !strings.Contains(got, "no replica is there") || !strings.Contains(got, "you may not") || m.noMembers == nil {
		t.Errorf("shown is\n%s", got)
	}
	src.broken = nil
	s.fail(nil)
	if pass(4); m.lost != nil || m.noMembers != nil || m.locks.err != nil || !m.locks.known {
		t.Errorf("shown is\n%s", m.screen())
	}
}

// A caller that may not observe the cell is not refused each second, because
// each refusal is in the audit log. The locks that it may read stay live.
func TestDenied(t *testing.T) {
	looks := 0
	s, m, pass := readingModel(t, &source{look: func() (Look, error) {
		looks++
		return Look{}, lockapi.Errorf(lockapi.CodePermissionDenied, "you may not")
	}})
	m.press("2", "2")
	pass(60)
	if n := s.count("locks/l/00000"); n < 50 || looks > 3 {
		t.Errorf("%d looks and %d readings of a lock in sight in 60 seconds", looks, n)
	}
}

// following begins to follow the events of a model's cell. It returns what waits
// for the next change.
func following(t *testing.T, m *Model) (next func()) {
	changes := make(chan change)
	go follow(t.Context(), m.client, m.source, func(c change) {
		select {
		case changes <- c:
		case <-t.Context().Done():
		}
	})
	return func() { m.Update(occurred{<-changes}) }
}

// TestFollowBeginsInThePast: the list of events begins with those that the
// replica remembers, without a time. They do not change the lists of locks.
func TestFollowBeginsInThePast(t *testing.T) {
	cell := stouttest.New(t, stouttest.Options{})
	c := cell.Client()
	session, err := c.NewSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(path string) error {
		held, err := session.TryLock(t.Context(), path)
		if err != nil {
			return err
		}
		return held.Unlock(t.Context())
	}
	if err := lock("/before"); err != nil {
		t.Fatal(err)
	}
	m := New(&source{}, c, false, time.UTC)
	next := following(t, m)
	seen := func(path string) (earlier, present int) {
		for _, r := range m.events.records {
			switch {
			case r.item.Path != path:
			case r.read.IsZero():
				earlier++
			default:
				present++
			}
		}
		return earlier, present
	}
	for n := 0; n < 2; n, _ = seen("/before") {
		next()
	}
	locked := make(chan error, 1)
	go func() { locked <- lock("/now") }()
	for n := 0; n < 2; _, n = seen("/now") {
		next()
	}
	if err := <-locked; err != nil {
		t.Error(err)
	}
	if earlier, present := seen("/before"); earlier != 2 || present != 0 || m.locks.records["/before"] != nil {
		t.Errorf("%d earlier events, %d present ones, lock %v", earlier, present, m.locks.records["/before"])
	}
}

// The state of the event stream is reported.
func TestFollow(t *testing.T) {
	s, m, _ := readingModel(t, &source{})
	s.fail(lockapi.Errorf(lockapi.CodePermissionDenied, "you may not"))
	next := following(t, m)
	if next(); m.unheard == nil {
		t.Error("a refusal is not reported")
	}
	s.fail(nil)
	for m.unheard != nil {
		next()
	}
}
