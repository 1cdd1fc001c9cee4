package simcell

import "time"

// unfit: the disk of a master is slow. Half of the time the others are fast, and it
// hands its office over. Else so many of them are slow as well that the cell has to
// wait for its disk whoever is master, and it must not.
func (w *world) unfit() {
	if !w.whole() {
		return
	}
	old, _ := w.rivals()
	if old == nil {
		return
	}
	p, slow := old.process, between(w.script, old.lease/6, old.lease/3)
	defer func() {
		for _, m := range w.machines {
			m.disk.heavy = 0
		}
	}()
	vain, confs := w.script.IntN(2) == 0, len(w.judge.roster.confs)
	if vain && !w.slowOthers(old, slow) || !old.leads() || old.process != p {
		return
	}
	before := p.resigned()
	old.disk.heavy = slow
	gone := w.soonIn(8*old.lease, func() bool { return p.resigned() > before || p.dead() })
	switch {
	case !gone || p.dead():
	case vain && (len(w.judge.roster.confs) > confs || !w.allVote()): // another majority counts by now
	case vain:
		w.fail("%s gave up its office for its slow disk, and the cell waits for it all the same", old.id)
	default:
		w.stats.check("a slow master hands over")
	}
}

// slowOthers slows the disks of as many others as leave no majority of fast ones
// without the master. It reports whether these have noticed.
func (w *world) slowOthers(old *machine, slow time.Duration) bool {
	var slowed []*machine
	for _, m := range w.machines {
		if fast := len(w.machines) - 1 - len(slowed); m != old && fast > len(w.machines)/2 {
			m.disk.heavy = slow
			slowed = append(slowed, m)
		}
	}
	return w.soonIn(12*old.lease, func() bool {
		for _, m := range slowed {
			r := m.process
			if r == nil || r.replica == nil || time.Duration(r.replica.Card().Sync)*time.Microsecond < slow {
				return false
			}
		}
		return true
	})
}

// resigned is how often the process has given up its office for its slow disk.
func (p *process) resigned() uint64 {
	if p.master == nil {
		return 0
	}
	return uint64(p.master.Metrics().Value("stout_offices_resigned_total", "slow_disk"))
}
