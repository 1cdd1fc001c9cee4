package sim

// loop looks for a repeating state, which means that the run never ends. It
// keeps the state before one event, and compares when that same event is about
// to happen again. By Brent's method, the kept event is the latest one with a
// power of two as its number. So any cycle is found once it fits in between.
// loop applies only to runs without randomness.
type loop struct {
	next   int // the number of the event to keep
	number int
	event  event
	key    string
}

// again reports whether the run is in an earlier state, with e about to happen,
// and how many events ago.
func (n *Network) again(e event) (period int, found bool) {
	l := &n.loop
	switch {
	case n.chance || n.cfg.Until > 0 || e.what != Received: // timers may be stale
	case n.agenda.len > 4*n.cfg.N+64: // too much to write down; circulating messages are fewer
	case n.out.Events >= max(l.next, 2*n.cfg.N+64):
		*l = loop{next: 2 * n.out.Events, number: n.out.Events, event: e, key: n.Key()}
	case l.key != "" && e.to == l.event.to && e.m == l.event.m && n.Key() == l.key:
		return n.out.Events - l.number, true
	}
	return 0, false
}
