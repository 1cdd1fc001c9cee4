package embed

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/replica/state"
)

// openJWTs reads the keys that verify JWTs; nil if the settings accept no JWTs.
func openJWTs(c *config.Config) (*identity.JWTs, error) {
	if !c.TakesJWTs() {
		return nil, nil
	}
	keys, err := identity.OpenKeys(c.JWTKeys)
	if err != nil {
		return nil, fmt.Errorf("jwt-keys %q (%s): %w", c.JWTKeys, c.Source("jwt-keys"), err)
	}
	return &identity.JWTs{Issuer: c.JWTIssuer, Audience: c.JWTAudience, Claim: c.JWTClaim, Prefix: c.JWTPrefix, Keys: keys}, nil
}

// warnShared logs once which sources of principals have no prefix, so that tokens and
// other sources can have the same names.
func warnShared(log zerolog.Logger, c *config.Config) {
	var names, give []string
	if c.TakesJWTs() && c.JWTPrefix == "" {
		names, give = append(names, "the claim "+c.JWTClaim+" of a JWT"), append(give, "jwt-prefix")
	}
	if c.TakesCertificates() && c.CertificatePrefix == "" {
		names, give = append(names, "the name in a client's certificate"), append(give, "certificate-prefix")
	}
	if len(give) > 0 {
		log.Warn().Msg("sources of principals share names: a user that can choose " + strings.Join(names, " or ") + " can become any principal except user:root, such as a service with a token; give " + strings.Join(give, " and "))
	}
}

// warnOwned logs once which tokens belong to principals that another source can prove:
// they were made before that source had its prefix. It first waits until the replica
// has caught up.
func warnOwned(ctx context.Context, log zerolog.Logger, c *config.Config, ready func() bool, tokens func() iter.Seq[*state.Token]) {
	prefixes := slices.DeleteFunc([]string{c.JWTPrefix, c.CertificatePrefix}, func(p string) bool { return p == "" })
	if len(prefixes) == 0 || !await(ctx, ready) {
		return
	}
	var ids []string
	for t := range tokens() {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Principal, lockapi.PrefixUser+p) }) {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) > 0 {
		log.Warn().Int("tokens", len(ids)).Strs("ids", ids[:min(len(ids), 10)]).
			Msg("these tokens belong to principals with a name that begins with jwt-prefix or certificate-prefix: they were made before the prefix was set, and are valid; make other tokens, and revoke these")
	}
}

// watchKeys watches the file of keys until ctx ends, and logs its changes.
func (s security) watchKeys(ctx context.Context, log zerolog.Logger) {
	if s.jwts == nil {
		return
	}
	keys := s.jwts.Keys
	logSkipped(log, keys)
	if s.api == nil {
		log.Warn().Msg("the API accepts JWTs and does not use TLS: a listener on the network can copy a JWT and use it; see api-cert")
	}
	go keys.Watch(ctx, func(taken bool, refused error) {
		switch {
		case refused != nil:
			log.Error().Str("file", keys.File()).Err(refused).Msg("the file of keys of JWTs is unreadable or unusable: the previous keys remain in force")
		case taken:
			log.Info().Str("file", keys.File()).Int("keys", keys.Len()).Msg("the keys of JWTs have changed; the new keys are in force")
			logSkipped(log, keys)
		}
	})
}

func logSkipped(log zerolog.Logger, keys *identity.Keys) {
	if skipped := keys.Skipped(); len(skipped) > 0 {
		log.Warn().Str("file", keys.File()).Int("keys", keys.Len()).Str("not_used", strings.Join(skipped[:min(len(skipped), 10)], "; ")).
			Msg("some keys of JWTs in this file are not used")
	}
}
