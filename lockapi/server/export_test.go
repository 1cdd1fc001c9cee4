package server

import (
	"net/http"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// Routes lists the routes as "METHOD /template", without HEAD, which exists for
// every GET.
func Routes() []string {
	templates := map[string]string{}
	for _, r := range routes {
		templates[r.pattern] = r.template
	}
	var all []string
	for _, r := range (&Server{}).engineOf(false, routes, errNoRoute).Routes() {
		if r.Method != http.MethodHead {
			all = append(all, r.Method+" "+templates[r.Path])
		}
	}
	return all
}

// Params lists the query parameters of a route, with true for required ones.
func Params(method, template string) map[string]bool {
	all := map[string]bool{}
	for _, r := range routes {
		if r.method == method && r.template == template {
			for _, p := range r.params {
				all[p.name] = p.need != ""
			}
		}
	}
	return all
}

// knowing is a Master that knows only where the master is, and has a view of
// the cell.
type knowing struct {
	Master
	view func() master.View // nil: a cell with r1 only
}

// of returns the view of r1 in a cell of some replicas.
func of(replicas ...lockapi.Replica) func() master.View {
	return func() master.View {
		return master.View{CellID: "c1", Own: lockapi.Replica{ID: "r1"}, Cell: lockapi.Cell{Replicas: replicas}}
	}
}

func (k knowing) View() master.View {
	if k.view == nil {
		return of()()
	}
	return k.view()
}

func (knowing) Hangs() error { return nil }

func (knowing) Known() Location { return Location{Epoch: 7, ID: "r1", URL: "http://m"} }

func (knowing) Authorize(*master.Caller) error { return nil }

func (knowing) Metrics() metric.Set { return nil }

// Bounds of calls between replicas.
const (
	MostForwarded = peers.MostForwarded
	MostServed    = peers.MostServed

	MaxHalfBytes   = maxHalfBytes
	MaxUnreadBytes = maxUnreadBytes
)

// Crowd takes places for calls sent to others and served for others, and
// returns a function that frees them.
func (s *Server) Crowd(sent, served int) (leave func()) {
	for range sent {
		s.sent.Enter(1)
	}
	for range served {
		s.served.Enter(1)
	}
	return func() {
		for range sent {
			s.sent.Leave(1)
		}
		for range served {
			s.served.Leave(1)
		}
	}
}

// FillUnread uses up the memory for unread answers to other replicas.
func (s *Server) FillUnread() { s.unread.Enter(s.unread.Most) }

// Audits returns which calls of a route the audit log has.
func Audits(method, template string) string {
	for _, r := range routes {
		if r.method == method && r.template == template {
			return map[master.Audit]string{master.AuditNever: "never", master.AuditChanges: "if changes", master.AuditOthers: "if others", master.AuditAlways: "always"}[r.audits]
		}
	}
	return "unknown"
}

// BoundsCalls reports that every call is admitted.
func (knowing) BoundsCalls() bool { return false }

// AdmitCall admits every call.
func (knowing) AdmitCall(*master.Caller, bool) (master.Backoff, error) { return master.Backoff{}, nil }

// Forwards counts the calls that need another member now.
func (s *Server) Forwards() int { return s.sent.Count() }
