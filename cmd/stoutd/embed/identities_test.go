package embed

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/replica/state"
)

// TestNotesOfKeys: the log has unused keys of the file, and a warning about JWTs
// without TLS.
func TestNotesOfKeys(t *testing.T) {
	by := jwttest.New()
	content := bytes.Replace(by.Keys(), []byte("["), []byte(`[{"kty":"oct","kid":"a\u001b","k":"c2VjcmV0"},`), 1)
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := identity.OpenKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var log lines
	security{jwts: &identity.JWTs{Keys: keys}}.watch(ctx, zerolog.New(&log))
	for _, want := range []string{`"level":"warn"`, "it is a secret and not a public key", "the API accepts JWTs and does not use TLS"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s; want %s", &log, want)
		}
	}
	if strings.Contains(log.String(), "c2VjcmV0") || strings.Contains(log.String(), "\x1b") {
		t.Errorf("the log: %s", &log)
	}
}

// TestNotesOfNames: a start logs which sources of principals share names and which
// settings prevent that, and which tokens were made before they were set.
func TestNotesOfNames(t *testing.T) {
	jwts, certs := config.Config{JWTKeys: "k", JWTClaim: "email"}, config.Config{APIClientCA: "ca", APIClientAuth: config.ClientAuthOptional}
	both := jwts
	both.APIClientCA, both.APIClientAuth = certs.APIClientCA, certs.APIClientAuth
	apart := both
	apart.JWTPrefix, apart.CertificatePrefix = "jwt:", "cert:"
	for _, c := range []struct {
		config config.Config
		want   string // "" for no line
	}{
		{config.Config{APIClientAuth: config.ClientAuthNone}, ""},
		{jwts, "a user that can choose the claim email of a JWT can become any principal except user:root, such as a service with a token; give jwt-prefix"},
		{certs, "give certificate-prefix"},
		{both, "give jwt-prefix and certificate-prefix"},
		{apart, ""},
	} {
		var log lines
		warnShared(zerolog.New(&log), &c.config)
		if said := log.String(); c.want == "" && said != "" || strings.Count(said, c.want+`"`) != 1 && c.want != "" {
			t.Errorf("%s; want %s", said, c.want)
		}
	}
	tokens := []*state.Token{{ID: "t1", Principal: "user:jwt:ada"}, {ID: "t2", Principal: "user:ada"}, {ID: "t3", Principal: "user:cert:"}}
	for _, c := range []struct {
		config config.Config
		want   string
	}{{both, ""}, {apart, `"tokens":2,"ids":["t1","t3"]`}} {
		var log lines
		warnOwned(t.Context(), zerolog.New(&log), &c.config, func() bool { return true }, func() iter.Seq[*state.Token] { return slices.Values(tokens) })
		if said := log.String(); c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s; want %s", said, c.want)
		}
	}
}
