package embed

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/peerconn"
)

// security has the certificates of a replica and the verification of JWTs; each is nil
// if the settings have none.
type security struct {
	api, raft *certs.Source
	jwts      *identity.JWTs
	url       string // of this replica's API
}

func openSecurity(c *config.Config) (s security, err error) {
	s.url = c.Self().APIURL
	if c.APISecure() {
		s.api, err = certs.Open(certs.Files{Cert: c.APICert, Key: c.APIKey, CA: c.APIClientCA}, nil)
		if err != nil {
			return s, fmt.Errorf("api-cert %q (%s): %w", c.APICert, c.Source("api-cert"), err)
		}
	}
	if s.raft, err = setup.RaftCertificates(c); err != nil {
		return s, err
	}
	s.jwts, err = openJWTs(c)
	return s, err
}

var clientAuth = map[string]tls.ClientAuthType{
	config.ClientAuthNone:     tls.NoClientCert,
	config.ClientAuthOptional: tls.VerifyClientCertIfGiven,
	config.ClientAuthRequired: tls.RequireAndVerifyClientCert,
}

// serverTLS returns the TLS configuration of the API; nil without TLS.
func (s security) serverTLS(c *config.Config) *tls.Config {
	if s.api == nil {
		return nil
	}
	return s.api.Server(clientAuth[c.APIClientAuth])
}

// links returns the security of the connections between replicas; nil without TLS.
func (s security) links() peerconn.Security {
	if s.raft == nil {
		return nil
	}
	return certs.Mutual{Source: s.raft}
}

// each calls f for each use of certificates in the settings.
func (s security) each(f func(use string, source *certs.Source)) {
	if s.api != nil {
		f("api", s.api)
	}
	if s.raft != nil {
		f("raft", s.raft)
	}
}

// watch watches the files until ctx ends, and logs their changes.
func (s security) watch(ctx context.Context, log zerolog.Logger) {
	s.each(func(use string, source *certs.Source) {
		warnExposed(log, use, source)
		go source.Watch(ctx, func(n certs.Notice) {
			note(log, use, source, n)
			if n.Taken && source == s.api {
				s.warnName(log)
			}
		})
	})
	if s.api != nil {
		s.warnName(log)
	}
	s.watchKeys(ctx, log)
	if s.api != nil && s.raft == nil {
		log.Warn().Msg("the API uses TLS, but the connections between replicas do not: see raft-cert")
	}
}

// warnName warns if clients refuse the API's certificate at this replica's URL.
func (s security) warnName(log zerolog.Logger) {
	u, err := url.Parse(s.url)
	if err != nil {
		return
	}
	if err := s.api.Set().Certificate.Leaf.VerifyHostname(u.Hostname()); err != nil {
		log.Warn().Str("cert", s.api.Files().Cert).Str("url", s.url).Err(err).
			Msg("clients refuse this replica: its certificate does not contain the host of its URL; make one that does, or change the URL")
	}
}

func warnExposed(log zerolog.Logger, use string, source *certs.Source) {
	if key := source.Files().Key; certs.Exposed(key) {
		log.Warn().Str("use", use).Str("key", key).Msg("every user of this machine can read this private key; chmod 600")
	}
}

func note(log zerolog.Logger, use string, source *certs.Source, n certs.Notice) {
	files := source.Files()
	switch {
	case n.Taken:
		ends, _ := source.Ends()
		log.Info().Str("use", use).Str("cert", files.Cert).Time("ends", ends.UTC()).Msg("the certificates have changed; the new certificates are in force")
		warnExposed(log, use, source)
	case n.Refused != nil:
		log.Error().Str("use", use).Err(n.Refused).Msg("the files of certificates are unreadable or unusable: the previous certificates remain in force")
	default:
		file, what := files.Cert, "certificate"
		if n.OfCAs {
			file, what = files.CA, "last CA"
		}
		left := time.Until(n.Ends)
		line, state := log.Warn(), " in this file expires soon"
		if left <= 0 {
			line, state = log.Error(), " in this file has expired"
		}
		line.Str("use", use).Str("file", file).Time("ends", n.Ends.UTC()).Float64("days", float64(left.Round(time.Hour))/float64(24*time.Hour)).Msg("the " + what + state)
	}
}

// metrics adds the metrics of the certificates and of the keys of JWTs.
func (s security) metrics(set *metric.Set) {
	set.Gauges("stout_credential_files_unread_seconds", "Time for which the files of certificates (api, raft) or of the keys of JWTs (jwt) were unreadable; they are read each second.",
		[]string{"use"}, func(show metric.Show) {
			s.each(func(use string, source *certs.Source) { show(source.Unread().Seconds(), use) })
			if s.jwts != nil {
				show(s.jwts.Keys.Unread().Seconds(), "jwt")
			}
		})
	set.Gauges("stout_certificate_expiry_timestamp_seconds", "Expiry of the certificate in force, or of the last CA for the other end's certificates, by Unix time.",
		[]string{"use", "part"}, func(show metric.Show) {
			s.each(func(use string, source *certs.Source) {
				certificate, cas := source.Ends()
				for part, ends := range map[string]time.Time{"certificate": certificate, "ca": cas} {
					if !ends.IsZero() {
						show(float64(ends.Unix()), use, part)
					}
				}
			})
		})
	set.Counters("stout_certificate_reloads_total", "Changes to the files of certificates that were put in force (taken), or refused because they were unusable.",
		[]string{"use", "result"}, func(show metric.Show) {
			s.each(func(use string, source *certs.Source) {
				n := source.Counts()
				show(float64(n.Taken), use, "taken")
				show(float64(n.Refused), use, "refused")
			})
		})
	if s.jwts == nil {
		return
	}
	set.Gauge("stout_jwt_keys", "Keys in force for verifying JWTs.", func() float64 { return float64(s.jwts.Keys.Len()) })
	set.Counters("stout_jwt_key_reloads_total", "Changes to the file of keys of JWTs that were put in force (taken), or refused because they were unusable.", []string{"result"}, func(show metric.Show) {
		n := s.jwts.Keys.Counts()
		show(float64(n.Taken), "taken")
		show(float64(n.Refused), "refused")
	})
}
