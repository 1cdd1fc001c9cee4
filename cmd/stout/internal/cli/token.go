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

// Names of the access token, and of its file, in the environment. A command that stout
// runs gets neither.
const (
	tokenEnv     = "STOUT_AUTH_TOKEN"
	tokenFileEnv = "STOUT_AUTH_TOKEN_FILE"
)

func (a *app) addToken(flags *pflag.FlagSet) {
	flags.StringVar(&a.opts.tokenFile, "token-file", "", "`file` of the access token to send (default $"+tokenFileEnv+", else the token $"+tokenEnv+")")
}

// mostToken bounds the file of a token. A replica takes no longer header.
const mostToken = 32 << 10

// credential finds the access token that flag or environment names, if one does. A
// file is read for each call: the token may be exchanged while stout runs.
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
		return usagef("%s: %v", source, err).hint("it names a file with an access token, such as an operator makes by stout token create")
	}
	a.token, a.tokenFrom = read, file
	return nil
}

// secretIn is what a file has, without what is around it.
func secretIn(files *readfile.Reader, file string) (string, error) {
	raw, err := files.Read(file, mostToken)
	secret := strings.TrimSpace(string(raw))
	if err == nil && secret == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return secret, err
}

// noteExposed says that others can read the access token.
func (a *app) noteExposed() {
	if a.tokenFrom != "" && certs.Exposed(a.tokenFrom) {
		a.ui.note("everybody on this machine can read the access token in %s; chmod 600 %s", a.tokenFrom, a.tokenFrom)
	}
}

// withoutCredential is an environment without the access token, the certificate and
// its key.
func withoutCredential(env []string) []string {
	return slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{tokenEnv, tokenFileEnv, certEnv, keyEnv}, name)
	})
}
