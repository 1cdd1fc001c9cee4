package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/readfile"
)

// Environment variables of the access token and of its file. Commands that
// stout runs do not inherit them.
const (
	tokenEnv     = "STOUT_AUTH_TOKEN"
	tokenFileEnv = "STOUT_AUTH_TOKEN_FILE"
)

func (a *app) addToken(flags *pflag.FlagSet) {
	flags.StringVar(&a.opts.tokenFile, "token-file", "", "`file` of the access token to send (default $"+tokenFileEnv+", else the token $"+tokenEnv+")")
}

// mostToken limits a token's file: replicas refuse longer headers.
const mostToken = 32 << 10

// credential finds the access token that flag or environment names, if any. A
// file is read for each call, because the token may be replaced while stout
// runs.
func (a *app) credential() error {
	file, source := a.opts.tokenFile, "--token-file"
	if file == "" {
		file, source = os.Getenv(tokenFileEnv), tokenFileEnv
	}
	if file == "" {
		if token := os.Getenv(tokenEnv); token != "" {
			a.token = func(context.Context) (string, error) { return token, nil }
		}
		return nil
	}
	files := new(readfile.Reader)
	read := func(context.Context) (string, error) { return secretIn(files, file) }
	if _, err := read(context.Background()); err != nil {
		return usagef("%s: %v", source, err).hint("name a file with an access token, as made by stout token create")
	}
	a.token, a.tokenFrom = read, file
	return nil
}

// secretIn returns the content of a file without surrounding space.
func secretIn(files *readfile.Reader, file string) (string, error) {
	raw, err := files.Read(file, mostToken)
	secret := strings.TrimSpace(string(raw))
	if err == nil && secret == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return secret, err
}

// noteExposed warns if others can read the access token.
func (a *app) noteExposed() {
	if a.tokenFrom != "" && certs.Exposed(a.tokenFrom) {
		a.ui.note("every user of this machine can read the access token in %s; chmod 600 %s", a.tokenFrom, a.tokenFrom)
	}
}

// withoutCredential removes the access token, the certificate and its key from
// an environment.
func withoutCredential(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{tokenEnv, tokenFileEnv, certEnv, keyEnv}, name)
	})
}
