package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
			a := new(app)
			a.opts.tokenFile = test.flag
			if err := a.credential(); (err != nil) != test.refused {
				t.Fatal(err)
			}
			got := ""
			if a.token != nil {
				got, _ = a.token(t.Context())
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if test.fileEnv == file && !test.refused {
				write("stout_next")
				if got, err := a.token(t.Context()); got != "stout_next" {
					t.Errorf("after the exchange: %q, %v", got, err)
				}
			}
			t.Setenv(certEnv, "cert.pem")
			t.Setenv(keyEnv, "key.pem")
			for _, e := range a.cellEnvironment() {
				if slices.Contains([]string{tokenEnv + "=" + test.env, tokenFileEnv + "=" + test.fileEnv, certEnv + "=cert.pem", keyEnv + "=key.pem"}, e) {
					t.Errorf("a command gets %q", e)
				}
			}
		})
	}
}
