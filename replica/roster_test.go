package replica

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/replica/admission"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/peerconn"
	"github.com/stoutlock/stout/replica/rafttransport"
)

// refuses reports whether a replica refuses all messages of a server, for a
// reason with the given words.
func refuses(r *Replica, server, why string) bool {
	err := r.CheckSender(server)
	return err != nil && strings.Contains(err.Error(), why)
}

const (
	wasRemoved = "was removed from this cell"
	isNone     = "is not a member of this cell"
)

// usurper returns a Raft message with which a server claims to lead from a term
// on.
func usurper(t *testing.T, server string, term uint64) []byte {
	t.Helper()
	at := []byte(rafttransport.Address(server, "127.0.0.1:9"))
	var b []byte
	must(t, codec.NewEncoderBytes(&b, &codec.MsgpackHandle{}).Encode(&raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(server), Addr: at}, Term: term,
		//lint:ignore SA1019 Leader goes over the wire
		Leader: at,
	}))
	return append([]byte{0}, b...)
}

// TestRemovedReplica: the connections of a removed replica are closed, and it
// can open no other, even under the name of another directory. Its messages do
// not count. That remains so after restarts, and while there is no master.
func TestRemovedReplica(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	removed := membership.MemberStatus{Member: membership.Member{ID: "r4", RaftAddr: "127.0.0.1:9"}, Directory: "d"}
	change(t, leader, membership.AddNonvoter, removed)
	var conns []net.Conn
	for _, r := range all {
		until(t, "the new member is believed", func() bool { return r.CheckSender("r4/d") == nil && r.Member("r4/d") == nil })
		for _, kind := range []peerconn.Kind{peerconn.Raft, peerconn.Call} {
			c, err := stranger(t, r.opts, kind, "r4/d")
			must(t, err)
			conns = append(conns, c)
		}
	}
	change(t, leader, membership.RemoveMember, removed)
	for _, r := range all {
		until(t, "the member is removed", func() bool { return refuses(r, "r4/d", wasRemoved) })
	}
	for _, c := range conns {
		_, _ = c.Write(usurper(t, "r4/d", 1<<40))
		until(t, "its connection is closed", func() bool { return isClosed(c) })
	}
	for _, r := range all {
		for server, why := range map[string]string{"r4/d": wasRemoved, "r4/another": wasRemoved, "r9/z": isNone} {
			for _, kind := range []peerconn.Kind{peerconn.Raft, peerconn.Call} {
				if _, err := stranger(t, r.opts, kind, server); err == nil || !strings.Contains(err.Error(), why) {
					t.Errorf("%s opens a connection for %v to %s: %v", server, kind, r.ID(), err)
				}
			}
			if r.Member(server) == nil {
				t.Errorf("the word of %s counts", server)
			}
		}
		for _, other := range all {
			if err := r.CheckSender(string(other.self())); err != nil {
				t.Errorf("%s: %v", r.ID(), err)
			}
		}
		if term := r.term(); term >= 1<<40 {
			t.Errorf("%s is in term %d", r.ID(), term)
		}
	}
	write(t, leader, epoch, "a", 60) // a snapshot has what the log had
	same(t, leader, all...)
	for _, r := range all {
		stop(t, r)
	}
	alone := start(t, leader.opts)
	for _, server := range []string{"r4/d", "r4/another"} {
		if !refuses(alone, server, wasRemoved) {
			t.Errorf("alone, it believes %s: %v", server, alone.CheckSender(server))
		}
		if _, err := stranger(t, alone.opts, peerconn.Raft, server); err == nil {
			t.Errorf("%s opens a connection", server)
		}
	}
	must(t, alone.CheckSender("r9/z"))
	if alone.Member("r9/z") == nil {
		t.Error("the word for others of one that it does not know counts")
	}
	next := append(again(t, without(all, leader)), alone)
	leader, epoch = lead(t, next...)
	write(t, leader, epoch, "b", 5)
	same(t, leader, next...)
}

// TestRollAheadOfTheLog: a member has reported a removal that is not in the log
// yet. The removed server is refused, though the log lists it.
func TestRosterAheadOfTheLog(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, _ := lead(t, all...)
	others := without(all, leader)
	behind, gone := others[0], string(others[1].self())
	until(t, "it is a member", func() bool { return behind.roster.now.Load().Lists(gone) })
	behind.enroll(func(l *admission.Roster) *admission.Roster {
		return l.Note(1<<20, []string{string(leader.self()), string(behind.self())}, nil)
	})
	if !lists(behind.servers(), gone) {
		t.Fatal("the log does not list it")
	}
	if !refuses(behind, gone, wasRemoved) {
		t.Errorf("%s is believed: %v", gone, behind.CheckSender(gone))
	}
	if behind.Member(gone) == nil {
		t.Errorf("the word of %s counts", gone)
	}
	card := admission.Info{ID: others[1].ID(), Directory: others[1].Directory()}
	if kept := behind.withoutRemoved(map[string]admission.Answer{card.ID: {Info: card}}); len(kept) > 0 {
		t.Errorf("the card of %s counts", gone)
	}
	must(t, behind.CheckSender(string(leader.self())))
}

// TestRemovedByTheRoll: a replica that was away learns of its own removal from
// members that are removed next. Their cards no longer count, but it still
// knows of its removal.
func TestRemovedByTheRoster(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	lead(t, r)
	must(t, r.isReplaced(map[string]admission.Answer{}))
	r.enroll(func(l *admission.Roster) *admission.Roster { return l.Note(1<<20, []string{"r4/d"}, nil) })
	if err := r.isReplaced(map[string]admission.Answer{}); !errors.Is(err, ErrRemoved) {
		t.Errorf("its removal: %v", err)
	}
}

// again restarts replicas.
func again(t *testing.T, stopped []*Replica) (all []*Replica) {
	t.Helper()
	for _, r := range stopped {
		all = append(all, start(t, r.opts))
	}
	return all
}

// growing starts a cell of three, and returns it with the options of two that
// may join it.
func growing(t *testing.T) (all []*Replica, four, five Options) {
	t.Helper()
	opts := options(t, 5)
	members := opts[0].Members
	for i := range opts {
		if i < 3 {
			opts[i].Members = members[:3]
			continue
		}
		opts[i].Members = []membership.Member{members[i]}
		opts[i].Join = func(context.Context) ([]membership.Member, error) { return members, nil }
	}
	return startAll(t, opts[:3]...), opts[3], opts[4]
}

// joined returns a replica with a new directory that has become a voter.
func joined(t *testing.T, leader *Replica, o Options) *Replica {
	t.Helper()
	c, admitted := waiting(t, o)
	s := membership.MemberStatus{Member: o.Members[0], Directory: c.Standby().Directory}
	change(t, leader, membership.AddNonvoter, s)
	must(t, <-admitted)
	r, err := c.Start()
	must(t, err)
	closeAfter(t, r)
	same(t, leader, r)
	change(t, leader, membership.MakeVoter, s)
	return r
}

// drop removes a member; its replica may end by itself.
func drop(t *testing.T, leader, r *Replica) {
	t.Helper()
	change(t, leader, membership.RemoveMember, membership.MemberStatus{Member: membership.Member{ID: r.ID()}, Directory: r.Directory()})
	_ = r.Close()
}

// TestAwayWhileAllWereReplaced: a replica comes back and knows none of the
// members, which have other names. They bring it up to date, and it votes for
// them.
func TestAwayWhileAllWereReplaced(t *testing.T) {
	t.Parallel()
	all, four, five := growing(t)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 5)
	same(t, leader, all...)
	away, second := without(all, leader)[0], without(all, leader)[1]
	stop(t, away)
	r4 := joined(t, leader, four)
	drop(t, leader, second)
	r5 := joined(t, leader, five)
	must(t, leader.Transfer(t.Context(), "r4"))
	first := leader
	leader, epoch = lead(t, r4)
	drop(t, leader, first)
	write(t, leader, epoch, "b", 60) // it is brought up to date by a snapshot

	back := start(t, away.opts)
	same(t, leader, back)
	until(t, "it knows the members", func() bool {
		return back.CheckSender(string(r5.self())) == nil && refuses(back, string(first.self()), wasRemoved)
	})
	stop(t, leader) // then its vote is needed
	leader, epoch = lead(t, r5, back)
	write(t, leader, epoch, "c", 5)
	same(t, leader, r5, back)
}

// TestAwayWhileOneCameAgain: a replica saw a member removed, and was away when
// another of that name was added, which leads now. It asks the members that it
// knows.
func TestAwayWhileOneCameAgain(t *testing.T) {
	t.Parallel()
	all, four, _ := growing(t)
	leader, _ := lead(t, all...)
	once := membership.MemberStatus{Member: four.Members[0], Directory: "once"}
	change(t, leader, membership.AddNonvoter, once)
	change(t, leader, membership.RemoveMember, once)
	for _, r := range all {
		until(t, "it is removed", func() bool { return refuses(r, "r4/once", wasRemoved) })
	}
	away := without(all, leader)[0]
	stop(t, away)
	r4 := joined(t, leader, four)
	must(t, leader.Transfer(t.Context(), "r4"))
	leader, epoch := lead(t, r4)
	write(t, leader, epoch, "a", 5)

	back := start(t, away.opts)
	if !refuses(back, string(r4.self()), wasRemoved) && back.roster.now.Load().Index < leader.Info().ConfigIndex {
		t.Error("it believes one that it knows as removed")
	}
	same(t, leader, back)
	if !refuses(back, "r4/once", wasRemoved) {
		t.Errorf("the directory that was removed: %v", back.CheckSender("r4/once"))
	}
}

// TestCardsOfTheRemoved: a removed replica's card ends no member and
// quarantines no directory.
func TestCardsOfTheRemoved(t *testing.T) {
	t.Parallel()
	r := start(t, options(t, 1)[0])
	lead(t, r)
	removed := membership.MemberStatus{Member: membership.Member{ID: "r4", RaftAddr: "127.0.0.1:9"}, Directory: "d"}
	change(t, r, membership.AddNonvoter, removed)
	change(t, r, membership.RemoveMember, removed)
	until(t, "it is removed", func() bool { return refuses(r, "r4/d", wasRemoved) })
	card := admission.Info{
		ID: "r4", Directory: "x", CellID: r.CellID(), ConfigIndex: 1 << 40, Members: []string{"r4/x"},
		Leads: true, Stored: admission.Stored{Term: 1 << 40, Index: 1 << 40},
	}
	answers := r.withoutRemoved(map[string]admission.Answer{"r4": {Info: card}})
	must(t, r.isReplaced(answers))
	must(t, r.forgets(answers))
	if r.CheckSender("r4/x") == nil {
		t.Error("it believes what that one says of itself")
	}
}

// TestMemberCanBeAsked: Member allocates no memory, because it is called for
// each piece of data that others send.
func TestMemberCanBeAsked(t *testing.T) {
	r := start(t, options(t, 1)[0])
	lead(t, r)
	self := string(r.self())
	until(t, "its configuration is committed", func() bool { return r.roster.now.Load().Lists(self) })
	if n := testing.AllocsPerRun(100, func() { _ = r.CheckSender(self) }); n > 0 {
		t.Errorf("it takes %v allocations", n)
	}
}

// TestRosterIsWrittenAgain: a write that fails is repeated without another change,
// and logged once.
func TestRosterIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r, writes := &Replica{quit: make(chan struct{})}, 0
		r.opts.Logger = zerolog.New(&log)
		r.stores.Save = func(admission.Identity) error {
			if writes++; writes < 3 {
				return errors.New("no space left on device")
			}
			return nil
		}
		r.roster.begin(admission.Identity{})
		r.noteCommitted(7, raft.Configuration{Servers: []raft.Server{{ID: "r1/a"}}})
		ended := make(chan struct{})
		go func() { defer close(ended); r.keepRoster() }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.roster.dirty() || writes != 3 || strings.Count(log.String(), "no space left") != 1 {
			t.Errorf("%d writes: %s", writes, log.String())
		}
		close(r.quit)
		<-ended
	})
}

// TestRosterWhileTheDiskHangs: while the roster is being written to a hanging disk,
// a configuration is still recorded and believed.
func TestRosterWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	begun, disk := make(chan struct{}), make(chan struct{})
	defer close(disk)
	r := &Replica{}
	r.stores.Save = func(admission.Identity) error { close(begun); <-disk; return nil }
	r.roster.begin(admission.Identity{})
	go func() { _ = r.keep(func(*admission.Identity) {}) }()
	<-begun
	go r.noteCommitted(7, raft.Configuration{Servers: []raft.Server{{ID: "r1/a"}}})
	until(t, "the configuration is believed", func() bool { now := r.roster.now.Load(); return now.Index == 7 && now.Lists("r1/a") })
}
