package master

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

const (
	auto  = time.Minute
	early = 8 * time.Second // the master then polls the members every 2 s
)

// inAutoCell is a cell with automatic replacement of directories.
func inAutoCell(t *testing.T, n int, what func(t *testing.T, c *fakeCell)) {
	inCell(t, n, Options{Drift: drift, AutoReplace: auto}, what)
}

// inEarlyCell is inAutoCell with a shorter time.
func inEarlyCell(t *testing.T, n int, what func(t *testing.T, c *fakeCell)) {
	inCell(t, n, Options{Drift: drift, AutoReplace: early}, what)
}

// wipe lets a new directory answer in a member's place.
func wipe(f *fakeConf, id, directory string) {
	f.at[id] = directory
	if f.blank == nil {
		f.blank = map[string]bool{}
	}
	f.blank[directory] = true
}

// changes returns the changes made so far.
func changes(c *fakeCell) (out []string) {
	c.set(func(f *fakeConf) { out = slices.Clone(f.changes) })
	return out
}

func wantChanges(t *testing.T, c *fakeCell, want int) {
	t.Helper()
	if got := changes(c); len(got) != want {
		t.Errorf("%q, want %d changes", got, want)
	}
}

// TestAutoReplace: the replacement happens after the time is over, as Replace
// would do it.
func TestAutoReplace(t *testing.T) {
	inAutoCell(t, 3, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		pass(10 * time.Second)
		c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
		pass(auto - 10*time.Second)
		wantChanges(t, c, 0)
		pass(20 * time.Second)
		want := []string{"add as a nonvoter r2/" + newDirectory, "remove r2/" + founder("r2"), "make a voter r2/" + newDirectory}
		if got := changes(c); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		// The new directory may be lost as well.
		c.set(func(f *fakeConf) { wipe(f, "r2", "00000000000000bb") })
		pass(auto + 10*time.Second)
		if got := changes(c); len(got) != 6 || got[5] != "make a voter r2/00000000000000bb" {
			t.Errorf("%q", got)
		}
	})
}

// TestNotReplaced: the place is kept if the directory may return, or if the
// cell would be worse off.
func TestNotReplaced(t *testing.T) {
	testrun.Sequential(t)
	for name, happens := range map[string]func(*fakeConf){
		"nobody knocks":                      func(f *fakeConf) { delete(f.at, "r2") },
		"it is of some cell":                 func(f *fakeConf) { f.at["r2"] = newDirectory },
		"another member is away":             func(f *fakeConf) { wipe(f, "r2", newDirectory); delete(f.at, "r3") },
		"another member is wiped, too":       func(f *fakeConf) { wipe(f, "r2", newDirectory); wipe(f, "r3", "00000000000000bb") },
		"it answers with what is a member's": func(f *fakeConf) { wipe(f, "r2", founder("r3")) },
	} {
		for _, n := range []int{3, 5} { // five members have a majority without two
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				inEarlyCell(t, n, func(t *testing.T, c *fakeCell) {
					c.office("r1")
					c.set(happens)
					pass(10 * early)
					wantChanges(t, c, 0)
				})
			})
		}
	}
	t.Run("it is off", func(t *testing.T) {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			c.office("r1")
			c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
			pass(10 * auto)
			wantChanges(t, c, 0)
		})
	})
}

// TestAbsenceIsBroken: a directory that answers now and then is not gone.
func TestAbsenceIsBroken(t *testing.T) {
	inAutoCell(t, 3, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		for range testrun.Times(5, 5) {
			c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
			pass(auto - 10*time.Second)
			c.set(func(f *fakeConf) { f.at["r2"] = founder("r2") })
			pass(10 * time.Second)
		}
		wantChanges(t, c, 0)
	})
}

// TestOthersAreWellAllTheWhile: the time counts from when the last of the other
// voters is well again.
func TestOthersAreWellAllTheWhile(t *testing.T) {
	inEarlyCell(t, 5, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
		pass(early / 4)
		c.set(func(f *fakeConf) { delete(f.at, "r3") })
		pass(2 * early)
		c.set(func(f *fakeConf) { f.at["r3"] = founder("r3") })
		pass(early - 3*time.Second)
		wantChanges(t, c, 0)
		pass(10 * time.Second)
		wantChanges(t, c, 3)
	})
}

// TestAnswersToRaftAreHeard: a directory that answers the master's messages is
// not gone, even if another one answers the poll in its place.
func TestAnswersToRaftAreHeard(t *testing.T) {
	inEarlyCell(t, 3, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
		for range 10 {
			c.set(func(f *fakeConf) {
				f.members = slices.Clone(f.members) // readers keep the old slice
				f.members[1].Answers++
			})
			pass(early / 2)
		}
		wantChanges(t, c, 0)
		pass(2 * early)
		wantChanges(t, c, 3)
	})
}

// TestNextMasterCountsAnew: a master does not know what the previous one
// received.
func TestNextMasterCountsAnew(t *testing.T) {
	inAutoCell(t, 5, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		c.set(func(f *fakeConf) { wipe(f, "r2", newDirectory) })
		pass(auto - 10*time.Second)
		c.elect("r3")
		c.office("r3")
		pass(auto - 10*time.Second)
		wantChanges(t, c, 0)
		pass(20 * time.Second)
		wantChanges(t, c, 3)
	})
}

// TestNonvoterIsReplaced and stays a nonvoter.
func TestNonvoterIsReplaced(t *testing.T) {
	inMembersCellWith(t, 3, Options{Drift: drift, AutoReplace: auto}, func(t *testing.T, c *fakeCell, m *Master) {
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))))
		c.set(func(f *fakeConf) { wipe(f, "r4", newDirectory) })
		pass(auto + 10*time.Second)
		c.wantMembers(t, "replaced", m, "r1+", "r2+", "r3+", "r4")
		c.set(func(f *fakeConf) {
			if f.members[3].Directory != newDirectory {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
	})
}
