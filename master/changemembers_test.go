package master

import (
	"errors"
	"slices"
	"strings"
	"testing"
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

func text(s string) *string { return &s }

func suffrage(s string) *lockapi.SetMember {
	return &lockapi.SetMember{ID: "r4", SetMemberRequest: lockapi.SetMemberRequest{Suffrage: &s}}
}

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
		must(t, second(m.SetMember(t.Context(), &Caller{}, suffrage(lockapi.SuffrageVoter))))
		pass(time.Second)
		c.wantMembers(t, "promoted", m, "r1+", "r2+", "r3+", "r4+")
		got, err := m.SetMember(t.Context(), &Caller{}, suffrage(lockapi.SuffrageNonvoter))
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
		code(t, second(m.SetMember(t.Context(), &Caller{}, suffrage(lockapi.SuffrageNonvoter))), lockapi.CodeBusy)
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

// TestOthersChangeInBetween: a change and a removal are based on a poll of the
// members. If another change comes in between, they are busy and have no
// effect.
func TestOthersChangeInBetween(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *Master) error{
		"set": func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r5", SetMemberRequest: lockapi.SetMemberRequest{URL: text("http://moved")}})
			return err
		},
		"demote": func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r5", SetMemberRequest: lockapi.SetMemberRequest{Suffrage: text(lockapi.SuffrageNonvoter)}})
			return err
		},
		"remove": func(t *testing.T, m *Master) error {
			return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r5"}))
		},
		"replace": func(t *testing.T, m *Master) error {
			return replaceMember(t, m, "r5", newDirectory)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, 5, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(func(f *fakeConf) {
					f.at["r4"] = founder("r4")
					f.onAsk = func() {
						f.onAsk = nil
						f.change(membership.RemoveMember, standing("r4", founder("r4"), true))
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
		do   func(*testing.T, *Master) error
		want []string
	}{
		"removed": {func(t *testing.T, m *Master) error {
			return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r1"}))
		}, []string{"r2+", "r3+"}},
		"demoted": {func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r1", SetMemberRequest: lockapi.SetMemberRequest{Suffrage: text(lockapi.SuffrageNonvoter)}})
			return err
		}, []string{"r1", "r2+", "r3+"}},
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
	remove := func(id string, force bool) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: id, RemoveMemberRequest: lockapi.RemoveMemberRequest{Force: force}}))
		}
	}
	add := func(change func(*lockapi.AddMemberRequest)) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			req := addition("")
			change(&req.AddMemberRequest)
			return second(m.AddMember(t.Context(), &Caller{}, req))
		}
	}
	set := func(id string, req lockapi.SetMemberRequest) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: id, SetMemberRequest: req})
			return err
		}
	}
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
		do      func(*testing.T, *Master) error
		want    lockapi.Code
		says    string
	}{
		"one of three is away":       {3, away("r3"), remove("r2", false), lockapi.CodeUnsafe, "1 of 2 voters are well"},
		"the master itself":          {3, away("r3"), remove("r1", false), lockapi.CodeUnsafe, "1 of 2"},
		"a demotion is checked, too": {3, away("r3"), set("r2", lockapi.SetMemberRequest{Suffrage: text("nonvoter")}), lockapi.CodeUnsafe, "1 of 2"},
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
		"add while busy":             {3, func(f *fakeConf) { f.busy = true }, add(func(*lockapi.AddMemberRequest) {}), lockapi.CodeBusy, "in progress"},
		"a name that is taken":       {3, nil, add(func(r *lockapi.AddMemberRequest) { r.ID = "r2" }), lockapi.CodeConflict, "replace its directory"},
		"another's directory":        {3, nil, add(func(r *lockapi.AddMemberRequest) { r.Directory = founder("r2") }), lockapi.CodeConflict, `"r2"`},
		"another's address":          {3, nil, add(func(r *lockapi.AddMemberRequest) { r.RaftAddr = "r2:7201" }), lockapi.CodeConflict, "r2:7201"},
		"another's URL":              {3, nil, add(func(r *lockapi.AddMemberRequest) { r.URL = "http://r2" }), lockapi.CodeConflict, "http://r2"},
		"move to another's address":  {3, nil, set("r2", lockapi.SetMemberRequest{RaftAddr: text("r3:7201")}), lockapi.CodeConflict, "r3:7201"},
		"malformed":                  {3, nil, add(func(r *lockapi.AddMemberRequest) { r.RaftAddr = "x" }), lockapi.CodeInvalidArgument, "raft_addr"},
	} {
		t.Run(name, func(t *testing.T) {
			inMembersCell(t, tc.size, func(t *testing.T, c *fakeCell, m *Master) {
				c.set(func(f *fakeConf) {
					if tc.prepare != nil {
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
		if err := second(m.AddMember(t.Context(), &Caller{}, addition(""))); err != nil {
			t.Error(err)
		}
	})
}

// TestMoveOfANewDirectory: a directory that replaces a member's old one moves
// with the member, even before the table has a row for it.
func TestMoveOfANewDirectory(t *testing.T) {
	inMembersCell(t, 3, func(t *testing.T, c *fakeCell, m *Master) {
		c.set(func(f *fakeConf) {
			f.behind[newDirectory] = 1 << 20 // the new directory never catches up
			f.change(membership.AddNonvoter, standing("r3", newDirectory, false))
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
	set := func(q lockapi.SetMemberRequest) func(*testing.T, *Master) error {
		return func(t *testing.T, m *Master) error {
			_, err := m.SetMember(t.Context(), &Caller{}, &lockapi.SetMember{ID: "r3", SetMemberRequest: q})
			return err
		}
	}
	for name, tc := range map[string]struct {
		do     func(*testing.T, *Master) error
		before func(*fakeConf)
	}{
		"demote": {set(lockapi.SetMemberRequest{Suffrage: text(lockapi.SuffrageNonvoter)}), func(f *fakeConf) {
			f.onChange = func(n *node) { n.c.depose(n.id) }
		}},
		"move": {set(lockapi.SetMemberRequest{RaftAddr: text("moved:1")}), func(f *fakeConf) { f.busy = true }},
		"remove": {func(t *testing.T, m *Master) error {
			return second(m.RemoveMember(t.Context(), &Caller{}, &lockapi.RemoveMember{ID: "r3"}))
		}, func(f *fakeConf) {
			f.behind[newDirectory] = 1 << 20 // the new directory never catches up
			f.change(membership.AddNonvoter, standing("r3", newDirectory, false))
			f.onChange = func(*node) { f.busy = true }
		}},
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
