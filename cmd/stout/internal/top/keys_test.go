package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// model is one after steps.
func model(steps ...any) *Model {
	m := newModel(false)
	sized(80, 24)(m)
	for _, do := range script(steps...) {
		do(m)
		m.screen()
	}
	return m
}

// manyLocks is a list of so many.
func manyLocks(n int) step {
	var locks []lockapi.Lock
	for i := range n {
		locks = append(locks, held(fmt.Sprintf("/d%02d/lock-%05d", i/500, i), i%3, holder(fmt.Sprint("S", i), fmt.Sprintf("worker-%d", i), uint64(i+1))))
	}
	return locksRead(all(""), locks)
}

// For any keys at any time, the screen fits and the driver only reads.
func TestAnyKeys(t *testing.T) {
	all := []string{"1", "2", "3", "4", "5", "6", "tab", "shift+tab", "j", "k", "up", "down", "pgup", "pgdown", "g", "G", "/", "s", "S", "r", "enter", "esc",
		"backspace", "p", "?", "space", "h", "l", "x", "ctrl+u", "\u202e", "世"}
	heard := script(well(), nastyThings(), lockDetail(), missed(at(1)), lost(at(2), unreachable), looked(at(3), noMasterLook()), ticked(at(40)),
		told(func(m *Model) { m.noMembers = unreachable }), locksRead(Part{Err: unreachable}, nil), dirRead(since3("/app/"), nil), unheard(unreachable))
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rapid.Bool().Draw(rt, "colour"))
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				sized(rapid.IntRange(1, 120).Draw(rt, "width"), rapid.IntRange(1, 40).Draw(rt, "height"))(m)
			case 1, 2:
				heard[rapid.IntRange(0, len(heard)-1).Draw(rt, "heard")](m)
			default:
				key(rapid.SampledFrom(all).Draw(rt, "key"))(m)
			}
			if lines := strings.Count(m.screen(), "\n") + 1; m.height > 0 && lines != m.height {
				rt.Fatalf("%d lines on a screen of %d", lines, m.height)
			}
			m.locks.of(m)
			m.doubtful()
		}
	})
}

func since3(dir string) Part { return Part{Of: dir, Began: at(3), At: at(3)} }

// With ten thousand locks only the visible ones are formatted, and few of them
// are read again, at any scroll position.
func TestTenThousandLocks(t *testing.T) {
	m := model(well(), manyLocks(10_000), keys("2"))
	if n := len(m.locks.rows(m)); n < 10_000 || n > 10_100 {
		t.Fatalf("%d rows", n)
	}
	for _, where := range [][]string{{"G"}, {"g"}, {"pgdown", "pgdown", "pgdown"}, {"G", "pgup", "k"}} {
		key("g")(m)
		for _, press := range keys(where...) {
			press(m)
			m.screen()
		}
		again := m.doubtful()
		if len(again) == 0 || len(again) > mostAgain {
			t.Errorf("%v: %d locks are to be read again", where, len(again))
		}
		for _, path := range again {
			row := m.locks.records[path]
			if row.item.Waiters == 0 || !strings.Contains(m.screen(), path[strings.LastIndexByte(path, '/')+1:]) {
				t.Errorf("%v: %s is to be read again, out of sight or for nothing", where, path)
			}
		}
	}
	// The cursor stays on its lock when others come before it.
	key("G")(m)
	m.screen()
	before := m.locks.rowKey(m.locks.rows(m)[m.locks.cur.at])
	happened(at(1), lockEventOf(lockapi.EventLockAcquired, 5, "/a", "S", "first", 9, ""))(m)
	m.screen()
	if after := m.locks.rowKey(m.locks.rows(m)[m.locks.cur.at]); after != before || !m.locks.records["/a"].doubt {
		t.Errorf("the cursor went from %s to %s", before, after)
	}
}

// A list that was cut is asked for anew by the path that is searched for, once
// that is typed.
func TestSearchAsksTheCell(t *testing.T) {
	cut := all("")
	cut.Cut = true
	m := model(well(), locksRead(cut, theLocks()), keys("2", "/", "/", "z"))
	if of := m.locks.of(m); of != "" {
		t.Errorf("%q is asked for while it is typed", of)
	}
	key("enter")(m)
	if of := m.locks.of(m); of != "/z" {
		t.Errorf("%q is asked for", of)
	}
	locksRead(all("/z"), []lockapi.Lock{held("/z/1", 0, holder("S", "zoe", 5))})(m)
	if got := m.screen(); !strings.Contains(got, "zoe") || strings.Contains(got, "/db/primary") {
		t.Errorf("it shows\n%s", got)
	}
	key("esc")(m)
	if of := m.locks.of(m); of != "" {
		t.Errorf("%q is still asked for", of)
	}
	// One that is whole is searched as it is.
	whole := model(well(), keys("2", "/", "/", "d", "b", "enter"))
	if of := whole.locks.of(whole); of != "" {
		t.Errorf("%q is asked for, of a list that is known", of)
	}
}

// A pause loses nothing: later messages are shown after it.
func TestPause(t *testing.T) {
	m := model(well(), keys("2", "p"))
	if !m.paused {
		t.Error("lists are still asked for")
	}
	frozen := strings.Split(m.screen(), "\n")[2:]
	ticked(at(5))(m)
	happened(at(5), lockEventOf(lockapi.EventLockAcquired, 5, "/during", "S", "late", 9, ""))(m)
	for i := range 3 {
		looked(at(float64(i)), Look{Cell: theCell(3, "r2")})(m)
	}
	if now := strings.Split(m.screen(), "\n")[2:]; !slices.Equal(frozen, now) {
		t.Errorf("it has changed to\n%s", strings.Join(now, "\n"))
	}
	if len(m.held) != 4 {
		t.Errorf("%d messages are kept", len(m.held))
	}
	key("p")(m)
	if got := m.screen(); !strings.Contains(got, "/during") || !strings.Contains(got, "r2 is master now") || m.paused {
		t.Errorf("after it there is\n%s", got)
	}
	// Messages beyond the limit are reported as missed, and read again.
	key("p")(m)
	for i := range mostEvents + 10 {
		happened(at(6), lockEventOf(lockapi.EventLockAcquired, uint64(10+i), "/x", "S", "s", 9, ""))(m)
	}
	missed := m.missed
	if key("p")(m); m.missed != missed+1 || len(m.events.records) > mostEvents {
		t.Errorf("what was dropped is not read again: %d, %d events", m.missed, len(m.events.records))
	}
}

// A reading that began before an event does not undo that event.
func TestEventsAndReadings(t *testing.T) {
	m := model(well(), ticked(at(2)), happened(at(2), lockEventOf(lockapi.EventLockReleased, 5, "/db/primary", "S1", "db-1.example", 101, "released")))
	locksRead(Part{Began: at(1), At: at(3)}, theLocks())(m)
	if row := m.locks.records["/db/primary"]; len(row.item.Holders) != 0 || !row.doubt {
		t.Errorf("it is %+v", row)
	}
	m.locks.put(held("/db/primary", 0, holder("S9", "db-9", 200)), at(3), at(3))
	if row := m.locks.records["/db/primary"]; row.doubt || row.item.Holders[0].SessionName != "db-9" {
		t.Errorf("it is %+v", row)
	}
	// Entries missing from a complete reading are removed, except those changed
	// since its beginning.
	happened(at(5), lockEventOf(lockapi.EventLockAcquired, 9, "/newer", "S", "s", 9, ""))(m)
	locksRead(Part{Began: at(4), At: at(6)}, nil)(m)
	if len(m.locks.records) != 1 || m.locks.records["/newer"] == nil {
		t.Errorf("left are %v", m.locks.records)
	}
	// A lock that is freed is seen for a while.
	happened(at(6), lockEventOf(lockapi.EventLockReleased, 10, "/newer", "S", "s", 9, "released"))(m)
	if ticked(at(7))(m); m.locks.records["/newer"] == nil {
		t.Error("it is gone at once")
	}
	if ticked(at(30))(m); m.locks.records["/newer"] != nil {
		t.Error("it never goes")
	}
}

// In files enter goes down and esc up, to where one came from, and events change
// what is shown.
func TestDirectories(t *testing.T) {
	m := model(well(), keys("4", "enter"))
	if m.dir != "/app/" {
		t.Fatalf("it is in %s", m.dir)
	}
	stat := func(path string) *client.File { return &client.File{FileStat: lockapi.FileStat{Path: path, Size: 1}} }
	dirRead(all("/"), nil)(m) // too late
	dirRead(all("/app/"), []client.DirEntry{{Path: "/app/a", File: stat("/app/a")}, {Path: "/app/b", File: stat("/app/b")}})(m)
	event := func(typ lockapi.EventType, path string) step {
		return happened(at(1), lockapi.CellEvent{Revision: 1, Type: typ, Path: path, File: &lockapi.File{FileStat: lockapi.FileStat{Path: path, Size: 5000}}})
	}
	for _, e := range []step{event(lockapi.EventFileDeleted, "/app/a"), event(lockapi.EventFileCreated, "/app/deep/er"), event(lockapi.EventFileChanged, "/app/b"), event(lockapi.EventFileCreated, "/other")} {
		e(m)
	}
	var paths []string
	for _, row := range m.files.rows(m) {
		paths = append(paths, row.item.Path)
	}
	if !slices.Equal(paths, []string{"/app/b", "/app/deep/"}) || m.files.records["/app/b"].item.File.Size != 5000 {
		t.Errorf("it has %q", paths)
	}
	key("esc")(m)
	dirRead(all("/"), []client.DirEntry{{Path: "/a"}, {Path: "/app/"}, {Path: "/b"}})(m)
	m.screen()
	if m.dir != "/" || m.files.rows(m)[m.files.cur.at].item.Path != "/app/" {
		t.Errorf("it is in %s at %d", m.dir, m.files.cur.at)
	}
}

// An open subject is read after an event about it, and another subject's
// reading is not mixed up with it.
func TestClosely(t *testing.T) {
	m := model(well(), keys("2", "enter"))
	if m.detail != (Subject{Lock, "/db/primary"}) || m.readAgain() != nil {
		t.Fatalf("open is %+v", m.detail)
	}
	detailRead(Subject{Lock, "/other"}, "not this", nil)(m)
	if strings.Contains(m.screen(), "not this") {
		t.Error("another lock's reading is shown")
	}
	for path, want := range map[string]bool{"/other": false, "/db/primary": true} {
		m.unread = false
		happened(at(1), lockEventOf(lockapi.EventLockContended, 5, path, "S", "s", 0, ""))(m)
		if m.unread != want {
			t.Errorf("%s: it is read again: %t", path, m.unread)
		}
	}
	if key("esc")(m); m.detail.Kind != "" {
		t.Error("esc does not lead back")
	}
	if key("q")(m); !m.over {
		t.Error("q does not end it")
	}
}

// The cursor stays on the newest event, or else on the same older event.
func TestEventsScroll(t *testing.T) {
	event := func(n uint64) step {
		return happened(at(1), lockEventOf(lockapi.EventLockAcquired, n, fmt.Sprintf("/n%d", n), "S", "s", n, ""))
	}
	m := model(well(), event(1), event(2), event(3), keys("5"))
	event(4)(m)
	if m.screen(); m.events.rows(m)[m.events.cur.at].item.Revision != 4 {
		t.Error("it stays behind")
	}
	key("j")(m)
	m.screen()
	event(5)(m)
	if m.screen(); m.events.rows(m)[m.events.cur.at].item.Revision != 3 {
		t.Errorf("it has gone to %d", m.events.rows(m)[m.events.cur.at].item.Revision)
	}
}
