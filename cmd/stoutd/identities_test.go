package main

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/jwttest"
)

// jwtFlags returns the flags of a replica that accepts an issuer's JWTs.
func jwtFlags(t *testing.T, by *jwttest.Issuer) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, by.Keys(), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--jwt-issuer", jwttest.Name, "--jwt-audience", jwttest.Audience, "--jwt-keys", file}
}

// TestRefusedJWTKeys: unusable keys are refused before anything is written, with the
// setting, the file and the reason.
func TestRefusedJWTKeys(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, file := range map[string]string{
		`jwt-keys "nowhere.json" (flag --jwt-keys): open nowhere.json`: "nowhere.json",
		"it is a secret and not a public key":                          broken,
	} {
		data := filepath.Join(t.TempDir(), "data")
		code, _, stderr := invoke(t, append(replicaFlags(data), "--jwt-issuer", "a", "--jwt-audience", "b", "--jwt-keys", file)...)
		if code != exitStart || !strings.Contains(stderr, want) || strings.Contains(stderr, "c2VjcmV0") {
			t.Errorf("exit code %d, %s; want %s", code, stderr, want)
		}
		if _, err := os.Stat(data); err == nil {
			t.Error("something was written")
		}
	}
}

// TestWhoCalls: a replica identifies callers by certificate, by JWT, or not at all, as
// its settings require. It uses changed keys without a restart, and logs the change.
func TestWhoCalls(t *testing.T) {
	dir, via := newCerts(t)
	trust := via.Transport.(*http.Transport).TLSClientConfig
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "billing.pem"), filepath.Join(dir, "billing-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	first, second := jwttest.New(), jwttest.New()
	flags := jwtFlags(t, first)
	keys := flags[len(flags)-1]
	port := freePort(t)
	log, _ := serving(t, append(append(tlsFlags(dir), flags...), devFlags("127.0.0.1:"+port, "--log-format", "json")...)...)
	who := func(token string, shown ...tls.Certificate) string {
		config := trust.Clone()
		config.Certificates = shown
		q, err := http.NewRequest(http.MethodGet, "https://127.0.0.1:"+port+"/v1/access/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true, TLSClientConfig: config}).RoundTrip(q)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		var got struct{ Principal, How, Code string }
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(got.Principal + " " + got.How + got.Code)
	}
	until := func(want, token string, shown ...tls.Certificate) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(time.Minute); got != want; got = who(token, shown...) {
			if time.Now().After(deadline) {
				t.Fatalf("%s, want %s; %s", got, want, log)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	until("anonymous none", "")
	until("user:billing certificate", "", pair)
	old := first.Token("zoe", time.Hour, nil)
	until("user:zoe jwt", old, pair)
	until("unauthenticated", second.Token("zoe", time.Hour, nil), pair)
	if err := os.WriteFile(keys, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "the previous keys remain in force"); {
		if time.Now().After(deadline) {
			t.Fatalf("a broken file is not logged: %s", log)
		}
		<-time.After(5 * time.Millisecond)
	}
	until("user:zoe jwt", old)
	if err := os.WriteFile(keys, second.Keys(), 0o600); err != nil {
		t.Fatal(err)
	}
	until("unauthenticated", old)
	until("user:zoe jwt", second.Token("zoe", time.Hour, nil))
	if said := log.String(); !strings.Contains(said, "the keys of JWTs have changed; the new keys are in force") || strings.Contains(said, old) {
		t.Errorf("the log: %s", said)
	}
}
