package access

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// Resource is what a quota bounds.
type Resource uint8

// The resources. Their numbers are written to disk.
const (
	Sessions       Resource = 1 // open sessions
	Holds          Resource = 2 // holds and queue positions together
	Waiters        Resource = 3 // queue positions
	Files          Resource = 4 // files that the principal wrote last
	Bytes          Resource = 5 // estimated memory of its sessions and files
	Watches        Resource = 6 // calls that wait for events, at each replica
	CallsPerSecond Resource = 7 // at the replica that executes the calls
	Burst          Resource = 8 // calls at once, within CallsPerSecond
)

// Resources lists all resources.
var Resources = [...]Resource{Sessions, Holds, Waiters, Files, Bytes, Watches, CallsPerSecond, Burst}

func (r Resource) String() string {
	if r >= Sessions && r <= Burst {
		return [...]string{"", "sessions", "holds", "waiters", "files", "bytes", "watches", "calls_per_second", "burst"}[r]
	}
	return "none"
}

// Bounds of quotas.
const (
	MaxQuotas = 10_000        // in a policy
	MaxLimit  = 1<<53 - 1     // of a resource, as in JSON
	NoLimit   = math.MaxInt64 // of a resource that is not bounded
)

// Quota is the quota of one principal, or of each member of a group or of
// AllPrincipals by itself. It is immutable.
type Quota struct {
	Of string `cbor:"1,keyasint"` // as lists name it
	// Limits has the bounded resources. 0 permits none.
	Limits map[Resource]int64 `cbor:"2,keyasint,omitempty"`
}

// Sound reports whether the quota is valid.
func (q *Quota) Sound() bool {
	for r, limit := range q.Limits {
		if !slices.Contains(Resources[:], r) || limit < 0 || limit > MaxLimit {
			return false
		}
	}
	_, rate := q.Limits[CallsPerSecond]
	_, burst := q.Limits[Burst]
	return IsEntry(q.Of) && (rate || !burst)
}

// Same reports whether two quotas are the same.
func (q *Quota) Same(other *Quota) bool {
	return q.Of == other.Of && maps.Equal(q.Limits, other.Limits)
}

// quotaBytes is an estimate with all limits; a test of package master measures
// it.
const quotaBytes = 250

// Size estimates the memory of the quota in a policy, in bytes.
func (q *Quota) Size() int64 { return int64(quotaBytes + len(q.Of)) }

// Quota finds the quota of a principal or group, as lists name it.
func (p *Policy) Quota(of string) (*Quota, bool) { return p.quotas.Get(of) }

// Quotas walks the quotas of the principals and groups that sort after the
// given one.
func (p *Policy) Quotas(after string) iter.Seq[*Quota] {
	return func(yield func(*Quota) bool) {
		for q := range p.quotas.From(after) {
			if q.Of > after && !yield(q) {
				return
			}
		}
	}
}

// QuotaCount returns the number of quotas.
func (p *Policy) QuotaCount() int { return p.quotas.Len() }

// PutQuota returns the policy with the quota, which replaces one of the same
// principal or group. The error is ErrFull.
func (p *Policy) PutQuota(q *Quota) (*Policy, error) {
	was, there := p.quotas.Get(q.Of)
	if !there && p.quotas.Len() >= MaxQuotas {
		return nil, ErrFull
	}
	out := *p
	if there {
		out.size -= was.Size()
	}
	out.size += q.Size()
	out.quotas.Edit().Put(q.Of, q)
	return &out, nil
}

// DropQuota returns the policy without the quota of a principal or group.
func (p *Policy) DropQuota(of string) *Policy {
	was, there := p.quotas.Get(of)
	if !there {
		return p
	}
	out := *p
	out.size -= was.Size()
	out.quotas.Edit().Delete(of)
	return &out
}

// Limits has the limit of each resource for one principal: NoLimit if it is not
// bounded.
type Limits [Burst + 1]int64

// Unlimited are the limits of operators.
var Unlimited = func() (l Limits) {
	for r := range l {
		l[r] = NoLimit
	}
	return l
}()

// LimitsOf returns the limits of a principal. For each resource its own quota
// decides. If that does not name the resource, the highest limit of the groups
// that contain it does, and then the quota of AllPrincipals. Burst belongs to
// the quota that decides CallsPerSecond. Operators have no limits.
func (p *Policy) LimitsOf(principal string) Limits {
	l := Unlimited
	if p.quotas.Len() == 0 {
		return l
	}
	groups := p.within(principal)
	if p.operates(principal, groups) {
		return l
	}
	if principal != Anonymous {
		if all, ok := p.quotas.Get(AllPrincipals); ok {
			l.replace(all)
		}
		l.replaceByGroups(p, groups)
	}
	if own, ok := p.quotas.Get(principal); ok {
		l.replace(own)
	}
	return l
}

// replace sets the limits that a quota names.
func (l *Limits) replace(q *Quota) {
	if rate, ok := q.Limits[CallsPerSecond]; ok {
		l[Burst] = rate // unless the quota names one
	}
	for r, limit := range q.Limits {
		l[r] = limit
	}
}

// replaceByGroups sets the limits that quotas of groups name: for each resource
// the highest.
func (l *Limits) replaceByGroups(p *Policy, groups []string) {
	if len(groups) == 0 {
		return
	}
	named := &Quota{Limits: map[Resource]int64{}}
	for q := range p.quotasOf(groups) {
		rate, paced := q.Limits[CallsPerSecond]
		was, pacedBefore := named.Limits[CallsPerSecond]
		if paced && (!pacedBefore || rate >= was) {
			burst, given := q.Limits[Burst]
			if !given {
				burst = rate
			}
			if pacedBefore && rate == was {
				burst = max(burst, named.Limits[Burst])
			}
			named.Limits[CallsPerSecond], named.Limits[Burst] = rate, burst
		}
		for r, limit := range q.Limits {
			if r != CallsPerSecond && r != Burst {
				named.Limits[r] = max(limit, named.Limits[r])
			}
		}
	}
	l.replace(named)
}

// quotasOf walks the quotas of groups. It walks the shorter of two lists: the
// groups, or the quotas of groups.
func (p *Policy) quotasOf(groups []string) iter.Seq[*Quota] {
	return func(yield func(*Quota) bool) {
		if len(groups) <= p.quotas.Len() {
			for _, name := range groups {
				if q, ok := p.quotas.Get(Group(name)); ok && !yield(q) {
					return
				}
			}
			return
		}
		for q := range p.quotas.From(groupPrefix) {
			name, isGroup := strings.CutPrefix(q.Of, groupPrefix)
			if !isGroup {
				return
			}
			if _, in := slices.BinarySearch(groups, name); in && !yield(q) {
				return
			}
		}
	}
}
