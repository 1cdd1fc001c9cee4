// Package jwttest makes JWTs for tests of code that checks them.
package jwttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"time"
)

// Values in the tokens.
const (
	Name     = "https://id.example.com" // their iss
	Audience = "stout"                  // their aud
	kid      = "2026"
)

// Issuer signs with a key of its own, by ES256.
type Issuer struct{ key *ecdsa.PrivateKey }

// New returns an issuer with a new key.
func New() *Issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return &Issuer{key}
}

var b64 = base64.RawURLEncoding

func encode(object map[string]any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

// Keys returns its public key as a key file (JWKS).
func (i *Issuer) Keys() []byte {
	point, err := i.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err)
	}
	return encode(map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256",
		"x": b64.EncodeToString(point[1:33]), "y": b64.EncodeToString(point[33:]),
	}}})
}

// Token returns a valid token for a subject with the given lifetime. The given
// claims replace the defaults.
func (i *Issuer) Token(sub string, life time.Duration, claims map[string]any) string {
	all := map[string]any{"iss": Name, "aud": Audience, "sub": sub, "exp": time.Now().Add(life).Unix()}
	maps.Copy(all, claims)
	input := b64.EncodeToString(encode(map[string]any{"alg": "ES256", "kid": kid})) + "." + b64.EncodeToString(encode(all))
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		panic(err)
	}
	return input + "." + b64.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}
