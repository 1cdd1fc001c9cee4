package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stoutlock/stout/internal/readfile"
)

func jwkOf(key any, kid string) object {
	i := &issuer{}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		i.rsa = k
		return i.jwk("RS256", kid)
	case *ecdsa.PrivateKey:
		i.ec = k
	}
	return i.jwk("ES256", kid, object{"alg": nil})
}

// Unusable files are refused with the reason.
func TestRefusedKeys(t *testing.T) {
	small, err1 := rsa.GenerateKey(rand.Reader, 1024)
	p384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	secret := object{"kty": "oct", "kid": "s", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "alg": "HS256"}
	raw, err := jose.JSONWebKey{Key: ours().ed, KeyID: "p"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	ed := func(more object) string { return jwks(ours().jwk("EdDSA", "a", more)) }
	for name, test := range map[string]struct{ content, want string }{
		"nothing":              {"", "it is not a JWKS"},
		"half of one":          {ourKeys()[:100], "it is not a JWKS"},
		"PEM":                  {"-----BEGIN PUBLIC KEY-----", "it is not a JWKS"},
		"a list":               {"[]", "it is not a JWKS"},
		"a key alone":          {ourKeys()[len(`{"keys":[`) : len(ourKeys())-2], "it is not a JWKS"},
		"no keys":              {`{"keys":[]}`, "it has no keys"},
		"another object":       {`{"key":[]}`, "it has no keys"},
		"two of a name":        {jwks(ours().jwk("RS256", "a"), ours().jwk("EdDSA", "b"), theirs().jwk("ES256", "a")), `two of its keys have the kid "a"`},
		"one twice":            {jwks(ours().jwk("RS256", "a"), ours().jwk("RS256", "a")), `two of its keys have the kid "a"`},
		"a secret":             {jwks(secret), "it is a secret and not a public key"},
		"a private key":        {`{"keys":[` + string(raw) + `]}`, "it is a private key"},
		"a key without a name": {ed(object{"kid": nil}), "it has no kid"},
		"a key of no type":     {ed(object{"kty": nil}), "missing json web key type"},
		"another type":         {ed(object{"kty": "AKP9"}), "it is not RSA"},
		"another curve":        {ed(object{"crv": "X25519"}), "it is not RSA"},
		"a key to encrypt":     {ed(object{"use": "enc"}), `its use is "enc", not sig`},
		"a key to sign":        {ed(object{"key_ops": []string{"sign"}}), "verify is not among its key_ops"},
		"another alg":          {ed(object{"alg": "RS256"}), `its alg is "RS256"; a key of its type is accepted only for EdDSA`},
		"HS256 by its alg":     {jwks(ours().jwk("RS256", "a", object{"alg": "HS256"})), `its alg is "HS256"`},
		"PS256 by its alg":     {jwks(ours().jwk("RS256", "a", object{"alg": "PS256"})), `its alg is "PS256"`},
		"a short key":          {jwks(jwkOf(small, "a")), "it is an RSA key of 1024 bits"},
		"a long key":           {jwks(ours().jwk("RS256", "a", object{"n": b64.EncodeToString(bytes.Repeat([]byte{0xff}, 513))})), "it is not RSA of up to 4096 bits"},
		"P-384":                {jwks(jwkOf(p384, "a")), "its curve is P-384"},
		"a point elsewhere":    {jwks(ours().jwk("ES256", "a", object{"x": ours().jwk("ES256", "a")["y"]})), "none of its keys is usable"},
		"something very long":  {strings.Repeat(" ", maxKeysFile+1), "is larger than"},
	} {
		file := keyFile(t, test.content)
		if _, err := OpenKeys(file); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		} else if strings.Contains(err.Error(), "AAAAAAAA") {
			t.Errorf("%s: the error reveals a secret: %v", name, err)
		}
	}
	if _, err := OpenKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is accepted")
	}
}

// Unusable keys are skipped; the other keys of the file are used.
func TestSkippedKeys(t *testing.T) {
	secret := object{"kty": "oct", "kid": "s", "k": b64.EncodeToString(make([]byte, 32))}
	j := newJWTs(t, jwks(secret, ours().jwk("ES256", "ES256"), ours().jwk("RS256", "RS256", object{"use": "enc"}), object{"kty": "new"}, ours().jwk("EdDSA", "")))
	if _, err := j.Prove(good("ES256")); err != nil || j.Keys.Len() != 1 || len(j.Keys.Skipped()) != 4 {
		t.Errorf("%d keys, %q, %v", j.Keys.Len(), j.Keys.Skipped(), err)
	}
	for name, text := range map[string]string{
		"to encrypt": good("RS256"),
		"no name":    token(goodHeader("EdDSA").and(object{"kid": ""}), goodClaims(), ours().ed),
		"a secret":   token(goodHeader("HS256").and(object{"kid": "s"}), goodClaims(), make([]byte, 32)),
	} {
		if p, err := j.Prove(text); err == nil {
			t.Errorf("a key %s: %+v", name, p)
		}
	}
}

// watched records the notices about a watched file, in a bubble.
type watched struct {
	*JWTs
	mu      sync.Mutex
	notices []string
}

func watch(t *testing.T, content string) *watched {
	w := &watched{JWTs: newJWTs(t, content)}
	go w.Keys.Watch(t.Context(), func(taken bool, refused error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if taken {
			w.notices = append(w.notices, "taken")
		} else if refused != nil {
			w.notices = append(w.notices, refused.Error())
		}
	})
	return w
}

func (w *watched) write(t *testing.T, content string) {
	t.Helper()
	if err := os.WriteFile(w.Keys.File(), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *watched) reported() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.notices, "; ")
}

// A changed file is in force within seconds. From then on tokens of the old key are
// refused.
func TestKeysChange(t *testing.T) {
	ourKeys, our := ourKeys(), good // made outside the bubble
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, ourKeys)
		old := our("ES256")
		next := token(goodHeader("ES256"), goodClaims(), theirs().ec)
		if _, err := w.Prove(old); err != nil {
			t.Fatal(err)
		}
		w.write(t, jwks(theirs().jwk("ES256", "ES256")))
		time.Sleep(3 * time.Second)
		if _, err := w.Prove(old); err == nil {
			t.Error("the old key is accepted")
		}
		if _, err := w.Prove(next); err != nil {
			t.Errorf("the new key: %v", err)
		}
		if w.reported() != "taken" || w.Keys.Counts() != (readfile.Counts{Taken: 1}) {
			t.Errorf("reported: %s; %+v", w.reported(), w.Keys.Counts())
		}
	})
}

// After an unusable or missing file, the old keys stay in force. The failure is
// reported once and counted once. A half-written file is not reported.
func TestBrokenKeys(t *testing.T) {
	ourKeys := ourKeys()
	theirKeys := jwks(theirs().jwk("EdDSA", "EdDSA"))
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, ourKeys)
		text := token(goodHeader("RS256"), goodClaims().and(object{"exp": time.Now().Unix() + 86_400}), ours().rsa)
		w.write(t, theirKeys[:50])
		time.Sleep(1500 * time.Millisecond) // seen once
		w.write(t, ourKeys)
		time.Sleep(10 * time.Second)
		if w.reported() != "" {
			t.Errorf("half a file is reported: %s", w.reported())
		}
		w.write(t, theirKeys[:50])
		time.Sleep(time.Hour)
		if _, err := w.Prove(text); err != nil {
			t.Errorf("beside a broken file: %v", err)
		}
		if err := os.Remove(w.Keys.File()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := w.Prove(good("RS256")); err != nil {
			t.Errorf("without the file: %v", err)
		}
		if all := w.reported(); strings.Count(all, "it is not a JWKS") != 1 || strings.Count(all, "no such file") != 1 || w.Keys.Counts() != (readfile.Counts{Refused: 2}) {
			t.Errorf("reported: %s; %+v", all, w.Keys.Counts())
		}
		w.write(t, theirKeys)
		time.Sleep(3 * time.Second)
		if _, err := w.Prove(good("RS256")); err == nil || !strings.HasSuffix(w.reported(), "; taken") {
			t.Errorf("the next file: %v; %s", err, w.reported())
		}
	})
}

// FuzzKeys: any file is refused, or gives usable keys only.
func FuzzKeys(f *testing.F) {
	f.Add(ourKeys())
	f.Add(jwks(ours().jwk("EdDSA", "a", object{"use": "enc"}), object{"kty": "oct", "k": "AA", "kid": "b"}))
	f.Add(`{"keys":[null,1,{}]}`)
	f.Fuzz(func(t *testing.T, content string) {
		set, err := parseKeys(content)
		if err != nil {
			return
		}
		for id, k := range set.byID {
			if a, err := algorithmOf(k.public); id == "" || err != nil || a != k.algorithm {
				t.Fatalf("key %q: %+v, %v", id, k, err)
			}
		}
	})
}
