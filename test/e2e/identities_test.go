package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// TestIdentitiesThroughEveryReplica: the master knows a caller by its
// certificate or JWT, through any replica, and applies the rules for it.
func TestIdentitiesThroughEveryReplica(t *testing.T) {
	t.Parallel()
	by := jwttest.New()
	keys := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(keys, by.Keys(), 0o600))
	c := cell.New(t, cell.Options{Secure: true, Clients: []string{"billing"},
		Args: append([]string{"--jwt-issuer=" + jwttest.Name, "--jwt-audience=" + jwttest.Audience, "--jwt-keys=" + keys}, calm...)})
	c.Ready(t)
	shown, err := c.ClientTLS("billing")
	must(t, err)
	ways := map[string]struct {
		via  *http.Client
		want lockapi.WhoAmI
	}{
		"a certificate":          {&http.Client{Transport: &http.Transport{TLSClientConfig: shown}}, lockapi.WhoAmI{Principal: "user:billing", How: lockapi.HowCertificate}},
		"a JWT":                  {&http.Client{Transport: bearer{by.Token("zoe", time.Hour, nil), &http.Transport{TLSClientConfig: c.TLS()}}}, lockapi.WhoAmI{Principal: "user:zoe", How: lockapi.HowJWT}},
		"a JWT before the other": {&http.Client{Transport: bearer{by.Token("tom", time.Hour, nil), &http.Transport{TLSClientConfig: shown}}}, lockapi.WhoAmI{Principal: "user:tom", How: lockapi.HowJWT}},
		"neither":                {&http.Client{Transport: &http.Transport{TLSClientConfig: c.TLS()}}, lockapi.WhoAmI{Principal: "anonymous", How: lockapi.HowNone}},
	}
	for _, r := range c.Replicas() {
		for name, way := range ways {
			caller, err := through[lockapi.WhoAmI](t.Context(), way.via, r, http.MethodGet, lockapi.RouteWhoAmI, nil)
			if err != nil || caller != way.want {
				t.Errorf("%s, through %s: %+v, %v", name, r.ID, caller, err)
			}
			file, err := through[lockapi.FileStat](t.Context(), way.via, r, http.MethodPut, lockapi.RouteFiles+"/"+r.ID, "x")
			if want := way.want.Principal; err != nil || file.Principal != want && (file.Principal != "" || want != "anonymous") {
				t.Errorf("%s, through %s: a file of %q, %v", name, r.ID, file.Principal, err)
			}
		}
	}
}
