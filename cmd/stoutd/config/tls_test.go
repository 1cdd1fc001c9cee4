package config

import (
	"strings"
	"testing"
)

// secureCell returns an input of three replicas with TLS, and further arguments.
func secureCell(args ...string) input {
	in := input{args: []string{"--api-cert", "c.pem", "--api-key", "k.pem", "--raft-cert", "c.pem", "--raft-key", "k.pem", "--raft-ca", "ca.pem"}}
	for _, a := range append(append([]string{}, threeReplicas...), args...) {
		in.args = append(in.args, strings.ReplaceAll(a, "http://", "https://"))
	}
	return in
}

// TestClientAuthFollows: the default of api-client-auth depends on api-client-ca.
func TestClientAuthFollows(t *testing.T) {
	for want, in := range map[string]input{
		"none default":                            secureCell(),
		"optional default, with api-client-ca":    secureCell("--api-client-ca", "ca.pem"),
		"required flag --api-client-auth":         secureCell("--api-client-ca", "ca.pem", "--api-client-auth", "required"),
		"none environment STOUTD_API_CLIENT_AUTH": {args: secureCell("--api-client-ca", "ca.pem").args, env: []string{"STOUTD_API_CLIENT_AUTH=none"}},
	} {
		c := mustLoad(t, in)
		if got := c.APIClientAuth + " " + string(c.Source("api-client-auth")); got != want || !c.APISecure() || !c.RaftSecure() {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestDevWithTLS: a cell of --dev can use TLS.
func TestDevWithTLS(t *testing.T) {
	c := mustLoad(t, input{args: []string{"--dev", "--api-cert", "c.pem", "--api-key", "k.pem"}})
	if got := c.Self().APIURL; got != "https://127.0.0.1:7101" {
		t.Error(got)
	}
}

// jwts returns an input of three replicas that accept JWTs, and further arguments.
func jwts(args ...string) input {
	return cell(append([]string{"--jwt-issuer", "https://id.example.com", "--jwt-audience", "stout", "--jwt-keys", "keys.json"}, args...)...)
}

// TestJWTs: jwt-claim is optional.
func TestJWTs(t *testing.T) {
	if c := mustLoad(t, jwts()); !c.TakesJWTs() || c.JWTClaim != "sub" || c.JWTIssuer != "https://id.example.com" || c.JWTAudience != "stout" {
		t.Errorf("%+v", c)
	}
	if c := mustLoad(t, jwts("--jwt-claim", "https://example.com/name")); c.JWTClaim != "https://example.com/name" {
		t.Errorf("%+v", c)
	}
	if c := mustLoad(t, cell()); c.TakesJWTs() {
		t.Errorf("%+v", c)
	}
}

// proved returns an input that accepts JWTs and client certificates, and further
// arguments.
func proved(args ...string) input {
	return input{args: append([]string{
		"--dev", "--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", "keys.json",
		"--api-cert", "c.pem", "--api-key", "k.pem", "--api-client-ca", "ca.pem", "--raft-cert", "c.pem", "--raft-key", "k.pem", "--raft-ca", "ca.pem",
	}, args...)}
}

// TestPrefixes: prefixes are optional, and valid if neither begins with the other.
func TestPrefixes(t *testing.T) {
	for _, in := range []input{
		proved(), proved("--jwt-prefix", "jwt:", "--certificate-prefix", "cert:"), proved("--jwt-prefix", "rooted:", "--certificate-prefix", "roots"),
		jwts("--jwt-prefix", strings.Repeat("a", maxPrefix)), proved("--api-client-auth", "none", "--jwt-prefix", "jwt:"),
	} {
		c := mustLoad(t, in)
		if in := strings.Join(in.args, " "); c.JWTPrefix != "" && !strings.Contains(in, c.JWTPrefix) || c.CertificatePrefix != "" && !strings.Contains(in, c.CertificatePrefix) {
			t.Errorf("%+v", c)
		}
	}
}
