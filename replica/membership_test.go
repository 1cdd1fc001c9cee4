package replica

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// waiting prepares a replica with a directory that belongs to no member, and
// returns it when it reports that.
func waiting(t *testing.T, o Options) (c *Candidate, admitted <-chan error) {
	t.Helper()
	c, err := Prepare(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		_ = c.Close() // an error where it was started
	})
	go func() { done <- c.Wait(ctx) }()
	until(t, "it knows that it is no member", func() bool { return c.Standby().Command != "" })
	return c, done
}

// change makes one change of the membership through the leader.
func change(t *testing.T, leader *Replica, what membership.Change, s membership.MemberStatus) {
	t.Helper()
	m, err := leader.Membership()
	must(t, err)
	must(t, leader.ChangeMember(t.Context(), m.Index, what, s))
}

// TestEmptiedDirectory: a replica with an emptied directory is another server.
// It reports that, and does no more until it has been admitted in the old one's
// place. The others keep what it had stored as the old one. The old directory
// is refused when it comes back.
func TestEmptiedDirectory(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 30)
	same(t, leader, all...)
	lost := without(all, leader)[0]
	cellID, old := lost.CellID(), lost.Directory()
	stop(t, lost)
	attic := filepath.Join(t.TempDir(), "attic")
	must(t, os.Rename(lost.opts.DataDir, attic))

	c, admitted := waiting(t, lost.opts)
	now := c.Standby()
	if now.CellID != cellID || now.Directory == old || !strings.Contains(now.Why, old) || now.Command != "stout member replace "+lost.ID()+" --directory "+now.Directory {
		t.Errorf("standby %+v", now)
	}
	if _, err := os.Stat(filepath.Join(lost.opts.DataDir, "raft.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has made a log: %v", err)
	}
	write(t, leader, epoch, "b", 30)

	s := membership.MemberStatus{Member: lost.opts.Members[0], Directory: now.Directory}
	for _, m := range lost.opts.Members {
		if m.ID == lost.ID() {
			s.Member = m
		}
	}
	change(t, leader, membership.AddNonvoter, s)
	must(t, <-admitted)
	back, err := c.Start()
	must(t, err)
	closeAfter(t, back)
	same(t, leader, back)
	if back.CellID() != cellID {
		t.Errorf("cell id %s, was %s", back.CellID(), cellID)
	}
	oldOne := s
	oldOne.Directory = old
	change(t, leader, membership.RemoveMember, oldOne)
	change(t, leader, membership.MakeVoter, s)
	until(t, "it is a voter", func() bool {
		card := back.Info()
		return len(card.Members) == 3 && card.ConfigIndex > 0 && !card.Founding.Has(string(back.self()))
	})

	// With the third away the new directory's vote and disk count.
	third := without(without(all, leader), lost)[0]
	stop(t, third)
	write(t, leader, epoch, "c", 3)
	same(t, leader, back)
	stop(t, back)
	back = start(t, back.opts) // a member's directory starts by itself
	write(t, leader, epoch, "d", 3)
	same(t, leader, back)

	// The old directory, put back in its old place.
	stop(t, back)
	again := start(t, third.opts)
	fresh := back.opts.DataDir + ".fresh"
	must(t, os.Rename(back.opts.DataDir, fresh))
	must(t, os.Rename(attic, back.opts.DataDir))
	gone, err := Open(back.opts)
	must(t, err)
	if err := <-gone.Failed(); !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), now.Directory) {
		t.Errorf("the old directory ends with %v", err)
	}
	must(t, gone.Close())
	c, _ = waiting(t, back.opts)
	if w := c.Standby(); w.Directory != old || !strings.Contains(w.Why, "another was put in its place") {
		t.Errorf("standby %+v", w)
	}
	must(t, c.Close())
	write(t, leader, epoch, "e", 3)
	same(t, leader, again)
}

// TestTwoEmptiedDirectories: two of three are gone. The third has no leader,
// keeps everything it has, and no new cell is founded beside it.
func TestTwoEmptiedDirectories(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 30)
	same(t, leader, all...)
	rest := without(all, leader)
	for _, r := range rest {
		stop(t, r)
		must(t, os.RemoveAll(r.opts.DataDir))
	}
	for _, r := range rest {
		c, admitted := waiting(t, r.opts)
		select {
		case err := <-admitted:
			t.Errorf("%s is a member: %v", r.ID(), err)
		default:
		}
		if w := c.Standby(); w.CellID != leader.CellID() {
			t.Errorf("%s waits for cell %q", r.ID(), w.CellID)
		}
	}
	if n := leader.State().SessionCount(); n != 30 {
		t.Errorf("the third has %d of 30 sessions", n)
	}
	if out, err := leader.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open("late")}})(); err == nil {
		t.Errorf("a change with one disk of three: %+v", out)
	}
}

// TestFounderPutBackAsNew: a copy of a founder's directory from before the
// founding is restored. It has forgotten its vote, so it continues as a new
// one, and the command that it prints admits that.
func TestFounderPutBackAsNew(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 3)
	lost := without(all, leader)[0]
	old := lost.Directory()
	stop(t, lost)
	must(t, os.RemoveAll(lost.opts.DataDir))
	dir, err := datadir.Open(lost.opts.DataDir, lost.opts.Cell, lost.ID())
	must(t, err)
	who := dir.Identity()
	who.Directory = old
	must(t, dir.Save(who))
	c, admitted := waiting(t, lost.opts)
	now := c.Standby()
	if now.Directory == old || !strings.HasSuffix(now.Command, now.Directory) || !strings.Contains(now.Why, "knows "+lost.ID()+" by directory "+old) {
		t.Fatalf("standby %+v", now)
	}
	self, _ := lost.opts.member(lost.ID())
	change(t, leader, membership.AddNonvoter, membership.MemberStatus{Member: self, Directory: now.Directory})
	must(t, <-admitted)
	back, err := c.Start()
	must(t, err)
	closeAfter(t, back)
	same(t, leader, back)
}

// TestVotersAreOnTheCard: a directory that votes has stored what the others
// have. So a voter that does not know its cell can be distinguished from a
// directory that is about to join.
func TestVotersAreOnTheCard(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	leader, _ := lead(t, r)
	change(t, leader, membership.AddNonvoter, membership.MemberStatus{Member: membership.Member{ID: "r2", RaftAddr: "127.0.0.1:1"}, Directory: "d2"})
	until(t, "the card tells", func() bool {
		card := r.Info()
		return slices.Equal(card.Members, []string{string(r.self()), "r2/d2"}) && slices.Equal(card.Voters, []string{string(r.self())}) &&
			card.Applied >= card.ConfigIndex
	})
}

// TestCardOfARestoredState: no card shows a state from a snapshot without the
// configuration that came with it.
func TestCardOfARestoredState(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	_, epoch := lead(t, r)
	write(t, r, epoch, "a", 3)
	must(t, r.raft.Snapshot().Error())
	told := r.Info()
	snapshots := r.stores.Snapshots
	r.fsm.restored.Store(true)
	r.stores.Snapshots = raft.NewInmemSnapshotStore()
	if card := r.Info(); card.Applied != card.ConfigIndex {
		t.Errorf("without the snapshot's configuration the card tells %d of %d", card.ConfigIndex, card.Applied)
	}
	r.stores.Snapshots = snapshots
	if card := r.Info(); card.Applied < told.Applied || card.Applied <= card.ConfigIndex {
		t.Errorf("with it %d of %d", card.ConfigIndex, card.Applied)
	}
}

// TestJoinerAsksWhomItWasToldOf: a replica that joins has nothing of the log.
// Only the replicas that Join returned can report whether it was removed.
func TestJoinerAsksWhomItWasToldOf(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	lead(t, r)
	r.peers.Others = func(context.Context) ([]string, error) {
		return []string{"r1", "r7"}, errors.New("another does not answer")
	}
	if names := r.askNames(t.Context()); !slices.Equal(names, []string{"r1", "r7"}) {
		t.Errorf("it asks %q", names)
	}
}

// TestReplacementThatCannotBeNoted: the fault of the disk ends the process; the
// next start would find the same.
func TestReplacementThatCannotBeNoted(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	lead(t, r)
	answers := map[string]admission.Answer{"r2": {Info: admission.Info{CellID: r.CellID(), ConfigIndex: 1 << 20, Members: []string{"r1/another"}}}}
	save := r.stores.Save
	r.stores.Save = func(admission.Identity) error { return errDisk }
	if err := r.isReplaced(answers); !errors.Is(err, errDisk) || errors.Is(err, ErrReplaced) {
		t.Errorf("where it cannot be noted: %v", err)
	}
	r.stores.Save = save
	if err := r.isReplaced(answers); !errors.Is(err, ErrReplaced) {
		t.Errorf("where it can: %v", err)
	}
}

// TestFoundingWaitsForAll: while one replica of the list is away no cell is
// founded, and each of the others reports which one it waits for.
func TestFoundingWaitsForAll(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	var early []*Candidate
	done := make(chan error, 3)
	for _, o := range opts[:2] {
		c, err := Prepare(o)
		must(t, err)
		early = append(early, c)
		go func() { done <- c.Wait(t.Context()) }()
	}
	for _, c := range early {
		until(t, "it says for whom it waits", func() bool { return strings.Contains(c.Standby().Why, "r3 (") })
		if w := c.Standby(); w.Command != "" || w.CellID != "" {
			t.Errorf("standby %+v", w)
		}
	}
	last, err := Prepare(opts[2])
	must(t, err)
	go func() { done <- last.Wait(t.Context()) }()
	ids := map[string]bool{}
	var replicas []*Replica
	for range opts {
		must(t, <-done)
	}
	for _, c := range append(early, last) {
		r, err := c.Start()
		must(t, err)
		closeAfter(t, r)
		replicas = append(replicas, r)
		ids[r.CellID()] = true
	}
	if len(ids) != 1 {
		t.Errorf("cells %v", ids)
	}
	leader, epoch := lead(t, replicas...)
	write(t, leader, epoch, "a", 1)
	same(t, leader, replicas...)
}

// TestCellsDoNotMix: replicas of two cells have each other's addresses.
func TestCellsDoNotMix(t *testing.T) {
	t.Parallel()
	a, b := options(t, 1)[0], options(t, 1)[0]
	b.Cell = "other"
	one, two := start(t, a), start(t, b)
	lead(t, one)
	lead(t, two)
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Cell: "test", ID: "r2"}, `belongs to another cell than "test"`},
		{Options{Cell: "other", ID: "r2"}, "this is replica r1, not r2"},
	} {
		dir, err := datadir.Open(t.TempDir(), tc.o.Cell, "r1")
		must(t, err)
		h := &host{opts: &Options{Members: []membership.Member{{ID: "r2", RaftAddr: b.RaftListen}}}, dir: dir}
		if _, err := h.Ask(t.Context(), "r2"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v; want %s", err, tc.want)
		}
	}
}

// TestMembersAreInTheOrderInWhichTheyCame: a master uses the order to know
// which directory of a name was added last. A move keeps the order, and so does
// a vote.
func TestMembersAreInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	leader, _ := lead(t, startAll(t, options(t, 1)...)...)
	change := func(what membership.Change, directory, addr string) {
		t.Helper()
		s := membership.MemberStatus{Member: membership.Member{ID: "r0", RaftAddr: addr}, Directory: directory}
		must(t, leader.ChangeMember(t.Context(), 0, what, s))
	}
	change(membership.AddNonvoter, "00000000000000ff", "127.0.0.1:1")
	change(membership.AddNonvoter, "00000000000000aa", "127.0.0.1:1")
	change(membership.MoveMember, "00000000000000ff", "127.0.0.1:2")
	now, err := leader.Membership()
	must(t, err)
	if m := now.Members; len(m) != 3 || m[0].Directory != "00000000000000ff" || m[1].Directory != "00000000000000aa" || m[2].ID != leader.ID() {
		t.Errorf("%+v", m)
	}
}

// TestLateChange: a change is made although its caller no longer waits, and
// Membership reports it as changing until then.
func TestLateChange(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 1)...)
	leader, _ := lead(t, all...)
	before, err := leader.Membership()
	must(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s := membership.MemberStatus{Member: membership.Member{ID: "r9", RaftAddr: "127.0.0.1:1"}, Directory: "00000000000000a9"}
	if err := leader.ChangeMember(gone, before.Index, membership.AddNonvoter, s); err != nil && !errors.Is(err, membership.ErrUnknown) {
		t.Fatal(err)
	}
	var after membership.Membership
	until(t, "the change has an outcome", func() bool {
		after, err = leader.Membership()
		must(t, err)
		return !after.Changing
	})
	if len(after.Members) != 2 {
		t.Errorf("no change is under way, and the members are %+v", after.Members)
	}
}
