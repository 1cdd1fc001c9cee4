package master

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
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
		"taken in": func(f *fakeConf) { f.change(membership.AddNonvoter, standing("r2", newDirectory, false)) },
		"the old one is out": func(f *fakeConf) {
			f.change(membership.AddNonvoter, standing("r2", newDirectory, false))
			f.change(membership.RemoveMember, standing("r2", founder("r2"), true))
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

// TestReplaceRefusals: each names what would be lost, and nothing is changed.
func TestReplaceRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*fakeConf)
		id      string
		req     lockapi.ReplaceMemberRequest
		want    lockapi.Code
		says    string
	}{
		"unknown":      {nil, "r9", replaceBy(newDirectory), lockapi.CodeNotFound, `"r9"`},
		"malformed":    {nil, "r2", replaceBy("xyz"), lockapi.CodeInvalidArgument, "xyz"},
		"two are away": {func(f *fakeConf) { delete(f.at, "r2"); delete(f.at, "r3") }, "r2", replaceBy(newDirectory), lockapi.CodeUnsafe, "1 of 2 voters are well"},
		"busy":         {func(f *fakeConf) { f.busy = true }, "r2", replaceBy(newDirectory), lockapi.CodeBusy, "in progress"},
		"another's": {func(f *fakeConf) { f.members[2].Directory = newDirectory; f.at["r3"] = newDirectory }, "r2",
			replaceBy(newDirectory), lockapi.CodeConflict, newDirectory},
		"the place it has": {func(f *fakeConf) { f.members[1].Directory = newDirectory }, "r2", replaceBy(newDirectory), "", ""},
		"forced": {func(f *fakeConf) { delete(f.at, "r2"); delete(f.at, "r3") }, "r2",
			lockapi.ReplaceMemberRequest{Directory: newDirectory, Force: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				m := c.office("r1").master
				pass(time.Second)
				c.set(func(f *fakeConf) {
					f.members = slices.Clone(f.members) // readers keep the old slice
					if tc.prepare != nil {
						tc.prepare(f)
					}
				})
				err := second(m.ReplaceMember(t.Context(), &Caller{}, &lockapi.ReplaceMember{ID: tc.id, ReplaceMemberRequest: tc.req}))
				if tc.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				code(t, err, tc.want)
				if !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
				wantChanges(t, c, 0)
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
			f.change(membership.AddNonvoter, standing("r2", "00000000000000bb", false))
			f.change(membership.RemoveMember, standing("r2", founder("r2"), true))
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
				f.change(membership.AddNonvoter, standing("r2", "00000000000000bb", false))
				f.change(membership.AddNonvoter, standing("r2", newDirectory, false)) // the other directory is still a member
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
			f.change(membership.AddNonvoter, standing("r2", newDirectory, false))
			f.onAsk = func() {
				f.change(membership.RemoveMember, standing("r2", founder("r2"), true))
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

// TestReplacedHalfway: the new directory was added, or one of two was removed,
// and the rest is refused. A part took effect, so the error is no refusal.
func TestReplacedHalfway(t *testing.T) {
	busy := func(f *fakeConf) { f.busy = true }
	for name, tt := range map[string]struct {
		onTheirWay []string
		by         string
		then       func(f *fakeConf) // runs after the first change
	}{
		"an earlier one stays": {[]string{"00000000000000bb"}, newDirectory, busy},
		"one of two goes":      {[]string{"00000000000000bb", "00000000000000cc"}, founder("r2"), busy},
	} {
		t.Run(name, func(t *testing.T) {
			inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
				m := c.office("r1").master
				pass(100 * time.Millisecond) // the office has polled the members
				c.set(func(f *fakeConf) {
					for _, directory := range tt.onTheirWay {
						f.change(membership.AddNonvoter, standing("r2", directory, false))
					}
					f.onChange = func(*node) {
						f.onChange = nil
						tt.then(f)
					}
				})
				err := replaceMember(t, m, "r2", tt.by)
				if !errors.Is(err, lockapi.CodeOutcomeUnknown) {
					t.Errorf("the error is %v", err)
				}
				c.set(func(f *fakeConf) { f.busy = false })
			})
		})
	}
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
