package peerconn

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

// TestGoldenOpening: replicas of two releases connect to each other. A change
// of their first bytes must not go unnoticed.
func TestGoldenOpening(t *testing.T) {
	hello := Hello{Kind: Call, Cell: "prod", CellID: "5cfd2797946bf3c3", From: "r2/b", To: "r1/a"}
	for what, tc := range map[string]struct {
		say, into any
		want      string
	}{
		"hello": {&hello, new(Hello), "73746f75742d7265706c6963612d310a00000027a50102026470726f64037035636664323739373934366266336333046472322f62056472312f61"},
		"reply": {&reply{Refused: "why", Info: []byte("card")}, new(reply), "73746f75742d7265706c6963612d310a0000000ca20163776879024463617264"},
	} {
		var b bytes.Buffer
		if err := writeFrame(&b, magic, tc.say); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(b.Bytes()); got != tc.want {
			t.Errorf("%s is\n%s and was\n%s", what, got, tc.want)
		}
		if err := readFrame(&b, magic, tc.into); err != nil || !reflect.DeepEqual(tc.into, tc.say) {
			t.Errorf("%s: read %+v, %v", what, tc.into, err)
		}
	}
}

// TestOpeningOfAnotherVersion is refused with any following data.
func TestOpeningOfAnotherVersion(t *testing.T) {
	err := readFrame(strings.NewReader("stout-replica-2\n\x00\x00\x00\x01\xa0"), magic, new(Hello))
	if err == nil || !strings.Contains(err.Error(), "does not come from a Stout replica of this version") {
		t.Error(err)
	}
}
