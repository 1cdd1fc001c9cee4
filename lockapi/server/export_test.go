package server

import (
	"net/http"

	"github.com/stoutlock/stout/lockapi"
)

// Routes lists what the router takes as "METHOD /template", without HEAD, which
// goes with every GET.
func Routes() []string {
	templates := map[string]string{}
	for _, r := range routes {
		templates[r.pattern] = r.template
	}
	var all []string
	for _, r := range (&Server{}).newEngine().Routes() {
		if r.Method != http.MethodHead {
			all = append(all, r.Method+" "+templates[r.Path])
		}
	}
	return all
}

// knowing is a Master that only knows where the master is.
type knowing struct{ Master }

func (knowing) Known() Location { return Location{Epoch: 7, ID: "r1", URL: "http://m"} }

func (knowing) Replica() lockapi.Replica { return lockapi.Replica{ID: "r1"} }
