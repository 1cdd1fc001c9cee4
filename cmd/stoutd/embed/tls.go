package embed

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/replica/peerconn"
)

// security is the certificates of a replica, and what JWTs are judged by; each is
// nil where it has none.
type security struct {
	api, raft *certs.Source
	jwts      *identity.JWTs
}

// openSecurity reads the certificates and keys that the settings name.
func openSecurity(c *config.Config) (s security, err error) {
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

// clientAuth is the setting of that name as crypto/tls has it.
var clientAuth = map[string]tls.ClientAuthType{
	config.ClientAuthNone:     tls.NoClientCert,
	config.ClientAuthOptional: tls.VerifyClientCertIfGiven,
	config.ClientAuthRequired: tls.RequireAndVerifyClientCert,
}

// serverTLS is the API's, nil where it speaks none.
func (s security) serverTLS(c *config.Config) *tls.Config {
	if s.api == nil {
		return nil
	}
	return s.api.Server(clientAuth[c.APIClientAuth])
}

// links is that of the connections between replicas, nil where they have none.
func (s security) links() peerconn.Security {
	if s.raft == nil {
		return nil
	}
	return certs.Mutual{Source: s.raft}
}

// each calls f for the certificates of each use that there are.
func (s security) each(f func(use string, source *certs.Source)) {
	if s.api != nil {
		f("api", s.api)
	}
	if s.raft != nil {
		f("raft", s.raft)
	}
}

// watch follows the files until ctx ends, and logs what happens to them.
func (s security) watch(ctx context.Context, log zerolog.Logger) {
	s.each(func(use string, source *certs.Source) {
		warnExposed(log, use, source)
		go source.Watch(ctx, func(n certs.Notice) { note(log, use, source, n) })
	})
	s.watchKeys(ctx, log)
	if s.api != nil && s.raft == nil {
		log.Warn().Msg("the API speaks TLS, and the connections between replicas have none: see raft-cert")
	}
}

func warnExposed(log zerolog.Logger, use string, source *certs.Source) {
	if key := source.Files().Key; certs.Exposed(key) {
		log.Warn().Str("use", use).Str("key", key).Msg("everybody on this machine can read this private key; chmod 600")
	}
}

func note(log zerolog.Logger, use string, source *certs.Source, n certs.Notice) {
	files := source.Files()
	switch {
	case n.Taken:
		ends, _ := source.Ends()
		log.Info().Str("use", use).Str("cert", files.Cert).Time("ends", ends.UTC()).Msg("the certificates have changed, and those are in force")
		warnExposed(log, use, source)
	case n.Refused != nil:
		log.Error().Str("use", use).Err(n.Refused).Msg("the files of certificates cannot be read, or have changed and cannot be used: those before stay in force")
	default:
		file, what := files.Cert, "certificate"
		if n.OfCAs {
			file, what = files.CA, "last CA"
		}
		left := time.Until(n.Ends)
		line, says := log.Warn(), " in this file ends soon"
		if left <= 0 {
			line, says = log.Error(), " in this file has ended"
		}
		line.Str("use", use).Str("file", file).Time("ends", n.Ends.UTC()).Float64("days", float64(left.Round(time.Hour))/float64(24*time.Hour)).Msg("the " + what + says)
	}
}

// metrics are those of the certificates, and of the keys of JWTs.
func (s security) metrics(set *metric.Set) {
	set.Gauges("stout_credential_files_unread_seconds", "For how long the files of certificates (api, raft) or of the keys of JWTs (jwt) could not be read; they are read each second.",
		[]string{"use"}, func(show metric.Show) {
			s.each(func(use string, source *certs.Source) { show(source.Unread().Seconds(), use) })
			if s.jwts != nil {
				show(s.jwts.Keys.Unread().Seconds(), "jwt")
			}
		})
	set.Gauges("stout_certificate_expiry_timestamp_seconds", "When the certificate in force ends, or the last of the CAs that judge the other end's, by Unix time.",
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
	set.Counters("stout_certificate_reloads_total", "Changes to the files of certificates that were taken, or refused since they could not be used.",
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
	set.Gauge("stout_jwt_keys", "Keys in force by which JWTs are judged.", func() float64 { return float64(s.jwts.Keys.Len()) })
	set.Counters("stout_jwt_key_reloads_total", "Changes to the file of keys of JWTs that were taken, or refused since they could not be used.", []string{"result"}, func(show metric.Show) {
		n := s.jwts.Keys.Counts()
		show(float64(n.Taken), "taken")
		show(float64(n.Refused), "refused")
	})
}
