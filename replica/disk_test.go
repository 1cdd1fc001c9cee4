package replica

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/boltlog"
	"github.com/stoutlock/stout/replica/datadir"
	"github.com/stoutlock/stout/replica/raftstore"
	"github.com/stoutlock/stout/replica/state"
)

// slowLog is a log with writes that hang on demand. The library's main loop can
// be made to hang as well: it reads the log's end before each write.
type slowLog struct {
	raft.LogStore
	mu   sync.Mutex
	free chan struct{} // closed when writes continue; nil while they do
	loop bool          // the loop hangs, not the writes
}

func (s *slowLog) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = make(chan struct{})
}

func (s *slowLog) hangLoop() {
	s.hang()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop = true
}

func (s *slowLog) LastIndex() (uint64, error) {
	s.mu.Lock()
	free, loop := s.free, s.loop
	s.mu.Unlock()
	if free != nil && loop {
		<-free
	}
	return s.LogStore.LastIndex()
}

func (s *slowLog) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.free)
	s.free = nil
}

func (s *slowLog) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

func (s *slowLog) StoreLogs(logs []*raft.Log) error {
	s.mu.Lock()
	free := s.free
	s.mu.Unlock()
	if free != nil {
		<-free
	}
	return s.LogStore.StoreLogs(logs)
}

// startSlow starts three replicas with disks that can be made to hang.
func startSlow(t *testing.T, set ...func(*Options)) (all []*Replica, disks map[*Replica]*slowLog) {
	t.Helper()
	disks = map[*Replica]*slowLog{}
	var candidates []*Candidate
	var waiting sync.WaitGroup
	for _, o := range options(t, 3) {
		for _, set := range set {
			set(&o)
		}
		c, err := Prepare(o)
		must(t, err)
		candidates = append(candidates, c)
		waiting.Go(func() { must(t, c.Wait(t.Context())) })
	}
	waiting.Wait()
	for _, c := range candidates {
		s, p, err := c.open()
		must(t, err)
		disk := &slowLog{LogStore: s.Logs}
		s.Logs = disk
		r, err := Start(c.opts, s, p)
		must(t, err)
		t.Cleanup(func() { stop(t, r) })
		all, disks[r] = append(all, r), disk
	}
	return all, disks
}

// TestLeaderWhoseDiskHangsIsReplaced: a leader with a hanging disk falls
// silent, the others elect a new one, and nothing that was acknowledged is
// lost. The library alone would keep the leader for as long as the write takes.
// The successor may commit entries that the leader sent and did not store.
func TestLeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	t.Parallel()
	all, disks := startSlow(t)
	old, epoch := lead(t, all...)
	write(t, old, epoch, "a", 5)
	disks[old].hang()
	late := old.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open("late")}})
	others := without(all, old)
	next, epoch2 := lead(t, others...)
	n := next.State().SessionCount()
	if epoch2 <= epoch || n < 5 || n > 6 {
		t.Errorf("epoch %d after %d with %d sessions, want the 5 that were acknowledged, and perhaps one more", epoch2, epoch, n)
	}
	write(t, next, epoch2, "b", 5)
	disks[old].goOn()
	if out, err := late(); err == nil && n == 5 {
		t.Errorf("what the successor does not know of is acknowledged: %+v", out)
	}
	write(t, next, epoch2, "c", 5)
	same(t, next, all...)
	if got := next.State().SessionCount(); got != n+10 {
		t.Errorf("%d sessions, want %d", got, n+10)
	}
}

// TestLeaderThatHangsIsReplaced: the hanging step may be the loop of the library
// or one that a caller added. In the first case heartbeats would continue, from
// goroutines of their own, and the leader could not notice that it no longer
// leads.
func TestLeaderThatHangsIsReplaced(t *testing.T) {
	for name, hang := range map[string]func(*Replica, *slowLog) (goOn func()){
		"loop": func(_ *Replica, disk *slowLog) func() { disk.hangLoop(); return disk.goOn },
		"caller": func(r *Replica, _ *slowLog) func() {
			step := r.opts.Progress.Step("answer")
			step.Begin()
			return step.End
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, disks := startSlow(t)
			old, epoch := lead(t, all...)
			write(t, old, epoch, "a", 5)
			goOn := hang(old, disks[old])
			_ = old.Submit(state.Batch{Epoch: epoch, LeaseMS: 1000, Commands: []state.Command{open("late")}})
			next, epoch2 := lead(t, without(all, old)...)
			// The loop waits for a write; either step may be reported first.
			if h := old.opts.Progress.Hangs(old.opts.MasterLease); h == nil || name == "loop" && h.Step != "raft" && h.Step != "disk" {
				t.Errorf("the old leader says %v", h)
			}
			if epoch2 <= epoch {
				t.Errorf("epoch %d after %d", epoch2, epoch)
			}
			goOn()
			write(t, next, epoch2, "b", 5)
			same(t, next, all...)
		})
	}
}

// TestLeaderCountsItsDiskLast: while its disk hangs, and before it falls silent
// because of that, a leader commits what both others store. Its snapshots wait
// for its disk.
func TestLeaderCountsItsDiskLast(t *testing.T) {
	t.Parallel()
	all, disks := startSlow(t, func(o *Options) { o.MasterLease = time.Minute })
	leader, epoch := lead(t, all...)
	disk := disks[leader]
	onDisk := func() uint64 {
		last, err := disk.LogStore.LastIndex()
		must(t, err)
		return last
	}
	write(t, leader, epoch, "a", 5)
	until(t, "its disk has all", func() bool { return onDisk() == leader.State().Index })
	stored, began := onDisk(), leader.Now()
	disk.hang()
	write(t, leader, epoch, "b", 100) // over the threshold of snapshots
	same(t, leader, without(all, leader)...)
	if h := leader.opts.Progress.Hangs(0); h == nil || h.Step != "disk" {
		t.Errorf("the leader says %v, want that its disk hangs", h)
	}
	if asOf, known := leader.AsOf(); !known || asOf <= began {
		t.Errorf("the leader has everything as of %v, want after %v", asOf, began)
	}
	until(t, "a snapshot of a follower's", func() bool { return len(snapshotsOf(t, without(all, leader)[0])) > 0 })
	for _, s := range snapshotsOf(t, leader) {
		if s.Index > stored {
			t.Errorf("a snapshot up to entry %d, and the disk has all up to %d", s.Index, stored)
		}
	}
	if onDisk() != stored {
		t.Errorf("the disk has entry %d, and hangs since %d", onDisk(), stored)
	}
	disk.goOn()
	until(t, "its disk has all", func() bool { return onDisk() >= leader.State().Index })
	until(t, "a snapshot of its own", func() bool { return len(snapshotsOf(t, leader)) > 0 })
	write(t, leader, epoch, "c", 5)
	same(t, leader, all...)
}

func snapshotsOf(t *testing.T, r *Replica) []*raft.SnapshotMeta {
	t.Helper()
	metas, err := r.stores.Snapshots.List()
	must(t, err)
	return metas
}

// TestAnswers: leader and followers answer when asked whether they work. A
// follower with a hanging disk does not answer until the disk continues. It
// delays no write, and catches up.
func TestAnswers(t *testing.T) {
	t.Parallel()
	all, disks := startSlow(t)
	leader, epoch := lead(t, all...)
	for _, r := range all {
		must(t, r.Answers(t.Context()))
	}
	slow := without(all, leader)[0]
	disks[slow].hang()
	write(t, leader, epoch, "a", 30)
	for hangs := false; !hangs; { // as soon as the entry has reached it
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		hangs = slow.Answers(ctx) != nil
		cancel()
	}
	must(t, leader.Answers(t.Context()))

	// A snapshot in progress keeps the loop busy as well, and does no harm.
	before := leader.progress.Load()
	must(t, leader.raft.Snapshot().Error())
	if leader.progress.Load() == before {
		t.Error("a snapshot's bytes are not counted")
	}
	arriving, over := context.WithCancel(t.Context())
	var sender sync.WaitGroup
	sender.Go(func() {
		for arriving.Err() == nil {
			slow.progress.Add(1)
			runtime.Gosched()
		}
	})
	must(t, slow.Answers(t.Context()))
	over()
	sender.Wait()

	disks[slow].goOn()
	must(t, slow.Answers(t.Context()))
	write(t, leader, epoch, "b", 1)
	same(t, leader, all...)
}

// TestDamageIsToldWhenItIsRead: an entry that a peer needs can no longer be
// read. The replica fails with the reason.
func TestDamageIsToldWhenItIsRead(t *testing.T) {
	t.Parallel()
	opts := options(t, 3)
	for i := range opts {
		opts[i].SnapshotThreshold, opts[i].TrailingLogs = 1<<20, 1<<20
	}
	all := startAll(t, opts...)
	leader, epoch := lead(t, all...)
	away := without(all, leader)[0]
	stop(t, away)
	write(t, leader, epoch, "needle", 1)
	write(t, leader, epoch, "a", raftstore.CacheSize+10)
	flip(t, logOf(leader), []byte("needle0000"))
	start(t, away.opts)
	failsByDamage(t, leader)
}

// TestDamageIsToldWhenItIsApplied: as above, for an entry that the replica
// itself must apply. A panic of the library does not end the process.
func TestDamageIsToldWhenItIsApplied(t *testing.T) {
	t.Parallel()
	all := startAll(t, options(t, 3)...)
	leader, epoch := lead(t, all...)
	write(t, leader, epoch, "needle", 1)
	write(t, leader, epoch, "a", 3)
	same(t, leader, all...)
	for _, r := range all {
		stop(t, r)
	}
	damaged := start(t, all[0].opts)
	flip(t, logOf(damaged), []byte("needle0000"))
	other := start(t, all[1].opts)
	until(t, "an office, or the end of the damaged one", func() bool {
		leader, _ := tryToLead(t, other) // a damaged leader needs no office
		return leader != nil || len(damaged.Failed()) > 0
	})
	failsByDamage(t, damaged)
}

func failsByDamage(t *testing.T, r *Replica) {
	t.Helper()
	select {
	case err := <-r.Failed():
		if !errors.Is(err, datadir.ErrDamaged) || !strings.Contains(err.Error(), "docs/operations.md") {
			t.Errorf("%s fails with %v", r.ID(), err)
		}
	case <-time.After(patience):
		t.Fatalf("%s goes on with a log that it cannot read", r.ID())
	}
}

// logOf returns the file of a replica's log.
func logOf(r *Replica) string { return filepath.Join(r.opts.DataDir, boltlog.FileName) }

// flip flips one bit wherever some bytes occur in a file.
func flip(t *testing.T, name string, what []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	n := 0
	for at := bytes.Index(raw, what); at >= 0; at = bytes.Index(raw, what) {
		raw[at] ^= 1
		_, err := file.WriteAt(raw[at:at+1], int64(at))
		must(t, err)
		n++
	}
	if n == 0 {
		t.Fatalf("%q is not in %s", what, name)
	}
}
