package master

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// TestBackupHasWhatWasAcknowledged, describes its contents, and can be
// restored.
func TestBackupHasWhatWasAcknowledged(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, _ *fakeCell) {
		s := newSession(t, m, time.Minute)
		req := lockapi.NewLockRequest(s)
		g, err := acquireLock(t, m, "/a", req)
		must(t, err)
		b, err := m.GetBackup(t.Context(), &Read{}, &lockapi.GetBackup{})
		must(t, err)
		h := b.Header
		if h.Stale || h.Token != g.Token || h.Revision != n.State().Revision || h.Index != n.State().Index || h.Replica != "r1" ||
			h.Contents != (lockapi.BackupContents{Sessions: 1, Holds: 1, Locks: 1}) {
			t.Errorf("%+v", h)
		}
		var raw bytes.Buffer
		must(t, b.Snapshot(&raw))
		back, err := state.Restore(&raw)
		if err != nil || back.LastToken() != g.Token {
			t.Errorf("%v", err)
		}
		own, err := m.OwnBackup()
		if err != nil || own.Header.Stale || own.Header.Revision != h.Revision {
			t.Errorf("%+v, %v", own.Header, err)
		}
	})
}

// TestBackupOfAReplica: it is the replica's own state and marked so; only the
// master gives the cell's.
func TestBackupOfAReplica(t *testing.T) {
	inCell(t, 3, Options{Drift: 0.01}, func(t *testing.T, c *fakeCell) {
		c.office("r1")
		for _, n := range c.nodes {
			own, err := n.master.OwnBackup()
			if err != nil || own.Header.Stale != (n.id != "r1") || own.Header.Replica != n.id {
				t.Errorf("%s: %+v, %v", n.id, own.Header, err)
			}
			n.Lag(true)
			if _, err := n.master.OwnBackup(); !errors.Is(err, lockapi.CodeNoMaster) {
				t.Errorf("%s, which has not caught up since its start: %v", n.id, err)
			}
			n.Lag(false)
			_, err = n.master.GetBackup(t.Context(), &Read{Stale: true}, &lockapi.GetBackup{})
			if n.id == "r1" && err != nil || n.id != "r1" && !errors.Is(err, lockapi.CodeNoMaster) {
				t.Errorf("%s: %v", n.id, err)
			}
		}
	})
}
