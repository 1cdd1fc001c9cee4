package master

import (
	"errors"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// An answer of a master is a statement about the cell, a refusal no less than a
// good one. It is true if no other master may have changed the cell before the
// call began. So every answer leaves an office by one of these functions or, for
// reads, by linear. No call finds its office in another way.

// serve makes a call in the present office. Its answer leaves if the office
// vouches for it.
func serve[T any](m *Master, call func(o *office) (T, error)) (T, error) {
	var none T
	o := m.inOffice()
	if o == nil {
		return none, errNotMaster()
	}
	began := o.now()
	v, err := call(o)
	if told := o.vouch(began, err); told != err {
		return none, told
	}
	return v, err
}

// served is serve for a call that returns nothing but an error.
func (m *Master) served(call func(o *office) error) error {
	_, err := serve(m, func(o *office) (struct{}, error) { return struct{}{}, call(o) })
	return err
}

// allowed is served for what decides whether a call may go on: only a refusal
// is an answer.
func (m *Master) allowed(call func(o *office) error) error {
	o := m.inOffice()
	if o == nil {
		return errNotMaster()
	}
	began := o.now()
	if err := call(o); err != nil {
		return o.vouch(began, err)
	}
	return nil
}

// vouch returns the error of an answer, nil for a good one, as it may leave. It
// is unchanged if no other master was in office when the call began: if the
// lease runs now, or if the log has accepted a batch of this office that was
// proposed since. The log accepts none once another office has opened. Every
// result that the log gives to the call itself is of such a batch.
func (o *office) vouch(began time.Duration, err error) error {
	if own, ok := err.(ownRefusal); ok {
		return own.told
	}
	switch {
	case errors.Is(err, lockapi.CodeNoMaster), errors.Is(err, lockapi.CodeOutcomeUnknown):
		return err // it states nothing
	case o.lease.Vouches(began, o.now()):
		return err
	case err == nil: // the members may have been changed, which is no batch
		return errUnknown()
	}
	return errNoMaster("the master lease has lapsed")
}

// ownRefusal is a refusal that states nothing about the cell: it is about the
// calls that the office serves.
type ownRefusal struct{ told *lockapi.Error }

func (r ownRefusal) Error() string { return r.told.Error() }
