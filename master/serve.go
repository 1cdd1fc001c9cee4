package master

import (
	"errors"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Every answer of a master, a refusal included, is a statement about the cell.
// It is true if no other master can have changed the cell before the call
// began. So every answer leaves an office through one of these functions or,
// for reads, through linear. No call finds its office in another way.

// serve admits the caller of a change to the present office, and makes the call
// there. It returns the answer if the office vouches for it. With a nil caller
// the call admits its caller itself.
func serve[T any](m *Master, by *Caller, call func(o *office) (T, error)) (v T, err error) {
	var none T
	o := m.inOffice()
	if o == nil {
		return none, errNotMaster()
	}
	began := o.now()
	if by != nil {
		err = o.admit(by)
	}
	if err == nil {
		v, err = call(o)
	}
	if sent := o.vouch(began, err); sent != err {
		return none, sent
	}
	return v, err
}

// vouch returns the error of an answer (nil for a good one) as it may be sent.
// It is unchanged if no other master was in office when the call began: if the
// lease runs now, or if the log has accepted a batch of this office that was
// proposed since. The log accepts no such batch once another office has opened.
// Every result that the log gives to the call itself is from such a batch.
func (o *office) vouch(began time.Duration, err error) error {
	if own, ok := err.(ownRefusal); ok {
		return own.refusal
	}
	switch {
	case err == ErrParked, errors.Is(err, lockapi.CodeNoMaster), errors.Is(err, lockapi.CodeOutcomeUnknown):
		return err // it states nothing
	case o.lease.Vouches(began, o.now()):
		return err
	case err == nil: // the members may have been changed, which takes no batch
		return errUnknown()
	}
	return errNoMaster("the master lease has lapsed")
}

// ownRefusal is a refusal that states nothing about the cell: it concerns the
// calls that the office serves.
type ownRefusal struct{ refusal *lockapi.Error }

func (r ownRefusal) Error() string { return r.refusal.Error() }
