package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
)

// ways are the two kinds of connections between members.
var ways = map[string]func(*server.Options){
	"proven":  proven,
	"without": func(*server.Options) {},
}

// startSecuredPair starts a secured master, and a replica that forwards to it.
func startSecuredPair(t *testing.T, way func(*server.Options), tune ...func(*server.Options)) (*secured, *node) {
	t.Helper()
	s := startSecured(t, append(tune, way)...)
	replica := startNode(t, "r2", func(o *server.Options) {
		for _, f := range append(tune, way) {
			f(o)
		}
	})
	replica.setMaster(3, "r1", s.url)
	return s, replica
}

// TestNoCredentialTravels: between members with certificates no credential
// travels; without certificates only the credential does.
func TestNoCredentialTravels(t *testing.T) {
	secret := "stout_" + strings.Repeat("secret", 8)
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) {
			var got http.Header
			other := startOther(t, func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				w.WriteHeader(http.StatusNoContent)
			})
			replica := startReplica(t, other.URL, tune)
			for _, as := range []string{"", secret} {
				headers := []string{"Stout-Caller", `{"principal":"user:zoe","how":"certificate"}`}
				if as != "" {
					headers = append(headers, "Authorization", "Bearer "+as)
				}
				call(t, "DELETE", replica.url+"/v1/sessions/s1", "", headers...).wantStatus(t, http.StatusNoContent)
				var told struct{ Principal, How, Token, Remote string }
				if all := got.Values("Stout-Caller"); len(all) != 1 || json.Unmarshal([]byte(all[0]), &told) != nil {
					t.Fatalf("the master is told %q", all)
				}
				if !strings.HasPrefix(told.Remote, "127.0.0.1:") || told.Principal != "" || told.How != "" {
					t.Errorf("the master is told %+v", told)
				}
				handed, hash := strings.TrimPrefix(got.Get("Authorization"), "Bearer "), ""
				if way == "proven" && as != "" {
					hash = sumText(as)
				}
				if want := as; way == "proven" && handed != "" || way == "without" && handed != want || told.Token != hash {
					t.Errorf("by %q: %v", as, got)
				}
				if way == "proven" && strings.Contains(fmt.Sprint(got), "secretsecret") {
					t.Errorf("the secret travels: %v", got)
				}
			}
		})
	}
}

// TestAssertionsOfPeers: the assertion of an authenticated replica is accepted, and any
// other ignored. No assertion gives the root's rights.
func TestAssertionsOfPeers(t *testing.T) {
	servers := map[string]*secured{}
	for way, tune := range ways {
		servers[way] = startSecured(t, tune)
	}
	const bad = "bad"
	for _, c := range []struct{ assertion, proven, without string }{
		{`{"principal":"user:zoe","how":"certificate","remote":"10.0.0.9:1"}`, "user:zoe certificate", bad},
		{`{"principal":"user:zoe","how":"jwt"}`, "user:zoe jwt", bad},
		{`{}`, "anonymous none", "anonymous none"},
		{`{"remote":"10.0.0.9:1"}`, "anonymous none", "anonymous none"},
		{`{"remote":"` + strings.Repeat("x", 100) + `"}`, "anonymous none", "anonymous none"},
		{`{"token":"${reader}"}`, "user:reader token", bad},
		{`{"token":"${none}"}`, bad, bad},
		{`{"token":"00"}`, bad, bad},
		{`{"token":"stout_x"}`, bad, bad},
		{`{"principal":"user:zoe","how":"jwt","token":"${reader}"}`, bad, bad},
		{`{"how":"jwt","token":"${reader}"}`, bad, bad},
		{`{"ends":"2030-01-01T00:00:00Z"}`, bad, bad},
		{`{"principal":"user:zoe","how":"jwt","ends":"soon"}`, bad, bad},
		{`{"principal":"user:zoe","how":"jwt","ends":"2200-01-01T00:00:00Z"}`, "user:zoe jwt", bad},
		{`{"principal":"user:root","how":"certificate"}`, bad, bad},
		{`{"principal":"user:root","how":"jwt"}`, bad, bad},
		{`{"principal":"user:root","how":"token"}`, bad, bad},
		{`{"principal":"user:root","how":"break_glass"}`, bad, bad},
		{`{"principal":"user:zoe","how":"token"}`, bad, bad},
		{`{"principal":"user:zoe","how":"none"}`, bad, bad},
		{`{"principal":"user:zoe"}`, bad, bad},
		{`{"how":"certificate"}`, bad, bad},
		{`{"principal":"anonymous","how":"certificate"}`, bad, bad},
		{`{"principal":"group:operators","how":"certificate"}`, bad, bad},
		{`{"principal":"*","how":"certificate"}`, bad, bad},
		{`{"principal":"user:a\n","how":"certificate"}`, bad, bad},
		{`{"principal":["user:zoe"]}`, bad, bad},
		{`user:zoe`, bad, bad},
		{``, bad, bad},
	} {
		for way, s := range servers {
			want := map[string]string{"proven": c.proven, "without": c.without}[way]
			text := strings.NewReplacer("${reader}", sumText(s.tokens["reader"]), "${none}", sumText("stout_none")).Replace(c.assertion)
			// A credential sent as well has no effect on a proven connection.
			for _, more := range [][]string{nil, {"Authorization", "Bearer " + s.tokens["root"]}} {
				got := behind(s.server, "GET", "/v1/access/whoami", append([]string{"Stout-Caller", text}, more...)...)
				if way == "without" && want != bad && more != nil {
					want = "user:root token"
				}
				if want == bad {
					got.wantCode(t, lockapi.CodeUnauthenticated)
					continue
				}
				var who lockapi.WhoAmI
				if err := json.Unmarshal([]byte(got.body), &who); err != nil || who.Principal+" "+who.How != want {
					t.Errorf("%s, %s: %d %s, want %s", way, text, got.status, got.body, want)
				}
			}
		}
	}
	s := servers["proven"]
	zoe := []string{"Stout-Caller", `{"principal":"user:zoe","how":"certificate"}`}
	behind(s.server, "GET", "/v1/access/whoami", append(zoe, zoe...)...).wantCode(t, lockapi.CodeUnauthenticated)
	behind(s.server, "GET", "/v1/locks/p/l", zoe...).wantCode(t, lockapi.CodePermissionDenied)
	s.call(t, "root", "PUT", "/v1/access/rules/p", `{"read":["user:zoe"]}`).wantStatus(t, 200)
	behind(s.server, "GET", "/v1/locks/p/l", zoe...).wantStatus(t, 200)
	behind(s.server, "GET", "/v1/access/whoami", "Authorization", "Bearer "+s.tokens["root"]).wantStatus(t, 200)
	if got := behind(s.server, "GET", "/v1/access/whoami", "Authorization", "Bearer "+s.tokens["root"]); strings.Contains(got.body, "root") {
		t.Errorf("a credential is looked at where none travels: %s", got.body)
	}
}

// forgeries are headers with which a caller could claim to be another: headers
// of proxies, and headers between replicas.
func forgeries(s *secured) (all [][]string) {
	for _, name := range []string{
		"Stout-Principal", "Stout-How", "Stout-Peer", "Stout-Remote", "Stout-Replica", "X-Stout-Caller",
		"X-Forwarded-User", "X-Forwarded-For", "X-Forwarded-Client-Cert", "X-Forwarded-Email", "X-Remote-User", "X-Real-Ip", "X-Client-Cert",
		"X-Ssl-Client-Cert", "X-Ssl-Client-S-Dn", "X-Ssl-Client-Verify", "Ssl-Client-Cert", "Client-Cert", "Remote-User", "Forwarded", "Via", "From", "Cookie",
		"Proxy-Authorization", "X-Authorization", "X-Api-Key",
	} {
		for _, value := range []string{"user:root", "root", "Bearer " + s.tokens["root"], "127.0.0.1"} {
			all = append(all, []string{name, value})
		}
	}
	for _, assertion := range []string{
		`{"principal":"user:root","how":"token"}`, `{"principal":"user:root","how":"break_glass"}`, `{"principal":"user:operator","how":"certificate"}`,
		`{"principal":"user:operator","how":"jwt","remote":"127.0.0.1:1"}`, `{"token":"` + sumText(s.tokens["root"]) + `"}`, "user:root", "{", "",
	} {
		for _, name := range []string{"Stout-Caller", "stout-caller", "STOUT-CALLER"} {
			all = append(all, []string{name, assertion}, []string{name, assertion, "Stout-Caller", assertion},
				[]string{name, assertion, "Stout-Forward", "never"}, []string{name, assertion, "Connection", name})
		}
	}
	return all
}

// TestForgedHeaders: on the API's port only Authorization identifies a caller,
// at the master and at a forwarding replica, with either kind of connection
// between them.
func TestForgedHeaders(t *testing.T) {
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) {
			s, replica := startSecuredPair(t, tune)
			for _, url := range []string{s.url, replica.url} {
				for _, headers := range testrun.Rows(t, 10, forgeries(s)) {
					if url == replica.url && strings.Contains(strings.Join(headers, " "), "Stout-Forward never") {
						continue // the replica answers these itself
					}
					for _, as := range []string{"", "reader"} {
						want, mine := `{"principal":"anonymous","how":"none"}`, headers
						if as != "" {
							want, mine = `{"principal":"user:reader","how":"token"}`, append([]string{"Authorization", "Bearer " + s.tokens[as]}, headers...)
						}
						if got := call(t, "GET", url+"/v1/access/whoami", "", mine...); got.status != 200 || strings.TrimSpace(got.body) != want {
							t.Fatalf("%q: %d %s, want %s", mine, got.status, got.body, want)
						}
					}
				}
			}
		})
	}
}

// lagging is a replica that lags behind and knows no token.
type lagging struct{ *standIn }

func (lagging) Authorize(*master.Caller) error {
	return lockapi.Errorf(lockapi.CodeUnauthenticated, "the token is not known here")
}

// TestReplicasThatLagDecideNothing: a new token works through a replica that
// does not know it yet. A revoked token fails through a replica that still
// accepts it.
func TestReplicasThatLagDecideNothing(t *testing.T) {
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) {
			s, trusts := startSecuredPair(t, tune) // its fake accepts every token
			knowsNone := startNode(t, "r3", func(o *server.Options) {
				tune(o)
				o.Master = lagging{o.Master.(*standIn)}
			})
			knowsNone.setMaster(3, "r1", s.url)
			all := []*node{trusts, knowsNone}
			r := s.call(t, "root", "POST", "/v1/access/tokens", `{"principal":"user:reader"}`).wantStatus(t, 201)
			token := decoded[lockapi.Token](t, r)
			for _, n := range all {
				call(t, "GET", n.url+"/v1/locks/p/l", "", "Authorization", "Bearer "+token.Secret).wantStatus(t, 200)
			}
			s.call(t, "root", "DELETE", "/v1/access/tokens/"+token.ID, "").wantStatus(t, 204)
			for _, n := range all {
				call(t, "GET", n.url+"/v1/locks/p/l", "", "Authorization", "Bearer "+token.Secret).wantCode(t, lockapi.CodeUnauthenticated)
			}
		})
	}
}

// TestBreakGlassElsewhere: a replica that is not the master refuses the secret,
// and names the replica where it is valid. If the secret is also a token, it
// works as a token.
func TestBreakGlassElsewhere(t *testing.T) {
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) {
			secret := "stout_" + strings.Repeat("glass", 8)
			sum := sha256.Sum256([]byte(secret))
			s, replica := startSecuredPair(t, tune, func(o *server.Options) { o.BreakGlass = &sum })
			as := []string{"Authorization", "Bearer " + secret}
			for _, path := range []string{"/v1/access/whoami", "/v1/access/tokens", "/v1/sessions"} {
				e := call(t, "GET", replica.url+path, "", as...).wantCode(t, lockapi.CodeUnauthenticated)
				if !strings.Contains(e.Detail, "break-glass-token-file") || !strings.Contains(e.Detail, "r1 at "+s.url) {
					t.Errorf("%s: %s", path, e.Detail)
				}
			}
			if e := call(t, "GET", replica.url+"/v1/access/whoami", "", "Authorization", "Bearer stout_"+strings.Repeat("x", 40)).wantCode(t, lockapi.CodeUnauthenticated); strings.Contains(e.Detail, "glass") {
				t.Errorf("anybody is told of it: %s", e.Detail)
			}
			s.call(t, "root", "POST", "/v1/access/tokens", `{"principal":"user:reader","token_sha256":"`+sumText(secret)+`"}`).wantStatus(t, 201)
			replica.must(&lockapi.CreateToken{TokenRequest: lockapi.TokenRequest{Principal: "user:reader", TokenSHA256: sumText(secret)}})
			if got := call(t, "GET", replica.url+"/v1/access/whoami", "", as...); strings.TrimSpace(got.body) != `{"principal":"user:reader","how":"token"}` {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

// TestBreakGlassIsNotHandedOn: the secret is not forwarded, even if the replica
// loses its office after checking it.
func TestBreakGlassIsNotHandedOn(t *testing.T) {
	secret := "stout_" + strings.Repeat("glass", 8)
	sum := sha256.Sum256([]byte(secret))
	s := startSecured(t, proven)
	var replica *node
	replica = startNode(t, "r2", func(o *server.Options) {
		proven(o)
		o.BreakGlass = &sum
		o.Master = &resigning{standIn: o.Master.(*standIn), resign: func() { replica.setMaster(4, "r1", s.url) }}
	})
	replica.setMaster(3, "r2", replica.url)
	call(t, "GET", replica.url+"/v1/access/whoami", "", "Authorization", "Bearer "+secret).wantCode(t, lockapi.CodeUnauthenticated)
}

// TestBreakGlassIsNotShown: the secret does not appear in traffic between
// replicas without TLS.
func TestBreakGlassIsNotShown(t *testing.T) {
	secret := "stout_" + strings.Repeat("glass", 8)
	sum := sha256.Sum256([]byte(secret))
	for way, tune := range ways {
		for _, resigns := range []bool{false, true} {
			other := startOther(t, func(w http.ResponseWriter, r *http.Request) {
				if way != "proven" || strings.Contains(fmt.Sprint(r.Header), "glassglass") {
					t.Errorf("%s: the secret is handed on: %v", way, r.Header)
				}
				w.WriteHeader(http.StatusUnauthorized)
			})
			var replica *node
			replica = startNode(t, "r2", func(o *server.Options) {
				tune(o)
				o.BreakGlass = &sum
				o.Master = forgetful{&resigning{o.Master.(*standIn), func() { replica.setMaster(4, "r1", other.URL) }}}
			})
			replica.setMaster(3, "r1", other.URL)
			if resigns {
				replica.setMaster(3, "r2", replica.url)
			}
			got := call(t, "GET", replica.url+"/v1/access/whoami", "", "Authorization", "Bearer "+secret)
			got.wantStatus(t, http.StatusUnauthorized)
			if way != "proven" && !strings.Contains(got.body, "break-glass-token-file is valid only in calls") {
				t.Errorf("%s: %s", way, got.body)
			}
		}
	}
}

// resigning is a master that loses its office when it checks the caller.
type resigning struct {
	*standIn
	resign func()
}

func (r *resigning) Do(context.Context, *master.Caller, bool, lockapi.Call) (any, master.Outcome, error) {
	r.resign()
	return nil, master.Outcome{}, lockapi.Errorf(lockapi.CodeNoMaster, "not any more")
}

// forgetful is a resigning master without any tokens.
type forgetful struct{ *resigning }

func (forgetful) Authorize(by *master.Caller) error { return lagging{}.Authorize(by) }

// noting is a master that records its callers.
type noting struct {
	*standIn
	mu sync.Mutex
	by []master.Caller
}

func (n *noting) Do(ctx context.Context, by *master.Caller, stale bool, c lockapi.Call) (any, master.Outcome, error) {
	n.mu.Lock()
	n.by = append(n.by, *by)
	n.mu.Unlock()
	return n.standIn.Do(ctx, by, stale, c)
}

// TestTheMasterKnowsFromWhere: the master gets the caller's own address,
// neither the forwarding replica's nor one claimed by the caller.
func TestTheMasterKnowsFromWhere(t *testing.T) {
	for way, tune := range ways {
		t.Run(way, func(t *testing.T) {
			at := &noting{}
			first := startNode(t, "r1", func(o *server.Options) {
				tune(o)
				at.standIn = o.Master.(*standIn)
				o.Master = at
			})
			first.setMaster(3, "r1", first.url)
			replica := startReplica(t, first.url, tune)
			for _, handler := range []http.Handler{first.server.Handler(), replica.server.Handler()} {
				handled(handler, "[2001:db8::7]:4711", "POST", "/v1/sessions", "", "X-Forwarded-For", "10.0.0.1", "Stout-Caller", `{"remote":"10.0.0.1:1"}`).
					wantStatus(t, http.StatusCreated)
			}
			for i, by := range at.by {
				if by.RemoteAddr != "[2001:db8::7]:4711" {
					t.Errorf("call %d comes from %q", i, by.RemoteAddr)
				}
			}
			if len(at.by) != 2 {
				t.Errorf("%d calls", len(at.by))
			}
		})
	}
}

// FuzzAssertions: no assertion gives the root's rights, and without proof an
// assertion has no effect.
func FuzzAssertions(f *testing.F) {
	for _, assertion := range []string{`{"principal":"user:zoe","how":"certificate"}`, `{"token":"` + sumText("stout_x") + `"}`, `{"principal":"user:root","how":"token"}`, `{"Principal":"user:root","How":"jwt"}`} {
		f.Add(assertion)
	}
	var by master.Caller
	servers := map[string]*server.Server{}
	for way, tune := range ways {
		of := newStandIn(f, "r1")
		of.setMaster(3, "r1", "http://r1")
		o := server.Options{Master: seeing{of, &by}, Links: &links{calls: &pipeListener{done: make(chan struct{})}, of: of}, AttemptEvery: time.Nanosecond}
		tune(&o)
		servers[way] = server.New(o)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for way, s := range servers {
			by = master.Caller{}
			_ = behind(s, "GET", "/v1/access/whoami", "Stout-Caller", text)
			if by.Principal == lockapi.PrincipalRoot || by.Principal != "" && (way == "without" || lockapi.ValidatePrincipal(by.Principal) != nil || by.Secret != nil) || way == "without" && by.Secret != nil {
				t.Errorf("%s, %q: %+v", way, text, by)
			}
		}
	})
}

// seeing records the caller of each whoami.
type seeing struct {
	*standIn
	by *master.Caller
}

func (s seeing) Do(_ context.Context, by *master.Caller, _ bool, _ lockapi.Call) (any, master.Outcome, error) {
	*s.by = *by
	return lockapi.WhoAmI{}, master.Outcome{}, nil
}

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
