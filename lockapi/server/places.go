package server

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/consul"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/master"
)

func errNoConnection(x *exchange) error {
	most := int64(x.conns.Most())
	return lockapi.TooMany("max-connections", most, most, "quota max-connections is used up: this replica has %d open connections, all with calls under way; "+
		"make fewer waiting calls at a time, call another replica, or raise the quota", most)
}

// Principal returns the caller's principal as far as this replica knows; empty
// for an anonymous caller.
func (x *exchange) Principal(met gate.Names) string {
	switch {
	case x.how != "":
		return x.proof.Principal
	case x.secret == nil || x.master == nil:
		return ""
	}
	name, ok := met[*x.secret]
	if !ok {
		by := master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}}
		_ = x.master.Authorize(&by) // for an invalid token the principal stays empty
		name = by.Principal
		met[*x.secret] = name
	}
	return name
}

// isStranger reports whether the call has a token that this replica does not
// know. It may be new, so another replica may accept it.
func (x *exchange) isStranger() bool {
	return x.secret != nil && !x.broke && x.master != nil &&
		x.master.Authorize(&master.Caller{Secret: x.secret, Ask: master.Ask{Right: master.AnyCaller}}) != nil
}

// Source returns the network of the caller.
func (x *exchange) Source() gate.Source {
	at, err := netip.ParseAddrPort(x.remote())
	if err != nil {
		return gate.Source{}
	}
	return gate.Source(audit.NetworkOf(at.Addr()))
}

var keepalives = []string{patternKeepalive, lockapi.RouteKeepalives, consul.Prefix + "/v1/session/renew/*name"}

// reservePlace moves a call from a spare connection to a regular place. A
// keepalive without a place does not wait. No call is displaced for a caller
// without any rights, even if its own call needs none.
func (x *exchange) reservePlace() error {
	if !x.brought && x.anonymousRefusal() != nil || x.isStranger() {
		return cmp.Or(x.mastersRefusal(lockapi.CodeTooMany), errNoConnection(x))
	}
	x.call.Keeps = slices.Contains(keepalives, x.route.pattern)
	if x.conns.Reserve(x.ctx(), &x.call) {
		return nil
	}
	if x.call.Keeps {
		x.hurried = true
		return nil
	}
	return errNoConnection(x)
}
