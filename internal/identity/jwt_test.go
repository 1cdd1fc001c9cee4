package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Valid tokens of each algorithm are accepted, also with further permitted fields.
func TestGoodTokens(t *testing.T) {
	j := newJWTs(t, ourKeys())
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		header, claims object
		want           string
	}{
		"plain":              {nil, nil, "user:billing"},
		"several audiences":  {nil, object{"aud": []string{"other", aud}}, "user:billing"},
		"no nbf and no iat":  {nil, object{"nbf": nil, "iat": nil}, "user:billing"},
		"no typ":             {object{"typ": nil}, nil, "user:billing"},
		"a thumbprint":       {object{"x5t": "AAAA", "nonce": "1"}, nil, "user:billing"},
		"a fraction":         {nil, object{"exp": float64(time.Now().Unix()) + 60.5}, "user:billing"},
		"nearly for ever":    {nil, object{"exp": 253402300799 - 30}, "user:billing"},
		"just ended":         {nil, object{"exp": time.Now().Unix() - 20}, "user:billing"},
		"about to begin":     {nil, object{"nbf": time.Now().Unix() + 20}, "user:billing"},
		"other claims":       {nil, object{"groups": []string{"a"}, "SUB": "root"}, "user:billing"},
		"the longest name":   {nil, object{"sub": long}, "user:" + long},
		"letters of a word":  {nil, object{"sub": "Zoë/ops:1 x"}, "user:Zoë/ops:1 x"},
		"a name like a user": {nil, object{"sub": "user:root"}, "user:user:root"},
	} {
		for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
			text := token(goodHeader(alg).and(test.header), goodClaims().and(test.claims), ours().key(alg))
			for range 2 { // the second time it is remembered
				p, err := j.Prove(text)
				if err != nil || p.Principal != test.want {
					t.Errorf("%s, %s: %+v, %v", name, alg, p, err)
				}
			}
		}
	}
}

// badTokens returns a token of each refused kind, and part of the error.
func badTokens(alg string) map[string][2]string {
	now := time.Now().Unix()
	key := ours().key(alg)
	with := func(header, claims object) string {
		return token(goodHeader(alg).and(header), goodClaims().and(claims), key)
	}
	ec384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	der, _ := x509.MarshalPKIXPublicKey(ours().key(alg).Public())
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk, _ := json.Marshal(ours().jwk(alg, alg))
	text := good(alg)
	parts := strings.Split(text, ".")
	header, claims := goodHeader(alg), goodClaims()
	other := map[string]string{"RS256": "ES256", "ES256": "EdDSA", "EdDSA": "RS256"}[alg]
	claimsText, _ := json.Marshal(claims)
	rawHeader := func(h string) string { return signed(h, string(claimsText), key) }
	rawClaims := func(c string) string { return signed(`{"alg":"`+alg+`","kid":"`+alg+`"}`, c, key) }
	return map[string][2]string{
		"nothing":               {"", "three parts"},
		"no JWT":                {"abc", "three parts"},
		"two parts":             {parts[0] + "." + parts[1], "three parts"},
		"four parts":            {text + ".", "three parts"},
		"five parts (a JWE)":    {text + "." + parts[0] + "." + parts[1], "three parts"},
		"a JSON form":           {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, "three parts"},
		"a space":               {text + " ", "base64url"},
		"a line's end within":   {parts[0] + "\n." + parts[1] + "." + parts[2], "base64url"},
		"padding":               {text + "==", "base64url"},
		"too long":              {with(nil, object{"x": strings.Repeat("x", MaxJWT)}), "at most"},
		"a header of no object": {rawHeader(`[]`), "not a JSON object"},
		"a header of null":      {rawHeader(`null`), "malformed"},
		"half a header":         {rawHeader(`{"alg":"` + alg + `"`), "not a JSON object"},
		"two headers":           {rawHeader(`{"alg":"` + alg + `","kid":"` + alg + `"}{}`), "not a JSON object"},
		"alg twice":             {rawHeader(`{"alg":"none","alg":"` + alg + `","kid":"` + alg + `"}`), "malformed"},
		"Alg":                   {rawHeader(`{"Alg":"` + alg + `","kid":"` + alg + `"}`), `its alg is ""`},
		"an alg of no text":     {with(object{"alg": 1}, nil), ""},

		"no signature":              {parts[0] + "." + parts[1] + ".", "signature"},
		"another's signature":       {token(header, claims, theirs().key(alg)), "its signature is wrong"},
		"another token's signature": {strings.Join(strings.Split(with(nil, object{"sub": "admin"}), ".")[:2], ".") + "." + parts[2], "its signature is wrong"},
		"half a signature":          {parts[0] + "." + parts[1] + "." + parts[2][:len(parts[2])/8*4], "signature"},

		"none":              {signed(`{"alg":"none","kid":"`+alg+`"}`, string(claimsText), nil), `its alg is "none"`},
		"None":              {signed(`{"alg":"None","kid":"`+alg+`"}`, string(claimsText), nil), `its alg is "None"`},
		"none, and signed":  {with(object{"alg": "none"}, nil), `its alg is "none"`},
		"no alg":            {with(object{"alg": nil}, nil), `its alg is ""`},
		"HS256 by the PEM":  {token(header.and(object{"alg": "HS256"}), claims, public), `its alg is "HS256"`},
		"HS256 by the DER":  {token(header.and(object{"alg": "HS256"}), claims, der), `its alg is "HS256"`},
		"HS256 by the JWK":  {token(header.and(object{"alg": "HS256"}), claims, jwk), `its alg is "HS256"`},
		"HS256 by nothing":  {token(header.and(object{"alg": "HS256"}), claims, []byte{}), `its alg is "HS256"`},
		"hidden HS256":      {token(header, claims, public), "its signature is wrong"},
		"HS512":             {token(header.and(object{"alg": "HS512"}), claims, public), `its alg is "HS512"`},
		"RS384":             {with(object{"alg": "RS384"}, nil), `its alg is "RS384"`},
		"PS256":             {with(object{"alg": "PS256"}, nil), `its alg is "PS256"`},
		"ES384":             {token(header.and(object{"alg": "ES384"}), claims, ec384), `its alg is "ES384"`},
		"RSA1_5":            {with(object{"alg": "RSA1_5"}, nil), `its alg is "RSA1_5"`},
		"small letters":     {with(object{"alg": strings.ToLower(alg)}, nil), "its alg is"},
		"a space behind":    {with(object{"alg": alg + " "}, nil), "its alg is"},
		"another's alg":     {with(object{"alg": other}, nil), "its alg is not the algorithm of the key"},
		"another key's kid": {with(object{"kid": other}, nil), "its alg is not the algorithm of the key"},
		"another's both":    {with(object{"alg": other, "kid": other}, nil), "its signature is wrong"},

		"no kid":            {with(object{"kid": nil}, nil), "no kid"},
		"an empty kid":      {with(object{"kid": ""}, nil), "no kid"},
		"an unknown kid":    {with(object{"kid": "k9"}, nil), "its kid names no key"},
		"a path for a kid":  {with(object{"kid": "../../dev/null"}, nil), "its kid names no key"},
		"a list for a kid":  {with(object{"kid": []string{alg}}, nil), "malformed"},
		"a number of a kid": {with(object{"kid": 1}, nil), "malformed"},

		"jku":      {with(object{"jku": "https://evil.example/keys"}, nil), `"jku"`},
		"x5u":      {with(object{"x5u": "https://evil.example/keys"}, nil), `"x5u"`},
		"jwk":      {token(header.and(object{"jwk": theirs().jwk(alg, alg)}), claims, theirs().key(alg)), `"jwk"`},
		"our jwk":  {with(object{"jwk": ours().jwk(alg, alg)}, nil), `"jwk"`},
		"null jwk": {rawHeader(`{"alg":"` + alg + `","kid":"` + alg + `","jwk":null}`), `"jwk"`},
		"x5c":      {with(object{"x5c": []string{"AAAA"}}, nil), `"x5c"`},
		"crit":     {with(object{"crit": []string{"exp"}, "exp": 1}, nil), `"crit"`},
		"b64":      {with(object{"b64": false, "crit": []string{"b64"}}, nil), "is not accepted"},

		"claims of no object": {rawClaims(`"x"`), "claims are malformed"},
		"claims of null":      {rawClaims(`null`), "no exp"},
		"no claims":           {rawClaims(``), "claims are malformed"},
		"claims and more":     {rawClaims(string(claimsText) + "{}"), "claims are malformed"},
		"a claim twice":       {rawClaims(strings.Replace(string(claimsText), "{", `{"sub":"admin",`, 1)), "claims are malformed"},

		"no exp":           {with(nil, object{"exp": nil}), "no exp"},
		"null exp":         {rawClaims(strings.Replace(string(claimsText), "{", `{"exp":null,"x`, 1)), ""},
		"EXP":              {with(nil, object{"exp": nil, "EXP": now + 60}), "no exp"},
		"ended":            {with(nil, object{"exp": now - 31}), "it expired at"},
		"long ended":       {with(nil, object{"exp": 1}), "it expired at"},
		"an exp of 0":      {with(nil, object{"exp": 0}), "it expired at"},
		"an exp below 0":   {with(nil, object{"exp": -1}), "it expired at"},
		"an exp of text":   {with(nil, object{"exp": "2099-01-01"}), "claims are malformed"},
		"an exp in quotes": {with(nil, object{"exp": "9999999999"}), "claims are malformed"},
		"a huge exp":       {with(nil, object{"exp": 1e300}), "claims are malformed"},
		"milliseconds":     {with(nil, object{"exp": (now + 60) * 1000}), "not in milliseconds"},
		"the year 10000":   {with(nil, object{"exp": 253402300800}), "its exp is in the year 10000"},
		"nearly 2^62":      {with(nil, object{"exp": 1 << 61}), "its exp is in the year"},
		"a list of exp":    {with(nil, object{"exp": []int64{now + 60}}), "claims are malformed"},
		"not yet":          {with(nil, object{"nbf": now + 60}), "it is valid only from"},
		"a huge nbf":       {with(nil, object{"nbf": 1e300}), "claims are malformed"},
		"an nbf of text":   {with(nil, object{"nbf": "now"}), "claims are malformed"},
		"to be made":       {with(nil, object{"iat": now + 3600}), "in the future"},

		"no iss":            {with(nil, object{"iss": nil}), "its iss is"},
		"another iss":       {with(nil, object{"iss": "https://evil.example"}), "its iss is"},
		"iss and a slash":   {with(nil, object{"iss": iss + "/"}), "its iss is"},
		"a list of iss":     {with(nil, object{"iss": []string{iss}}), "claims are malformed"},
		"no aud":            {with(nil, object{"aud": nil}), "jwt-audience"},
		"another aud":       {with(nil, object{"aud": "other"}), "jwt-audience"},
		"no aud in a list":  {with(nil, object{"aud": []string{}}), "jwt-audience"},
		"part of an aud":    {with(nil, object{"aud": "stouter"}), "jwt-audience"},
		"auds in one":       {with(nil, object{"aud": "other stout"}), "jwt-audience"},
		"an aud of objects": {with(nil, object{"aud": object{"stout": 1}}), "claims are malformed"},
		"an aud of numbers": {with(nil, object{"aud": []any{aud, 1}}), "claims are malformed"},

		"no sub":              {with(nil, object{"sub": nil}), "is missing"},
		"an empty sub":        {with(nil, object{"sub": ""}), "is empty"},
		"a number for a sub":  {with(nil, object{"sub": 7}), "claims are malformed"},
		"a list for a sub":    {with(nil, object{"sub": []string{"billing"}}), "claims are malformed"},
		"the root":            {with(nil, object{"sub": "root"}), "it names user:root"},
		"a name too long":     {with(nil, object{"sub": strings.Repeat("x", 257)}), "is not a valid principal name"},
		"a name of two lines": {with(nil, object{"sub": "a\nb"}), "is not a valid principal name"},
		"a name and a NUL":    {with(nil, object{"sub": "root\x00"}), "is not a valid principal name"},
		"an escape":           {with(nil, object{"sub": "a\x1b[2J"}), "is not a valid principal name"},
		"a C1 control":        {with(nil, object{"sub": "a\u009b2J"}), "is not a valid principal name"},
	}
}

// TestBadTokens: each bad token is refused for its own fault, with each algorithm.
// Errors have a bounded length and no control characters.
func TestBadTokens(t *testing.T) {
	j := newJWTs(t, ourKeys())
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		for name, test := range badTokens(alg) {
			p, err := j.Prove(test[0])
			switch {
			case err == nil:
				t.Errorf("%s, %s: accepted as %+v", name, alg, p)
			case !strings.Contains(err.Error(), test[1]):
				t.Errorf("%s, %s: %v, want %q", name, alg, err, test[1])
			case len(err.Error()) > 512 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x9b }):
				t.Errorf("%s, %s: %q", name, alg, err)
			}
		}
	}
}

// Another claim may be set to name the principal; then `sub` does not name it.
func TestClaims(t *testing.T) {
	j := newJWTs(t, ourKeys())
	j.Claim = "https://example.com/name"
	key := ours().key("ES256")
	if _, err := j.Prove(token(goodHeader("ES256"), goodClaims().and(object{j.Claim: []string{"zoe"}}), key)); err == nil || !strings.Contains(err.Error(), "is missing or not a string") {
		t.Errorf("a list: %v", err)
	}
	if p, err := j.Prove(token(goodHeader("ES256"), goodClaims().and(object{j.Claim: "zoe"}), key)); err != nil || p.Principal != "user:zoe" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := j.Prove(good("ES256")); err == nil {
		t.Errorf("a token without the claim: %+v", p)
	}
}

// A token is valid until its expiry plus the leeway, to the second, even if it is
// remembered.
func TestTokensEnd(t *testing.T) {
	j := newJWTs(t, ourKeys())
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		text := token(goodHeader("EdDSA"), goodClaims().and(object{"exp": begin.Unix() + 60}), ours().ed)
		p, err := j.Prove(text)
		if err != nil || !p.Ends.Equal(begin.Add(60*time.Second+Leeway)) {
			t.Fatalf("%+v, %v", p, err)
		}
		time.Sleep(60*time.Second + Leeway - time.Nanosecond)
		if _, err := j.Prove(text); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := j.Prove(text); err == nil || !strings.Contains(err.Error(), "it expired at") {
			t.Errorf("at its end: %v", err)
		}
		if _, err := newJWTs(t, ourKeys()).Prove(text); err == nil {
			t.Error("at its end, a verifier that has not seen it: accepted")
		}
	})
}

// The number of remembered tokens is bounded.
func TestRememberedTokens(t *testing.T) {
	var p proved
	for i := range 3 * mostProved {
		p.add([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, nil)
		if len(p.bySum) > mostProved {
			t.Fatalf("%d tokens are remembered", len(p.bySum))
		}
	}
}

// FuzzMutatedTokens: any text other than the token itself is refused. Four bytes
// each describe an edit: position, byte, and change, removal, insertion or cut.
func FuzzMutatedTokens(f *testing.F) {
	j := newJWTs(f, ourKeys())
	j.Claim = "name" // so that no claim is in an allowed form by chance
	algs := []string{"RS256", "ES256", "EdDSA"}
	var texts []string
	for _, alg := range algs {
		far := goodClaims().and(object{"name": "billing", "exp": time.Now().Unix() + 1<<30})
		texts = append(texts, token(goodHeader(alg), far, ours().key(alg)))
	}
	f.Add(uint8(0), []byte{0, 0, 'A', 0})
	f.Add(uint8(1), []byte{0xff, 0xff, 'B', 0})
	f.Add(uint8(2), []byte{0xff, 0xff, 0, 1})
	f.Add(uint8(1), []byte{0xff, 0xff, '=', 2})
	f.Add(uint8(2), []byte{0, 10, '\n', 2, 0, 40, '.', 0})
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		text := texts[int(which)%len(texts)]
		if _, err := j.Prove(text); err != nil {
			t.Fatal(err)
		}
		mutated := []byte(text)
		for ; len(edits) >= 4 && len(mutated) > 0; edits = edits[4:] {
			at := min(int(edits[0])<<8|int(edits[1]), len(mutated)-1)
			switch edits[3] % 4 {
			case 0:
				mutated[at] = edits[2]
			case 1:
				mutated = append(mutated[:at], mutated[at+1:]...)
			case 2:
				mutated = append(mutated[:at], append([]byte{edits[2]}, mutated[at:]...)...)
			case 3:
				mutated = mutated[:at]
			}
		}
		if bytes.Equal(mutated, []byte(text)) {
			return
		}
		if p, err := j.Prove(string(mutated)); err == nil {
			t.Fatalf("%q is accepted as %+v", mutated, p)
		}
	})
}

// TestLastCharacters: every other last character of each part is refused, even if it
// decodes to the same bytes.
func TestLastCharacters(t *testing.T) {
	j := newJWTs(t, ourKeys())
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		text := good(alg)
		for i := range text {
			if i+1 < len(text) && text[i+1] != '.' {
				continue
			}
			for _, c := range []byte(alphabet) {
				mutated := text[:i] + string(c) + text[i+1:]
				if _, err := j.Prove(mutated); err == nil && mutated != text {
					t.Errorf("%s: %q for %q at %d is accepted", alg, c, text[i], i)
				}
			}
		}
	}
}

// FuzzSignedTokens: any token of the issuer gives a valid principal or an error, but
// never root.
func FuzzSignedTokens(f *testing.F) {
	j := newJWTs(f, ourKeys())
	for _, test := range badTokens("EdDSA") {
		if parts := strings.Split(test[0], "."); len(parts) == 3 {
			header, err1 := b64.DecodeString(parts[0])
			claims, err2 := b64.DecodeString(parts[1])
			if err1 == nil && err2 == nil && len(claims) < 4096 {
				f.Add(string(header), string(claims))
			}
		}
	}
	f.Fuzz(func(t *testing.T, header, claims string) {
		p, err := j.Prove(signed(header, claims, ours().ed))
		if err != nil {
			return
		}
		name, ok := strings.CutPrefix(p.Principal, "user:")
		if !ok || name == "" || name == "root" || len(name) > 256 || !p.Ends.After(time.Now()) {
			t.Fatalf("%+v of %s %s", p, header, claims)
		}
		var h, c map[string]any
		if json.Unmarshal([]byte(header), &h) != nil || json.Unmarshal([]byte(claims), &c) != nil {
			t.Fatalf("%+v of %s %s", p, header, claims)
		}
		_, ends := c["exp"].(float64)
		if h["alg"] != "EdDSA" || h["kid"] != "EdDSA" || c["iss"] != iss || !ends || c["sub"] != name {
			t.Fatalf("%+v of %s %s", p, header, claims)
		}
	})
}
