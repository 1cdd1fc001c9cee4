package lockapi

import "strings"

// RouteQuotas is the route of quotas of principals. The principal or group
// follows it and a slash; slashes in the name need not be escaped.
const RouteQuotas = "/v1/access/quotas"

// QuotaLimits bound one principal, or each member of a group by itself. A nil
// limit does not bound; 0 permits none.
type QuotaLimits struct {
	Sessions *int64 `json:"sessions,omitempty"` // open sessions
	Holds    *int64 `json:"holds,omitempty"`    // holds and queue positions together
	Waiters  *int64 `json:"waiters,omitempty"`  // queue positions
	Files    *int64 `json:"files,omitempty"`    // files that the principal wrote last
	Bytes    *int64 `json:"bytes,omitempty"`    // memory of its sessions and files, estimated
	Watches  *int64 `json:"watches,omitempty"`  // calls that wait for events, at each replica
	// CallsPerSecond bounds the calls, at each replica that executes some.
	// Burst is how many may come at once; nil means CallsPerSecond.
	CallsPerSecond *int64 `json:"calls_per_second,omitempty"`
	Burst          *int64 `json:"burst,omitempty"`
}

// Limits returns pointers to all limits, in the order of their JSON names.
func (l *QuotaLimits) Limits() []struct {
	Name  string
	Limit **int64
} {
	return []struct {
		Name  string
		Limit **int64
	}{{"sessions", &l.Sessions}, {"holds", &l.Holds}, {"waiters", &l.Waiters}, {"files", &l.Files}, {"bytes", &l.Bytes},
		{"watches", &l.Watches}, {"calls_per_second", &l.CallsPerSecond}, {"burst", &l.Burst}}
}

// Validate reports the first limit that is out of bounds, or nil.
func (l *QuotaLimits) Validate() error {
	for _, one := range l.Limits() {
		if *one.Limit == nil {
			continue
		}
		if err := within(one.Name, **one.Limit, 0, MaxToken); err != nil {
			return err
		}
	}
	if l.Burst != nil && l.CallsPerSecond == nil {
		return Invalid("burst", "burst is %d, but calls_per_second is missing; give both, or only calls_per_second", *l.Burst)
	}
	return nil
}

// Quota is the quota of a principal or group. Used is missing for a group, for
// AllPrincipals, and where the answer is not the master's.
type Quota struct {
	Principal string `json:"principal"`
	QuotaLimits
	Used *QuotaUse `json:"used,omitempty"`
}

// QuotaUse is what a principal uses, with what its calls under way may add.
type QuotaUse struct {
	Sessions int64 `json:"sessions"`
	Holds    int64 `json:"holds"`
	Waiters  int64 `json:"waiters"`
	Files    int64 `json:"files"`
	Bytes    int64 `json:"bytes"`
}

// QuotaList is a page of quotas, in bytewise order of their principals and
// groups.
type QuotaList struct {
	Quotas []Quota `json:"quotas"`
	Next   string  `json:"next,omitempty"`
}

// ValidateQuotaOf reports an invalid principal or group of a quota, or nil.
func ValidateQuotaOf(of string) error {
	name, isGroup := strings.CutPrefix(of, PrefixGroup)
	if of == AllPrincipals || of == PrincipalAnonymous || IsUser(of) || isGroup && ValidateGroup(name) == nil {
		return nil
	}
	return Invalid("principal", "principal is %q; a quota is of user:NAME, group:NAME, %s or %s, with a name of 1 to %d bytes without control characters",
		Clip(of), PrincipalAnonymous, AllPrincipals, MaxPrincipalName)
}
