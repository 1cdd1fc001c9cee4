package simcell

import (
	"slices"
	"time"

	"github.com/stoutlock/stout/client"
)

// These are the bounds of the second half, after all faults.
const (
	memberWithin   = 90 * time.Second
	electedWithin  = 20 * time.Second
	servedWithin   = 90 * time.Second
	emptyWithin    = 60 * time.Second
	receivedWithin = 60 * time.Second
	// The library waits for up to 10 s before it retries what has failed often.
	followedWithin = 20 * time.Second
)

// settle ends the faults and checks that the cell recovers: a master is in
// office, every user gets every lock, and in the end the cell is empty.
func (w *world) settle() {
	w.trace.note("script", "the faults are over")
	w.mend()
	go w.tend()
	w.within(memberWithin, "every directory votes", w.settled)
	w.lacks = ""
	w.within(electedWithin, "a master is in office", w.hasMaster)
	w.access.conclude()
	w.quiet = true
	for _, u := range w.users {
		clear(u.served)
	}
	w.within(servedWithin, "every user gets every lock", func() bool {
		for _, u := range w.users {
			if !u.isServed() {
				return false
			}
		}
		return true
	})
	w.within(emptyWithin, "the cell is empty", func() bool {
		s := w.oracle.latest()
		return s.SessionCount() == 0 && s.LockCount() == 0 && s.HoldCount() == 0 && s.WaitCount() == 0
	})
	w.within(receivedWithin, "every watcher has received all events", w.allReceived)
	all := w.oracle.latest().Index
	w.within(followedWithin, "every replica has applied all entries", func() bool {
		return !slices.ContainsFunc(w.machines, func(m *machine) bool {
			if w.memberOperator != nil && !w.oracle.roster.latest().has(m.id) {
				return false
			}
			if m.process == nil || m.process.replica == nil {
				return true
			}
			return m.process.replica.State().Index < all && !w.needsReplacement(m.process)
		})
	})
}

// needsReplacement reports whether a replica refuses the master permanently. It
// was away when the removed master was added again, and no other member that it
// knows is left to report that.
func (w *world) needsReplacement(p *process) bool {
	from := w.leader()
	if from == nil || p.replica.CheckSender(from.disk.who.ServerID()) == nil {
		return false
	}
	known := w.oracle.roster.upTo(p.replica.State().Index)
	for server := range w.oracle.roster.latest().all() {
		if server != p.disk.who.ServerID() && known.hasServer(server) {
			return false
		}
	}
	w.stats.check("refuses a master that was removed and added again")
	return true
}

// hasMaster reports whether a master holds its lease.
func (w *world) hasMaster() bool {
	w.oracle.looking = true // a paused process still answers
	defer func() { w.oracle.looking = false }()
	for _, m := range w.machines {
		if p := m.process; p != nil && p.master != nil && p.master.Lease().Held {
			return true
		}
	}
	return false
}

// within waits until a condition holds, and fails the run after the bound.
func (w *world) within(bound time.Duration, what string, so func() bool) {
	deadline := w.now() + bound
	for !w.failed() {
		w.oracle.look()
		if so() {
			w.stats.check(what)
			return
		}
		if w.now() > deadline {
			w.fail("%v after the end of the faults it does not hold that %s: %s", bound, what, w.lacks)
			return
		}
		w.until(20 * time.Millisecond)
	}
}

// end stops everything that runs in the simulated world.
func (w *world) end() {
	close(w.over)
	for _, u := range w.users {
		u.crash()
	}
	for _, m := range w.machines {
		m.crash()
	}
	time.Sleep(client.DefaultGrace + 2*time.Minute) // for goroutines that wait without checking
}
