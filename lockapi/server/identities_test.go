package server_test

import (
	"bufio"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// trusting is a TLS server that accepts client certificates and JWTs, with an
// issuer of both.
type trusting struct {
	*secured
	ca     *certs.Authority
	issuer *jwttest.Issuer
	trust  *x509.CertPool
}

func newCA(t *testing.T) *certs.Authority {
	t.Helper()
	ca, err := certs.NewAuthority("test", time.Now().AddDate(1, 0, 0))
	must(t, err)
	return ca
}

func pairOf(t *testing.T, ca *certs.Authority, l certs.Leaf) tls.Certificate {
	t.Helper()
	if l.Ends.IsZero() {
		l.Ends = time.Now().Add(time.Hour)
	}
	leaf, key, err := ca.Issue(l)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func newJWTs(t *testing.T, by *jwttest.Issuer) *identity.JWTs {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(file, by.Keys(), 0o600))
	keys, err := identity.OpenKeys(file)
	must(t, err)
	return &identity.JWTs{Issuer: jwttest.Name, Audience: jwttest.Audience, Claim: "sub", Keys: keys}
}

// startTrusting starts it with access control off; secure turns that on.
func startTrusting(t *testing.T, tune ...func(*server.Options)) *trusting {
	t.Helper()
	s := &trusting{secured: &secured{tokens: map[string]string{"root": secretOf("root")}}, ca: newCA(t), issuer: jwttest.New(), trust: x509.NewCertPool()}
	s.trust.AddCert(s.ca.Certificate)
	url, _ := startReal(t, append([]func(*server.Options){func(o *server.Options) {
		o.TLS, o.Certificates, o.JWTs = s.tls(t), true, newJWTs(t, s.issuer)
	}}, tune...)...)
	s.url = strings.Replace(url, "http://", "https://", 1)
	s.through, s.via = s.url, s.showing(t)
	return s
}

// showing returns a transport that shows these certificates.
func (s *trusting) showing(t *testing.T, own ...tls.Certificate) http.RoundTripper {
	via := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trust, Certificates: own}}
	t.Cleanup(via.CloseIdleConnections)
	return via
}

// as returns a transport that shows a client's certificate.
func (s *trusting) as(t *testing.T, l certs.Leaf) http.RoundTripper {
	l.Client = true
	return s.showing(t, pairOf(t, s.ca, l))
}

func (s *trusting) whoAmI(t *testing.T, via http.RoundTripper, headers ...string) (reply, lockapi.WhoAmI) {
	t.Helper()
	var who lockapi.WhoAmI
	r := callVia(t, via, "GET", s.url+"/v1/access/whoami", "", headers...)
	if r.status == http.StatusOK {
		must(t, json.Unmarshal([]byte(r.body), &who))
	}
	return r, who
}

// proofsOf returns the proofs of all principals, by certificate and by JWT. The
// root has a token only.
func (s *trusting) proofsOf(t *testing.T) map[string]map[string]proof {
	byCertificate, byJWT := map[string]proof{}, map[string]proof{}
	for _, name := range append([]string{"other"}, known[:len(known)-1]...) {
		byCertificate[name] = proof{via: s.as(t, certs.Leaf{Name: name})}
		byJWT[name] = proof{via: s.via, header: []string{"Authorization", "Bearer " + s.issuer.Token(name, time.Hour, nil)}}
	}
	return map[string]map[string]proof{lockapi.HowCertificate: byCertificate, lockapi.HowJWT: byJWT}
}

// tls returns the configuration of a server with a certificate of the CA.
func (s *trusting) tls(t *testing.T) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{pairOf(t, s.ca, certs.Leaf{Hosts: []string{"127.0.0.1"}})},
		ClientCAs:    s.trust, ClientAuth: tls.VerifyClientCertIfGiven,
	}
}

// TestEachRouteIsJudgedByEachProof: every route treats a principal with a
// certificate or a JWT like one with a token.
func TestEachRouteIsJudgedByEachProof(t *testing.T) {
	s := startTrusting(t)
	s.secure(t)
	for name, proofs := range s.proofsOf(t) {
		t.Run(name, func(t *testing.T) {
			s.proofs = proofs
			if _, who := s.whoAmI(t, proofs["reader"].via, proofs["reader"].header...); who != (lockapi.WhoAmI{Principal: "user:reader", How: name}) {
				t.Fatalf("%+v", who)
			}
			for _, route := range testrun.Rows(t, 10, server.Routes()) {
				for _, d := range decisions[route] {
					for _, who := range principals {
						s.checkDecision(t, route, d, who)
					}
				}
			}
		})
	}
}

// TestForwardedProofs: a forwarding replica passes the verified principal of a
// certificate or a JWT to the master. Without certificates between replicas the
// JWT itself is forwarded. Every route gives the same decisions.
func TestForwardedProofs(t *testing.T) {
	for way, tune := range ways {
		s := startTrusting(t, tune)
		s.secure(t)
		replica := startNode(t, "r2", func(o *server.Options) {
			tune(o)
			o.AttemptEvery = time.Nanosecond
			o.TLS, o.Certificates, o.JWTs = s.tls(t), true, newJWTs(t, s.issuer)
		})
		replica.setMaster(3, "r1", strings.Replace(s.url, "https://", "http://", 1))
		s.through = strings.Replace(replica.url, "http://", "https://", 1)
		for how, proofs := range s.proofsOf(t) {
			if how == lockapi.HowCertificate && way != "proven" {
				continue // such settings are refused at the start
			}
			s.proofs = proofs
			if r := s.call(t, "reader", "GET", "/v1/access/whoami", ""); strings.TrimSpace(r.body) != `{"principal":"user:reader","how":"`+how+`"}` {
				t.Errorf("%s, %s: %d %s", way, how, r.status, r.body)
			}
			for _, route := range testrun.Rows(t, 10, server.Routes()) {
				for _, d := range decisions[route] {
					if slices.Contains(local, route) || strings.Contains(d.path, "stale") {
						continue // the replica answers these itself
					}
					for _, who := range principals {
						s.checkDecision(t, route, d, who)
					}
				}
			}
		}
	}
}

// TestOrderOfProofs: the header takes precedence, and a certificate never
// replaces a bad one. Without a header the certificate counts; without both the
// caller is anonymous. Access control is off, which makes no difference.
func TestOrderOfProofs(t *testing.T) {
	s := startTrusting(t)
	billing := s.as(t, certs.Leaf{Name: "billing"})
	jwt := "Bearer " + s.issuer.Token("zoe", time.Hour, nil)
	r := s.call(t, "anonymous", "POST", "/v1/access/tokens", `{"principal":"user:tom"}`).wantStatus(t, 201)
	token := decoded[lockapi.Token](t, r)
	for _, via := range []http.RoundTripper{s.via, billing} {
		for header, want := range map[string]lockapi.WhoAmI{
			jwt: {Principal: "user:zoe", How: "jwt"},
			strings.Replace(jwt, "Bearer", "bearer", 1): {Principal: "user:zoe", How: "jwt"},
			"Bearer " + token.Secret:                    {Principal: "user:tom", How: "token"},
		} {
			if r, who := s.whoAmI(t, via, "Authorization", header); who != want {
				t.Errorf("%+v, want %+v: %s", who, want, r.body)
			}
		}
		for _, bad := range []string{
			"", "Bearer", "Bearer ", "Basic YTpi", "Bearer  " + jwt[7:], jwt + "x", jwt[:len(jwt)-8], "Bearer stout_" + strings.Repeat("x", 40), "JWT " + jwt[7:],
			"Bearer " + s.issuer.Token("zoe", -time.Minute, nil), "Bearer " + s.issuer.Token("root", time.Hour, nil), "Bearer " + jwttest.New().Token("zoe", time.Hour, nil),
			"Bearer " + s.issuer.Token("zoe", time.Hour, map[string]any{"x": strings.Repeat("x", identity.MaxJWT)}),
		} {
			r, _ := s.whoAmI(t, via, "Authorization", bad)
			r.wantCode(t, lockapi.CodeUnauthenticated)
			if r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%.40q: %v", bad, r.header)
			}
		}
		r, _ := s.whoAmI(t, via, "Authorization", jwt, "Authorization", jwt)
		r.wantCode(t, lockapi.CodeUnauthenticated)
	}
	if _, who := s.whoAmI(t, billing); who != (lockapi.WhoAmI{Principal: "user:billing", How: "certificate"}) {
		t.Errorf("%+v", who)
	}
	if _, who := s.whoAmI(t, s.via); who != (lockapi.WhoAmI{Principal: "anonymous", How: "none"}) {
		t.Errorf("%+v", who)
	}
}

// TestCertificates: a certificate of our CA gives the same result over TLS as
// alone, a certificate of another CA fails the handshake, and a bad credential
// is ignored by routes that need none.
func TestCertificates(t *testing.T) {
	s := startTrusting(t)
	uri := func(text string) []*url.URL {
		u, err := url.Parse(text)
		must(t, err)
		return []*url.URL{u}
	}
	for name, test := range map[string]struct {
		leaf certs.Leaf
		want string // the principal, or the refusal
	}{
		"a common name":      {certs.Leaf{Name: "billing"}, "user:billing"},
		"a DNS name":         {certs.Leaf{Name: "x", Hosts: []string{"127.0.0.1", "billing.example.com"}}, "user:billing.example.com"},
		"a URI":              {certs.Leaf{Name: "x", Hosts: []string{"y"}, URIs: uri("spiffe://example.com/billing")}, "user:spiffe://example.com/billing"},
		"a member's":         {certs.Leaf{Name: "r1", Hosts: []string{"127.0.0.1"}, URIs: uri("stout://replica/r1")}, "it is a replica's and not a client's"},
		"no name":            {certs.Leaf{}, "it names no principal"},
		"the root":           {certs.Leaf{Name: "root"}, "it names user:root"},
		"control characters": {certs.Leaf{Name: "a\x1b[2J"}, "is not a valid principal name"},
		"a name too long":    {certs.Leaf{URIs: uri("x:" + strings.Repeat("x", 255))}, "is not a valid principal name"},
	} {
		via := s.as(t, test.leaf)
		r, who := s.whoAmI(t, via)
		if strings.HasPrefix(test.want, "user:") {
			if who.Principal != test.want || who.How != lockapi.HowCertificate {
				t.Errorf("%s: %d %s, want %s", name, r.status, r.body, test.want)
			}
			continue
		}
		r.wantCode(t, lockapi.CodeUnauthenticated)
		if !strings.Contains(r.problem(t).Detail, test.want) {
			t.Errorf("%s: %s, want %q", name, r.body, test.want)
		}
		callVia(t, via, "GET", s.url+"/livez", "").wantStatus(t, http.StatusOK)
		callVia(t, via, "PUT", s.url+"/v1/files/a", "x").wantCode(t, lockapi.CodeUnauthenticated)
		if _, who := s.whoAmI(t, via, "Authorization", "Bearer "+s.issuer.Token("zoe", time.Hour, nil)); who.Principal != "user:zoe" {
			t.Errorf("%s, and a good JWT: %+v", name, who)
		}
	}
	ours := pairOf(t, s.ca, certs.Leaf{Name: "x", Client: true})
	for name, pair := range map[string]tls.Certificate{
		"another CA's":         pairOf(t, newCA(t), certs.Leaf{Name: "billing", Client: true}),
		"one that has ended":   pairOf(t, s.ca, certs.Leaf{Name: "billing", Client: true, Ends: time.Now().Add(-time.Minute)}),
		"a server's":           pairOf(t, s.ca, certs.Leaf{Name: "billing", Hosts: []string{"127.0.0.1"}}),
		"one of its own CA's":  {Certificate: [][]byte{newCA(t).Certificate.Raw}, PrivateKey: newCA(t).Key},
		"our CA's by another":  {Certificate: [][]byte{s.ca.Certificate.Raw}, PrivateKey: newCA(t).Key},
		"one signed by a leaf": pairOf(t, &certs.Authority{Certificate: ours.Leaf, Key: ours.PrivateKey.(crypto.Signer)}, certs.Leaf{Name: "billing", Client: true}),
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/access/whoami", nil)
		must(t, err)
		via := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trust, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}
		if resp, err := via.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s: answered %s", name, resp.Status)
		}
	}
	unasked := startTrusting(t, func(o *server.Options) { o.Certificates = false })
	if _, who := unasked.whoAmI(t, unasked.as(t, certs.Leaf{Name: "billing"})); who.How != lockapi.HowNone {
		t.Errorf("certificates prove nothing here: %+v", who)
	}
}

// TestCertificateThatEnds: an expired certificate is no longer valid on an open
// connection. The connection ends, so that the next one can show another.
func TestCertificateThatEnds(t *testing.T) {
	t.Parallel()
	s := startTrusting(t)
	for life := 2 * time.Second; !s.seesTheEnd(t, life); life *= 2 {
		if life > time.Minute {
			t.Fatalf("a certificate for %v is of no use", life)
		}
	}
}

// seesTheEnd uses a certificate with this lifetime on one connection until it
// has expired. It returns false if the certificate had already expired, on a
// slow machine.
func (s *trusting) seesTheEnd(t *testing.T, life time.Duration) bool {
	t.Helper()
	ends := time.Now().Add(life)
	pair := pairOf(t, s.ca, certs.Leaf{Name: "billing", Client: true, Ends: ends})
	ended := func() bool { return time.Until(ends) < time.Second } // times are in whole seconds
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{RootCAs: s.trust, Certificates: []tls.Certificate{pair}})
	must(t, err)
	defer c.Close()
	in := bufio.NewReader(c)
	ask := func() (resp *http.Response, body string, err error) {
		if _, err = io.WriteString(c, "GET /v1/access/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return nil, "", err
		}
		if resp, err = http.ReadResponse(in, nil); err != nil {
			return nil, "", err
		}
		text, err := io.ReadAll(resp.Body)
		return resp, string(text), err
	}
	resp, body, err := ask() // with TLS 1.3 the client learns of the refusal only here
	if (err != nil || resp.StatusCode != http.StatusOK) && ended() {
		return false
	}
	if err != nil || resp.StatusCode != http.StatusOK || resp.Close {
		t.Fatalf("%+v %s %v", resp, body, err)
	}
	eventually(t, "its end", func() bool {
		if resp, body, err = ask(); err != nil {
			t.Fatal(err)
		}
		// A call that the end overtakes is refused with other words.
		return resp.StatusCode != http.StatusOK && !strings.Contains(body, "while the call was under way")
	})
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "it expired at") || !resp.Close {
		t.Errorf("%s %s, close: %v", resp.Status, body, resp.Close)
	}
	return true
}

// TestBadProofsAreSlowedDown: bad JWTs and certificates are delayed and counted
// like bad tokens; calls without a credential are not.
func TestBadProofsAreSlowedDown(t *testing.T) {
	const every = 20 * time.Millisecond
	s := startTrusting(t, func(o *server.Options) { o.AttemptEvery = every })
	s.secure(t)
	measure := func(via http.RoundTripper, headers ...string) time.Duration {
		began := time.Now()
		for range 15 { // the first ten are free
			r, _ := s.whoAmI(t, via, headers...)
			if r.status != http.StatusUnauthorized && r.status != http.StatusOK {
				t.Fatalf("%d %s", r.status, r.body)
			}
		}
		return time.Since(began)
	}
	if took := measure(s.via, "Authorization", "Bearer "+s.issuer.Token("zoe", -time.Hour, nil)); took < 5*every {
		t.Errorf("15 bad JWTs took %v", took)
	}
	if took := measure(s.as(t, certs.Leaf{Name: "root"})); took < 5*every {
		t.Errorf("15 bad certificates took %v", took)
	}
	for range 15 {
		callVia(t, s.via, "GET", s.url+"/v1/sessions", "").wantCode(t, lockapi.CodeUnauthenticated)
	}
	page := s.call(t, "root", "GET", "/metrics", "").body
	if !strings.Contains(page, "\nstout_bad_credentials_total 30\n") {
		t.Error("not 30 bad credentials are counted")
	}
}
