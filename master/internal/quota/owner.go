package quota

import (
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// owner is what a principal has: its sessions with their holds, waits and answers,
// and the files that it wrote last. It is in Ledger.owners while there is any of
// it, or a call under way may add some.
type owner struct {
	use
	key  string // the principal; "" for anonymous
	kept bool   // it is in Ledger.owners
}

// keyOf returns the key of a principal.
func keyOf(principal string) string {
	if principal == access.Anonymous {
		return ""
	}
	return principal
}

// principal returns the principal as the policy names it.
func (o *owner) principal() string {
	if o.key == "" {
		return access.Anonymous
	}
	return o.key
}

// owner returns what a principal has. It is not in Ledger.owners before
// something is added. l.mu is held.
func (l *Ledger) owner(principal string) *owner {
	if o := l.owners[principal]; o != nil {
		return o
	}
	return &owner{key: principal}
}

// add adds to what the principal has.
func (o *owner) add(more Sums, times int64) { o.has.add(&more, times) }

// charge adds to what calls under way may add to a principal. l.mu is held.
func (l *Ledger) charge(o *owner, more Sums, times int64) {
	o.may.add(&more, times)
	l.keep(o)
}

// keep stores an owner, or removes it if nothing is left. l.mu is held.
func (l *Ledger) keep(o *owner) {
	switch none := o.use == (use{}); {
	case none && o.kept:
		delete(l.owners, o.key)
		o.kept = false
	case !none && !o.kept:
		l.owners[o.key] = o
		o.kept = true
	}
}

// countFile counts a file of the principal that wrote it last. l.mu is held.
func (l *Ledger) countFile(principal, path string, size int, times int64) {
	o := l.owner(principal)
	o.add(Sums{Files: 1, Bytes: state.BytesOfFile(path, size)}, times)
	l.keep(o)
}

// move adds what a session has, and what its calls may add, to a principal, or
// subtracts it. l.mu is held.
func (l *Ledger) move(o *owner, own *account, times int64) {
	o.add(own.has.ofSession(), times)
	l.charge(o, own.may.ofSession(), times)
}

// closed removes a session. Its calls under way still count. l.mu is held.
func (l *Ledger) closed(session string) {
	own := l.sessions[session]
	if own == nil {
		return
	}
	own.owner.add(own.has.ofSession(), -1)
	l.keep(own.owner)
	delete(l.sessions, session)
}

// adopted moves a session's use to the principal that has adopted it. No quota
// refuses that: without it the session would end. l.mu is held.
func (l *Ledger) adopted(v *state.Session) {
	own := l.sessions[v.ID]
	if own == nil || own.owner.key == v.Principal {
		return
	}
	l.move(own.owner, own, -1)
	own.owner = l.owner(v.Principal)
	l.move(own.owner, own, 1)
}

// exceedsOfPrincipal returns the first quota of a principal that a call would
// exceed. The session and the files of a call belong to one principal, unless
// access was enabled in the meantime.
func (r *Reservation) exceedsOfPrincipal(p *access.Policy, need *charge) *Excess {
	ofSession, ofFiles := need.more.ofSession(), need.files.ofFiles()
	switch {
	case r.own == nil && r.writer == nil:
		return nil
	case r.own == nil:
		return r.writer.exceeds(p, &ofFiles)
	case r.writer == nil:
		return r.own.owner.exceeds(p, &ofSession)
	case r.own.owner == r.writer:
		ofSession.add(&ofFiles, 1)
		return r.writer.exceeds(p, &ofSession)
	}
	if e := r.own.owner.exceeds(p, &ofSession); e != nil {
		return e
	}
	return r.writer.exceeds(p, &ofFiles)
}

// exceeds returns the first quota of the principal that more would exceed.
func (o *owner) exceeds(p *access.Policy, more *Sums) *Excess {
	limits, at := p.LimitsOf(o.principal()), o.at()
	settled, used, wanted := o.has.All(), at.All(), more.All()
	for k := PrincipalSessions; k <= PrincipalBytes; k++ {
		most := limits[k.Resource()]
		if wanted[k] > 0 && wanted[k] > most-used[k] {
			return &Excess{kind: k, principal: o.principal(), most: most, used: used[k], wanted: wanted[k], soon: settled[k]+wanted[k] <= most}
		}
	}
	return nil
}
