package server

import "net/http"

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
