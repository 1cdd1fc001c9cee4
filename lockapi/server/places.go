package server

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/gate"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
	"github.com/stoutlock/stout/master"
)

// newSpare returns spare connections for some routes. It calls prepare before a
// request is routed.
func (s *Server) newSpare(all table, maxBody func(*http.Request) int64, prepare func(*http.Request)) *gate.Reserve {
	engine := s.engineOf(false, guests(all), errNoConnection)
	return gate.NewReserve(&wire.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			prepare(r)
			serve(engine, w, r)
		}),
		TLS:            s.opts.TLS,
		MaxHeaderBytes: maxHeaderBytes,
		MaxBody:        maxBody,
		MaxUnreadBytes: maxUnreadBytes,
		Refuse:         s.refuse,
		Panicked:       s.handlerPanicked,
	})
}

// guests returns routes as spare connections have them.
func guests(all table) table {
	all = slices.Clone(all)
	for i := range all {
		switch all[i].template {
		case lockapi.RouteLive, lockapi.RouteReady, lockapi.RouteMetrics:
		default:
			all[i].guest = true
		}
	}
	return all
}

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

// Source returns the network of the caller.
func (x *exchange) Source() gate.Source {
	at, err := netip.ParseAddrPort(x.remote())
	if err != nil {
		return gate.Source{}
	}
	return gate.Source(audit.NetworkOf(at.Addr()))
}

// takePlace moves a call from a spare connection to a regular place. A
// keepalive without a place does not wait. No call is displaced for a caller
// without any rights.
func (x *exchange) takePlace(r *route) error {
	if x.stranger() != nil {
		return cmp.Or(x.refuseStranger(lockapi.CodeTooMany), errNoConnection(x))
	}
	x.call.Keeps = r.template == routeKeepalive || r.template == lockapi.RouteKeepalives || r.template == routeRenew
	if x.conns.Reserve(x.ctx(), &x.call) {
		return nil
	}
	if x.call.Keeps {
		x.hurried = true
		return nil
	}
	return errNoConnection(x)
}
