package master

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/internal/progress"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// TestMasterThatHangsLosesItsOffice: the log accepts no entry, and the office
// is over within two terms of the lease. The probes report it until the stage
// continues.
func TestMasterThatHangsLosesItsOffice(t *testing.T) {
	one(t, func(t *testing.T, m *Master, n *node, c *fakeCell) {
		o := openOffice(t, n)
		synctest.Wait()
		until := make(chan struct{})
		n.until = until
		go func() { _, _ = o.batcher.Begin(open("s"), nil)() }()
		began := time.Now()
		<-o.done
		if took := time.Since(began); took > 2*leaseTerm {
			t.Errorf("in office for %v", took)
		}
		if err := m.Hangs(); err == nil || !strings.Contains(err.Error(), "propose") || m.vitals.resigned["propose"].Load() != 1 {
			t.Errorf("it says %v, and has resigned %v", err, m.vitals.resigned)
		}
		time.Sleep(leaseTerm)
		if n.master.inOffice() != nil || m.Hangs() == nil {
			t.Errorf("another office while it hangs, and says %v", m.Hangs())
		}
		close(until)
		time.Sleep(leaseTerm)
		if openOffice(t, n) == o || m.Hangs() != nil {
			t.Errorf("the office continues, and Hangs is %v", m.Hangs())
		}
	})
}

// TestHeldMutexEndsTheOffice: the batches that renew the lease need none of
// these mutexes. Otherwise a master would stay in office without serving.
func TestHeldMutexEndsTheOffice(t *testing.T) {
	for name, mutex := range map[string]func(m *Master, o *office) sync.Locker{
		"master": func(m *Master, _ *office) sync.Locker { return &m.mu },
		"office": func(_ *Master, o *office) sync.Locker { return &o.mu },
		"quotas": func(_ *Master, o *office) sync.Locker { return o.quotas.Mutex() },
		"turns":  func(_ *Master, o *office) sync.Locker { return &o.turns.mu },
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64 // a bubble's time stops while a goroutine waits for a mutex
			watch := progress.New(func() time.Duration { return time.Duration(now.Load()) })
			inCell(t, 1, Options{Drift: 0.01, Progress: watch}, func(t *testing.T, c *fakeCell) {
				n := c.office("r1")
				m, o := n.master, openOffice(t, n)
				held := mutex(m, o)
				held.Lock()
				defer held.Unlock()
				go m.tryAll(watch.Step("mutex"))
				for now.Add(int64(leaseTerm)); watch.Hangs(leaseTerm) == nil; now.Add(int64(leaseTerm)) {
					runtime.Gosched()
				}
				m.lookForHangs(m.opts.LeaseTerm)
				<-o.done
				if err := m.Hangs(); err == nil || o.leaseValid() {
					t.Errorf("it says %v, and has its lease: %v", err, o.leaseValid())
				}
			})
		})
	}
}
