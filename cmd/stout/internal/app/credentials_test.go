package app

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/cmd/stout/internal/ui"
	"github.com/stoutlock/stout/internal/certs"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// A stout that runs follows its CAs, with a certificate of its own and without:
// a lock outlives the exchange of the cell's CA.
func TestCAsThatChange(t *testing.T) {
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir, next := filepath.Join(t.TempDir(), "certs"), filepath.Join(t.TempDir(), "certs")
			for _, d := range []string{dir, next} {
				_, err := certs.Order{
					Dir: d, Replicas: []certs.Replica{{ID: "r1", Hosts: []string{"127.0.0.1"}}}, Clients: []string{"me"},
					Ends: time.Now().AddDate(1, 0, 0),
				}.Make()
				if err != nil {
					t.Fatal(err)
				}
			}
			a := &App{Streams: ui.Streams{Stdout: os.Stdout}}
			a.Options.Files.CA = filepath.Join(dir, "ca.pem")
			if own {
				a.Options.Files.Cert, a.Options.Files.Key = filepath.Join(dir, "me.pem"), filepath.Join(dir, "me-key.pem")
			}
			if err := a.certificates(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.Options.Servers = []string{"127.0.0.1:1"}
			if err := a.connect(); err != nil {
				t.Fatal(err)
			}
			defer a.Client.Close()
			ca, err := os.ReadFile(filepath.Join(next, "ca.pem"))
			if err == nil {
				err = os.WriteFile(a.Options.Files.CA, ca, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second) // to be seen twice

			pair, err := tls.LoadX509KeyPair(filepath.Join(next, "r1.pem"), filepath.Join(next, "r1-key.pem"))
			if err != nil {
				t.Fatal(err)
			}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			s.StartTLS()
			defer s.Close()
			if err := a.Admin.Ready(t.Context(), s.URL); err != nil {
				t.Errorf("own certificate %t: %v", own, err)
			}
		})
	}
}

func TestCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		flag, fileEnv, env, content string
		want                        string
		refused                     bool
	}{
		"none":                      {},
		"the environment":           {env: "stout_e", want: "stout_e"},
		"a line of it":              {env: "stout_e\n", want: "stout_e"},
		"a file before it":          {fileEnv: file, env: "stout_e", content: "stout_f\n", want: "stout_f"},
		"the flag before both":      {flag: file, fileEnv: "/none", env: "stout_e", content: " stout_g", want: "stout_g"},
		"a file that is not there":  {flag: file + "x", env: "stout_e", refused: true},
		"no file of a token":        {fileEnv: file, content: strings.Repeat("x", mostToken+1), refused: true},
		"a device":                  {flag: os.DevNull, refused: true},
		"a file with nothing in it": {fileEnv: file, env: "stout_e", content: "\n", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tokenFileEnv, test.fileEnv)
			t.Setenv(tokenEnv, test.env)
			write(test.content)
			a := new(App)
			a.Options.tokenFile = test.flag
			if err := a.credential(); (err != nil) != test.refused {
				t.Fatal(err)
			}
			got := ""
			if a.Token != nil {
				got, _ = a.Token(t.Context())
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if test.fileEnv == file && !test.refused {
				write("stout_next")
				if got, err := a.Token(t.Context()); got != "stout_next" {
					t.Errorf("after the exchange: %q, %v", got, err)
				}
			}
			t.Setenv(certEnv, "cert.pem")
			t.Setenv(keyEnv, "key.pem")
			for _, e := range a.CellEnv() {
				if slices.Contains([]string{tokenEnv + "=" + test.env, tokenFileEnv + "=" + test.fileEnv, certEnv + "=cert.pem", keyEnv + "=key.pem"}, e) {
					t.Errorf("a command gets %q", e)
				}
			}
		})
	}
}
