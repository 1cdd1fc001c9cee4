package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/stoutlock/stout/lockapi"
)

const (
	// MaxJWT bounds a JWT, in bytes.
	MaxJWT = 16 << 10
	// Leeway is how far the clock of who makes the tokens may be from ours.
	Leeway = 30 * time.Second
	// lastYear is that which a time in JSON has at most: what ends later can't be told
	// to another replica, and never ends.
	lastYear = 9999
	// mostProved bounds the tokens that are known to have been proved.
	mostProved = 4096
)

// algorithms are those that are taken at all: none that goes by a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// foreign are headers of a token that bring a key, or tell of one elsewhere, or
// change what is signed.
var foreign = []string{"jku", "x5u", "x5c", "jwk", "crit", "b64"}

// JWTs judges JSON web tokens. Its methods are safe for concurrent use.
type JWTs struct {
	Issuer   string // what iss has to be
	Audience string // what has to be among aud
	Claim    string // which names the principal
	Prefix   string // before the name
	Keys     *Keys
}

// Prove finds who has the token. The error says what is wrong with it, and no
// part of it but what somebody whose key is in force has signed.
func (j *JWTs) Prove(token string) (*Proof, error) {
	if len(token) > MaxJWT {
		return nil, fmt.Errorf("it has %d bytes; at most %d are taken", len(token), MaxJWT)
	}
	keys, now := j.Keys.present.Load(), time.Now()
	sum := sha256.Sum256([]byte(token))
	p, known := keys.proved.of(sum)
	if !known {
		var err error
		if p, err = j.verify(keys, token, now); err != nil {
			return nil, err
		}
		keys.proved.add(sum, p)
	}
	if !now.Before(p.Ends) {
		return nil, errEnded(p.Ends)
	}
	return p, nil
}

func errEnded(at time.Time) error {
	return fmt.Errorf("it expired at %s", at.Add(-Leeway).UTC().Format(time.RFC3339))
}

func (j *JWTs) verify(keys *keySet, token string, now time.Time) (*Proof, error) {
	if err := inForm(token); err != nil {
		return nil, err
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if other := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &other) {
		return nil, fmt.Errorf("its alg is %q; RS256, ES256 and EdDSA are taken", lockapi.Clip(string(other.Got)))
	} else if err != nil || len(parsed.Headers) != 1 {
		return nil, errors.New("it is malformed")
	}
	key, err := keyFor(keys, &parsed.Headers[0])
	if err != nil {
		return nil, err
	}
	var claims jwt.Claims
	var all map[string]any
	if err := parsed.Claims(key.public, &claims, &all); errors.Is(err, jose.ErrCryptoFailure) {
		return nil, errors.New("its signature is wrong")
	} else if err != nil {
		return nil, errors.New("its claims are malformed")
	}
	return j.verifyClaims(&claims, all, now)
}

// inForm reports a token that is not in the one form in which it was made, or
// whose header has what is not taken. Decoders of base64 pass over ends of lines,
// and over bits that count for nothing.
func inForm(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("it has not the three parts of a signed JWT")
	}
	var header []byte
	for i, part := range parts {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodedLen(len(decoded)) != len(part) {
			return errors.New("it is malformed: its parts are not in base64url")
		}
		if i == 0 {
			header = decoded
		}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(header, &fields); err != nil {
		return errors.New("it is malformed: its header is no JSON object")
	}
	for _, name := range foreign {
		if _, has := fields[name]; has {
			return fmt.Errorf("its header has %q, which is not taken", name)
		}
	}
	return nil
}

// keyFor is the key that a token's header names, if the token is for that key's
// algorithm.
func keyFor(keys *keySet, h *jose.Header) (k key, err error) {
	if h.KeyID == "" {
		return k, errors.New("its header has no kid, which names the key")
	}
	k, ok := keys.byID[h.KeyID]
	switch {
	case !ok:
		return k, errors.New("its kid names no key that is in force here")
	case h.Algorithm != string(k.algorithm):
		return k, errors.New("its alg is not that of the key which its kid names")
	}
	return k, nil
}

// verifyClaims looks at the claims of a token whose signature is right.
func (j *JWTs) verifyClaims(claims *jwt.Claims, all map[string]any, now time.Time) (*Proof, error) {
	if claims.Expiry == nil {
		return nil, errors.New("it has no exp: it would never end")
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: j.Issuer, AnyAudience: jwt.Audience{j.Audience}, Time: now}, Leeway)
	ends := claims.Expiry.Time().Add(Leeway).UTC()
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return nil, fmt.Errorf("its iss is %q, not jwt-issuer", lockapi.Clip(claims.Issuer))
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, errors.New("jwt-audience is not among its aud: it is meant for somebody else")
	case errors.Is(err, jwt.ErrNotValidYet):
		return nil, fmt.Errorf("it counts from %s only; are the clocks right?", claims.NotBefore.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, fmt.Errorf("it was made at %s, which is to come; are the clocks right?", claims.IssuedAt.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrExpired) || err == nil && !now.Before(ends):
		return nil, errEnded(ends)
	case ends.Year() > lastYear:
		return nil, fmt.Errorf("its exp is in the year %d: it is to be in seconds, not in milliseconds", ends.Year())
	case err != nil:
		return nil, err
	}
	name, ok := all[j.Claim].(string)
	if !ok {
		return nil, fmt.Errorf("its claim %s is missing, or no text: it names the principal", lockapi.Clip(j.Claim))
	}
	principal, err := principalOf("its claim "+lockapi.Clip(j.Claim), j.Prefix, name)
	if err != nil {
		return nil, err
	}
	return &Proof{Principal: principal, Ends: ends}, nil
}

// proved remembers tokens whose signature was right, by their SHA-256: to verify
// one takes longer than most calls.
type proved struct {
	mu    sync.RWMutex
	bySum map[[sha256.Size]byte]*Proof
}

func (p *proved) of(sum [sha256.Size]byte) (*Proof, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	proof, ok := p.bySum[sum]
	return proof, ok
}

// add remembers one more. All are forgotten where there are too many: they are
// verified again.
func (p *proved) add(sum [sha256.Size]byte, proof *Proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bySum == nil || len(p.bySum) >= mostProved {
		p.bySum = map[[sha256.Size]byte]*Proof{}
	}
	p.bySum[sum] = proof
}
