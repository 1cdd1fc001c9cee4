package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// FuzzDecode decodes a body as each type of request. Accepted bodies mean the
// same to encoding/json, and survive a round trip. Refusals name the field.
// Everything that encoding/json can read is accepted once it is rewritten as
// the contract requires.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, ` { "ttl_ms" : 1000 , "meta" : { } } `, `{"ttl_ms":12000,"name":"billing@host7","meta":{"pid":"811","":"\u0000é"}}`,
		`{"wait_ms":8000,"ack":17}`, `{"ack":9007199254740992}`, `{"to":"r3"}`,
		`{"session":"s","handle":"","mode":"exclusive","limit":0,"wait_ms":0,"queue":false,"lock_delay_ms":0}`,
		`{"session":"s","mode":"shared","limit":1000000,"queue":true}`,
		`{"session":null}`, `{"Session":"s"}`, `{"session":"s","session":"s"}`, `{"session":"\ud800"}`, "{\"session\":\"\xff\"}",
		`{"ttl_ms":1e3}`, `{"ttl_ms":1.5}`, `{"meta":{"a":{"b":1}}}`, `{} x`, `[]`, `null`, "\xef\xbb\xbf{}", `{"a":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkDecode(t, body, lockapi.NewSessionRequest)
		checkDecode(t, body, func() (r lockapi.KeepaliveRequest) { return r })
		checkDecode(t, body, func() lockapi.LockRequest { return lockapi.NewLockRequest("") })
		checkDecode(t, body, func() (r lockapi.TransferRequest) { return r })
	})
}

func checkDecode[T any](t *testing.T, body []byte, fresh func() T) {
	t.Helper()
	got := fresh()
	err := Decode(body, &got)
	other, otherErr := fresh(), error(nil)
	if len(body) > 0 {
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		otherErr = d.Decode(&other)
	}
	switch {
	case err != nil:
		checkBlame(t, body, err)
	case otherErr != nil || !reflect.DeepEqual(got, other):
		t.Errorf("%q is taken for %+v; encoding/json has %+v, %v", body, got, other, otherErr)
	}
	if err == nil || otherErr == nil {
		checkAgain(t, other, fresh())
	}
}

// checkBlame checks that a refusal names a field and quotes little.
func checkBlame(t *testing.T, body []byte, err error) {
	t.Helper()
	e := new(lockapi.Error)
	switch {
	case !errors.As(err, &e) || e.Code != lockapi.CodeInvalidArgument:
		t.Errorf("%q: %v is no invalid_argument", body, err)
	case e.Field == "" || e.Detail == "":
		t.Errorf("%q: %+v does not name a field", body, e)
	case len(e.Field) > 100 || len(e.Detail) > 500 || !utf8.ValidString(e.Field) || !utf8.ValidString(e.Detail):
		t.Errorf("%q: the problem quotes too much, or not UTF-8: %+v", body, e)
	}
}

// checkAgain encodes a request and decodes it over the defaults.
func checkAgain[T any](t *testing.T, request, into T) {
	t.Helper()
	written, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(written, &into); err != nil {
		t.Fatalf("%s is refused: %v", written, err)
	}
	if again, err := json.Marshal(into); err != nil || !bytes.Equal(again, written) {
		t.Fatalf("%s is read as %s, %v", written, again, err)
	}
}
