package master

import (
	"fmt"
	"time"

	"github.com/stoutlock/stout/lease"
)

// keepLease renews the lease after each quarter of its term without another
// renewal, and logs a warning when it lapses.
func (o *office) keepLease() {
	t := stoppedTimer()
	defer t.Stop()
	for lapsed := false; ; {
		v := o.lease.View(o.now())
		if !v.Held && !v.Dropped && !lapsed {
			o.lapses.Add(1)
			o.vitals.lapses.Add(1)
			o.logger.Warn().Dur("renewed_ago_ms", v.Renewed).Msg("master lease lapsed: no majority has stored an entry in time")
		}
		lapsed = !v.Held
		if v.Renewed > max(stalledAfter, o.opts.LeaseTerm) {
			o.end(fmt.Errorf("nothing was committed for %v", v.Renewed))
			return
		}
		t.Reset(o.renewal(v))
		select {
		case <-o.done:
			return
		case <-t.C:
		}
	}
}

// renewal proposes an empty batch if it is time for one, and returns how long
// to wait until the next check.
func (o *office) renewal(v lease.View) time.Duration {
	quarter := o.opts.LeaseTerm / 4
	wait := quarter - v.Renewed
	if wait <= 0 {
		o.batcher.Renew()
		wait = quarter
	}
	if v.Held {
		wait = min(wait, v.Remaining+1) // to see a lapse when it begins
	}
	return wait
}
