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
	// Leeway is how far the issuer's clock may differ from ours.
	Leeway = 30 * time.Second
	// lastYear is the last year of a time in JSON. A later end could not be
	// sent to another replica, and would never be reached.
	lastYear = 9999
	// mostProved bounds the tokens remembered as verified.
	mostProved = 4096
)

// algorithms lists the accepted algorithms. None of them uses a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// foreign lists headers that bring a key, refer to one, or change what is
// signed.
var foreign = []string{"jku", "x5u", "x5c", "jwk", "crit", "b64"}

// JWTs verifies JSON web tokens. Its methods are safe for concurrent use.
type JWTs struct {
	Issuer   string // required value of iss
	Audience string // must be among aud
	Claim    string // the claim that names the principal
	Prefix   string // put before the name
	Keys     *Keys
}

// Prove returns the proof that a token carries. The error describes what is
// wrong with the token. It quotes only parts that the owner of a key in force
// has signed.
func (j *JWTs) Prove(token string) (*Proof, error) {
	if len(token) > MaxJWT {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(token), MaxJWT)
	}
	keys, now := j.Keys.Present(), time.Now()
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
		return nil, fmt.Errorf("its alg is %q; RS256, ES256 and EdDSA are accepted", lockapi.Clip(string(other.Got)))
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

// inForm returns an error if a token is not in its only canonical form, or if
// its header has a refused field. Base64 decoders otherwise ignore line ends,
// and unused bits.
func inForm(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("it does not have the three parts of a signed JWT")
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
		return errors.New("it is malformed: its header is not a JSON object")
	}
	for _, name := range foreign {
		if _, has := fields[name]; has {
			return fmt.Errorf("its header has %q, which is not accepted", name)
		}
	}
	return nil
}

// keyFor returns the key that a token's header names, if the token's algorithm
// is the key's.
func keyFor(keys *keySet, h *jose.Header) (k key, err error) {
	if h.KeyID == "" {
		return k, errors.New("its header has no kid to name the key")
	}
	k, ok := keys.byID[h.KeyID]
	switch {
	case !ok:
		return k, errors.New("its kid names no key in force here")
	case h.Algorithm != string(k.algorithm):
		return k, errors.New("its alg is not the algorithm of the key that its kid names")
	}
	return k, nil
}

// verifyClaims checks the claims of a token with a valid signature.
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
		return nil, errors.New("jwt-audience is not among its aud: it is meant for another service")
	case errors.Is(err, jwt.ErrNotValidYet):
		return nil, fmt.Errorf("it is valid only from %s; check the clocks", claims.NotBefore.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, fmt.Errorf("it was issued at %s, in the future; check the clocks", claims.IssuedAt.Time().UTC().Format(time.RFC3339))
	case errors.Is(err, jwt.ErrExpired) || err == nil && !now.Before(ends):
		return nil, errEnded(ends)
	case ends.Year() > lastYear:
		return nil, fmt.Errorf("its exp is in the year %d: give it in seconds, not in milliseconds", ends.Year())
	case err != nil:
		return nil, err
	}
	name, ok := all[j.Claim].(string)
	if !ok {
		return nil, fmt.Errorf("its claim %s, which names the principal, is missing or not a string", lockapi.Clip(j.Claim))
	}
	return proofOf("its claim "+lockapi.Clip(j.Claim), j.Prefix, name, ends)
}

// proved remembers tokens with a valid signature, by their SHA-256. Verifying
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

// add remembers one more. If there are too many, all are dropped and must be
// verified again.
func (p *proved) add(sum [sha256.Size]byte, proof *Proof) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bySum == nil || len(p.bySum) >= mostProved {
		p.bySum = map[[sha256.Size]byte]*Proof{}
	}
	p.bySum[sum] = proof
}
