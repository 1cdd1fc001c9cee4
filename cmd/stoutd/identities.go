package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/internal/identity"
)

// openJWTs reads the keys of who makes JWTs; nil where none are taken.
func openJWTs(c *config.Config) (*identity.JWTs, error) {
	if !c.TakesJWTs() {
		return nil, nil
	}
	keys, err := identity.OpenKeys(c.JWTKeys)
	if err != nil {
		return nil, fmt.Errorf("jwt-keys %q (%s): %w", c.JWTKeys, c.Source("jwt-keys"), err)
	}
	return &identity.JWTs{Issuer: c.JWTIssuer, Audience: c.JWTAudience, Claim: c.JWTClaim, Keys: keys}, nil
}

// watchKeys follows the file of keys until ctx ends, and logs what happens to it.
func (s security) watchKeys(ctx context.Context, log zerolog.Logger) {
	if s.jwts == nil {
		return
	}
	keys := s.jwts.Keys
	tellSkipped(log, keys)
	if s.api == nil {
		log.Warn().Msg("JWTs are taken, and the API speaks no TLS: who can listen to a call can use its JWT; see api-cert")
	}
	go keys.Watch(ctx, func(n identity.Notice) {
		if n.Refused != nil {
			log.Error().Str("file", keys.File()).Err(n.Refused).Msg("the file of keys of JWTs cannot be read, or has changed and cannot be used: those before stay in force")
			return
		}
		log.Info().Str("file", keys.File()).Int("keys", keys.Len()).Msg("the keys of JWTs have changed, and those are in force")
		tellSkipped(log, keys)
	})
}

func tellSkipped(log zerolog.Logger, keys *identity.Keys) {
	if skipped := keys.Skipped(); len(skipped) > 0 {
		log.Warn().Str("file", keys.File()).Int("keys", keys.Len()).Str("not_used", strings.Join(skipped[:min(len(skipped), 10)], "; ")).
			Msg("keys of JWTs in this file are not used")
	}
}

var (
	keysDesc = prometheus.NewDesc("stout_jwt_keys",
		"Keys in force by which JWTs are judged.", nil, nil)
	keyReloadsDesc = prometheus.NewDesc("stout_jwt_key_reloads_total",
		"Changes to the file of keys of JWTs that were taken, or refused since they could not be used.", []string{"result"}, nil)
)

// collectKeys are the metrics of the keys of JWTs.
func (s security) collectKeys(to chan<- prometheus.Metric) {
	if s.jwts == nil {
		return
	}
	n := s.jwts.Keys.Counts()
	to <- prometheus.MustNewConstMetric(unreadDesc, prometheus.GaugeValue, s.jwts.Keys.Unread().Seconds(), "jwt")
	to <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(s.jwts.Keys.Len()))
	to <- prometheus.MustNewConstMetric(keyReloadsDesc, prometheus.CounterValue, float64(n.Taken), "taken")
	to <- prometheus.MustNewConstMetric(keyReloadsDesc, prometheus.CounterValue, float64(n.Refused), "refused")
}
