package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

var rewrite = flag.Bool("rewrite", false, "record what the screens are now")

// nasty is what a terminal would obey, or not show; wide is letters of two columns
// and ones that combine.
const (
	nasty = "x\x1b[2J\u009b2J\x1b]0;t\a\u202e\u2066\u200b\ufe0f\r\nall is well\x7f\xff"
	wide  = "/数据库/主节点/e\u0301te\u0301/👩‍👩‍👧‍👦/한국어"
)

var unreachable = &Trouble{Text: "No replica can be reached.", More: []string{"http://10.0.0.1:7101: connection refused", "http://10.0.0.2:7101: no answer within 5s", "hint: name the replicas' API addresses with --server or STOUT_SERVER; is stoutd running there?"}}

// noMasterLook is what is seen of a cell that has lost two of three.
func noMasterLook() Look {
	c := theCell(3, "")
	c.Replicas[1].Healthy, c.Replicas[2].Healthy = false, false
	return Look{Cell: c, Findings: []string{"r2 does not answer (connection refused); last seen 14s ago", "r3 answers but is not ready: it has no master"}}
}

// withAccess is a cell with nothing in it, and access on.
func withAccess() step {
	c := theCell(3, "r1")
	c.Access = true
	return looked(start, Look{Cell: c})
}

// deafLook returns a cell with one replica that answers but does not reach the
// master.
func deafLook() Look {
	c := theCell(3, "r1")
	c.Replicas[2].Promise, c.Replicas[2].LastContactMS = nil, 8000
	return Look{Cell: c, Findings: []string{"r3 answers but does not reach the master: no master is known; last contact 8s ago"}, Unreached: []string{"r3"}}
}

func nastyThings() []step {
	l := held("/a\u202eb\u2066\u00a0\ufeff\u200b\u2028", 1, lockapi.Holder{Session: nasty, SessionName: nasty, Mode: nasty, Token: 1, GrantedAt: start})
	s := theSession(nasty, nasty, 5000)
	s.Principal = nasty
	cell := theCell(2, "r1")
	cell.Cell, cell.Replicas[1].ID, cell.Replicas[1].URL, cell.Replicas[1].Role, cell.Replicas[0].Promise.To = nasty, nasty, nasty, nasty, nasty
	cell.Master.ID, cell.Master.URL = nasty, nasty
	link := lockapi.DeadlockLink{Session: nasty, SessionName: nasty, Path: nasty, Mode: nasty, Token: 9}
	return []step{
		ticked(start), looked(start, Look{Cell: cell}),
		membered(Members{Cycles: []lockapi.Deadlock{{Links: []lockapi.DeadlockLink{link, link}}}}),
		locksRead(all(""), []lockapi.Lock{l, held(wide, 0, holder("S", wide, 2)), held("/"+strings.Repeat("long/", 200)+"end", 0, holder("S", strings.Repeat("n", 128), 3))}),
		sessionsRead(all(""), []lockapi.SessionState{s, theSession("S9", wide, 9000)}),
		dirRead(all("/"), []client.DirEntry{{Path: "/" + nasty + "/"}, {Path: "/" + nasty, File: &client.File{FileStat: lockapi.FileStat{Path: "/" + nasty, Principal: nasty, Session: nasty}}}}),
		happened(start,
			lockEventOf(lockapi.EventLockAcquired, 7, wide, nasty, nasty, 9, ""), lockEventOf(lockapi.EventLockReleased, 8, nasty, nasty, nasty, 9, nasty),
			lockapi.CellEvent{Revision: 9, Type: nasty, Path: nasty}, lockapi.CellEvent{Revision: 10, Type: lockapi.EventMasterChanged, Master: &lockapi.EventMaster{Epoch: 4, Master: nasty}},
		),
	}
}

// lockDetail is what was read of /db/primary.
func lockDetail() step {
	return detailRead(Subject{Lock, "/db/primary"}, "/db/primary is held by db-1.example since 02:58:30, for 1m30s.\n"+
		"    Token 101, exclusive, session S1. Its session has 9.1s of 12s left.\n\nHistory, newest first:\n"+
		"    02:58:20  db-3.example (token 90) held it for 1d0h; expired: last keepalive at least 14s earlier, ttl 12s\n", nil)
}

// screens lists the scenarios; each name states its promise.
var screens = []struct {
	name  string
	steps []step
}{
	{"cell-well", well()},
	{"cell-lease-runs-out", script(well(), ticked(at(1)))},
	{"cell-of-one", script(ticked(start), looked(start, Look{Cell: theCell(1, "r1")}), membered(theMembers("no more failures")))},
	{"no-master", script(well(), ticked(at(2)), looked(at(2), noMasterLook()), unheard(&Trouble{Text: "no master"}))},
	{"cell-deaf", script(well(), ticked(at(2)), looked(at(2), deafLook()))},
	{"never-reached", script(ticked(start), lost(start, unreachable), ticked(at(3)))},
	{"lost-and-stale", script(well(), keys("2"), ticked(at(1)), lost(at(1), unreachable), lost(at(6), unreachable), ticked(at(13)))},
	{"found-again", script(well(), lost(at(1), unreachable), looked(at(9), Look{Cell: theCell(3, "r1")}), ticked(at(9)))},
	{"denied", script(ticked(start), lost(start, &Trouble{Text: "User:guest may not observe the cell.", Denied: true, More: []string{"hint: stout access whoami shows your principal"}}))},
	{"access-files", script(ticked(start), withAccess(), keys("4"), dirRead(all("/"), nil))},
	{"access-events", script(ticked(start), withAccess(), keys("5"))},
	{"fail-over", script(well(), ticked(at(4)), happened(at(4), lockapi.CellEvent{Revision: 50, Type: lockapi.EventMasterChanged, Master: &lockapi.EventMaster{Epoch: 4, Master: "r2"}}), looked(at(4), Look{Cell: theCell(3, "r2")}))},
	{"locks-tree", script(well(), keys("2"), ticked(at(4)))},
	{"locks-folded", script(well(), keys("2"), keys("j", "j", "enter"))},
	{"locks-by-queue", script(well(), keys("2", "s"))},
	{"locks-searched", script(well(), keys("2", "/", "c", "r", "o", "n", "enter"))},
	{"locks-search-typed", script(well(), keys("2", "/", "/", "j", "o"))},
	{"locks-change-by-events", script(well(), keys("2"), ticked(at(3)), happened(at(3),
		lockEventOf(lockapi.EventLockReleased, 60, "/db/primary", "S1", "db-1.example", 101, lockapi.ReasonReleased),
		lockEventOf(lockapi.EventLockAcquired, 61, "/db/primary", "S7", "db-2.example", 120, ""),
		lockEventOf(lockapi.EventLockReleased, 62, "/jobs/nightly/backup", "S2", "cron@batch-1", 102, lockapi.ReasonSessionExpired),
		lockEventOf(lockapi.EventLockAcquired, 63, "/new", "S8", "newcomer", 121, ""),
	))},
	{"lock-closely", script(well(), keys("2", "enter"), lockDetail())},
	{"lock-closely-old", script(well(), keys("2", "enter"), lockDetail(), ticked(at(20)))},
	{"sessions", script(well(), keys("3"), ticked(at(1)))},
	{"session-gone", script(well(), keys("3", "enter"), detailRead(Subject{Session, "S2"}, "", &Trouble{Text: "There is no such session any more."}))},
	{"files", script(well(), keys("4"))},
	{"file-closely", script(well(), keys("4", "j", "enter"), detailRead(Subject{File, "/motd"}, "size  12 bytes\n\nContent\n  "+strings.Repeat("word ", 30)+"\n", nil))},
	{"events", script(well(), keys("5"), happened(at(1),
		lockEventOf(lockapi.EventLockContended, 70, "/db/primary", "S3", "db-3.example", 0, ""),
		lockEventOf(lockapi.EventLockReleased, 71, "/db/primary", "S1", "db-1.example", 101, lockapi.ReasonSessionExpired),
		lockapi.CellEvent{Revision: 72, Type: lockapi.EventFileChanged, Path: "/app/conf", File: &lockapi.File{FileStat: lockapi.FileStat{Size: 5000, Generation: 9}}},
	))},
	{"members", script(well(), keys("6"))},
	{"members-in-a-cycle", script(well(), keys("6"), membered(Members{Text: "MEMBER\nr1\n", Cycles: []lockapi.Deadlock{{Links: []lockapi.DeadlockLink{
		{Session: "A", SessionName: "left", Path: "/x", Mode: lockapi.Exclusive, WaitingMS: 4000, Token: 7}, {Session: "B", SessionName: "right", Path: "/y", Mode: lockapi.Exclusive, WaitingMS: 3000, Token: 8}}}}}))},
	{"paused", script(well(), keys("2", "p"), ticked(at(30)), happened(at(10), lockEventOf(lockapi.EventLockReleased, 60, "/db/primary", "S1", "db-1.example", 101, "released")))},
	{"missed", script(well(), keys("2"), missed(at(1)), ticked(at(1)))},
	{"help", script(well(), keys("?"))},
	{"nasty-cell", script(nastyThings(), keys("1"))},
	{"nasty-locks", script(nastyThings(), keys("2"))},
	{"nasty-sessions", script(nastyThings(), keys("3"))},
	{"nasty-files", script(nastyThings(), keys("4"))},
	{"nasty-events", script(nastyThings(), keys("5"))},
	{"nasty-members", script(nastyThings(), keys("6"))},
	{"nasty-search", script(nastyThings(), keys("2", "/"), func(m *Model) { m.press("paste", nasty) })},
}

// onAll are the screens that are also recorded on a small and on a large terminal:
// the cell and one of each list.
var onAll = []string{"cell-well", "locks-by-queue", "sessions", "files", "events"}

// onSmall lists other screens with a different layout on a small terminal.
var onSmall = []string{"lock-closely", "lost-and-stale", "locks-search-typed", "nasty-cell", "nasty-locks"}

// TestScreens checks that each screen fits on a terminal of 80, 40 and 200
// columns, holds no control sequences, and is as recorded.
func TestScreens(t *testing.T) {
	for _, s := range screens {
		for _, size := range [][2]int{{80, 24}, {40, 20}, {200, 60}} {
			name := fmt.Sprintf("%s-%dx%d", s.name, size[0], size[1])
			t.Run(name, func(t *testing.T) {
				screen := shown(t, false, size[0], size[1], s.steps)
				if size[0] != 80 && !slices.Contains(onAll, s.name) && (size[0] == 200 || !slices.Contains(onSmall, s.name)) {
					return
				}
				got := regexp.MustCompile(` *\n`).ReplaceAllString(screen+"\n", "\n")
				got = regexp.MustCompile(`\n{3,}`).ReplaceAllString(got, "\n\n") // one blank line for any
				file := filepath.Join("testdata", name+".txt")
				if *rewrite {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, _ := os.ReadFile(file) // empty for a new screen
				if got != string(want) {
					t.Errorf("it is\n%s\nand was\n%s\nto record it: go test ./cmd/stout/internal/top -rewrite", got, want)
				}
			})
		}
	}
}

// Colour does not change the text. Unreadable sizes break nothing.
func TestColourSaysNothing(t *testing.T) {
	for _, s := range screens {
		plain, coloured := shown(t, false, 80, 24, s.steps), shown(t, true, 80, 24, s.steps)
		if got := stripped(coloured); got != stripped(plain) {
			t.Errorf("%s: in colour it says\n%s\nand else\n%s", s.name, got, plain)
		}
		if !strings.Contains(coloured, "\x1b[") || strings.Contains(plain, "\x1b") {
			t.Errorf("%s: no colour with it, or some without", s.name)
		}
		for _, size := range [][2]int{{1, 1}, {7, 3}, {20, 5}, {300, 2}} {
			shown(t, false, size[0], size[1], s.steps)
		}
	}
}

// stripped is text without its colours, and without blanks at its lines' ends.
func stripped(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		for {
			before, after, found := strings.Cut(line, "\x1b[")
			out.WriteString(before)
			if !found {
				break
			}
			_, line, _ = strings.Cut(after, "m")
		}
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n")
}
