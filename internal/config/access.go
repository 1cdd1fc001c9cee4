package config

import (
	"slices"
	"strings"
	"unicode"
)

// Names of the settings about who may do what.
const (
	nameFoundToken    = "found-token-file"
	nameBreakGlass    = "break-glass-token-file"
	namePublicMetrics = "public-metrics"
	nameJWTIssuer     = "jwt-issuer"
	nameJWTAudience   = "jwt-audience"
	nameJWTKeys       = "jwt-keys"
	nameJWTClaim      = "jwt-claim"
)

func accessSettings() []setting {
	return []setting{
		text(nameJWTIssuer, "name", "take JWTs as bearer tokens: those with this iss", func(c *Config) *string { return &c.JWTIssuer }),
		text(nameJWTAudience, "name", "what has to be among their aud", func(c *Config) *string { return &c.JWTAudience }),
		text(nameJWTKeys, "file", "the public keys that their signatures are judged by (JWKS)", func(c *Config) *string { return &c.JWTKeys }),
		text(nameJWTClaim, "name", "the claim that names the principal", func(c *Config) *string { return &c.JWTClaim }),
		text(nameFoundToken, "file", "found the cell with access on; the file has the secret of user:root, the same on every replica", func(c *Config) *string { return &c.FoundTokenFile }),
		text(nameBreakGlass, "file", "the file has a secret that is user:root in calls to this replica while it is master", func(c *Config) *string { return &c.BreakGlassTokenFile }),
		boolean(namePublicMetrics, "show /metrics to everybody, also while access is on", func(c *Config) *bool { return &c.PublicMetrics }),
	}
}

// TakesJWTs reports whether JWTs prove who calls.
func (c *Config) TakesJWTs() bool { return c.JWTKeys != "" }

// defaultClaim is a JWT's subject.
const defaultClaim = "sub"

// registeredClaims are those that say something else than who has the token.
var registeredClaims = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

func (v *validator) jwt() {
	c := v.config
	v.together([]file{{nameJWTIssuer, c.JWTIssuer}, {nameJWTAudience, c.JWTAudience}, {nameJWTKeys, c.JWTKeys}},
		"a JWT counts where a key of the file has signed it, and it is by that issuer and for that audience")
	for _, one := range []file{{nameJWTIssuer, c.JWTIssuer}, {nameJWTAudience, c.JWTAudience}, {nameJWTClaim, c.JWTClaim}} {
		if strings.TrimSpace(one.value) != one.value || strings.ContainsFunc(one.value, unicode.IsControl) {
			v.refuse(one.name, one.value, "it is compared as it stands, and no token has it with spaces around it or control characters in it")
		}
	}
	switch {
	case c.JWTClaim == "":
		v.refuse(nameJWTClaim, "", "it is the name of a claim; leave it out for "+defaultClaim)
	case slices.Contains(registeredClaims, c.JWTClaim):
		v.refuse(nameJWTClaim, c.JWTClaim, "that claim does not say who has the token; sub, email or preferred_username may")
	case c.JWTClaim != defaultClaim && !c.TakesJWTs() && c.JWTIssuer == "" && c.JWTAudience == "":
		v.refuse(nameJWTClaim, c.JWTClaim, "it is of use with %s, %s and %s only", nameJWTIssuer, nameJWTAudience, nameJWTKeys)
	}
}
