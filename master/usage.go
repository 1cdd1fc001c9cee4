package master

import (
	"github.com/stoutlock/stout/replica/state"
)

// Estimates of the memory that things take on the master, state and office
// together, in bytes. TestMemoryEstimates measures them.
const (
	sessionBytes = 400
	keyBytes     = 50  // of an idempotency key, and
	metaBytes    = 350 // of metadata, where there is any
	pairBytes    = 50  // of each pair in it
	claimBytes   = 300
	delayBytes   = 300
)

// amount is a sum of what quotas count.
type amount struct{ sessions, holds, waiters, bytes int64 }

func (a *amount) add(b amount, times int64) {
	a.sessions += times * b.sessions
	a.holds += times * b.holds
	a.waiters += times * b.waiters
	a.bytes += times * b.bytes
}

// of is the part of an amount that a quota counts.
func (a *amount) of(k quotaKind) int64 {
	return [quotaKinds]int64{
		quotaSessions: a.sessions, quotaHolds: a.holds, quotaWaiters: a.waiters, quotaBytes: a.bytes,
		quotaSessionHolds: a.holds, quotaSessionWaiters: a.waiters, quotaSessionBytes: a.bytes,
	}[k]
}

// place is what a place in a queue takes besides being a claim.
var place = amount{waiters: 1}

func claimAmount(path, handle string) amount {
	return amount{holds: 1, bytes: int64(claimBytes + len(path) + len(handle))}
}

func delayAmount(path string) amount {
	return amount{bytes: int64(delayBytes + len(path))}
}

func sessionAmount(name, key string, meta map[string]string) amount {
	n := sessionBytes + len(name)
	if key != "" {
		n += keyBytes + len(key)
	}
	if len(meta) > 0 {
		n += metaBytes
	}
	for k, v := range meta {
		n += pairBytes + len(k) + len(v)
	}
	return amount{sessions: 1, bytes: int64(n)}
}

func amountOf(v *state.Session) amount { return sessionAmount(v.Name, v.Key, v.Meta) }

// lack is a quota that leaves no room.
type lack struct {
	kind               quotaKind
	most, used, wanted int64
}

// room is nil where the cell and the session have room for more. o.mu is held.
func (o *office) room(own *session, more amount) *lack {
	for k := range quotaKinds {
		used := &own.use
		if k.ofCell() {
			used = &o.use
		}
		most, wanted := o.opts.Quotas.of(k), more.of(k)
		if most > 0 && wanted > 0 && used.of(k)+wanted > most {
			return &lack{k, most, used.of(k), wanted}
		}
	}
	return nil
}

// refuse is the answer to a call that found no room.
func (o *office) refuse(l *lack) error {
	o.refused[l.kind].Add(1)
	return errTooMany(l.kind, l.most, l.used, l.wanted)
}

// count adds to what a session uses, or takes from it. o.mu is held, or the
// office is not in use yet.
func (o *office) count(session string, a amount, times int64) {
	o.use.add(a, times)
	if s := o.sessions[session]; s != nil {
		s.use.add(a, times)
	}
}
