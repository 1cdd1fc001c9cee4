package simcell

import "time"

// unfit: the disk of a master is slow. In half of the runs the other disks are
// fast, and it must hand over. In the others so many are slow that the cell
// depends on its disk under any master, and it must not hand over.
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
	vain, confs := w.script.IntN(2) == 0, len(w.oracle.roster.confs)
	if vain && !w.slowOthers(old, slow) || !old.leads() || old.process != p {
		return
	}
	before := p.resigned()
	old.disk.heavy = slow
	gone := w.soonIn(8*old.lease, func() bool { return p.resigned() > before || p.dead() })
	switch {
	case !gone || p.dead():
	case vain && (len(w.oracle.roster.confs) > confs || !w.allVote()): // another majority counts by now
	case vain:
		w.fail("%s gave up its office because of its slow disk, although the cell still waits for that disk", old.id)
	default:
		w.stats.check("a slow master hands over")
	}
}

// slowOthers slows the disks of so many others that no majority of fast ones
// exists without the master. It reports whether these have noticed.
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
			if r == nil || r.replica == nil || time.Duration(r.replica.Info().Sync)*time.Microsecond < slow {
				return false
			}
		}
		return true
	})
}

// resigned returns how often the process has given up its office because of its
// slow disk.
func (p *process) resigned() uint64 {
	if p.master == nil {
		return 0
	}
	return uint64(p.master.Metrics().Value("stout_offices_resigned_total", "slow_disk"))
}
