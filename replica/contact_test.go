package replica

import (
	"testing"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/state"
)

// TestHeardByDirectory: the cell's state has a new address for a member, where
// a new directory of its name waits. The member's process runs at the old
// address, which the others' settings have, and follows the master.
//
//  1. Asked for by name or by directory, the member itself answers.
//  2. Its answers to Raft count as its own.
//  3. Once it is gone, the new directory answers for it.
func TestHeardByDirectory(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	all := startAll(t, opts...)
	leader, epoch := lead(t, all...)
	away := without(all, leader)[0]
	moved := away.opts
	moved.DataDir, moved.RaftListen = t.TempDir(), freeAddrs(t, 1)[0]
	knocks, err := Prepare(moved)
	must(t, err)
	defer knocks.Close()
	put := state.Member{ID: away.ID(), Directory: away.Directory(), RaftAddr: moved.RaftListen, URL: "http://new"}
	out, err := leader.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{
		{Operation: &state.RaiseLevel{Level: state.Level}}, {Operation: &state.PutMember{Member: put}}}})()
	must(t, err)
	if len(out.Results) != 2 || out.Results[1] != state.Done {
		t.Fatalf("%+v", out)
	}
	before := answersOf(t, leader, away)
	write(t, leader, epoch, "a", 5)
	same(t, leader, away)
	until(t, "its answers are counted", func() bool { return answersOf(t, leader, away) > before })
	server := admission.ServerID(away.ID(), away.Directory())
	for _, id := range []string{away.ID(), server} {
		if card, err := leader.Ask(t.Context(), id); err != nil || card.Directory != away.Directory() {
			t.Errorf("asked for %s, directory %s answers, %v; want %s", id, card.Directory, err, away.Directory())
		}
	}
	must(t, away.Close())
	card, err := leader.Ask(t.Context(), server)
	if who := knocks.host.dir.Identity(); err != nil || card.Directory != who.Directory || card.CellID != "" {
		t.Errorf("asked for %s, which has stopped: %+v, %v; want the card of directory %s", server, card, err, who.Directory)
	}
}

// answersOf returns a leader's count of a member's answers.
func answersOf(t *testing.T, leader, of *Replica) uint64 {
	t.Helper()
	now, err := leader.Membership()
	must(t, err)
	for _, s := range now.Members {
		if s.ID == of.ID() && s.Directory == of.Directory() {
			return s.Answers
		}
	}
	t.Fatalf("%s is not a member: %+v", of.ID(), now.Members)
	return 0
}
