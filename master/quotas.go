package master

import (
	"context"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
	"github.com/stoutlock/stout/replica/state"
	"github.com/stoutlock/stout/replica/state/access"
)

// Quotas bound what sessions may use in the cell; see package quota.
type Quotas = quota.Quotas

// QuotaUse is how much of a quota is used.
type QuotaUse struct {
	Name    string // that of the setting
	Max     int64  // 0 for none
	Used    int64  // present use, and what calls under way may add to it
	Known   bool   // Used is known: on the master, for quotas of the whole cell
	Refused int64  // calls that were refused since this replica started
	// OfPrincipal means that the quota bounds principals. It has no Max.
	OfPrincipal bool
}

// UsedByPrincipals returns what each principal uses, with what calls under way
// may add; nil unless this replica is the master.
func (m *Master) UsedByPrincipals() map[string]lockapi.QuotaUse {
	o := m.inOffice()
	if o == nil {
		return nil
	}
	all := map[string]lockapi.QuotaUse{}
	for principal, used := range o.quotas.Principals() {
		all[principal] = useOf(&used)
	}
	return all
}

func useOf(used *quota.Sums) lockapi.QuotaUse {
	return lockapi.QuotaUse{Sessions: used.Sessions, Holds: used.Holds, Waiters: used.Waiters, Files: used.Files, Bytes: used.Bytes}
}

// Quotas returns the use of each quota.
func (m *Master) Quotas() []QuotaUse {
	var used quota.Sums
	o := m.inOffice()
	if o != nil {
		used = o.quotas.Used()
	}
	out, all, most := make([]QuotaUse, quota.Kinds), used.All(), m.opts.Quotas.All()
	for k := range quota.Kinds {
		out[k] = QuotaUse{Name: k.Name(), Max: most[k], Refused: m.refused[k].Load(), OfPrincipal: k.OfPrincipal()}
		if o != nil && k.OfCell() {
			out[k].Used, out[k].Known = all[k], true
		}
	}
	return out
}

// The calls that manage the quotas of principals. Package quota enforces them
// for what exists, and pace.go for calls.

// PutQuota sets the quota of a principal or group.
func (m *Master) PutQuota(_ context.Context, by *Caller, c *lockapi.PutQuota) (lockapi.Quota, error) {
	q := access.Quota{Of: c.Principal}
	for i, one := range c.QuotaLimits.Limits() {
		if *one.Limit == nil {
			continue
		}
		if q.Limits == nil {
			q.Limits = map[access.Resource]int64{}
		}
		q.Limits[access.Resources[i]] = **one.Limit
	}
	_, err := m.changeAccess(by, &state.PutQuota{Quota: q})
	return quotaOf(nil, &q), err
}

// DeleteQuota removes the quota of a principal or group. Removing a missing one
// succeeds.
func (m *Master) DeleteQuota(_ context.Context, by *Caller, c *lockapi.DeleteQuota) error {
	_, err := m.changeAccess(by, &state.DropQuota{Of: c.Principal})
	return err
}

// GetQuota reads the quota of a principal or group. The error is not_found.
func (m *Master) GetQuota(ctx context.Context, q *Read, c *lockapi.GetQuota) (lockapi.Quota, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (lockapi.Quota, error) {
		found, ok := s.Policy().Quota(c.Principal)
		if !ok {
			return lockapi.Quota{}, lockapi.Errorf(lockapi.CodeNotFound, "there is no quota of %q itself; quotas of its groups and of %s may bound it", lockapi.Clip(c.Principal), lockapi.AllPrincipals)
		}
		return quotaOf(o, found), nil
	})
}

// ListQuotas reads a page of quotas in the order of their principals.
func (m *Master) ListQuotas(ctx context.Context, q *Read, c *lockapi.ListQuotas) (lockapi.QuotaList, error) {
	return read(ctx, m, q, func(o *office, s *state.State) (page lockapi.QuotaList, err error) {
		page.Quotas, page.Next = pageOf(s.Policy().Quotas(c.After), c.Limit, func(v *access.Quota) (lockapi.Quota, string, int) {
			return quotaOf(o, v), v.Of, quotaFrame + textSize(v.Of)
		})
		return page, nil
	})
}

// quotaFrame is the size of the longest quota in JSON without its principal.
const quotaFrame = 450

// quotaOf returns a quota as the API shows it. With an office it has what the
// principal uses.
func quotaOf(o *office, q *access.Quota) lockapi.Quota {
	out := lockapi.Quota{Principal: q.Of}
	for i, one := range out.QuotaLimits.Limits() {
		if limit, bounded := q.Limits[access.Resources[i]]; bounded {
			*one.Limit = &limit
		}
	}
	if o != nil && (q.Of == access.Anonymous || access.IsUser(q.Of)) {
		used := o.quotas.UsedBy(q.Of)
		out.Used = new(useOf(&used))
	}
	return out
}
