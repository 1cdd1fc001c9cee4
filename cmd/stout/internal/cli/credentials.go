package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/cmd/stout/internal/format"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/readfile"
)

// Environment variables with the names of the certificates' files.
const (
	caCertEnv = "STOUT_CA_CERT"
	certEnv   = "STOUT_CERT"
	keyEnv    = "STOUT_KEY"
)

// certificates reads the files that flags or environment name, if any, and
// reloads them until ctx ends.
func (a *app) certificates(ctx context.Context) error {
	f := &a.opts.files
	f.CA = cmp.Or(f.CA, os.Getenv(caCertEnv))
	f.Cert = cmp.Or(f.Cert, os.Getenv(certEnv))
	f.Key = cmp.Or(f.Key, os.Getenv(keyEnv))
	switch {
	case *f == (certs.Files{}):
		return nil
	case (f.Cert == "") != (f.Key == ""):
		return usagef("a certificate and its key go together: give both --cert and --key, or %s and %s", certEnv, keyEnv)
	}
	source, err := certs.Open(*f, nil)
	if err != nil {
		return usagef("%v", err).hint("--ca-cert, --cert and --key name files in PEM form; stout certs new makes some")
	}
	a.certs = source
	go source.Watch(ctx, func(certs.Notice) {})
	return nil
}

// tlsSource returns a function that returns the current configuration for each
// new connection; nil without certificates.
func (a *app) tlsSource() func() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.Client
}

// scheme returns the scheme of servers named without one.
func (a *app) scheme() string {
	if a.certs == nil {
		return "http://"
	}
	return "https://"
}

// address shortens a URL to the form that --server accepts.
func (a *app) address(url string) string { return format.Clean(strings.TrimPrefix(url, a.scheme())) }

// cellEnvironment returns an environment in which a command's own stout finds
// the same cell. It contains no credential: commands get theirs explicitly.
func (a *app) cellEnvironment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{tokenEnv, tokenFileEnv, certEnv, keyEnv}, name)
	})
	env = append(env, serverEnv+"="+strings.Join(a.opts.servers, ","))
	if a.opts.files.CA != "" {
		env = append(env, caCertEnv+"="+a.opts.files.CA)
	}
	return env
}

// distrust describes why a TLS handshake failed, if that was the problem.
func distrust(err error) (text string, ok bool) {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "does not use TLS there; its URL may begin with http://", true
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return format.Clean(wrong.Error()) + "; use a name in it, or add this one to the certificate", true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by a CA that is not trusted here; name the CA with --ca-cert", true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "dial" && strings.Contains(alert.Err.Error(), "refuses our certificate") {
		return fmt.Sprintf("%s; name an accepted one with --cert and --key", format.Clean(alert.Err.Error())), true
	}
	return "", false
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

type makeCerts struct {
	*app
	dir               string
	replicas, clients []string
	days              int
}

func (a *app) makeCerts() command {
	c := &makeCerts{app: a}
	return command{
		run: c.run,
		use: "new --dir DIR --replica ID=HOST ... [--client NAME ...]", short: "Make a CA, and certificates that it signs",
		like: "make create init generate", alone: true,
		long: `Makes a CA, and certificates for the replicas of a cell and for its clients, if
you have no CA of your own. Files are PEM; only their owner can read the keys.
An existing CA in DIR is used, so replicas and clients can be added later. No
file is overwritten.

A replica's certificate serves its API and its connections to other replicas.
HOST is the name or address at which others reach it, or several, separated by
commas. A client's certificate authenticates as user:NAME.

The holder of ca-key.pem can make a certificate for any name: keep it on a host
without replicas.`,
		exits: "0 done, 1 a file exists or cannot be written, 2 wrong usage",
		example: `  stout certs new --dir certs --replica r1=10.0.0.1 --replica r2=10.0.0.2 \
    --replica r3=10.0.0.3 --client billing
  stout certs new --dir certs --client nightly --days 30`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` for the files, created if missing")
			f.StringArrayVar(&c.replicas, "replica", nil, "`ID=HOST` of a replica; repeat for each")
			f.StringArrayVar(&c.clients, "client", nil, "`name` of a client; repeat for each")
			f.IntVar(&c.days, "days", 365, "validity of the certificates in `days`; a new CA is valid for ten years")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
	}
}

func (a *app) renewCerts() command {
	c := &makeCerts{app: a}
	return command{
		use: "renew [NAME]... --dir DIR", short: "Renew certificates in place", like: "extend rotate reissue", alone: true,
		long: `Issues certificates in DIR anew, with the same names, uses and keys, signed by
the CA in DIR. Without NAME it renews all that this CA has signed. Each file is
replaced in one step. Copy the new NAME.pem over the old one on each host:
stoutd and stout read it again while they run.`,
		exits: "0 done, 1 a file cannot be read or written, 2 wrong usage",
		example: `  stout certs renew --dir certs
  stout certs renew --dir certs r1 r2 --days 90`,
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&c.dir, "dir", "", "`directory` of the CA and the certificates")
			f.IntVar(&c.days, "days", 365, "validity of the certificates in `days`, at most until the CA expires")
			_ = cobra.MarkFlagDirname(f, "dir")
		},
		run: c.renew,
	}
}

func (c *makeCerts) renew(_ context.Context, names []string) error {
	if err := c.check(); err != nil {
		return err
	}
	made, err := certs.Renew(c.dir, names, time.Now().AddDate(0, 0, c.days))
	if err != nil {
		return &failure{code: exitFailed, message: err.Error()}
	}
	return c.show(made, func() { c.ui.note("valid until %s", made.Ends.Format(time.DateOnly)) })
}

// show prints the files that were made, and then more for people.
func (c *makeCerts) show(made certs.Made, more func()) error {
	if c.ui.json {
		return c.ui.object(struct {
			Files []string `json:"files"`
		}{made.Files})
	}
	if !c.ui.quiet {
		c.ui.printf("%s\n", strings.Join(made.Files, "\n"))
		more()
	}
	return nil
}

func (c *makeCerts) check() error {
	switch {
	case c.dir == "":
		return usagef("--dir is missing: the directory for the files").hint("stout certs new --dir certs --replica r1=127.0.0.1")
	case c.days < 1 || c.days > 3650:
		return usagef("--days is %d; it must be from 1 to 3650", c.days)
	}
	return nil
}

// prepareAlone is prepare for commands that do not call a cell.
func (a *app) prepareAlone(*cobra.Command, []string) error {
	err := a.checkFlags()
	a.started = err == nil
	return err
}

func (c *makeCerts) run(context.Context, []string) error {
	if err := c.check(); err != nil {
		return err
	}
	o := certs.Order{Dir: c.dir, Clients: c.clients, Ends: time.Now().AddDate(0, 0, c.days)}
	for _, text := range c.replicas {
		r, err := certs.ParseReplica(text)
		if err != nil {
			return usagef("--replica %v", err)
		}
		o.Replicas = append(o.Replicas, r)
	}
	if err := o.Check(); err != nil {
		return usagef("%v", err)
	}
	made, err := o.Make()
	if err != nil {
		return &failure{code: exitFailed, message: err.Error()}
	}
	return c.show(made, func() { c.showUse(o, made) })
}

// showUse prints how to use the files.
func (c *makeCerts) showUse(o certs.Order, made certs.Made) {
	at := func(name string) string { return filepath.Join(o.Dir, name) }
	if made.Ends.Before(o.Ends.Truncate(time.Second)) {
		c.ui.note("valid only until %s, when the CA in %s ends", made.Ends.Format(time.DateOnly), at("ca.pem"))
	} else {
		c.ui.note("valid until %s", made.Ends.Format(time.DateOnly))
	}
	if len(o.Replicas) > 0 {
		id := o.Replicas[0].ID
		c.ui.note("replica %s: stoutd --api-cert %s --api-key %s --raft-cert %s --raft-key %s --raft-ca %s …",
			id, at(id+".pem"), at(id+"-key.pem"), at(id+".pem"), at(id+"-key.pem"), at("ca.pem"))
	}
	if len(o.Clients) > 0 {
		name := o.Clients[0]
		c.ui.note("client %s: stout --ca-cert %s --cert %s --key %s …", name, at("ca.pem"), at(name+".pem"), at(name+"-key.pem"))
	}
	if made.CA {
		c.ui.note("the holder of %s can make a certificate for any name: keep it on a host without replicas", at("ca-key.pem"))
	}
}
