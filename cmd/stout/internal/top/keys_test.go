package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// model is one after messages.
func model(messages ...any) *Model {
	m := New(false, time.UTC)
	m.Update(Size{80, 24})
	for _, msg := range script(messages...) {
		m.Update(msg)
		m.View()
	}
	return m
}

// manyLocks is a list of so many, in parts as the cell gives them.
func manyLocks(n int) []any {
	var out []any
	p := Part{Began: start, At: start, First: true}
	for from := 0; from < n; from += 1000 {
		var locks []lockapi.Lock
		for i := from; i < min(n, from+1000); i++ {
			locks = append(locks, held(fmt.Sprintf("/d%02d/lock-%05d", i/500, i), i%3, holder(fmt.Sprint("S", i), fmt.Sprintf("worker-%d", i), uint64(i+1))))
		}
		p.Done = from+1000 >= n
		out = append(out, LocksRead{p, locks})
		p.First = false
	}
	return out
}

// For any keys at any time, the screen fits and the driver only reads.
func TestAnyKeys(t *testing.T) {
	all := []string{"1", "2", "3", "4", "5", "6", "tab", "shift+tab", "j", "k", "up", "down", "pgup", "pgdown", "g", "G", "/", "s", "S", "r", "enter", "esc",
		"backspace", "p", "?", "space", "h", "l", "x", "ctrl+u", "\u202e", "世"}
	told := script(well(), nastyThings(), lockDetail(), Missed{At: at(1)}, Looked{At: at(2), Err: unreachable}, Looked{At: at(3), Look: noMasterLook()}, Tick(at(40)),
		Membered{At: at(3), Err: unreachable}, LocksRead{Part{Err: unreachable}, nil}, DirRead{since3("/app/"), nil}, Unheard{At: at(3), Err: unreachable})
	rapid.Check(t, func(rt *rapid.T) {
		m := New(rapid.Bool().Draw(rt, "colour"), time.UTC)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				m.Update(Size{rapid.IntRange(1, 120).Draw(rt, "width"), rapid.IntRange(1, 40).Draw(rt, "height")})
			case 1, 2:
				m.Update(rapid.SampledFrom(told).Draw(rt, "told"))
			default:
				key := rapid.SampledFrom(all).Draw(rt, "key")
				m.Update(Key{Name: key, Text: key})
			}
			if lines := strings.Count(m.View(), "\n") + 1; m.height > 0 && lines != m.height {
				rt.Fatalf("%d lines on a screen of %d", lines, m.height)
			}
			m.Wanted()
		}
	})
}

func since3(dir string) Part { return Part{Of: dir, Began: at(3), At: at(3), First: true, Done: true} }

// With ten thousand locks only the visible ones are formatted, and few of them
// are read again, at any scroll position.
func TestTenThousandLocks(t *testing.T) {
	m := model(well(), manyLocks(10_000), keys("2"))
	if n := m.length(); n < 10_000 || n > 10_100 {
		t.Fatalf("%d rows", n)
	}
	for _, where := range [][]string{{"G"}, {"g"}, {"pgdown", "pgdown", "pgdown"}, {"G", "pgup", "k"}} {
		m.Update(Key{Name: "g"})
		for _, key := range where {
			m.Update(Key{Name: key})
			m.View()
		}
		again := m.Wanted().Again
		if len(again) == 0 || len(again) > mostAgain {
			t.Errorf("%v: %d locks are to be read again", where, len(again))
		}
		for _, path := range again {
			row := m.locks.rows[path]
			if row.Waiters == 0 || !strings.Contains(m.View(), path[strings.LastIndexByte(path, '/')+1:]) {
				t.Errorf("%v: %s is to be read again, out of sight or for nothing", where, path)
			}
		}
	}
	// The cursor stays on its lock when others come before it.
	m.Update(Key{Name: "G"})
	m.View()
	before := m.lockRows()[m.current().cursor].key()
	m.Update(Happened{at(1), []lockapi.CellEvent{lockEventOf(lockapi.EventLockAcquired, 5, "/a", "S", "first", 9, "")}})
	m.View()
	if after := m.lockRows()[m.current().cursor].key(); after != before || !m.locks.rows["/a"].doubt {
		t.Errorf("the cursor went from %s to %s", before, after)
	}
}

// A list that was cut is asked for anew by the path that is searched for, once
// that is typed.
func TestSearchAsksTheCell(t *testing.T) {
	cut := all("")
	cut.Cut = true
	m := model(well(), LocksRead{cut, theLocks()}, keys("2", "/", "/", "z"))
	if w := m.Wanted(); w.Prefix != "" {
		t.Errorf("%q is asked for while it is typed", w.Prefix)
	}
	m.Update(Key{Name: "enter"})
	if w := m.Wanted(); w.Prefix != "/z" {
		t.Errorf("%q is asked for", w.Prefix)
	}
	m.Update(LocksRead{all("/z"), []lockapi.Lock{held("/z/1", 0, holder("S", "zoe", 5))}})
	if got := m.View(); !strings.Contains(got, "zoe") || strings.Contains(got, "/db/primary") {
		t.Errorf("it shows\n%s", got)
	}
	m.Update(Key{Name: "esc"})
	if w := m.Wanted(); w.Prefix != "" {
		t.Errorf("%q is still asked for", w.Prefix)
	}
	// One that is whole is searched as it is.
	if w := model(well(), keys("2", "/", "/", "d", "b", "enter")).Wanted(); w.Prefix != "" {
		t.Errorf("%q is asked for, of a list that is known", w.Prefix)
	}
}

// A pause loses nothing: later messages are shown after it.
func TestPause(t *testing.T) {
	m := model(well(), keys("2", "p"))
	if !m.Wanted().Paused {
		t.Error("lists are still asked for")
	}
	frozen := strings.Split(m.View(), "\n")[2:]
	m.Update(Tick(at(5)))
	m.Update(Happened{at(5), []lockapi.CellEvent{lockEventOf(lockapi.EventLockAcquired, 5, "/during", "S", "late", 9, "")}})
	for i := range 3 {
		m.Update(Looked{At: at(float64(i)), Look: Look{Cell: theCell(3, "r2")}})
	}
	if now := strings.Split(m.View(), "\n")[2:]; !slices.Equal(frozen, now) {
		t.Errorf("it has changed to\n%s", strings.Join(now, "\n"))
	}
	if len(m.held) != 2 {
		t.Errorf("%d messages are kept", len(m.held))
	}
	m.Update(Key{Name: "p"})
	if got := m.View(); !strings.Contains(got, "/during") || !strings.Contains(got, "r2 is master now") || m.Wanted().Paused {
		t.Errorf("after it there is\n%s", got)
	}
	// Messages beyond the limit are reported as missed, and read again.
	m.Update(Key{Name: "p"})
	for i := range mostEvents + 10 {
		m.Update(Happened{at(6), []lockapi.CellEvent{lockEventOf(lockapi.EventLockAcquired, uint64(10+i), "/x", "S", "s", 9, "")}})
	}
	missed := m.Wanted().Missed
	if m.Update(Key{Name: "p"}); m.Wanted().Missed != missed+1 || len(m.events) > mostEvents {
		t.Errorf("what was dropped is not read again: %d, %d events", m.Wanted().Missed, len(m.events))
	}
}

// A reading that began before an event does not undo that event.
func TestEventsAndReadings(t *testing.T) {
	m := model(well(), Tick(at(2)), Happened{at(2), []lockapi.CellEvent{lockEventOf(lockapi.EventLockReleased, 5, "/db/primary", "S1", "db-1.example", 101, "released")}})
	m.Update(LocksRead{Part{Began: at(1), At: at(3), First: true, Done: true}, theLocks()})
	if row := m.locks.rows["/db/primary"]; len(row.Holders) != 0 || !row.doubt {
		t.Errorf("it is %+v", row)
	}
	m.Update(AgainRead{At: at(3), Locks: []lockapi.Lock{held("/db/primary", 0, holder("S9", "db-9", 200))}})
	if row := m.locks.rows["/db/primary"]; row.doubt || row.Holders[0].SessionName != "db-9" {
		t.Errorf("it is %+v", row)
	}
	// Entries missing from a complete reading are removed, except those changed
	// since its beginning.
	m.Update(Happened{at(5), []lockapi.CellEvent{lockEventOf(lockapi.EventLockAcquired, 9, "/newer", "S", "s", 9, "")}})
	m.Update(LocksRead{Part{Began: at(4), At: at(6), First: true, Done: true}, nil})
	if len(m.locks.rows) != 1 || m.locks.rows["/newer"] == nil {
		t.Errorf("left are %v", m.locks.rows)
	}
	// A lock that is freed is seen for a while.
	m.Update(Happened{at(6), []lockapi.CellEvent{lockEventOf(lockapi.EventLockReleased, 10, "/newer", "S", "s", 9, "released")}})
	if m.Update(Tick(at(7))); m.locks.rows["/newer"] == nil {
		t.Error("it is gone at once")
	}
	if m.Update(Tick(at(30))); m.locks.rows["/newer"] != nil {
		t.Error("it never goes")
	}
}

// In files enter goes down and esc up, to where one came from, and events change
// what is shown.
func TestDirectories(t *testing.T) {
	m := model(well(), keys("4", "enter"))
	if m.Wanted().Dir != "/app/" {
		t.Fatalf("it is in %s", m.Wanted().Dir)
	}
	stat := func(path string) *client.File { return &client.File{FileStat: lockapi.FileStat{Path: path, Size: 1}} }
	m.Update(DirRead{all("/"), nil}) // too late
	m.Update(DirRead{all("/app/"), []client.DirEntry{{Path: "/app/a", File: stat("/app/a")}, {Path: "/app/b", File: stat("/app/b")}}})
	event := func(typ lockapi.EventType, path string) Happened {
		return Happened{at(1), []lockapi.CellEvent{{Revision: 1, Type: typ, Path: path, File: &lockapi.File{FileStat: lockapi.FileStat{Path: path, Size: 5000}}}}}
	}
	for _, e := range []Happened{event(lockapi.EventFileDeleted, "/app/a"), event(lockapi.EventFileCreated, "/app/deep/er"), event(lockapi.EventFileChanged, "/app/b"), event(lockapi.EventFileCreated, "/other")} {
		m.Update(e)
	}
	var paths []string
	for _, row := range m.fileRows() {
		paths = append(paths, row.Path)
	}
	if !slices.Equal(paths, []string{"/app/b", "/app/deep/"}) || m.files.rows["/app/b"].File.Size != 5000 {
		t.Errorf("it has %q", paths)
	}
	m.Update(Key{Name: "esc"})
	m.Update(DirRead{all("/"), []client.DirEntry{{Path: "/a"}, {Path: "/app/"}, {Path: "/b"}}})
	m.View()
	if m.Wanted().Dir != "/" || m.fileRows()[m.current().cursor].Path != "/app/" {
		t.Errorf("it is in %s at %d", m.Wanted().Dir, m.current().cursor)
	}
}

// An open subject is read after an event about it, and another subject's
// reading is not mixed up with it.
func TestClosely(t *testing.T) {
	m := model(well(), keys("2", "enter"))
	w := m.Wanted()
	if w.Detail != (subject{lockKind, "/db/primary"}) || len(w.Again) > 0 {
		t.Fatalf("wanted is %+v", w)
	}
	m.Update(DetailRead{At: start, Of: subject{lockKind, "/other"}, Detailed: Detailed{Text: "not this"}})
	if strings.Contains(m.View(), "not this") {
		t.Error("another lock's reading is shown")
	}
	for path, want := range map[string]int{"/other": 0, "/db/primary": 1} {
		before := m.Wanted().Nudge
		m.Update(Happened{at(1), []lockapi.CellEvent{lockEventOf(lockapi.EventLockContended, 5, path, "S", "s", 0, "")}})
		if got := m.Wanted().Nudge - before; got != want {
			t.Errorf("%s: it is read again %d times", path, got)
		}
	}
	if m.Update(Key{Name: "esc"}); m.Wanted().Detail.Kind != noKind {
		t.Error("esc does not lead back")
	}
	if m.Update(Key{Name: "q"}); !m.Over() {
		t.Error("q does not end it")
	}
}

// The cursor stays on the newest event, or else on the same older event.
func TestEventsScroll(t *testing.T) {
	event := func(n uint64) Happened {
		return Happened{at(1), []lockapi.CellEvent{lockEventOf(lockapi.EventLockAcquired, n, fmt.Sprintf("/n%d", n), "S", "s", n, "")}}
	}
	m := model(well(), event(1), event(2), event(3), keys("5"))
	m.Update(event(4))
	if m.View(); m.eventRows()[m.current().cursor].Revision != 4 {
		t.Error("it stays behind")
	}
	m.Update(Key{Name: "j"})
	m.View()
	m.Update(event(5))
	if m.View(); m.eventRows()[m.current().cursor].Revision != 3 {
		t.Errorf("it has gone to %d", m.eventRows()[m.current().cursor].Revision)
	}
}

// BenchmarkTenThousandLocks is a screen of ten thousand locks after an event.
func BenchmarkTenThousandLocks(b *testing.B) {
	m := model(well(), manyLocks(10_000), keys("2"))
	for b.Loop() {
		m.Update(Happened{at(1), []lockapi.CellEvent{lockEventOf(lockapi.EventLockContended, 5, "/d00/lock-00001", "S", "s", 0, "")}})
		m.View()
	}
}
