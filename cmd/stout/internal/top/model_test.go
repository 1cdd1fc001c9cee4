package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/safetext"
	"github.com/stoutlock/stout/lockapi"
)

// start is when the scenarios begin.
var start = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func ptr[T any](v T) *T { return &v }

// theCell returns a cell of the given size, with the given master or without
// one.
func theCell(size int, master string) lockapi.Cell {
	c := lockapi.Cell{Cell: "prod", Epoch: 3, Replicas: []lockapi.Replica{}}
	for i := range size {
		id := fmt.Sprintf("r%d", i+1)
		r := lockapi.Replica{ID: id, URL: "http://10.0.0." + id[1:] + ":7101", Role: lockapi.RoleReplica, Healthy: true, LastContactMS: 40, AppliedIndex: 1000}
		if master != "" {
			r.Promise = &lockapi.Promise{To: master, RemainingMS: 1700}
		}
		if id == master {
			r.Role = lockapi.RoleMaster
			c.Master = &lockapi.MasterRef{ID: id, URL: r.URL}
			c.Lease = lockapi.Lease{Held: true, TermMS: 2000, RemainingMS: 1500, RenewedAgoMS: 500}
			c.Sessions, c.Locks, c.Waiters, c.Files, c.ContentBytes = ptr(12), ptr(5), ptr(2), ptr(3), ptr(int64(2048))
		}
		c.Replicas = append(c.Replicas, r)
	}
	return c
}

func theMembers(tolerates string) Members {
	return Members{Text: "MEMBER  ROLE\nr1      master\n", Tolerates: tolerates}
}

func holder(session, name string, token uint64) lockapi.Holder {
	return lockapi.Holder{Session: session, SessionName: name, Mode: lockapi.Exclusive, Token: token, GrantedAt: at(-90)}
}

func held(path string, waiters int, holders ...lockapi.Holder) lockapi.Lock {
	return lockapi.Lock{Path: path, State: lockapi.StateHeld, Mode: holders[0].Mode, Holders: holders, Waiters: waiters}
}

func all(of string) Part { return Part{Of: of, Began: start, At: start} }

func theLocks() []lockapi.Lock {
	shared := held("/pools/gpu", 0, holder("S4", "trainer-1", 104), holder("S5", "trainer-2", 105))
	shared.Mode, shared.Limit = lockapi.Shared, 5
	return []lockapi.Lock{
		held("/db/primary", 3, holder("S1", "db-1.example", 101)),
		{Path: "/deploy", State: lockapi.StateDelayed, DelayRemainingMS: 12_000},
		held("/jobs/nightly/backup", 0, holder("S2", "cron@batch-1", 102)),
		held("/jobs/nightly/vacuum", 1, holder("S3", "cron@batch-2", 103)),
		shared,
	}
}

func theSession(id, name string, left int64) lockapi.SessionState {
	return lockapi.SessionState{Session: lockapi.Session{ID: id, Name: name, TTLMS: 12_000, Epoch: 3, CreatedAt: at(-3700)}, LeaseRemainingMS: &left,
		Holds: []lockapi.Hold{{Path: "/db/primary", Mode: lockapi.Exclusive, Token: 101}}}
}

func lockEventOf(typ lockapi.EventType, revision uint64, path, session, name string, token uint64, reason string) lockapi.CellEvent {
	return lockapi.CellEvent{Revision: revision, Type: typ, Path: path, Reason: reason, Hold: &lockapi.EventHold{Session: session, SessionName: name, Mode: lockapi.Exclusive, Token: token}}
}

// well is a model of a cell of three that is well.
func well() []step {
	return []step{
		ticked(start), looked(start, Look{Cell: theCell(3, "r1"), Replicas: "REPLICA  ROLE\nr1       master\n"}), membered(theMembers("one more failure")),
		locksRead(all(""), theLocks()),
		sessionsRead(all(""), []lockapi.SessionState{theSession("S1", "db-1.example", 11_000), theSession("S2", "cron@batch-1", 2_000)}),
		dirRead(all("/"), []client.DirEntry{{Path: "/app/"}, {Path: "/motd", File: &client.File{FileStat: lockapi.FileStat{Path: "/motd", Size: 12, Generation: 2, ModifiedAt: at(-60), CreatedAt: at(-600), Principal: "user:ops"}}}}),
	}
}

func keys(names ...string) []step {
	var out []step
	for _, name := range names {
		out = append(out, key(name))
	}
	return out
}

// script is steps one after the other; single ones or lists of them.
func script(parts ...any) []step {
	var out []step
	for _, p := range parts {
		if list, ok := p.([]step); ok {
			out = append(out, list...)
		} else {
			out = append(out, p.(step))
		}
	}
	return out
}

// shown is the screen after steps, having seen to it that it fits and that
// nothing in it would be obeyed.
func shown(t *testing.T, colour bool, width, height int, steps []step) string {
	t.Helper()
	m := newModel(colour)
	sized(width, height)(m)
	for _, do := range steps {
		do(m)
		m.screen()
	}
	view := m.screen()
	lines := strings.Split(view, "\n")
	if len(lines) != height {
		t.Errorf("%d lines on a screen of %d", len(lines), height)
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > width {
			t.Errorf("%d columns on a screen of %d: %q", w, width, line)
		}
		if i := strings.IndexFunc(ansi.Strip(line), safetext.Hidden); i >= 0 {
			t.Errorf("what a terminal obeys is in %q", line)
		}
	}
	return view
}

// However many directories come and go, no more rows are kept than are listed.
func TestDirectoriesAreBounded(t *testing.T) {
	m := newModel(false)
	dirRead(Part{Of: "/", At: time.Now()}, nil)(m)
	for i := range mostListed + 10 {
		m.fileEvent(time.Now(), lockapi.CellEvent{Type: lockapi.EventFileCreated, Path: fmt.Sprintf("/%d/x", i)})
	}
	if n := len(m.files.records); n != mostListed {
		t.Errorf("%d rows", n)
	}
}

// TestLeaseOfAnOldLook: a look that is older than what was left of the lease then does
// not tell that it has run out.
func TestLeaseOfAnOldLook(t *testing.T) {
	t.Parallel()
	got := shown(t, false, 80, 24, append(well(), ticked(at(2))))
	if !strings.Contains(got, "lease     held when last seen, 2.0s ago") || strings.Contains(got, "0.0s of") {
		t.Error(got)
	}
}

// TestTurnIsNotToldWithoutMaster checks that a note about a new master
// disappears without a master.
func TestTurnIsNotToldWithoutMaster(t *testing.T) {
	turn := script(well(), happened(at(4), lockapi.CellEvent{Revision: 50, Type: lockapi.EventMasterChanged, Master: &lockapi.EventMaster{Epoch: 4, Master: "r2"}}))
	for name, tt := range map[string]struct {
		look Look
		told bool
	}{"r2 is": {Look{Cell: theCell(3, "r2")}, true}, "nobody is": {noMasterLook(), false}} {
		screen := shown(t, false, 80, 24, script(turn, looked(at(5), tt.look), ticked(at(5))))
		if strings.Contains(screen, "r2 is master now") != tt.told {
			t.Errorf("%s:\n%s", name, screen)
		}
	}
}

// TestHolderAtSixty checks that the holder of a lock has priority over a long
// path.
func TestHolderAtSixty(t *testing.T) {
	for width, want := range map[int]bool{60: true, 59: false, 80: true} {
		if screen := shown(t, false, width, 24, script(well(), keys("2"))); strings.Contains(screen, "HOLDER") != want {
			t.Errorf("%d columns:\n%s", width, screen)
		}
	}
}

// TestDeniedWhereItMatters: what takes no right to observe is not denied.
func TestDeniedWhereItMatters(t *testing.T) {
	denied := []step{ticked(start), lost(start, &Trouble{Text: "Denied.", Denied: true}), locksRead(all(""), theLocks())}
	for key, want := range map[string]string{"1": "DENIED", "2": "live", "3": "DENIED", "4": "live", "5": "live", "6": "DENIED"} {
		head, _, _ := strings.Cut(shown(t, false, 80, 24, script(denied, keys(key))), "\n")
		if !strings.HasSuffix(strings.TrimSpace(head), want) {
			t.Errorf("page %s: %q, want %s", key, head, want)
		}
	}
	head, _, _ := strings.Cut(shown(t, false, 80, 24, script(denied, keys("2"), unheard(&Trouble{Text: "Denied.", Denied: true}))), "\n")
	if !strings.HasSuffix(strings.TrimSpace(head), "DENIED") {
		t.Errorf("without events: %q", head)
	}
}

// step is a reading of the cell, an event or a key.
type step = func(*Model)

func ticked(at time.Time) step { return func(m *Model) { m.Update(tick(at)) } }

func sized(width, height int) step {
	return func(m *Model) { m.Update(tea.WindowSizeMsg{Width: width, Height: height}) }
}

func key(name string) step { return func(m *Model) { m.press(name, name) } }

func told(c change) step { return func(m *Model) { m.Update(occurred{c}) } }

func looked(at time.Time, look Look) step { return told(func(m *Model) { m.looked(at, look, nil) }) }

func lost(at time.Time, err *Trouble) step {
	return told(func(m *Model) { m.looked(at, Look{}, err) })
}

func membered(members Members) step {
	return told(func(m *Model) { m.noMembers, m.members, m.membersAt = nil, members, start })
}

func happened(at time.Time, events ...lockapi.CellEvent) step {
	return told(func(m *Model) {
		for _, e := range events {
			m.happened(at, e)
		}
	})
}

func missed(at time.Time) step { return told(func(m *Model) { m.miss(at) }) }

func unheard(err *Trouble) step { return told(func(m *Model) { m.unheard = err }) }

// Part describes a reading of a list.
type Part struct {
	Of        string
	Began, At time.Time
	Cut       bool
	Err       *Trouble
}

// of returns the content of a list.
func of[T any](m *Model, p Part, items []T) content[T] {
	return content[T]{scope: scope{of: p.Of, missed: m.missed, whole: true}, began: p.Began, at: p.At, items: items, cut: p.Cut, err: p.Err}
}

func locksRead(p Part, locks []lockapi.Lock) step {
	return told(func(m *Model) { m.locks.add(m, of(m, p, locks)) })
}

func sessionsRead(p Part, sessions []lockapi.SessionState) step {
	return told(func(m *Model) { m.sessions.add(m, of(m, p, sessions)) })
}

func dirRead(p Part, entries []client.DirEntry) step {
	return told(func(m *Model) { m.files.add(m, of(m, p, entries)) })
}

func detailRead(of Subject, text string, err *Trouble) step {
	return func(m *Model) {
		if of == m.detail {
			m.read = reading{of: of, at: start, text: text, err: err}
		}
	}
}

// newModel returns a model that reads nothing by itself.
func newModel(colour bool) *Model {
	m := New(nil, nil, colour, time.UTC)
	m.jobs = nil
	return m
}
