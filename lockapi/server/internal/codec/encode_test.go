package codec

import (
	"bytes"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// TestProblemsAsTheContractWritesThem compares a problem document as sent with
// the output of MarshalJSON.
func TestProblemsAsTheContractWritesThem(t *testing.T) {
	holder := lockapi.Holder{Session: "s", SessionName: "n", Mode: lockapi.Shared, Token: lockapi.MaxToken, GrantedAt: time.Unix(1, 5).UTC()}
	for _, e := range []*lockapi.Error{
		lockapi.Errorf(lockapi.CodeLockHeld, "<&> \u2028 \" \\ \x00 é"),
		lockapi.Invalid("name", "not UTF-8: \xff"),
		{Code: lockapi.CodeLockHeld, Holders: []lockapi.Holder{holder}, DelayRemainingMS: 7},
		{Code: lockapi.CodeLockHeld, Holders: []lockapi.Holder{}},
		{Code: lockapi.CodeNotMaster, Master: "http://m"},
		{Code: "of_tomorrow", RetryAfter: 3},
	} {
		got, err := EncodeProblem(e.Problem())
		if err != nil {
			t.Fatal(err)
		}
		want, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		want.Release()
		got.Release()
	}
}
