package raftstore

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestDiscardWhatDisagreesWithASnapshot: of entries behind the end of a
// snapshot that is found when the stores are opened, those stay which go on
// from it.
func TestDiscardWhatDisagreesWithASnapshot(t *testing.T) {
	_, wire := raft.NewInmemTransport("")
	for _, c := range []struct {
		name string
		term uint64 // of the snapshot's last entry, 20; the log has entries 5 to 24 of term 3
		from uint64 // of the log
		want uint64 // its last entry then
	}{
		{"it agrees", 3, 5, 24},
		{"it disagrees", 4, 5, 19},
		{"nothing is before it", 4, 20, 0},
		{"its end is not there", 4, 21, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshots := raft.NewInmemSnapshotStore()
			sink, err := snapshots.Create(raft.SnapshotVersionMax, 20, c.term, raft.Configuration{}, 1, wire)
			must(t, err)
			must(t, sink.Close())
			log := raft.NewInmemStore()
			must(t, log.StoreLogs(entries(c.from, 24, 3)))
			l := &logStore{LogStore: log, snapshots: snapshots, leading: func() bool { return false }, fail: func(err error) { t.Error(err) }}
			must(t, l.look(log))
			last, err := log.LastIndex()
			must(t, err)
			if last != c.want {
				t.Errorf("the log ends at %d, want %d", last, c.want)
			}
			if want := c.want < 20; l.gap.before(20) != want {
				t.Errorf("the log goes on behind the snapshot only: %v, want %v", !want, want)
			}
		})
	}
}

// TestStandInIsNotStored: what the library discards for it is, and a leader
// reads nothing from before it.
func TestStandInIsNotStored(t *testing.T) {
	log := raft.NewInmemStore()
	must(t, log.StoreLogs(entries(1, 19, 3)))
	l := &logStore{LogStore: log}
	must(t, l.StoreLogs([]*raft.Log{{Index: 20, Term: 4, Type: StandIn}}))
	if last, err := log.LastIndex(); err != nil || last != 19 || !l.gap.before(20) {
		t.Errorf("the log ends at %d (%v); a leader reads from before the snapshot: %v", last, err, !l.gap.before(20))
	}
}
