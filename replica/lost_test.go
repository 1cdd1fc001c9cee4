package replica

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stoutlock/stout/replica/raftstore"
)

// diskCopy returns a copy of a disk.
func diskCopy(t *testing.T, d *memoryDisk) *memoryDisk {
	t.Helper()
	to := raft.NewInmemStore()
	last, err := d.LastIndex()
	must(t, err)
	for i := uint64(1); i <= last; i++ {
		var l raft.Log
		must(t, d.InmemStore.GetLog(i, &l))
		must(t, to.StoreLog(&l))
	}
	term, err := d.GetUint64([]byte(raftstore.KeyTerm))
	must(t, err)
	must(t, to.SetUint64([]byte(raftstore.KeyTerm), term))
	return newMemoryDisk(to)
}

// TestLostChangesAreReported: an older copy of b's directory is restored, and c
// was behind. While a is away both elect a master, which lacks what a and b had
// stored.
func TestLostChangesAreReported(t *testing.T) {
	for name, c := range map[string]struct{ restart, snapshot bool }{
		"a runs on":                           {},
		"a is started again":                  {restart: true},
		"a is sent a snapshot":                {snapshot: true},
		"a starts again, and gets a snapshot": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cell := steered(t, 3)
				defer cell.close()
				a, epoch := lead(t, cell.all...)
				write(t, a, epoch, "before", 5)
				same(t, a, cell.all...)
				b, late := without(cell.all, a)[0], without(cell.all, a)[1]
				old := diskCopy(t, cell.disks[b.ID()])
				cell.cut(late)
				write(t, a, epoch, "lost", 30)
				same(t, a, b)
				has := a.State().Index

				cell.cut(cell.all...)
				cell.disks[b.ID()].crash()
				must(t, b.Close())
				cell.all = without(cell.all, b)
				cell.disks[b.ID()] = old
				b = cell.start(b.opts, true)
				cell.all = append(cell.all, b)
				if c.restart {
					a = cell.restarted(a)
				}
				cell.link(b, late)
				next, epoch := lead(t, b, late)
				write(t, next, epoch, "instead", 2)
				if c.snapshot {
					snapshots(t, next)
				}

				cell.link(cell.all...)
				var err error
				select {
				case err = <-a.Failed():
				case <-time.After(time.Minute): // virtual
				}
				if !errors.Is(err, raftstore.ErrLostChanges) || !strings.Contains(fmt.Sprint(err), "docs/operations.md") {
					t.Errorf("it ends with %v", err)
				}
				if cell.disks[a.ID()].term(has) == 0 {
					t.Errorf("it has removed entry %d", has)
				}
				until(t, "the master knows", func() bool {
					for _, m := range next.Members() {
						if m.ID == a.ID() {
							return errors.Is(m.Refuses, raftstore.ErrLostChanges)
						}
					}
					return false
				})
			})
		})
	}
}
