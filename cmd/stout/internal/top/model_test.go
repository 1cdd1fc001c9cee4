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
func well() []any {
	return []any{
		Tick(start), Looked{At: start, Look: Look{Cell: theCell(3, "r1"), Replicas: "REPLICA  ROLE\nr1       master\n"}}, Membered{At: start, Members: theMembers("one more failure")},
		LocksRead{all(""), theLocks()},
		SessionsRead{all(""), []lockapi.SessionState{theSession("S1", "db-1.example", 11_000), theSession("S2", "cron@batch-1", 2_000)}},
		DirRead{all("/"), []client.DirEntry{{Path: "/app/"}, {Path: "/motd", File: &client.File{FileStat: lockapi.FileStat{Path: "/motd", Size: 12, Generation: 2, ModifiedAt: at(-60), CreatedAt: at(-600), Principal: "user:ops"}}}}},
	}
}

func keys(names ...string) []any {
	var out []any
	for _, name := range names {
		out = append(out, Key{Name: name, Text: name})
	}
	return out
}

// script is messages one after the other; single ones or lists of them.
func script(parts ...any) []any {
	var out []any
	for _, p := range parts {
		if list, ok := p.([]any); ok {
			out = append(out, list...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// shown is the screen after messages, having seen to it that it fits and that
// nothing in it would be obeyed.
func shown(t *testing.T, colour bool, width, height int, messages []any) string {
	t.Helper()
	m := newModel(colour)
	send(m, Size{width, height})
	for _, msg := range messages {
		send(m, msg)
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
	send(m, DirRead{Part: Part{Of: "/", At: time.Now()}})
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
	got := shown(t, false, 80, 24, append(well(), Tick(at(2))))
	if !strings.Contains(got, "lease     held when last seen, 2.0s ago") || strings.Contains(got, "0.0s of") {
		t.Error(got)
	}
}

// TestTurnIsNotToldWithoutMaster checks that a note about a new master
// disappears without a master.
func TestTurnIsNotToldWithoutMaster(t *testing.T) {
	turn := script(well(), Happened{at(4), []lockapi.CellEvent{{Revision: 50, Type: lockapi.EventMasterChanged, Master: &lockapi.EventMaster{Epoch: 4, Master: "r2"}}}})
	for name, tt := range map[string]struct {
		look Look
		told bool
	}{"r2 is": {Look{Cell: theCell(3, "r2")}, true}, "nobody is": {noMasterLook(), false}} {
		screen := shown(t, false, 80, 24, script(turn, Looked{At: at(5), Look: tt.look}, Tick(at(5))))
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
	denied := []any{Tick(start), Looked{At: start, Err: &Trouble{Text: "Denied.", Denied: true}}, LocksRead{all(""), theLocks()}}
	for key, want := range map[string]string{"1": "DENIED", "2": "live", "3": "DENIED", "4": "live", "5": "live", "6": "DENIED"} {
		head, _, _ := strings.Cut(shown(t, false, 80, 24, script(denied, keys(key))), "\n")
		if !strings.HasSuffix(strings.TrimSpace(head), want) {
			t.Errorf("page %s: %q, want %s", key, head, want)
		}
	}
	head, _, _ := strings.Cut(shown(t, false, 80, 24, script(denied, keys("2"), Unheard{At: start, Err: &Trouble{Text: "Denied.", Denied: true}})), "\n")
	if !strings.HasSuffix(strings.TrimSpace(head), "DENIED") {
		t.Errorf("without events: %q", head)
	}
}

// Messages of the scenarios: what was read of a cell, and what the user does.
type (
	Tick   time.Time
	Size   struct{ Width, Height int }
	Key    struct{ Name, Text string }
	Looked struct {
		At   time.Time
		Look Look
		Err  *Trouble
	}
	Membered struct {
		At      time.Time
		Members Members
		Err     *Trouble
	}
	Happened struct {
		At     time.Time
		Events []lockapi.CellEvent
	}
	Missed  struct{ At time.Time }
	Unheard struct {
		At  time.Time
		Err *Trouble
	}
	LocksRead struct {
		Part
		Locks []lockapi.Lock
	}
	AgainRead struct {
		At    time.Time
		Locks []lockapi.Lock
	}
	SessionsRead struct {
		Part
		Sessions []lockapi.SessionState
	}
	DirRead struct {
		Part
		Entries []client.DirEntry
	}
	DetailRead struct {
		Of   Subject
		Text string
		Err  *Trouble
	}
	// Part describes a reading of a list.
	Part struct {
		Of        string
		Began, At time.Time
		Cut       bool
		Err       *Trouble
	}
)

// of returns the content of a list.
func of[T any](m *Model, p Part, items []T) content[T] {
	return content[T]{scope: scope{of: p.Of, missed: m.missed, whole: true}, began: p.Began, at: p.At, items: items, cut: p.Cut, err: p.Err}
}

// send gives a model one message.
func send(m *Model, msg any) {
	switch msg := msg.(type) {
	case Tick:
		m.Update(tick(msg))
	case Size:
		m.Update(tea.WindowSizeMsg{Width: msg.Width, Height: msg.Height})
	case Key:
		m.press(msg.Name, msg.Text)
	case DetailRead:
		if msg.Of == m.detail {
			m.read = reading{of: msg.Of, at: start, text: msg.Text, err: msg.Err}
		}
	default:
		m.Update(occurred{func(m *Model) { apply(m, msg) }})
	}
}

func apply(m *Model, msg any) {
	switch msg := msg.(type) {
	case Looked:
		m.looked(msg.At, msg.Look, msg.Err)
	case Membered:
		if m.noMembers = msg.Err; msg.Err == nil {
			m.members, m.membersAt = msg.Members, msg.At
		}
	case Happened:
		for _, e := range msg.Events {
			m.happened(msg.At, e)
		}
	case Missed:
		m.miss(msg.At)
	case Unheard:
		m.unheard = msg.Err
	case LocksRead:
		m.locks.add(m, of(m, msg.Part, msg.Locks))
	case AgainRead:
		for _, l := range msg.Locks {
			m.locks.put(l, msg.At, msg.At)
		}
	case SessionsRead:
		m.sessions.add(m, of(m, msg.Part, msg.Sessions))
	case DirRead:
		m.files.add(m, of(m, msg.Part, msg.Entries))
	}
}

// newModel returns a model that reads nothing by itself.
func newModel(colour bool) *Model {
	m := New(nil, nil, colour, time.UTC)
	m.jobs = nil
	return m
}
