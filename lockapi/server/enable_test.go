package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// callFrom makes a call to a server from an address.
func callFrom(s *server.Server, from, method, path, body string, headers ...string) reply {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr, r.Host = from, "127.0.0.1"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

// TestEnablingFromAfar: while access control is off, a caller can enable it
// from loopback or with the secret of the called replica or of the master. The
// replica that receives a call first checks the address.
func TestEnablingFromAfar(t *testing.T) {
	const afar, here = "192.0.2.7:4711", "127.0.0.1:4711"
	master, follower := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for way, tune := range ways {
		for _, c := range []struct {
			name, from, secret string
			direct, forwarded  bool
		}{
			{"loopback", here, "", true, true},
			{"loopback, IPv6", "[::1]:4711", "", true, true},
			{"loopback, IPv4 in IPv6", "[::ffff:127.0.0.9]:4711", "", true, true},
			{"loopback, a wrong secret", here, "x", true, true},
			{"afar", afar, "", false, false},
			{"afar, IPv6", "[2001:db8::1]:4711", "", false, false},
			{"no address", "", "", false, false},
			{"afar, a wrong secret", afar, strings.Repeat("c", 64), false, false},
			{"afar, a part of it", afar, master[1:], false, false},
			{"afar, the master's secret", afar, master, true, true},
			{"afar, the follower's secret", afar, follower, false, true},
		} {
			for _, through := range []string{"direct", "forwarded"} {
				to := &tape{}
				url, at := startReal(t, tune, taped(t, to, false, false), func(o *server.Options) { o.EnableSecret = master })
				allowed, file := c.direct, "r1"
				if through == "forwarded" {
					replica := startNode(t, "r2", func(o *server.Options) { tune(o); o.EnableSecret = follower })
					replica.setMaster(3, "r1", url)
					at, allowed, file = replica.server, c.forwarded, "r2"
				}
				got := callFrom(at, c.from, "POST", "/v1/access/enable", fmt.Sprintf(`{"secret":%q}`, c.secret),
					"Stout-Caller", `{"enables":true,"remote":"127.0.0.1:1"}`, "X-Forwarded-For", "127.0.0.1")
				name := fmt.Sprintf("%s, %s, %s", way, c.name, through)
				if allowed {
					if got.status != http.StatusCreated {
						t.Errorf("%s: %d %s", name, got.status, got.body)
					}
					continue
				}
				if p := got.problem(t); got.status != http.StatusForbidden || p.Code != lockapi.CodePermissionDenied ||
					!strings.Contains(p.Detail, "the file enable.secret in the data directory of replica "+file) {
					t.Errorf("%s: %d %s", name, got.status, got.body)
				}
				eventually(t, name+" is in the audit", func() bool {
					line := to.String()
					return strings.Contains(line, `"route":"/v1/access/enable"`) && strings.Contains(line, `"code":"permission_denied"`)
				})
				call(t, "PUT", url+"/v1/files/still/off", "x").wantStatus(t, http.StatusCreated)
			}
		}
	}
}

// TestEnablingWithoutASecret: a replica that could not write its file accepts
// no remote caller, even with an empty secret.
func TestEnablingWithoutASecret(t *testing.T) {
	_, s := startReal(t)
	for _, body := range []string{"", `{}`, `{"secret":""}`} {
		callFrom(s, "192.0.2.7:1", "POST", "/v1/access/enable", body).wantCode(t, lockapi.CodePermissionDenied)
	}
	callFrom(s, "192.0.2.7:1", "POST", "/v1/access/enable", `{"secret":"`+strings.Repeat("x", 257)+`"}`).wantCode(t, lockapi.CodeInvalidArgument)
	callFrom(s, "127.0.0.1:1", "POST", "/v1/access/enable", "").wantStatus(t, http.StatusCreated)
}

// TestEnableSecretOpensNothingElse: the secret is not a credential. While
// access control is on, callers without operate are refused as usual, and
// others get the conflict.
func TestEnableSecretOpensNothingElse(t *testing.T) {
	secret := strings.Repeat("a", 64)
	s := startSecured(t, func(o *server.Options) { o.EnableSecret = secret })
	body := `{"secret":"` + secret + `"}`
	for _, from := range []string{"192.0.2.7:1", "127.0.0.1:1"} {
		callFrom(s.server, from, "POST", "/v1/access/enable", body).wantCode(t, lockapi.CodeUnauthenticated)
		callFrom(s.server, from, "POST", "/v1/access/enable", body, "Authorization", "Bearer "+s.tokens["admin"]).wantCode(t, lockapi.CodePermissionDenied)
		callFrom(s.server, from, "POST", "/v1/access/enable", `{}`, "Authorization", "Bearer "+s.tokens["root"]).wantCode(t, lockapi.CodeConflict)
	}
	s.call(t, "root", "POST", "/v1/access/disable", "").wantStatus(t, http.StatusNoContent)
	callFrom(s.server, "192.0.2.7:1", "POST", "/v1/access/enable", `{}`, "Authorization", "Bearer "+s.tokens["root"]).wantCode(t, lockapi.CodePermissionDenied)
	callFrom(s.server, "192.0.2.7:1", "POST", "/v1/access/enable", body).wantStatus(t, http.StatusCreated)
}

// TestPrefixesTellSourcesApart: a JWT or a certificate with a chosen name
// proves no principal of another source, and tokens for principals of another
// source are refused.
func TestPrefixesTellSourcesApart(t *testing.T) {
	prefixed := func(o *server.Options) { o.JWTs.Prefix, o.CertificatePrefix = "jwt:", "cert:" }
	s := startTrusting(t, prefixed)
	for _, name := range []string{"billing", "cert:billing", "jwt:billing", "root"} {
		if r, who := s.whoAmI(t, s.via, "Authorization", "Bearer "+s.issuer.Token(name, time.Hour, nil)); who.Principal != "user:jwt:"+name || who.How != "jwt" {
			t.Errorf("%+v: %s", who, r.body)
		}
		if r, who := s.whoAmI(t, s.as(t, certs.Leaf{Name: name})); who.Principal != "user:cert:"+name || who.How != "certificate" {
			t.Errorf("%+v: %s", who, r.body)
		}
	}
	for principal, setting := range map[string]string{
		"user:jwt:billing": `it begins with "jwt:" (jwt-prefix)`, "user:cert:": `it begins with "cert:" (certificate-prefix)`,
		"user:billing": "", "user:jwt": "", "user:Jwt:billing": "", "user:root": "",
	} {
		r := s.call(t, "anonymous", "POST", "/v1/access/tokens", `{"principal":"`+principal+`"}`)
		if setting == "" {
			r.wantStatus(t, http.StatusCreated)
			continue
		}
		if p := r.problem(t); r.status != http.StatusBadRequest || p.Field != "principal" || !strings.Contains(p.Detail, setting) {
			t.Errorf("%s: %d %s", principal, r.status, r.body)
		}
	}
}

// TestReplicasOfOtherPrefixes: a master refuses a forwarded principal if its
// own settings have another prefix for the source.
func TestReplicasOfOtherPrefixes(t *testing.T) {
	by := jwttest.New()
	s := startSecured(t, proven, func(o *server.Options) {
		o.JWTs, o.CertificatePrefix = newJWTs(t, by), "cert:"
		o.JWTs.Prefix = "jwt:"
	})
	for claim, want := range map[string]string{
		`{"principal":"user:jwt:zoe","how":"jwt"}`:          "user:jwt:zoe",
		`{"principal":"user:cert:zoe","how":"certificate"}`: "user:cert:zoe",
		`{"principal":"user:zoe","how":"jwt"}`:              "",
		`{"principal":"user:cert:zoe","how":"jwt"}`:         "",
		`{"principal":"user:jwt:zoe","how":"certificate"}`:  "",
	} {
		got := behind(s.server, "GET", "/v1/access/whoami", "Stout-Caller", claim)
		if want != "" && !strings.Contains(got.body, `"`+want+`"`) {
			t.Errorf("%s: %d %s", claim, got.status, got.body)
		}
		if want == "" && (got.status != http.StatusUnauthorized || !strings.Contains(got.body, "the same jwt-prefix and certificate-prefix")) {
			t.Errorf("%s: %d %s", claim, got.status, got.body)
		}
	}
}
