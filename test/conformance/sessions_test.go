package conformance

import (
	"time"
)

// leaseCountsFromSending: the answers of keepalives are late, and the lease is
// no longer for that.
func leaseCountsFromSending(w *world) {
	const ttl = 4 * time.Second
	w.begin()
	w.gates.on(always(isKeepalive, &fault{late: 400 * time.Millisecond}))
	w.open(ttl)
	w.lock(w.prefix)
	renewed := func(q *request) bool { return isKeepalive(q) && q.status == 200 }
	for last := 0; last < 3; {
		w.checkLease(ttl)
		if n := len(w.gates.find(renewed)); n > last {
			last = n
			w.Logf("%d keepalives", n)
		}
		if !w.d.do("held", fields{"hold": "h"}).is("held") {
			w.Fatal("the hold has ended, though each keepalive was answered in time")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
