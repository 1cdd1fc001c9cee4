package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// maxKeysFile bounds a key file, in bytes. A large provider's has some 10 KiB.
	maxKeysFile = 1 << 20
	// leastRSA is the size of the smallest accepted RSA key, in bits. The
	// library limits the largest, jose.MaxRSAModulusBits.
	leastRSA = 2048
)

// key is a key for verifying signatures, and the one algorithm for which it is
// used.
type key struct {
	public    any
	algorithm jose.SignatureAlgorithm
}

type keySet struct {
	byID    map[string]key
	skipped []string // why other keys of the file are not used
	proved  proved   // tokens verified with these keys
}

// Keys follows a key file. Its methods are safe for concurrent use.
type Keys struct {
	*readfile.Followed[keySet]
	file string
}

// OpenKeys reads a key file.
func OpenKeys(file string) (*Keys, error) {
	followed, err := readfile.Follow([]string{file}, maxKeysFile, func(before *keySet, c [][]byte) (*keySet, error) {
		set, err := parseKeys(string(c[0]))
		if err != nil && before == nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
		return set, err
	})
	return &Keys{followed, file}, err
}

// File returns the name of the file.
func (k *Keys) File() string { return k.file }

// Len returns the number of keys in force.
func (k *Keys) Len() int { return len(k.Present().byID) }

// Skipped returns why the other keys of the file are not used, one line each.
func (k *Keys) Skipped() []string { return k.Present().skipped }

// parseKeys reads a JWKS. It skips keys that are not usable here, as RFC 7517
// requires, because a provider may list others as well. It refuses a file
// without usable keys. It also refuses two keys with the same kid rather than
// guess which one counts.
func parseKeys(content string) (*keySet, error) {
	var file struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(content), &file); err != nil {
		return nil, fmt.Errorf("it is not a JWKS, a JSON object with the list \"keys\": %w", err)
	}
	set := &keySet{byID: map[string]key{}}
	for i, raw := range file.Keys {
		id, k, err := parseKey(raw)
		if err != nil {
			set.skipped = append(set.skipped, fmt.Sprintf("key %d (kid %q): %v", i+1, lockapi.Clip(id), err))
			continue
		}
		if _, twice := set.byID[id]; twice {
			return nil, fmt.Errorf("two of its keys have the kid %q", lockapi.Clip(id))
		}
		set.byID[id] = k
	}
	switch {
	case len(file.Keys) == 0:
		return nil, errors.New("it has no keys: a JWKS is a JSON object with the list \"keys\"")
	case len(set.byID) == 0:
		return nil, fmt.Errorf("none of its keys is usable: %s", strings.Join(set.skipped, "; "))
	}
	return set, nil
}

// parseKey reads one key. The error is why it is not used.
func parseKey(raw []byte) (id string, k key, err error) {
	var more struct {
		ID   string   `json:"kid"`
		Type string   `json:"kty"`
		Ops  []string `json:"key_ops"`
	}
	if err := json.Unmarshal(raw, &more); err != nil {
		return "", k, err
	}
	id = more.ID
	if more.Type == "oct" {
		return id, k, errors.New("it is a secret and not a public key; JWTs signed with a shared secret are not accepted")
	}
	var parsed jose.JSONWebKey
	switch err := parsed.UnmarshalJSON(raw); {
	case errors.Is(err, jose.ErrUnsupportedKeyType):
		return id, k, fmt.Errorf("it is not RSA of up to %d bits, EC, or OKP with Ed25519", jose.MaxRSAModulusBits)
	case err != nil:
		return id, k, err
	case id == "":
		return id, k, errors.New("it has no kid, so a JWT cannot name it")
	case !parsed.IsPublic():
		return id, k, errors.New("it is a private key; only public keys belong there")
	case parsed.Use != "" && parsed.Use != "sig":
		return id, k, fmt.Errorf("its use is %q, not sig", lockapi.Clip(parsed.Use))
	case more.Ops != nil && !slices.Contains(more.Ops, "verify"):
		return id, k, errors.New("verify is not among its key_ops")
	}
	algorithm, err := algorithmOf(parsed.Key)
	if err == nil && parsed.Algorithm != "" && parsed.Algorithm != string(algorithm) {
		err = fmt.Errorf("its alg is %q; a key of its type is accepted only for %s", lockapi.Clip(parsed.Algorithm), algorithm)
	}
	return id, key{parsed.Key, algorithm}, err
}

func algorithmOf(public any) (jose.SignatureAlgorithm, error) {
	switch p := public.(type) {
	case *rsa.PublicKey:
		if bits := p.N.BitLen(); bits < leastRSA {
			return "", fmt.Errorf("it is an RSA key of %d bits; at least %d are required", bits, leastRSA)
		}
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			return "", fmt.Errorf("its curve is %s; only P-256 is accepted, for ES256", p.Curve.Params().Name)
		}
		return jose.ES256, nil
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	}
	return "", errors.New("its type is not RSA, EC or OKP with Ed25519")
}
