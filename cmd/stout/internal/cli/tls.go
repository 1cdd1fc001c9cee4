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

// Names of the certificates' files in the environment.
const (
	caCertEnv = "STOUT_CA_CERT"
	certEnv   = "STOUT_CERT"
	keyEnv    = "STOUT_KEY"
)

// addTLS adds the flags that name the certificates' files.
func (a *app) addTLS(flags *pflag.FlagSet) {
	flags.StringVar(&a.opts.files.CA, "ca-cert", "", "`file` of the CAs that sign the replicas' certificates (default $"+caCertEnv+", else the system's)")
	flags.StringVar(&a.opts.files.Cert, "cert", "", "`file` of a certificate to show (default $"+certEnv+")")
	flags.StringVar(&a.opts.files.Key, "key", "", "`file` of its private key (default $"+keyEnv+")")
}

// certificates reads the files that flags and environment name, if they do, and
// follows them until ctx ends.
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

// tlsConfig is how https URLs are called; nil where nobody has said.
func (a *app) tlsConfig() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.Client()
}

// tlsSource has each new connection made by what is in force then; nil where
// nobody has said.
func (a *app) tlsSource() func() *tls.Config {
	if a.certs == nil {
		return nil
	}
	return a.certs.Client
}

// scheme is that of a server that was named without one.
func (a *app) scheme() string {
	if a.certs == nil {
		return "http://"
	}
	return "https://"
}

// address is a URL as --server takes it, without what goes without saying.
func (a *app) address(url string) string { return clean(strings.TrimPrefix(url, a.scheme())) }

// cellEnvironment has a stout that a command runs find the same cell. No credential
// is in it: what a command may do there it is given by name.
func (a *app) cellEnvironment() []string {
	env := append(withoutCredential(os.Environ()), serverEnv+"="+strings.Join(a.opts.servers, ","))
	if a.opts.files.CA != "" {
		env = append(env, caCertEnv+"="+a.opts.files.CA)
	}
	return env
}

// distrust says why there was no handshake of TLS, where that is what went
// wrong.
func distrust(err error) (text string, ok bool) {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "speaks no TLS there; its URL may begin with http://", true
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return clean(wrong.Error()), true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by nobody who is trusted here; name its CA with --ca-cert", true
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "dial" && strings.Contains(alert.Err.Error(), "refuses our certificate") {
		return fmt.Sprintf("%s; name one that it takes with --cert and --key", clean(alert.Err.Error())), true
	}
	return "", false
}
