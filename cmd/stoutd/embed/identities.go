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

// openJWTs reads the keys of who makes JWTs; nil where none are taken.
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

// warnShared says once which sources of principals have names that tokens, and one
// another, can have as well.
func warnShared(log zerolog.Logger, c *config.Config) {
	var who, give []string
	if c.TakesJWTs() && c.JWTPrefix == "" {
		who, give = append(who, "the claim "+c.JWTClaim+" of a JWT"), append(give, "jwt-prefix")
	}
	if c.TakesCertificates() && c.CertificatePrefix == "" {
		who, give = append(who, "the name in a client's certificate"), append(give, "certificate-prefix")
	}
	if len(give) > 0 {
		log.Warn().Msg("sources of principals share their names: a user who can choose " + strings.Join(who, " or ") + " becomes any principal but user:root, such as a service with a token; give " + strings.Join(give, " and "))
	}
}

// warnOwned says once which tokens are of principals that another source may prove:
// they were made before it had its prefix. It waits until the
// replica has caught up.
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
			Msg("tokens are of principals whose names begin with jwt-prefix or certificate-prefix: they were made before, and count; make others, and revoke these")
	}
}

// watchKeys follows the file of keys until ctx ends, and logs what happens to it.
func (s security) watchKeys(ctx context.Context, log zerolog.Logger) {
	if s.jwts == nil {
		return
	}
	keys := s.jwts.Keys
	logSkipped(log, keys)
	if s.api == nil {
		log.Warn().Msg("JWTs are taken, and the API speaks no TLS: who can listen to a call can use its JWT; see api-cert")
	}
	go keys.Watch(ctx, func(n identity.Notice) {
		if n.Refused != nil {
			log.Error().Str("file", keys.File()).Err(n.Refused).Msg("the file of keys of JWTs cannot be read, or has changed and cannot be used: those before stay in force")
			return
		}
		log.Info().Str("file", keys.File()).Int("keys", keys.Len()).Msg("the keys of JWTs have changed, and those are in force")
		logSkipped(log, keys)
	})
}

func logSkipped(log zerolog.Logger, keys *identity.Keys) {
	if skipped := keys.Skipped(); len(skipped) > 0 {
		log.Warn().Str("file", keys.File()).Int("keys", keys.Len()).Str("not_used", strings.Join(skipped[:min(len(skipped), 10)], "; ")).
			Msg("keys of JWTs in this file are not used")
	}
}
