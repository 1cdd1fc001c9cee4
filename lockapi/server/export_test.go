package server

import (
	"net/http"

	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server/internal/peers"
	"github.com/stoutlock/stout/master"
)

// Routes lists what the router takes as "METHOD /template", without HEAD, which
// goes with every GET.
func Routes() []string {
	templates := map[string]string{}
	for _, r := range routes {
		templates[r.pattern] = r.template
	}
	var all []string
	for _, r := range (&Server{}).newEngine(false).Routes() {
		if r.Method != http.MethodHead {
			all = append(all, r.Method+" "+templates[r.Path])
		}
	}
	return all
}

// Params lists the parameters of a route's query, true for those that there
// have to be.
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

// knowing is a Master that only knows where the master is, and has a view of the cell.
type knowing struct {
	Master
	view func() master.View // nil: of a cell of r1
}

// of is the view of r1 in a cell of some replicas.
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

// Crowd takes places among the calls that this replica has sent to others and
// that it serves for them, and returns how to give them back.
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

// FillUnread leaves no room for answers to other replicas that are not read.
func (s *Server) FillUnread() { s.unread.Enter(s.unread.Most) }

// WriteEvent writes an event of a stream.
var WriteEvent = writeEvent

// Audits says which calls of a route the audit log has.
func Audits(method, template string) string {
	for _, r := range routes {
		if r.method == method && r.template == template {
			return map[master.Audit]string{master.AuditNever: "never", master.AuditChanges: "if changes", master.AuditOthers: "if others", master.AuditAlways: "always"}[r.audits]
		}
	}
	return "unknown"
}
