package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoutlock/stout/replica/admission"
)

// putBack stops a follower of three, continues without it, and restores an
// older copy of its directory, without the last entries.
func putBack(t *testing.T) (leader, old *Replica, o Options) {
	t.Helper()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "a", 30)
	same(t, leader, all...)
	old = without(all, leader)[0]
	o = old.opts
	stop(t, old)
	copied := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(copied, os.DirFS(o.DataDir)))
	again := start(t, o)
	write(t, leader, epoch, "b", 30)
	same(t, leader, again)
	until(t, "the leader knows what "+o.ID+" has stored", func() bool {
		return admission.AskLeader(t.Context(), o.ID, again.CellID(), o.names(), again.peers.Ask).Index >= leader.State().Index
	})
	stop(t, again)
	must(t, os.RemoveAll(o.DataDir))
	must(t, os.CopyFS(o.DataDir, os.DirFS(copied)))
	return leader, old, o
}

// refusedFor checks why a directory is refused.
func refusedFor(t *testing.T, o Options, err error) {
	t.Helper()
	for _, want := range []string{o.DataDir, "has lost what it had acknowledged", "stout member replace " + o.ID} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v; want %q in it", err, want)
		}
	}
}

// TestDirectoryThatWasPutBack does not start while the master knows about it,
// nor from then on.
func TestDirectoryThatWasPutBack(t *testing.T) {
	t.Parallel()
	leader, _, o := putBack(t)
	c, err := Prepare(o)
	must(t, err)
	must(t, c.Wait(t.Context()))
	c.answers = patience // the machine may be busy with other tests
	_, err = c.Start()
	refusedFor(t, o, err)
	stop(t, leader)
	_, err = Open(o)
	refusedFor(t, o, err)
}

// TestDirectoryPutBackUnseen: the replica starts while no other can be asked.
// The master detects that its log is too short, and sends it no entries. It
// ends when it asks.
func TestDirectoryPutBackUnseen(t *testing.T) {
	t.Parallel()
	_, _, o := putBack(t)
	c, err := Prepare(o)
	must(t, err)
	must(t, errors.Join(c.Wait(t.Context()), c.use()))
	s, p, err := c.open()
	must(t, err)
	r, err := Start(c.opts, s, p) // without asking before
	must(t, err)
	before := r.raft.LastIndex()
	refusedFor(t, o, <-r.Failed())
	if now := r.raft.LastIndex(); now != before {
		t.Errorf("it has been sent entries: its log ends at %d, and did at %d", now, before)
	}
	must(t, r.Close())
}
