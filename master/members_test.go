package master

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

const newDirectory = "00000000000000aa"

func replaceBy(directory string) lockapi.ReplaceMemberRequest {
	return lockapi.ReplaceMemberRequest{Directory: directory}
}

func replaceMember(t *testing.T, m *Master, id, directory string) error {
	return second(m.ReplaceMember(t.Context(), &Caller{}, &lockapi.ReplaceMember{ID: id, ReplaceMemberRequest: replaceBy(directory)}))
}

// TestReplaceIsFinished: the new directory is added. When it has caught up, the
// old one is removed before the new one votes.
func TestReplaceIsFinished(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		write(t, m, members.MaxLag+10)
		c.set(func(f *fakeConf) { f.at["r2"] = newDirectory; f.behind[newDirectory] = 1 << 20 })
		must(t, replaceMember(t, m, "r2", newDirectory))
		if list, err := m.GetURLs(t.Context(), &Read{}, &lockapi.GetURLs{}); err != nil || len(list.Replicas) != 3 || list.CellID == "" || list.Replicas[0].ID != "r1" {
			t.Errorf("%+v, %v", list, err) // one URL for each name
		}
		if list, err := m.ListMembers(t.Context(), &Read{}, &lockapi.ListMembers{}); err != nil || len(list.Members) != 4 || list.Tolerates != 0 || list.Members[3].Suffrage != lockapi.SuffrageNonvoter || list.Members[3].Role != lockapi.RoleReplica {
			t.Errorf("%+v, %v", list, err)
		}
		pass(5 * time.Second)
		c.set(func(f *fakeConf) {
			if len(f.changes) != 1 {
				t.Errorf("before it has caught up: %v", f.changes)
			}
			f.behind[newDirectory] = 0
		})
		pass(time.Second)
		c.set(func(f *fakeConf) {
			want := []string{"add as a nonvoter r2/" + newDirectory, "remove r2/" + founder("r2"), "make a voter r2/" + newDirectory}
			if !slices.Equal(f.changes, want) || f.most != 1 {
				t.Errorf("%q with up to %d voters of one name, want %q", f.changes, f.most, want)
			}
		})
		list, err := m.ListMembers(t.Context(), &Read{}, &lockapi.ListMembers{})
		if err != nil || len(list.Members) != 3 || list.Tolerates != 1 || list.CellID != "c1" {
			t.Fatalf("%+v, %v", list, err)
		}
		if v := list.Members[2]; v.ID != "r2" || v.Directory != newDirectory || !v.Healthy || v.Since.IsZero() || !v.Since.After(list.Members[0].Since) {
			t.Errorf("%+v", v)
		}
	})
}

// write opens sessions, each with an entry of its own.
func write(t *testing.T, m *Master, n int) {
	t.Helper()
	for range n {
		newSession(t, m, time.Hour)
	}
}

// TestNextMasterFinishes a change at whichever point the master is lost.
func TestNextMasterFinishes(t *testing.T) {
	for point, prepare := range map[string]func(*fakeConf){
		"taken in": func(f *fakeConf) { f.change(membership.AddNonvoter, memberStatus("r2", newDirectory, false)) },
		"the old one is out": func(f *fakeConf) {
			f.change(membership.AddNonvoter, memberStatus("r2", newDirectory, false))
			f.change(membership.RemoveMember, memberStatus("r2", founder("r2"), true))
		},
	} {
		t.Run(point, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				c.set(func(f *fakeConf) { prepare(f); f.at["r2"] = newDirectory })
				c.office("r1")
				pass(2 * time.Second)
				c.set(func(f *fakeConf) {
					if len(f.members) != 3 || f.most != 1 || !f.members[2].Voter {
						t.Errorf("%+v after %q", f.members, f.changes)
					}
				})
			})
		})
	}
}

// TestMasterIsReplaced: it stays until its process has ended, because its name
// has one address. The next master removes it.
func TestMasterIsReplaced(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		must(t, replaceMember(t, m, "r1", newDirectory))
		if list, err := m.ListMembers(t.Context(), &Read{}, &lockapi.ListMembers{}); err != nil || len(list.Members) != 4 ||
			list.Members[0].Role != lockapi.RoleMaster || list.Members[3].Role != lockapi.RoleReplica {
			t.Errorf("both directories of the master's name: %+v, %v", list, err)
		}
		pass(time.Minute)
		stays := m.Known().Self
		c.set(func(f *fakeConf) {
			if len(f.changes) != 1 || !stays {
				t.Errorf("%q while the master runs", f.changes)
			}
		})
		c.cutOff("r1", true)
		c.set(func(f *fakeConf) { f.at["r1"] = newDirectory })
		c.office("r2")
		pass(time.Second)
		c.set(func(f *fakeConf) {
			if len(f.members) != 3 || !strings.HasPrefix(f.changes[1], "remove r1/"+founder("r1")) {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
	})
}

// TestReplacementIsTakenBack: if the present directory is named again, the
// pending one is removed, whether it was mistyped or was added in the meantime.
func TestReplacementIsTakenBack(t *testing.T) {
	for name, comes := range map[string]bool{"it never came": false, "it is behind": true} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				m := c.office("r1").master
				write(t, m, members.MaxLag+10)
				c.set(func(f *fakeConf) {
					if f.behind[newDirectory] = 1 << 20; comes {
						f.at["r2"] = newDirectory
					}
				})
				for _, directory := range []string{newDirectory, founder("r2"), founder("r2")} {
					must(t, replaceMember(t, m, "r2", directory))
					pass(time.Second)
				}
				c.set(func(f *fakeConf) {
					want := []string{"add as a nonvoter r2/" + newDirectory, "remove r2/" + newDirectory}
					if !slices.Equal(f.changes, want) || len(f.members) != 3 || !f.members[1].Voter {
						t.Errorf("%+v after %q, want %q", f.members, f.changes, want)
					}
				})
				c.set(func(f *fakeConf) { f.busy = true })
				if err := replaceMember(t, m, "r2", founder("r2")); err != nil {
					t.Errorf("with nothing to take back: %v", err)
				}
			})
		})
	}
}

// TestJoinerThatNeverComesHoldsNothingUp: another directory takes its place.
func TestJoinerThatNeverComesHoldsNothingUp(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		c.set(func(f *fakeConf) { delete(f.at, "r2") })
		for _, directory := range []string{"00000000000000bb", newDirectory, newDirectory} {
			must(t, replaceMember(t, m, "r2", directory))
			pass(time.Minute)
		}
		c.set(func(f *fakeConf) {
			f.at["r2"] = newDirectory
			if len(f.members) != 4 {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
		pass(time.Minute)
		c.set(func(f *fakeConf) {
			if len(f.members) != 3 || f.members[2].Directory != newDirectory {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
	})
}

// TestNameIsNeverLost: the cell knows a member's name at any time, whichever
// directories are added and removed and whenever the master changes. Otherwise
// the member could no longer be replaced.
func TestNameIsNeverLost(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.set(func(f *fakeConf) {
			f.change(membership.AddNonvoter, memberStatus("r2", "00000000000000bb", false))
			f.change(membership.RemoveMember, memberStatus("r2", founder("r2"), true))
			delete(f.at, "r2") // its directory is emptied again before it votes
		})
		m := c.office("r1").master
		for range 2 {
			must(t, replaceMember(t, m, "r2", newDirectory))
		}
		c.set(func(f *fakeConf) {
			if f.at["r2"] = newDirectory; f.lost || len(f.members) != 3 || f.members[2].Directory != newDirectory {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
		pass(time.Minute)
		c.set(func(f *fakeConf) {
			if !f.members[2].Voter || f.most != 1 {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
	})
	t.Run("the master is lost in between", func(t *testing.T) {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			c.set(func(f *fakeConf) {
				f.change(membership.AddNonvoter, memberStatus("r2", "00000000000000bb", false))
				f.change(membership.AddNonvoter, memberStatus("r2", newDirectory, false)) // the other directory is still a member
			})
			m := c.office("r1").master
			err := replaceMember(t, m, "r2", newDirectory)
			for errors.Is(err, lockapi.CodeBusy) { // the office first finishes the change that it found
				pass(fakeDelay)
				err = replaceMember(t, m, "r2", newDirectory)
			}
			must(t, err)
			c.set(func(f *fakeConf) {
				if f.lost || len(f.members) != 4 || f.members[3].Directory != newDirectory {
					t.Errorf("%+v after %q", f.members, f.changes)
				}
			})
		})
	})
}

// TestTakingBackComesTooLate: the old directory is removed while the call that
// wants to keep it polls the members. The name then has only the new directory.
func TestTakingBackComesTooLate(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		c.set(func(f *fakeConf) {
			f.change(membership.AddNonvoter, memberStatus("r2", newDirectory, false))
			f.onAsk = func() {
				f.change(membership.RemoveMember, memberStatus("r2", founder("r2"), true))
				f.onAsk = nil
			}
		})
		if err := replaceMember(t, m, "r2", founder("r2")); !errors.Is(err, lockapi.CodeBusy) {
			t.Errorf("the error is %v", err)
		}
		c.set(func(f *fakeConf) {
			if f.lost {
				t.Errorf("%+v after %q", f.members, f.changes)
			}
		})
	})
}

// TestOldOneStaysWhileOthersAreAway: the new directory has caught up, but
// without the old one too few voters would be well.
func TestOldOneStaysWhileOthersAreAway(t *testing.T) {
	inCell(t, 5, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		m := c.office("r1").master
		must(t, replaceMember(t, m, "r2", newDirectory))
		c.set(func(f *fakeConf) { f.at["r2"] = newDirectory; delete(f.at, "r3"); delete(f.at, "r4") })
		pass(time.Minute)
		c.set(func(f *fakeConf) {
			if len(f.changes) != 1 {
				t.Errorf("%q with two of five away", f.changes)
			}
			f.at["r3"] = founder("r3")
		})
		pass(time.Second)
		wantChanges(t, c, 3)
	})
}

// TestLateCopies: a removal or a replacement names the directory that the
// member had at that time. It is refused once the member has another one, or is
// about to. A change that was made already has no effect.
func TestLateCopies(t *testing.T) {
	old := founder("r2")
	replace := func(by, inPlaceOf string) memberCall {
		return replacing("r2", lockapi.ReplaceMemberRequest{Directory: by, InPlaceOf: inPlaceOf})
	}
	remove := func(directory string) memberCall {
		return removing("r2", lockapi.RemoveMemberRequest{Directory: directory})
	}
	type calls = []memberCall
	for name, tc := range map[string]struct {
		before calls
		late   memberCall
		want   lockapi.Code // empty: success
		left   []string     // directories of r2 that are left
	}{
		"removal behind a replacement":      {calls{replace(newDirectory, old)}, remove(old), lockapi.CodeConflict, []string{old, newDirectory}},
		"removal in time":                   {nil, remove(old), "", nil},
		"removal while being replaced":      {calls{replace(newDirectory, old)}, remove(newDirectory), "", nil},
		"removal of whichever":              {calls{replace(newDirectory, old)}, remove(""), "", nil},
		"replacement behind another":        {calls{replace(earlier, old), replace(newDirectory, earlier)}, replace(earlier, old), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement by whichever":          {calls{replace(newDirectory, old)}, replace(earlier, ""), "", []string{old, earlier}},
		"replacement once more":             {calls{replace(newDirectory, old)}, replace(newDirectory, old), "", []string{old, newDirectory}},
		"taking back":                       {calls{replace(newDirectory, old)}, replace(old, newDirectory), "", []string{old}},
		"taking back once more":             {calls{replace(newDirectory, old), replace(old, newDirectory)}, replace(old, newDirectory), "", []string{old}},
		"taking back behind another":        {calls{replace(earlier, old), replace(newDirectory, earlier)}, replace(old, earlier), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement behind a taking back":  {calls{replace(earlier, old), replace(old, earlier), replace(newDirectory, old)}, replace(earlier, old), lockapi.CodeConflict, []string{old, newDirectory}},
		"replacement of another than it is": {nil, replace(newDirectory, earlier), lockapi.CodeConflict, []string{old}},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				m := c.office("r1").master
				for _, call := range tc.before {
					must(t, call(t, m))
					pass(time.Second)
				}
				if err := tc.late(t, m); tc.want != "" {
					code(t, err, tc.want)
				} else if err != nil {
					t.Error(err)
				}
				pass(time.Second)
				c.set(func(f *fakeConf) {
					var left []string
					for _, s := range f.members {
						if s.ID == "r2" {
							left = append(left, s.Directory)
						}
					}
					if !slices.Equal(left, tc.left) {
						t.Errorf("r2 has %q, want %q; after %q", left, tc.left, f.changes)
					}
				})
			})
		})
	}
}

// TestLevelIsRaisedWhenAllKnowIt: the level waits for every member, including
// an absent one and a nonvoter. The next master raises it, too.
func TestLevelIsRaisedWhenAllKnowIt(t *testing.T) {
	inCell(t, 3, Options{Drift: drift, Level: 2}, func(t *testing.T, c *fakeCell) {
		level := func(when string, want uint64) {
			t.Helper()
			pass(time.Minute)
			for _, n := range c.nodes {
				if n.leads() && n.State().Level != want {
					t.Errorf("%s the cell is at level %d, want %d", when, n.State().Level, want)
				}
			}
		}
		c.office("r1")
		level("with releases of level 1", 1)
		c.set(func(f *fakeConf) { f.level = map[string]uint64{founder("r1"): 2, founder("r2"): 3} })
		level("with two of three", 1)
		c.set(func(f *fakeConf) { f.level[founder("r3")] = 2; delete(f.at, "r3") })
		level("while the third is away", 1)
		c.set(func(f *fakeConf) {
			f.at["r3"] = founder("r3")
			f.change(membership.AddNonvoter, memberStatus("r2", newDirectory, false)) // no process runs with it
		})
		level("with one that has no vote and tells nothing", 1)
		c.set(func(f *fakeConf) { f.change(membership.RemoveMember, memberStatus("r2", newDirectory, false)) })
		level("when all know it", 2)
	})
}

// TestEndSessionRaisesTheLevel: the first call after an upgrade succeeds, before
// the master asks the members by itself.
func TestEndSessionRaisesTheLevel(t *testing.T) {
	inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
		c.set(func(f *fakeConf) {
			f.level = map[string]uint64{founder("r1"): state.Level, founder("r2"): state.Level, founder("r3"): 1}
		})
		m := c.office("r1").master
		id := newSession(t, m, time.Minute)
		end := &lockapi.EndSession{Session: id}
		if err := m.EndSession(t.Context(), &Caller{}, end); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("while a replica does not know it: %v", err)
		}
		c.set(func(f *fakeConf) { f.level[founder("r3")] = state.Level })
		if err := m.EndSession(t.Context(), &Caller{}, end); err != nil {
			t.Errorf("when all know it: %v", err)
		}
	})
}

// TestEarlyOperationsAreRefused: an operation of a later level never gets into
// the log.
func TestEarlyOperationsAreRefused(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		id := newSession(t, m, time.Minute)
		level := func(l uint64) {
			n.change(func(s *state.State) { s.Level = l })
		}
		// Nothing is applied at this instant: a renewal of the lease
		// would be applied to a state without a level.
		synctest.Wait()
		was := n.State().Level
		level(0) // every operation needs a higher level
		defer level(was)
		sent := len(n.sent())
		if err := m.CloseSession(t.Context(), &Caller{}, &lockapi.CloseSession{Session: id}); !errors.Is(err, lockapi.CodeConflict) {
			t.Errorf("the error is %v", err)
		}
		for _, b := range n.sent()[sent:] {
			for _, c := range b.Commands {
				t.Errorf("%s was proposed", state.Name(c.Operation))
			}
		}
	})
}

// TestOneDirectoryPerName: a view of the cell names no member twice, also while
// it has two directories. Metrics with the same labels twice would fail.
func TestOneDirectoryPerName(t *testing.T) {
	other, a, b := memberStatus("r1", "0", true), memberStatus("r2", "a", false), memberStatus("r2", "b", false)
	voter := memberStatus("r2", "v", true)
	for _, c := range []struct{ all, want []membership.MemberStatus }{
		{[]membership.MemberStatus{other, voter, a}, []membership.MemberStatus{other, voter}},
		{[]membership.MemberStatus{a, voter, b, other}, []membership.MemberStatus{voter, other}},
		{[]membership.MemberStatus{a, other, b}, []membership.MemberStatus{other, b}},
	} {
		if got := onePerName(c.all); !reflect.DeepEqual(got, c.want) {
			t.Errorf("of %+v: %+v", c.all, got)
		}
	}
}
