package sim

// loop looks for a state that comes back: then the run never ends. It keeps the
// state before one event, and compares when that very event is about to happen
// again (Brent's way: the event kept is the latest whose number was a power of
// two, so that any cycle is found once one fits in between). Only runs without
// chance can be judged so.
type loop struct {
	next   int // the number of the event to keep
	number int
	event  event
	key    string
}

// again reports whether the run is where it was before, with e about to happen,
// and how many events ago.
func (n *Network) again(e event) (period int, found bool) {
	l := &n.loop
	switch {
	case n.chance || n.cfg.Until > 0 || e.what != Received: // timers may be stale
	case n.agenda.len > 4*n.cfg.N+64: // too much to write down; what circulates is less
	case n.out.Events >= max(l.next, 2*n.cfg.N+64):
		*l = loop{next: 2 * n.out.Events, number: n.out.Events, event: e, key: n.Key()}
	case l.key != "" && e.to == l.event.to && e.m == l.event.m && n.Key() == l.key:
		return n.out.Events - l.number, true
	}
	return 0, false
}
