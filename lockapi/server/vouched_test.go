package server_test

import (
	"testing"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// TestWordOfAReplicaThatIsNoMember: a replica's assertion and the address in it
// count only while it is a member. Its own questions are still answered.
func TestWordOfAReplicaThatIsNoMember(t *testing.T) {
	for way, tune := range ways {
		var by *links
		s, replica := startSecuredPair(t, tune, func(o *server.Options) {
			if l := o.Links.(*links); by == nil {
				by = l // of the master, which is started first
			}
		})
		s.through = replica.url
		s.call(t, "operator", "GET", "/v1/access/tokens", "").wantStatus(t, 200)
		by.gone.Store(true)
		for _, as := range []string{"operator", "root"} {
			s.call(t, as, "GET", "/v1/access/tokens", "").wantCode(t, lockapi.CodeNoMaster)
			s.call(t, as, "POST", "/v1/access/tokens", `{"principal":"user:root"}`).wantCode(t, lockapi.CodeNoMaster)
		}
		behind(s.server, "GET", "/v1/access/tokens", "Stout-Caller", `{"principal":"user:operator","how":"certificate"}`).wantCode(t, lockapi.CodeNoMaster)
		behind(s.server, "GET", "/v1/replica").wantStatus(t, 200)
		by.gone.Store(false)
		if r := s.call(t, "operator", "GET", "/v1/access/tokens", ""); r.status != 200 {
			t.Errorf("%s: a member is refused: %d %s", way, r.status, r.body)
		}
	}
}
