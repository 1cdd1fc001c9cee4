package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stoutlock/stout/internal/certs"
)

// Environment variables with the names of the certificates' files.
const (
	caCertEnv = "STOUT_CA_CERT"
	certEnv   = "STOUT_CERT"
	keyEnv    = "STOUT_KEY"
)

// addTLS adds the flags that name the certificates' files.
func (a *app) addTLS(flags *pflag.FlagSet) {
	flags.StringVar(&a.opts.files.CA, "ca-cert", "", "`file` with the CAs of the replicas' certificates (default $"+caCertEnv+", else the system's CAs)")
	flags.StringVar(&a.opts.files.Cert, "cert", "", "`file` of the client certificate to present (default $"+certEnv+")")
	flags.StringVar(&a.opts.files.Key, "key", "", "`file` of its private key (default $"+keyEnv+")")
}

// certificates reads the files that flags or environment name, if any, and
// reloads them until ctx ends.
func (a *app) certificates(ctx context.Context) error {
	f := &a.opts.files
	for _, one := range []struct {
		name *string
		env  string
	}{{&f.CA, caCertEnv}, {&f.Cert, certEnv}, {&f.Key, keyEnv}} {
		if *one.name == "" {
			*one.name = os.Getenv(one.env)
		}
	}
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

// tlsConfig returns the configuration for https URLs, or nil without
// certificates.
func (a *app) tlsConfig() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.Client()
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
func (a *app) address(url string) string { return clean(strings.TrimPrefix(url, a.scheme())) }

// cellEnvironment returns an environment in which a command's own stout finds
// the same cell. It contains no credential: commands get theirs explicitly.
func (a *app) cellEnvironment() []string {
	env := append(withoutCredential(os.Environ()), serverEnv+"="+strings.Join(a.opts.servers, ","))
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
		return clean(wrong.Error()), true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by a CA that is not trusted here; name the CA with --ca-cert", true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "dial" && strings.Contains(alert.Err.Error(), "refuses our certificate") {
		return fmt.Sprintf("%s; name an accepted one with --cert and --key", clean(alert.Err.Error())), true
	}
	return "", false
}
