package state

import "github.com/stoutlock/stout/replica/state/access"

// levelQuotas is the first level with quotas of principals, with priorities of
// waits, and with an Acquire of several locks.
const levelQuotas = 6

// PutQuota sets the quota of a principal or group. The result is Done, Full, or
// Nothing if it has the same quota already. The state stores quotas; masters
// enforce them.
type PutQuota struct {
	Quota access.Quota `cbor:"1,keyasint"`
}

// QuotaChanged reports that the quota of a principal or group was set or
// removed.
type QuotaChanged struct{ Of string }

func (op *PutQuota) wellFormed() bool { return op.Quota.Sound() }
func (op *PutQuota) size() int        { return 32 + len(op.Quota.Of) + 12*len(op.Quota.Limits) }

func (op *PutQuota) would(s *State) (Result, bool) {
	if was, ok := s.policy.Quota(op.Quota.Of); ok && was.Same(&op.Quota) {
		return Nothing, false
	}
	return s.wouldPut(s.policy.PutQuota(&op.Quota))
}

func (op *PutQuota) do(e *editor, r Result) Result {
	e.policy, _ = e.policy.PutQuota(&op.Quota)
	e.record(QuotaChanged{Of: op.Quota.Of})
	return r
}

// DropQuota removes the quota of a principal or group. The result is Done or
// Nothing.
type DropQuota struct {
	Of string `cbor:"1,keyasint"`
}

func (op *DropQuota) wellFormed() bool { return true }
func (op *DropQuota) size() int        { return 16 + len(op.Of) }

func (op *DropQuota) would(s *State) (Result, bool) {
	_, ok := s.policy.Quota(op.Of)
	return doneIf(ok)
}

func (op *DropQuota) do(e *editor, r Result) Result {
	e.policy = e.policy.DropQuota(op.Of)
	e.record(QuotaChanged{Of: op.Of})
	return r
}
