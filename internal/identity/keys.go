package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stoutlock/stout/internal/readfile"
	"github.com/stoutlock/stout/lockapi"
)

const (
	// lookEvery is how often the file of keys is looked at.
	lookEvery = time.Second
	// sayEvery is how often it is said that it can't be used.
	sayEvery = 24 * time.Hour
	// maxKeysFile bounds it; that of a large provider has some 10 KiB.
	maxKeysFile = 1 << 20
	// leastRSA is the size of the smallest RSA key that is taken, in bits. The
	// largest, jose.MaxRSAModulusBits, is the library's.
	leastRSA = 2048
)

// key is one that verifies signatures, and the one algorithm that it is for.
type key struct {
	public    any
	algorithm jose.SignatureAlgorithm
}

// keySet is the contents of a file of keys.
type keySet struct {
	content string
	byID    map[string]key
	skipped []string // why other keys of the file are not used
	proved  proved   // by these keys
}

// Keys follows a file of keys. Its methods are safe for concurrent use.
type Keys struct {
	file    string
	reader  readfile.Reader
	present atomic.Pointer[keySet]

	mu     sync.Mutex // guards what follows
	seen   *sight     // by the last look; nil where that was present
	told   time.Time  // when it was last said why seen is not taken; zero before
	readAt time.Time  // when the file could be read last
	counts Counts
}

// sight is what a look at the file has found.
type sight struct{ content, failed string }

// Counts are those of changes to the file.
type Counts struct{ Taken, Refused uint64 }

// Notice is what there is to say of the file: that it has changed and its keys
// are in force, or why they are not.
type Notice struct {
	Taken   bool
	Refused error
}

// OpenKeys reads a file of keys.
func OpenKeys(file string) (*Keys, error) {
	k := &Keys{file: file, readAt: time.Now()}
	content, err := k.read()
	if err != nil {
		return nil, err
	}
	set, err := parseKeys(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	k.present.Store(set)
	return k, nil
}

// File is the name of the file.
func (k *Keys) File() string { return k.file }

// Len is how many keys are in force.
func (k *Keys) Len() int { return len(k.present.Load().byID) }

// Skipped is why the other keys of the file in force are not used, one line each.
func (k *Keys) Skipped() []string { return k.present.Load().skipped }

// Counts tells how many changes were taken and refused so far.
func (k *Keys) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts
}

// Unread is for how long the file could not be read.
func (k *Keys) Unread() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.readAt)
}

// Watch looks at the file once a second until ctx ends, and says what happens to
// it. A change is taken when two looks in a row have found the same, so that a
// file that is being written is not taken by half. One that can't be read or used
// leaves the keys before in force, and is said at once and once a day.
func (k *Keys) Watch(ctx context.Context, say func(Notice)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		taken, refused := k.look()
		if taken || refused != nil {
			say(Notice{taken, refused})
		}
	}
}

func (k *Keys) look() (taken bool, refused error) {
	content, err := k.read()
	now := sight{content: content}
	if err != nil {
		now.failed = err.Error()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.readAt = time.Now()
	}
	if now == (sight{content: k.present.Load().content}) {
		k.seen, k.told = nil, time.Time{}
		return false, nil
	}
	if k.seen == nil || now != *k.seen {
		k.seen, k.told = &now, time.Time{}
		return false, nil
	}
	if !k.told.IsZero() && time.Since(k.told) < sayEvery {
		return false, nil
	}
	var set *keySet
	if err == nil {
		set, err = parseKeys(content)
	}
	if err != nil {
		if k.told.IsZero() {
			k.counts.Refused++
		}
		k.told = time.Now()
		return false, err
	}
	k.present.Store(set)
	k.seen = nil
	k.counts.Taken++
	return true, nil
}

func (k *Keys) read() (string, error) {
	content, err := k.reader.Read(k.file, maxKeysFile)
	return string(content), err
}

// parseKeys reads a JWKS. Keys that are no use here are passed over, as RFC 7517
// wants: a provider may have others besides. A file with none that is of use is
// refused, and one with two keys of a name: which of them counts is not to be
// guessed.
func parseKeys(content string) (*keySet, error) {
	var file struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal([]byte(content), &file); err != nil {
		return nil, fmt.Errorf("it is no JWKS, a JSON object with the list \"keys\": %w", err)
	}
	set := &keySet{content: content, byID: map[string]key{}}
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
		return nil, fmt.Errorf("none of its keys is of use: %s", strings.Join(set.skipped, "; "))
	}
	return set, nil
}

// parseKey reads one key; the error is why it is not used.
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
		return id, k, errors.New("it is a secret, and no public key; JWTs with signatures by a shared secret are not taken")
	}
	var parsed jose.JSONWebKey
	switch err := parsed.UnmarshalJSON(raw); {
	case errors.Is(err, jose.ErrUnsupportedKeyType):
		return id, k, fmt.Errorf("it is none of RSA of up to %d bits, EC, and OKP with Ed25519", jose.MaxRSAModulusBits)
	case err != nil:
		return id, k, err
	case id == "":
		return id, k, errors.New("it has no kid, by which a JWT could name it")
	case !parsed.IsPublic():
		return id, k, errors.New("it is a private key; only public ones belong there")
	case parsed.Use != "" && parsed.Use != "sig":
		return id, k, fmt.Errorf("its use is %q, not sig", lockapi.Clip(parsed.Use))
	case more.Ops != nil && !slices.Contains(more.Ops, "verify"):
		return id, k, errors.New("verify is not among its key_ops")
	}
	algorithm, err := algorithmOf(parsed.Key)
	if err == nil && parsed.Algorithm != "" && parsed.Algorithm != string(algorithm) {
		err = fmt.Errorf("its alg is %q; a key of its type is taken for %s only", lockapi.Clip(parsed.Algorithm), algorithm)
	}
	return id, key{parsed.Key, algorithm}, err
}

// algorithmOf is the one that a key of its type is used with.
func algorithmOf(public any) (jose.SignatureAlgorithm, error) {
	switch p := public.(type) {
	case *rsa.PublicKey:
		if bits := p.N.BitLen(); bits < leastRSA {
			return "", fmt.Errorf("it is an RSA key of %d bits; at least %d are wanted", bits, leastRSA)
		}
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		if p.Curve != elliptic.P256() {
			return "", fmt.Errorf("its curve is %s; only P-256 is taken, for ES256", p.Curve.Params().Name)
		}
		return jose.ES256, nil
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	}
	return "", errors.New("its type is not RSA, EC or OKP with Ed25519")
}
