package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stoutlock/stout/cmd/stout/internal/exit"
	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/cmd/stout/internal/survey"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/readfile"
)

const (
	caCertEnv = "STOUT_CA_CERT"
	certEnv   = "STOUT_CERT"
	keyEnv    = "STOUT_KEY"
)

// certificates reads the files that flags or environment name, if any, and
// reloads them until ctx ends.
func (a *App) certificates(ctx context.Context) error {
	f := &a.Options.Files
	f.CA = cmp.Or(f.CA, os.Getenv(caCertEnv))
	f.Cert = cmp.Or(f.Cert, os.Getenv(certEnv))
	f.Key = cmp.Or(f.Key, os.Getenv(keyEnv))
	switch {
	case *f == (certs.Files{}):
		return nil
	case (f.Cert == "") != (f.Key == ""):
		return exit.Usagef("a certificate and its key go together: give both --cert and --key, or %s and %s", certEnv, keyEnv)
	}
	source, err := certs.Open(*f, nil)
	if err != nil {
		return exit.Usagef("%v", err).Hint("--ca-cert, --cert and --key name files in PEM form; stout certs new makes some")
	}
	a.Certs = source
	go source.Watch(ctx, func(certs.Notice) {})
	return nil
}

// TLSSource returns a function that returns the current configuration for each
// new connection; nil without certificates.
func (a *App) TLSSource() func() *tls.Config {
	if a.Certs == nil {
		return nil
	}
	return a.Certs.Client
}

// Scheme returns the scheme of servers named without one.
func (a *App) Scheme() string {
	if a.Certs == nil {
		return "http://"
	}
	return "https://"
}

// Address shortens a URL to the form that --server accepts.
func (a *App) Address(url string) string { return format.Clean(strings.TrimPrefix(url, a.Scheme())) }

// CellEnv returns an environment in which a command's own stout finds
// the same cell. It contains no credential: commands get theirs explicitly.
func (a *App) CellEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{tokenEnv, tokenFileEnv, certEnv, keyEnv}, name)
	})
	env = append(env, survey.ServerEnv+"="+strings.Join(a.Options.Servers, ","))
	if a.Options.Files.CA != "" {
		env = append(env, caCertEnv+"="+a.Options.Files.CA)
	}
	return env
}

// Environment variables of the access token and of its file. Commands that
// stout runs do not inherit them.
const (
	tokenEnv     = "STOUT_AUTH_TOKEN"
	tokenFileEnv = "STOUT_AUTH_TOKEN_FILE"
)

// mostToken limits a token's file: replicas refuse longer headers.
const mostToken = 32 << 10

// credential finds the access token that flag or environment names, if any. A
// file is read for each call, because the token may be replaced while stout
// runs.
func (a *App) credential() error {
	file, source := a.Options.tokenFile, "--token-file"
	if file == "" {
		file, source = os.Getenv(tokenFileEnv), tokenFileEnv
	}
	if file == "" {
		if token := strings.TrimSpace(os.Getenv(tokenEnv)); token != "" { // as of a file
			a.Token = func(context.Context) (string, error) { return token, nil }
		}
		return nil
	}
	files := new(readfile.Reader)
	read := func(context.Context) (string, error) { return ReadSecret(files, file) }
	if _, err := read(context.Background()); err != nil {
		return exit.Usagef("%s: %v", source, err).Hint("name a file with an access token, as made by stout token create")
	}
	a.Token, a.tokenFrom = read, file
	return nil
}

// ReadSecret returns the content of a file without surrounding space.
func ReadSecret(files *readfile.Reader, file string) (string, error) {
	raw, err := files.Read(file, mostToken)
	secret := strings.TrimSpace(string(raw))
	if err == nil && secret == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	return secret, err
}

// prepareAlone is prepare for commands that do not call a cell.
func (a *App) prepareAlone(*cobra.Command, []string) error {
	err := a.checkFlags()
	a.started = err == nil
	return err
}
