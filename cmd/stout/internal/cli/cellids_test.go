package cli

import (
	"context"
	"net/http"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// shown is a way to replicas that notes what credentials they are shown.
type shown struct {
	hosts
	credentials []string
}

func (s *shown) RoundTrip(r *http.Request) (*http.Response, error) {
	s.credentials = append(s.credentials, r.Header.Get("Authorization"))
	return s.hosts.RoundTrip(r)
}

// TestACellsIDIsAskedWithoutAToken checks that no token goes to an unknown
// server.
func TestACellsIDIsAskedWithoutAToken(t *testing.T) {
	way := &shown{hosts: hosts{"r1": {cell: view(3, "r1", true), id: "c1"}}}
	a := asApp(t, way.hosts, "http://r1")
	a.via, a.token = way, func(context.Context) (string, error) { return "s3cret", nil }
	if id := a.cellIDAt(t.Context(), "http://r1"); id != "c1" || len(way.credentials) != 1 || way.credentials[0] != "" {
		t.Errorf("id %q, shown %q", id, way.credentials)
	}
	asker := a.asker()
	if _, err := asker.Get(t.Context(), "http://r1", lockapi.RouteReplica, nil); err != nil {
		t.Fatal(err)
	}
	if way.credentials[1] != "Bearer s3cret" {
		t.Errorf("a call shows %q", way.credentials[1])
	}
}
