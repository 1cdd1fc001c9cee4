package history

import "fmt"

// life is what the record shows of one session.
type life struct {
	leaseEnd int64      // end of its lease by its client's count
	closes   []*Attempt // that had an effect or may have had one
	delayMS  int64      // of its keys
	deletes  bool       // its end deletes its keys
	missed   int64      // when a call first found it ended; forever if none did
}

// lives collects the sessions of a record in the order of calls.
func lives(attempts []*Attempt) map[string]*life {
	all := map[string]*life{}
	firstSent := map[string]int64{} // by idempotency key: the opening counts from the first attempt
	of := func(id string) *life {
		if all[id] == nil {
			all[id] = &life{missed: forever}
		}
		return all[id]
	}
	for _, a := range attempts {
		if _, known := firstSent[a.Key]; !known && a.Key != "" {
			firstSent[a.Key] = a.Call
		}
		switch {
		case a.Kind == Open && a.Outcome == Done:
			sent := a.Call
			if a.Key != "" {
				sent = firstSent[a.Key]
			}
			l := of(a.Session)
			l.leaseEnd = max(l.leaseEnd, sent+a.TTLMS*1e6)
			l.delayMS, l.deletes = a.DelayMS, a.Deletes
		case a.Kind == Keepalive && a.Outcome == Done:
			l := of(a.Session)
			l.leaseEnd = max(l.leaseEnd, a.Call+(a.HeldMS+a.TTLMS)*1e6)
		case a.Kind == Close && (a.Outcome == Done || a.Outcome == Unknown):
			l := of(a.Session)
			l.closes = append(l.closes, a)
		}
		if a.Outcome == Gone {
			l := of(a.Session)
			l.missed = min(l.missed, a.Return)
		}
	}
	return all
}

// expiredEarly finds sessions that ended before their lease although no call
// had closed them. An answer to a keepalive shows that the session lived then,
// so its lease had to run out before the session could end.
func expiredEarly(attempts []*Attempt, sessions map[string]*life) (problems []string) {
	for _, a := range attempts {
		l := sessions[a.Session]
		if a.Outcome != Gone || l == nil || a.Return >= l.leaseEnd {
			continue
		}
		closed := false
		for _, c := range l.closes {
			closed = closed || c.Call < a.Return
		}
		if !closed {
			problems = append(problems, fmt.Sprintf("session %s was gone %.3f s before its lease ended: %v",
				a.Session, seconds(l.leaseEnd-a.Return), a))
		}
	}
	return problems
}
