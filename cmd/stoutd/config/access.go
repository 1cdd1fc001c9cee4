package config

import (
	"slices"
	"strings"
	"unicode"

	"github.com/stoutlock/stout/lockapi"
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
	nameJWTPrefix     = "jwt-prefix"
	nameCertPrefix    = "certificate-prefix"
)

func accessSettings() []setting {
	return []setting{
		text(nameJWTIssuer, "name", "take JWTs as bearer tokens: those with this iss", func(c *Config) *string { return &c.JWTIssuer }),
		text(nameJWTAudience, "name", "what has to be among their aud", func(c *Config) *string { return &c.JWTAudience }),
		text(nameJWTKeys, "file", "the public keys that their signatures are judged by (JWKS)", func(c *Config) *string { return &c.JWTKeys }),
		text(nameJWTClaim, "name", "the claim that names the principal", func(c *Config) *string { return &c.JWTClaim }),
		text(nameJWTPrefix, "text", "what the names of JWTs' principals begin with, behind user:, and those of no others", func(c *Config) *string { return &c.JWTPrefix }),
		text(nameCertPrefix, "text", "the same for certificates of clients", func(c *Config) *string { return &c.CertificatePrefix }),
		text(nameFoundToken, "file", "found the cell with access on; the file has the secret of user:root, the same on every replica", func(c *Config) *string { return &c.FoundTokenFile }),
		text(nameBreakGlass, "file", "the file has a secret that is user:root in calls to this replica while it is master", func(c *Config) *string { return &c.BreakGlassTokenFile }),
		boolean(namePublicMetrics, "show /metrics to everybody, also while access is on", func(c *Config) *bool { return &c.PublicMetrics }),
	}
}

// TakesJWTs reports whether JWTs prove who calls.
func (c *Config) TakesJWTs() bool { return c.JWTKeys != "" }

// TakesCertificates reports whether certificates of clients prove who calls.
func (c *Config) TakesCertificates() bool {
	return c.APIClientCA != "" && c.APIClientAuth != ClientAuthNone
}

// maxPrefix bounds a prefix, in bytes. It leaves the better part of a principal's
// name to the name itself.
const maxPrefix = 64

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

// prefixes checks that no name can be one of two sources. Tokens have the names that
// begin with no prefix.
func (v *validator) prefixes() {
	c := v.config
	if !v.prefix(nameJWTPrefix, c.JWTPrefix, c.TakesJWTs(), nameJWTKeys) ||
		!v.prefix(nameCertPrefix, c.CertificatePrefix, c.TakesCertificates(), nameAPIClientCA) {
		return
	}
	if !c.TakesJWTs() || !c.TakesCertificates() || c.JWTPrefix == "" && c.CertificatePrefix == "" {
		return
	}
	longer, long, shorter, short := nameJWTPrefix, c.JWTPrefix, nameCertPrefix, c.CertificatePrefix
	if len(long) < len(short) {
		longer, long, shorter, short = shorter, short, longer, long
	}
	switch {
	case short == "":
		v.refuse(longer, long, "give %s as well: without it the other source can have a name that begins with %q, too", shorter, long)
	case strings.HasPrefix(long, short):
		v.refuse(longer, long, "it begins with %s (%q), so a JWT and a certificate could prove the same principal; neither may begin with the other: take jwt: and cert:, for instance", shorter, short)
	}
}

// prefix checks one of them by itself, and reports whether it is fine. It is of use
// only where its source is on, by the setting that it needs.
func (v *validator) prefix(name, value string, on bool, needs string) bool {
	before := len(v.problems)
	switch {
	case value == "":
	case !on:
		v.refuse(name, value, "it is of use with %s only", needs)
	case len(value) > maxPrefix:
		v.refuse(name, value, "it has %d bytes; at most %d are allowed, so that a name of %d fits behind it", len(value), maxPrefix, lockapi.MaxPrincipalName-maxPrefix)
	case strings.TrimSpace(value) != value, strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar
	}):
		v.refuse(name, value, "names of principals begin with it: it has no spaces around it, no control characters and none that are not seen")
	case strings.HasPrefix(lockapi.PrincipalRoot, lockapi.PrefixUser+value):
		v.refuse(name, value, "%s begins with it, and is a token's", lockapi.PrincipalRoot)
	}
	return len(v.problems) == before
}
