package master

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/members"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

const fourth = "00000000000000a4"

// inMembersCell is a cell of n replicas with releases that know the level of
// members, and a fourth replica that asks to join.
func inMembersCell(t *testing.T, n int, f func(t *testing.T, c *fakeCell, m *Master)) {
	inMembersCellWith(t, n, Options{Drift: drift}, f)
}

func inMembersCellWith(t *testing.T, n int, o Options, f func(t *testing.T, c *fakeCell, m *Master)) {
	inCell(t, n, o, func(t *testing.T, c *fakeCell) {
		c.set(func(f *fakeConf) {
			f.level = map[string]uint64{fourth: state.Level, newDirectory: state.Level}
			for _, s := range f.members {
				f.level[s.Directory] = state.Level
			}
			f.at["r4"] = fourth
		})
		m := c.office("r1").master
		pass(time.Second)
		f(t, c, m)
	})
}

func addition(suffrage string) *lockapi.AddMember {
	return &lockapi.AddMember{AddMemberRequest: lockapi.AddMemberRequest{ID: "r4", Directory: fourth, RaftAddr: "r4:7201", URL: "http://r4", Suffrage: suffrage}}
}

// memberCall is a call that changes the members.
type memberCall = func(*testing.T, *Master) error

func adding(change func(*lockapi.AddMemberRequest)) memberCall {
	return func(t *testing.T, m *Master) error {
		req := addition("")
		change(&req.AddMemberRequest)
		return second(m.AddMember(t.Context(), &Caller{}, req))
	}
}

func withSuffrage(suffrage string) func(*lockapi.AddMemberRequest) {
	return func(r *lockapi.AddMemberRequest) { r.Suffrage = suffrage }
}

func setting(id string, r lockapi.SetMemberRequest) memberCall {
	return func(t *testing.T, m *Master) error {
		return second(m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: id, SetMemberRequest: r}))
	}
}

func toSuffrage(s string) lockapi.SetMemberRequest { return lockapi.SetMemberRequest{Suffrage: &s} }

func removing(id string, r lockapi.RemoveMemberRequest) memberCall {
	return func(t *testing.T, m *Master) error {
		return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: id, RemoveMemberRequest: r}))
	}
}

func replacing(id string, r lockapi.ReplaceMemberRequest) memberCall {
	return func(t *testing.T, m *Master) error {
		return second(m.ReplaceMember(t.Context(), &Caller{}, &lockapi.ReplaceMember{ID: id, ReplaceMemberRequest: r}))
	}
}

func text(s string) *string { return &s }

// wantMembers checks the configuration ("+" for a vote) and the table, which
// must have the same members.
func (c *fakeCell) wantMembers(t *testing.T, when string, m *Master, want ...string) {
	t.Helper()
	s := m.log.State()
	c.set(func(f *fakeConf) {
		var got, table []string
		for _, v := range f.members {
			one := v.ID
			if v.Voter {
				one += "+"
			}
			got = append(got, one)
			if put, ok := s.Member(v.ID, v.Directory); !ok || put.Put && (put.RaftAddr != v.At) {
				t.Errorf("%s the table has %+v for %+v", when, put, v)
			}
		}
		for _, v := range s.Members {
			table = append(table, v.ID)
		}
		if slices.Sort(got); !slices.Equal(got, want) || len(table) != len(want) {
			t.Errorf("%s: %q, the table has %q, want %q; after %q", when, got, table, want, f.changes)
		}
	})
}

// TestAdd: a new member gets a vote once it has caught up. A member that is to
// stay without a vote stays so until a call changes that.
func TestAdd(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		write(t, m, members.MaxLag+10)
		c.set(func(f *fakeConf) { f.behind[fourth] = 1 << 20 })
		for range 2 { // the second changes nothing
			must(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))))
		}
		pass(time.Minute)
		c.wantMembers(t, "behind", m, "r1+", "r2+", "r3+", "r4")
		code(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))), lockapi.CodeConflict)
		list, err := m.ListMembers(t.Context(), &Read{}, &lockapi.ListMembers{})
		if err != nil || list.Members[3].URL != "http://r4" || list.Members[3].Behind == 0 {
			t.Errorf("%+v, %v", list, err)
		}
		c.set(func(f *fakeConf) { f.behind[fourth] = 0 })
		pass(time.Second)
		c.wantMembers(t, "caught up", m, "r1+", "r2+", "r3+", "r4+")
		must(t, second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r4"})))
		pass(time.Second)
		c.wantMembers(t, "removed", m, "r1+", "r2+", "r3+")
		code(t, second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r4"})), lockapi.CodeNotFound)

		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))))
		pass(time.Minute)
		c.wantMembers(t, "without a vote", m, "r1+", "r2+", "r3+", "r4")
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))))
		code(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))), lockapi.CodeConflict)
		must(t, second(m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r4", SetMemberRequest: toSuffrage(lockapi.SuffrageVoter)})))
		pass(time.Second)
		c.wantMembers(t, "promoted", m, "r1+", "r2+", "r3+", "r4+")
		got, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r4", SetMemberRequest: toSuffrage(lockapi.SuffrageNonvoter)})
		if err != nil || got.Suffrage != lockapi.SuffrageNonvoter {
			t.Errorf("%+v, %v", got, err)
		}
		pass(time.Minute)
		c.wantMembers(t, "demoted", m, "r1+", "r2+", "r3+", "r4")
		got, err = m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r2", SetMemberRequest: lockapi.SetMemberRequest{RaftAddr: text("moved:1"), URL: text("http://moved")}})
		if err != nil || got.ID != "r2" {
			t.Errorf("%+v, %v", got, err)
		}
		pass(time.Second)
		c.wantMembers(t, "moved", m, "r1+", "r2+", "r3+", "r4")
	})
}

// TestVoteUnderLoad: while many entries are written, a member that does not answer
// keeps no other one from its vote.
func TestVoteUnderLoad(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) { f.hangs = map[string]bool{"r2": true} })
		c.setDelay(time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		load.Go(func() {
			for ctx.Err() == nil {
				newSession(t, m, time.Hour)
			}
		})
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))))
		pass(3 * time.Second)
		stop()
		load.Wait()
		c.wantMembers(t, "under load", m, "r1+", "r2+", "r3+", "r4+")
	})
}

// TestFarBehindIsNoMajority: a voter that is far behind does not count towards the
// majority that a removal leaves.
func TestFarBehindIsNoMajority(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		write(t, m, members.MaxLag+10)
		c.set(func(f *fakeConf) { f.behind[founder("r3")] = 1 << 20 })
		code(t, removing("r2", lockapi.RemoveMemberRequest{})(t, m), lockapi.CodeUnsafe)
		c.set(func(f *fakeConf) { f.behind[founder("r3")] = 0 })
		must(t, removing("r2", lockapi.RemoveMemberRequest{})(t, m))
	})
}

// TestLateChange: a change with an unknown outcome takes effect after the
// master has polled the members again and again. The member keeps the settings
// of the table.
func TestLateChange(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) { f.late = true })
		code(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))), lockapi.CodeOutcomeUnknown)
		pass(time.Minute)
		c.set(func(f *fakeConf) {
			f.lands()
			f.lands = nil
		})
		pass(time.Minute)
		c.wantMembers(t, "the change has come late", m, "r1+", "r2+", "r3+", "r4")
		if put, _ := m.log.State().MemberNamed("r4"); put.URL != "http://r4" || !put.Stays {
			t.Errorf("the table has %+v", put)
		}
	})
}

// TestNoChangeBesideALateOne: a vote is given late, while a call wants the
// member to have no vote. That call is busy and has no effect.
func TestNoChangeBesideALateOne(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		write(t, m, members.MaxLag+10)
		c.set(func(f *fakeConf) { f.behind[fourth] = 1 << 20 })
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))))
		pass(time.Second)
		c.set(func(f *fakeConf) { f.behind[fourth], f.late = 0, true })
		pass(time.Second)
		code(t, second(m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r4", SetMemberRequest: toSuffrage(lockapi.SuffrageNonvoter)})), lockapi.CodeBusy)
		c.set(func(f *fakeConf) {
			f.lands()
			f.lands = nil
		})
		pass(time.Second)
		c.wantMembers(t, "the vote has come late", m, "r1+", "r2+", "r3+", "r4+")
		if put, _ := m.log.State().MemberNamed("r4"); put.Stays {
			t.Errorf("it votes, and is marked to stay without a vote: %+v", put)
		}
	})
}

// TestUndecided: while a change of an unknown outcome is in the configuration, and
// may still be undone, no call answers that it was made.
func TestUndecided(t *testing.T) {
	for name, tc := range map[string]struct{ first, again memberCall }{
		"added": {adding(withSuffrage("")), adding(withSuffrage(""))},
		"another is added": {adding(withSuffrage("")), adding(func(r *lockapi.AddMemberRequest) {
			r.ID, r.Directory, r.RaftAddr, r.URL = "r5", newDirectory, "r5:7201", "http://r5"
		})},
		"removed":           {removing("r3", lockapi.RemoveMemberRequest{}), removing("r3", lockapi.RemoveMemberRequest{})},
		"replaced":          {replacing("r3", replaceBy(newDirectory)), replacing("r3", replaceBy(newDirectory))},
		"removed, then set": {removing("r3", lockapi.RemoveMemberRequest{}), setting("r3", lockapi.SetMemberRequest{URL: text("http://moved")})},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(func(f *fakeConf) { f.late, f.seen = true, true })
				code(t, tc.first(t, m), lockapi.CodeOutcomeUnknown)
				code(t, tc.again(t, m), lockapi.CodeBusy)
				list := func(stale bool) error {
					return second(m.ListMembers(t.Context(), &Read{Stale: stale}, &lockapi.ListMembers{}))
				}
				code(t, list(false), lockapi.CodeNoMaster)
				must(t, list(true))
				if put, _ := m.log.State().MemberNamed("r5"); put.Put {
					t.Errorf("a refused change is in the table: %+v", put)
				}
				c.set(func(f *fakeConf) { f.lands = nil })
				must(t, list(false))
			})
		})
	}
}

// TestOthersChangeInBetween: a change and a removal are based on a poll of the
// members. If another change comes in between, they are busy and have no
// effect.
func TestOthersChangeInBetween(t *testing.T) {
	for name, do := range map[string]memberCall{
		"set":     setting("r5", lockapi.SetMemberRequest{URL: text("http://moved")}),
		"demote":  setting("r5", toSuffrage(lockapi.SuffrageNonvoter)),
		"remove":  removing("r5", lockapi.RemoveMemberRequest{}),
		"replace": replacing("r5", replaceBy(newDirectory)),
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 5, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(func(f *fakeConf) {
					f.at["r4"] = founder("r4")
					f.onAsk = func() {
						f.onAsk = nil
						f.change(membership.RemoveMember, memberStatus("r4", founder("r4"), true))
					}
				})
				code(t, do(t, m), lockapi.CodeBusy)
				c.set(func(f *fakeConf) {
					if len(f.changes) != 1 || len(f.members) != 4 {
						t.Errorf("it was made: %q", f.changes)
					}
				})
				if put, _ := m.log.State().MemberNamed("r5"); put.Put {
					t.Errorf("the table has %+v", put)
				}
			})
		})
	}
}

// TestMasterRemovesItself: it hands over, and the next master removes it; the
// same for its vote.
func TestMasterRemovesItself(t *testing.T) {
	for name, tc := range map[string]struct {
		do   memberCall
		want []string
	}{
		"removed": {removing("r1", lockapi.RemoveMemberRequest{}), []string{"r2+", "r3+"}},
		"demoted": {setting("r1", toSuffrage(lockapi.SuffrageNonvoter)), []string{"r1", "r2+", "r3+"}},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
				err := tc.do(t, m)
				code(t, err, lockapi.CodeNoMaster)
				wantChanges(t, c, 0)
				at := m.Known()
				if at.Self || at.ID == "" {
					t.Fatalf("after it has handed over: %+v", at)
				}
				next := c.node(at.ID).master
				pass(time.Second)
				must(t, tc.do(t, next))
				pass(time.Second)
				c.wantMembers(t, "by the next master", next, tc.want...)
			})
		})
	}
}

// TestChangeRefusals: each names what would be lost, and nothing is changed.
func TestChangeRefusals(t *testing.T) {
	testrun.Sequential(t)
	remove := func(id string, force bool) memberCall {
		return removing(id, lockapi.RemoveMemberRequest{Force: force})
	}
	add, set, none := adding, setting, func(*lockapi.AddMemberRequest) {}
	away := func(names ...string) func(*fakeConf) {
		return func(f *fakeConf) {
			for _, name := range names {
				delete(f.at, name)
			}
		}
	}
	for name, tc := range map[string]struct {
		size    int
		prepare func(*fakeConf)
		do      memberCall
		want    lockapi.Code
		says    string
	}{
		"one of three is away":       {3, away("r3"), remove("r2", false), lockapi.CodeUnsafe, "1 of 2 voters are well"},
		"the master itself":          {3, away("r3"), remove("r1", false), lockapi.CodeUnsafe, "1 of 2"},
		"a demotion is checked, too": {3, away("r3"), set("r2", toSuffrage("nonvoter")), lockapi.CodeUnsafe, "1 of 2"},
		"the only one":               {1, nil, remove("r1", false), lockapi.CodeUnsafe, "without it there is no cell"},
		"the only one, forced":       {1, nil, remove("r1", true), lockapi.CodeUnsafe, "without it there is no cell"},
		"the only one, demoted":      {1, nil, set("r1", lockapi.SetMemberRequest{Suffrage: text("nonvoter"), Force: true}), lockapi.CodeUnsafe, "without it there is no cell"},
		"who is away may go":         {3, away("r3"), remove("r3", false), "", ""},
		"forced":                     {3, away("r3"), remove("r2", true), "", ""},
		"two of five are away":       {5, away("r4", "r5"), remove("r4", false), "", ""},
		"and one that is well":       {5, away("r4", "r5"), remove("r3", false), lockapi.CodeUnsafe, "2 of 4"},
		"nobody":                     {3, nil, remove("r9", false), lockapi.CodeNotFound, `"r9"`},
		"nobody is set":              {3, nil, set("r9", lockapi.SetMemberRequest{URL: text("http://x")}), lockapi.CodeNotFound, `"r9"`},
		"nothing is set":             {3, nil, set("r2", lockapi.SetMemberRequest{}), lockapi.CodeInvalidArgument, "nothing"},
		"remove while busy":          {3, func(f *fakeConf) { f.busy = true }, remove("r3", false), lockapi.CodeBusy, "in progress"},
		"add while busy":             {3, func(f *fakeConf) { f.busy = true }, add(none), lockapi.CodeBusy, "in progress"},
		"a name that is taken":       {3, nil, add(func(r *lockapi.AddMemberRequest) { r.ID = "r2" }), lockapi.CodeConflict, "replace its directory"},
		"another's directory":        {3, nil, add(func(r *lockapi.AddMemberRequest) { r.Directory = founder("r2") }), lockapi.CodeConflict, `"r2"`},
		"another's address":          {3, nil, add(func(r *lockapi.AddMemberRequest) { r.RaftAddr = "r2:7201" }), lockapi.CodeConflict, "r2:7201"},
		"another's URL":              {3, nil, add(func(r *lockapi.AddMemberRequest) { r.URL = "http://r2" }), lockapi.CodeConflict, "http://r2"},
		"move to another's address":  {3, nil, set("r2", lockapi.SetMemberRequest{RaftAddr: text("r3:7201")}), lockapi.CodeConflict, "r3:7201"},
		"replace an unknown one":     {3, nil, replacing("r9", replaceBy(newDirectory)), lockapi.CodeNotFound, `"r9"`},
		"replace by what is none":    {3, nil, replacing("r2", replaceBy("xyz")), lockapi.CodeInvalidArgument, "xyz"},
		"replace while two are away": {3, away("r2", "r3"), replacing("r2", replaceBy(newDirectory)), lockapi.CodeUnsafe, "1 of 2 voters are well"},
		"replace while busy":         {3, func(f *fakeConf) { f.busy = true }, replacing("r2", replaceBy(newDirectory)), lockapi.CodeBusy, "in progress"},
		"replace by another's": {3, func(f *fakeConf) { f.members[2].Directory, f.at["r3"] = newDirectory, newDirectory },
			replacing("r2", replaceBy(newDirectory)), lockapi.CodeConflict, newDirectory},
		"replace by what it has": {3, func(f *fakeConf) { f.members[1].Directory = newDirectory }, replacing("r2", replaceBy(newDirectory)), "", ""},
		"replace, forced": {3, away("r2", "r3"),
			replacing("r2", lockapi.ReplaceMemberRequest{Directory: newDirectory, Force: true}), "", ""},
		"malformed": {3, nil, add(func(r *lockapi.AddMemberRequest) { r.RaftAddr = "x" }), lockapi.CodeInvalidArgument, "raft_addr"},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, tc.size, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(func(f *fakeConf) {
					if f.members = slices.Clone(f.members); tc.prepare != nil { // readers keep the old slice
						tc.prepare(f)
					}
				})
				err := tc.do(t, m)
				if tc.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				code(t, err, tc.want)
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%q does not say %q", err, tc.says)
				}
				c.set(func(f *fakeConf) {
					f.busy = false
					if len(f.changes) > 0 {
						t.Errorf("changed: %q", f.changes)
					}
				})
				pass(time.Minute) // no unfinished change is left
				c.set(func(f *fakeConf) {
					if len(f.changes) > 0 || len(f.members) != tc.size {
						t.Errorf("changed later: %q", f.changes)
					}
				})
				if !m.Known().Self {
					t.Error("a refusal has cost the master its office")
				}
			})
		})
	}
}

// TestOneChangeAtATime: a call during another change waits a moment and is busy
// then.
func TestOneChangeAtATime(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		other := addition("")
		other.ID, other.Directory, other.RaftAddr, other.URL = "r5", "00000000000000a5", "r5:7201", "http://r5"
		c.setDelay(time.Second)
		go func() { _, _ = m.AddMember(t.Context(), &Caller{}, other) }()
		pass(time.Millisecond)
		if err := second(m.AddMember(t.Context(), &Caller{}, addition(""))); !errors.Is(err, lockapi.CodeBusy) {
			t.Errorf("the error is %v", err)
		}
		c.setDelay(fakeDelay)
		pass(time.Minute)
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))))
	})
}

// TestMoveOfANewDirectory: a directory that replaces a member's old one moves
// with the member, even before the table has a row for it.
func TestMoveOfANewDirectory(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) {
			f.behind[newDirectory] = 1 << 20 // the new directory never catches up
			f.change(membership.AddNonvoter, memberStatus("r3", newDirectory, false))
		})
		must(t, second(m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r3", SetMemberRequest: lockapi.SetMemberRequest{RaftAddr: text("moved:1")}})))
		now, _ := m.members.Membership()
		for _, s := range now.Members {
			if s.ID == "r3" && s.At != "moved:1" {
				t.Errorf("%s of %s is at %s", s.Directory, s.ID, s.At)
			}
		}
	})
}

// TestHalfIsNoRefusal: if the first entry of a change is made and the second is
// not, the outcome is unknown.
func TestHalfIsNoRefusal(t *testing.T) {
	comes := func(directories ...string) func(*fakeConf) {
		return func(f *fakeConf) {
			f.behind[newDirectory] = 1 << 20 // the new directory never catches up
			for _, directory := range directories {
				f.change(membership.AddNonvoter, memberStatus("r3", directory, false))
			}
			f.onChange = func(*node) { f.busy, f.onChange = true, nil }
		}
	}
	for name, tc := range map[string]struct {
		do     memberCall
		before func(*fakeConf)
	}{
		"demote": {setting("r3", toSuffrage(lockapi.SuffrageNonvoter)), func(f *fakeConf) {
			f.onChange = func(n *node) { n.c.depose(n.id) }
		}},
		"move":                         {setting("r3", lockapi.SetMemberRequest{RaftAddr: text("moved:1")}), func(f *fakeConf) { f.busy = true }},
		"remove":                       {removing("r3", lockapi.RemoveMemberRequest{}), comes(newDirectory)},
		"replace while another comes":  {replacing("r3", replaceBy(newDirectory)), comes(earlier)},
		"take back one of two to come": {replacing("r3", replaceBy(founder("r3"))), comes(earlier, "00000000000000cc")},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(tc.before)
				code(t, tc.do(t, m), lockapi.CodeOutcomeUnknown)
			})
		})
	}
}

// TestTableIsNotedOnce: a table that is up to date is not proposed again, even
// after an operator has put a row.
func TestTableIsNotedOnce(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(lockapi.SuffrageNonvoter))))
		pass(time.Minute + time.Millisecond) // the office writes its own entries at full seconds
		o := m.inOffice()
		before := m.log.State().Index
		if again := m.table.Round(t.Context(), o, &members.Contact{}); again < time.Second {
			t.Errorf("the round failed: it is to be repeated after %v", again)
		}
		if after := m.log.State().Index; after != before {
			t.Errorf("a table that is there already took entries %d to %d", before, after)
		}
	})
}

// TestNoVoteBesideAnEntry: an entry that denies a member its vote is under way
// after its call has ended. The next poll of the members comes after that
// entry.
func TestNoVoteBesideAnEntry(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		write(t, m, members.MaxLag+10)
		c.set(func(f *fakeConf) { f.behind[fourth] = 1 << 20 })
		must(t, second(m.AddMember(t.Context(), &Caller{}, addition(""))))
		pass(time.Second)
		c.setDelay(500 * time.Millisecond)
		put, _ := m.log.State().MemberNamed("r4")
		put.Stays = true
		go func() { _, _ = m.inOffice().propose(&Caller{}, &state.PutMember{Member: put}) }()
		pass(time.Millisecond)
		c.set(func(f *fakeConf) { f.behind[fourth] = 0 })
		m.memberWakeup.Wake()
		pass(time.Minute)
		c.wantMembers(t, "it is to stay", m, "r1+", "r2+", "r3+", "r4")
	})
}

// halfChange is a change of two entries. Only the first is made.
type halfChange struct {
	before    func(*testing.T, *fakeCell, *Master) // may be nil
	call      memberCall
	made      int      // entries of the configuration until the master is lost; 0 for one
	want      []string // see wantMembers
	directory string   // the member's directory in the end; empty for no member
}

const earlier = "00000000000000bb"

// halfChanges has one change for each row of docs/design.md's table of changes.
func halfChanges() map[string]halfChange {
	replace := func(id, by string) memberCall { return replacing(id, replaceBy(by)) }
	remove := removing("r3", lockapi.RemoveMemberRequest{})
	whole := func(call memberCall) func(*testing.T, *fakeCell, *Master) {
		return func(t *testing.T, _ *fakeCell, m *Master) {
			if err := call(t, m); err != nil {
				t.Error(err)
			}
		}
	}
	add := func(suffrage string) memberCall { return adding(withSuffrage(suffrage)) }
	comes := func(c *fakeCell, id string) { c.set(func(f *fakeConf) { f.at[id] = newDirectory }) }
	three := []string{"r1+", "r2+", "r3+"}
	return map[string]halfChange{
		"add":                         {call: add(lockapi.SuffrageNonvoter), want: three},
		"remove":                      {call: remove, want: []string{"r1+", "r2+"}},
		"remove while being replaced": {before: whole(replace("r3", earlier)), call: remove, want: three, directory: founder("r3")},
		"move":                        {call: setting("r3", lockapi.SetMemberRequest{RaftAddr: text("moved:1")}), want: three, directory: founder("r3")},
		"demote":                      {call: setting("r3", toSuffrage(lockapi.SuffrageNonvoter)), want: three, directory: founder("r3")},
		"promote": {before: whole(add(lockapi.SuffrageNonvoter)), call: setting("r4", toSuffrage(lockapi.SuffrageVoter)),
			want: []string{"r1+", "r2+", "r3+", "r4+"}, directory: fourth},
		"replace a voter": {before: func(_ *testing.T, c *fakeCell, _ *Master) { comes(c, "r3") },
			call: replace("r3", newDirectory), want: three, directory: newDirectory},
		"pass the vote on": {before: func(_ *testing.T, c *fakeCell, _ *Master) { comes(c, "r3") },
			call: replace("r3", newDirectory), made: 2, want: three, directory: newDirectory},
		"replace a nonvoter": {before: func(t *testing.T, c *fakeCell, m *Master) {
			whole(add(lockapi.SuffrageNonvoter))(t, c, m)
			comes(c, "r4")
		}, call: replace("r4", newDirectory), want: []string{"r1+", "r2+", "r3+", "r4"}, directory: newDirectory},
		"replace by another": {before: func(t *testing.T, c *fakeCell, m *Master) {
			whole(replace("r3", earlier))(t, c, m)
			comes(c, "r3")
		}, call: replace("r3", newDirectory), want: three, directory: newDirectory},
		"take back": {before: whole(replace("r3", earlier)), call: replace("r3", founder("r3")), want: three, directory: founder("r3")},
	}
}

// TestHalfChanges: each change is made by its call, and the master is lost
// between its two entries. The next master finishes or undoes it.
func TestHalfChanges(t *testing.T) {
	rows, all := changeRows(t), halfChanges()
	for name := range all {
		if rows[name] == "" {
			t.Errorf("docs/design.md has no row for %q", name)
		}
	}
	for _, name := range testrun.Rows(t, 3, slices.Sorted(maps.Keys(rows))) {
		first := rows[name]
		tc, ok := all[name]
		if !ok {
			t.Errorf("no half is made of the change %q of docs/design.md", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
				if tc.before != nil {
					tc.before(t, c, m)
					pass(time.Second)
				}
				tc.half(t, c, m, first)
				c.cutOff("r1", true)
				next := c.office("r2").master
				pass(time.Minute)
				c.wantMembers(t, "the next master", next, tc.want...)
				id := tc.want[len(tc.want)-1][:2]
				c.set(func(f *fakeConf) {
					for _, s := range f.members {
						if tc.directory != "" && s.ID == id && s.Directory != tc.directory {
							t.Errorf("%s has directory %s, want %s; after %q", id, s.Directory, tc.directory, f.changes)
						}
					}
				})
			})
		})
	}
}

// half makes the call so that only the first entry takes effect. After an entry
// of the table, the entry of the configuration fails; after an entry of the
// configuration, the master loses leadership.
func (tc halfChange) half(t *testing.T, c *fakeCell, m *Master, first string) {
	table, made := m.log.State().Members, max(1, tc.made)
	before := len(changes(c))
	c.set(func(f *fakeConf) {
		if f.busy = first == "table"; f.busy {
			return
		}
		left := made
		f.onChange = func(n *node) {
			if left--; left == 0 {
				f.onChange = nil
				n.c.depose(n.id)
			}
		}
	})
	err := tc.call(t, m)
	t.Logf("the caller gets: %v", err)
	if made > 1 {
		pass(time.Second) // keepMembers does the rest
	}
	c.set(func(f *fakeConf) {
		f.busy = false
		if n := len(f.changes) - before; first == "table" && n != 0 || first != "table" && n != made {
			t.Errorf("%d entries of the configuration: %q", n, f.changes)
		}
	})
	if changed := !slices.Equal(table, m.log.State().Members); made == 1 && changed != (first == "table") {
		t.Errorf("the table has changed: %v; the first entry is one of the %s", changed, first)
	}
}

// changeRows are the rows of docs/design.md's table of changes, with the place
// of the first entry of each.
func changeRows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/design.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "| change | first | second |")
	table, _, _ := strings.Cut(rest, "\n\n")
	rows := map[string]string{}
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(line, "|")
		first, _, _ := strings.Cut(strings.TrimSpace(cells[2]), ":")
		rows[strings.TrimSpace(cells[1])] = first
	}
	if len(rows) == 0 {
		t.Fatal("docs/design.md has no table of changes")
	}
	return rows
}

// TestEndedOfficeChangesNoMember: the last entry of an office may still come, with an
// earlier table of members. No change of that office may come before it, also while
// the closing entry of a resigning office hangs.
func TestEndedOfficeChangesNoMember(t *testing.T) {
	for _, resigns := range []bool{false, true} {
		inCell(t, 3, Options{Drift: drift}, func(t *testing.T, c *fakeCell) {
			know(c)
			n := c.office("r1")
			o := openOffice(t, n)
			pass(time.Second) // the first round of keepMembers has had its turn
			if resigns {
				c.cutOff("r1", true)
				go o.resign(t.Context(), time.Second, errors.New("handed over"))
				synctest.Wait()
			} else {
				o.end(errors.New("this replica hangs"))
			}
			code(t, n.master.table.Replace(t.Context(), o, &lockapi.ReplaceMember{ID: "r3", ReplaceMemberRequest: lockapi.ReplaceMemberRequest{Directory: newDirectory}}), lockapi.CodeNoMaster)
			code(t, n.master.table.Remove(t.Context(), o, &lockapi.RemoveMember{ID: "r3", RemoveMemberRequest: lockapi.RemoveMemberRequest{Force: true}}), lockapi.CodeNoMaster)
			wantChanges(t, c, 0)
		})
	}
}
