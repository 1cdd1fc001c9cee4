package master

import (
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/master/internal/quota"
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
