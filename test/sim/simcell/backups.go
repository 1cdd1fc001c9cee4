package simcell

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/state"
)

// In some runs an operator keeps backups: of the cell, through the master, and
// of replicas by their schedule. The oracle checks each backup against the log.
// It also checks a cell restored from it against what the old cell had issued.

// keeper is the operator that keeps backups.
type keeper struct {
	w   *world
	rng *rand.Rand
}

// newKeeper draws whether there is one. It has a random stream of its own, so
// that other runs stay the same.
func newKeeper(w *world) *keeper {
	rng := rand.New(rand.NewPCG(w.opts.Seed, 4))
	if rng.IntN(4) > 0 {
		return nil
	}
	return &keeper{w, rng}
}

// start starts the keeper.
func (k *keeper) start() {
	if k != nil {
		go k.keep()
	}
}

func (k *keeper) keep() {
	for !k.w.isOver() {
		time.Sleep(between(k.rng, 10*time.Millisecond, 3*time.Second))
		if k.w.isOver() {
			return
		}
		m := k.w.machines[k.rng.IntN(len(k.w.machines))]
		if p := m.process; p != nil && p.master != nil {
			k.backup(p)
		}
	}
}

// backup reads a backup at one replica, either linearizable or of its own state.
func (k *keeper) backup(p *process) {
	j, own := k.w.oracle, k.rng.IntN(4) == 0
	floor := j.floor()
	p.awake()
	var b master.Backup
	var err error
	if own {
		b, err = p.master.OwnBackup()
		if b.Header.Stale {
			floor = 0
		}
	} else {
		b, err = p.master.GetBackup(p.gone, &master.Read{Caller: k.w.operator()}, &lockapi.GetBackup{})
	}
	if p.awake(); err != nil || p.dead() || k.w.isOver() {
		return
	}
	var raw bytes.Buffer
	if err := b.Snapshot(&raw); err != nil {
		k.w.fail("a backup by %s cannot be written: %v", p.m.id, err)
		return
	}
	s, err := state.Restore(&raw)
	if err != nil {
		k.w.fail("a backup by %s cannot be read: %v", p.m.id, err)
		return
	}
	if h := b.Header; h.Index != s.Index || h.Revision != s.Revision || h.Token != s.LastToken() {
		k.w.fail("a backup by %s has a header of entry %d, revision %d, token %d, and a state of %d, %d, %d", p.m.id, h.Index, h.Revision, h.Token, s.Index, s.Revision, s.LastToken())
	}
	j.backedUp(p.m.id, floor, s)
	if known := p.disk.knew; own && s.Revision < known && !p.m.putBack {
		k.w.fail("a backup by %s of its own state has revision %d; it had applied %d before its start", p.m.id, s.Revision, known)
	}
	j.restored(s, uint64(k.rng.Int64N(2_000)))
}

// backedUp checks that a backup is a state of the log, no earlier than what was
// reported before the call began.
func (o *oracle) backedUp(by string, floor uint64, s *state.State) {
	o.checks("backup")
	switch {
	case s.Index < floor:
		o.w.fail("a backup by %s has entry %d; before the call, the effect of entry %d had been reported", by, s.Index, floor)
	case s.Index >= uint64(len(o.history)) || o.history[s.Index] == nil || o.hash(o.history[s.Index]) != s.Hash():
		o.w.fail("a backup by %s differs from the log's state at entry %d", by, s.Index)
	}
}

// restored checks the first state of a cell restored from a backup. It has the
// files but no sessions, nor what ends with them. Every held lock is delayed.
// All new numbers are above the issued ones and above the floor.
func (o *oracle) restored(from *state.State, floor uint64) {
	o.w.stats.check("restore")
	s := from.Restored(floor)
	if err := s.Check(); err != nil {
		o.w.fail("a restored state contradicts itself: %v", err)
		return
	}
	if s.SessionCount() != 0 || s.HoldCount() != 0 || s.WaitCount() != 0 {
		o.w.fail("a restored state has %d sessions, %d holds and %d waits", s.SessionCount(), s.HoldCount(), s.WaitCount())
	}
	highest := uint64(0)
	for token, g := range o.tokens {
		if g.index > from.Index {
			continue
		}
		highest = max(highest, token)
		if g.freed != 0 && g.freed <= from.Index {
			continue
		}
		asked := g.hold.DelayMS
		if asked == 0 {
			asked = state.DelayOfNone
		}
		if l, ok := s.Lock(g.hold.Path); !ok || l.DelayID == 0 || l.DelayMS < asked {
			o.w.fail("%s was held with a lock-delay of %d ms, and is restored as %+v", g.hold.Path, g.hold.DelayMS, l)
		}
	}
	if n := s.LastToken(); n <= highest || n < floor {
		o.w.fail("tokens of a restored cell continue from %d; %d was granted, and the floor is %d", n, highest, floor)
	}
	if s.Revision <= from.Revision || s.Revision < floor {
		o.w.fail("revisions of a restored cell continue from %d; the backup has %d, and the floor is %d", s.Revision, from.Revision, floor)
	}
	o.restoredFiles(from, s)
	if !s.Office.Open || s.Office.LeaseMS != state.MaxLeaseMS || s.Epoch <= from.Epoch {
		o.w.fail("the first master of a restored cell would wait for %+v, in epoch %d after %d", s.Office, s.Epoch, from.Epoch)
	}
}

// restoredFiles checks that exactly the files that do not end with a session
// are restored, unchanged.
func (o *oracle) restoredFiles(from, s *state.State) {
	n := 0
	for f := range from.Files("", "") {
		got, there := s.File(f.Path)
		owner := f.Session
		for h := range from.Holders(f.Path) {
			if h.Key == state.KeyDeleted {
				owner = h.Session
			}
		}
		if owner != "" {
			if there {
				o.w.fail("%s, which ends with session %s, is restored", f.Path, owner)
			}
			continue
		}
		if n++; !there || got.Revision != f.Revision || string(got.Content) != string(f.Content) {
			o.w.fail("%s of revision %d is restored as %+v", f.Path, f.Revision, got)
		}
	}
	if s.FileCount() != n {
		o.w.fail("%d files are restored, want %d", s.FileCount(), n)
	}
}
