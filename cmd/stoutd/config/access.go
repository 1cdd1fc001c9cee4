package config

import (
	"strings"
	"unicode"

	"github.com/stoutlock/stout/lockapi"
)

// TakesJWTs reports whether callers may prove their principal by a JWT.
func (c *Config) TakesJWTs() bool { return c.JWTKeys != "" }

// TakesCertificates reports whether callers may prove their principal by a
// certificate.
func (c *Config) TakesCertificates() bool {
	return c.APIClientCA != "" && c.APIClientAuth != ClientAuthNone
}

// maxPrefix bounds a prefix, in bytes. It leaves most of a principal's name to the
// name itself.
const maxPrefix = 64

func (v *validator) jwt() {
	c := v.config
	v.together("a JWT needs a signature by a key of the file, that issuer and that audience", &c.JWTIssuer, &c.JWTAudience, &c.JWTKeys)
	if v.changed(&c.JWTClaim) && checkClaim(c.JWTClaim) == nil && !c.TakesJWTs() && c.JWTIssuer == "" && c.JWTAudience == "" {
		v.refuse(&c.JWTClaim, "it has a use only with %s, %s and %s", c.name(&c.JWTIssuer), c.name(&c.JWTAudience), c.name(&c.JWTKeys))
	}
}

// prefixes checks that no principal can have two sources. Tokens have the names
// that begin with neither prefix.
func (v *validator) prefixes() {
	c := v.config
	if !v.prefix(&c.JWTPrefix, c.TakesJWTs(), &c.JWTKeys) || !v.prefix(&c.CertificatePrefix, c.TakesCertificates(), &c.APIClientCA) {
		return
	}
	if !c.TakesJWTs() || !c.TakesCertificates() || c.JWTPrefix == "" && c.CertificatePrefix == "" {
		return
	}
	long, short := &c.JWTPrefix, &c.CertificatePrefix
	if len(*long) < len(*short) {
		long, short = short, long
	}
	shorter := c.name(short)
	switch {
	case *short == "":
		v.refuse(long, "give %s as well: without it a name from the other source can also begin with %q", shorter, *long)
	case strings.HasPrefix(*long, *short):
		v.refuse(long, "it begins with %s (%q), so a JWT and a certificate could prove the same principal; neither may begin with the other: use jwt: and cert:, for instance", shorter, *short)
	}
}

// prefix checks one prefix by itself, and reports whether it is valid. on reports
// whether the source of its principals is on, and needs names the setting for that.
func (v *validator) prefix(field *string, on bool, needs *string) bool {
	before, value := len(v.problems), *field
	switch {
	case value == "":
	case !on:
		v.refuse(field, "it has a use only with %s", v.config.name(needs))
	case len(value) > maxPrefix:
		v.refuse(field, "it has %d bytes; at most %d are allowed, to leave %d for the name behind it", len(value), maxPrefix, lockapi.MaxPrincipalName-maxPrefix)
	case strings.TrimSpace(value) != value, strings.ContainsFunc(value, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar
	}):
		v.refuse(field, "names of principals begin with it: spaces around it, control characters and invisible characters are not allowed")
	case strings.HasPrefix(lockapi.PrincipalRoot, lockapi.PrefixUser+value):
		v.refuse(field, "%s begins with it, and belongs to a token", lockapi.PrincipalRoot)
	}
	return len(v.problems) == before
}
