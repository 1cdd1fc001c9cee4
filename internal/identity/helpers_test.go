package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// The tests make their tokens by hand, with the standard library alone. So they can
// send tokens that the library under test would not write.

type issuer struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newIssuer() *issuer {
	r, err1 := rsa.GenerateKey(rand.Reader, 2048)
	e, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, err3 := ed25519.GenerateKey(rand.Reader)
	if err1 != nil || err2 != nil || err3 != nil {
		panic("no keys")
	}
	return &issuer{r, e, d}
}

// ours makes valid tokens; the keys of theirs are unknown.
var ours, theirs = sync.OnceValue(newIssuer), sync.OnceValue(newIssuer)

func (i *issuer) key(alg string) crypto.Signer {
	switch alg {
	case "RS256":
		return i.rsa
	case "ES256":
		return i.ec
	}
	return i.ed
}

type object map[string]any

// and returns the object with the members of others added or replaced. A nil member
// is removed.
func (o object) and(others ...object) object {
	all := object{}
	for _, one := range append([]object{o}, others...) {
		for name, value := range one {
			all[name] = value
			if value == nil {
				delete(all, name)
			}
		}
	}
	return all
}

// jwk returns the public key of an algorithm as a member of a JWKS.
func (i *issuer) jwk(alg, kid string, more ...object) object {
	raw, err := jose.JSONWebKey{Key: i.key(alg).Public(), KeyID: kid, Algorithm: alg, Use: "sig"}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		panic(err)
	}
	return o.and(more...)
}

func jwks(keys ...object) string {
	text, err := json.Marshal(object{"keys": keys})
	if err != nil {
		panic(err)
	}
	return string(text)
}

var b64 = base64.RawURLEncoding

// signed returns a token with the given header and payload, signed with key.
func signed(header, payload string, key any) string {
	input := b64.EncodeToString([]byte(header)) + "." + b64.EncodeToString([]byte(payload))
	sum := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch k := key.(type) {
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, k, sum[:]); err == nil {
			size := (k.Curve.Params().BitSize + 7) / 8
			signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
		}
	case ed25519.PrivateKey:
		signature = ed25519.Sign(k, []byte(input))
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	}
	if err != nil {
		panic(err)
	}
	return input + "." + b64.EncodeToString(signature)
}

// token returns a JWT with the given header and claims.
func token(header, claims object, key any) string {
	h, err1 := json.Marshal(header)
	c, err2 := json.Marshal(claims)
	if err1 != nil || err2 != nil {
		panic("not to be encoded")
	}
	return signed(string(h), string(c), key)
}

// The issuer and the audience of valid tokens.
const (
	iss = "https://id.example.com"
	aud = "stout"
)

func goodHeader(alg string) object { return object{"alg": alg, "kid": alg, "typ": "JWT"} }

func goodClaims() object {
	now := time.Now().Unix()
	return object{"iss": iss, "aud": aud, "sub": "billing", "exp": now + 300, "nbf": now, "iat": now}
}

func good(alg string) string { return token(goodHeader(alg), goodClaims(), ours().key(alg)) }

func keyFile(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func ourKeys() string {
	return jwks(ours().jwk("RS256", "RS256"), ours().jwk("ES256", "ES256"), ours().jwk("EdDSA", "EdDSA"))
}

func newJWTs(t testing.TB, content string) *JWTs {
	t.Helper()
	keys, err := OpenKeys(keyFile(t, content))
	if err != nil {
		t.Fatal(err)
	}
	return &JWTs{Issuer: iss, Audience: aud, Claim: "sub", Keys: keys}
}
