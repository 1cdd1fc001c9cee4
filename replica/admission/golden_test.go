package admission

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// TestGoldenCard: replicas of two releases exchange cards, so each field keeps
// its number.
func TestGoldenCard(t *testing.T) {
	card := Info{
		Cell: "prod", ID: "r1", Directory: "0123456789abcdef", RaftAddr: "10.0.0.1:7201", Names: []string{"r1", "r2"},
		Founding: Founding{{ID: "r1", Directory: "0123456789abcdef", RaftAddr: "10.0.0.1:7201"}},
		CellID:   "5cfd2797946bf3c3", Members: []string{"r1/0123456789abcdef"}, ConfigIndex: 9, Applied: 10, HasLeader: true,
		Version: "v1.0.0", Leads: true, Stored: Stored{Term: 11, Index: 12, Lost: true}, Voters: []string{"r1/0123456789abcdef"},
		Level: 13, Access: "digest", Sync: 14, Writing: 15, Unsent: 16, Removed: []string{"r2/fedcba9876543210", "r2"}, Addrs: []string{"10.0.0.1:7201"},
	}
	for f, v := range reflect.ValueOf(card).Fields() {
		if v.IsZero() {
			t.Errorf("%s is empty", f.Name)
		}
	}
	raw, err := cbor.Marshal(card)
	const want = "" +
		"b6016470726f6402627231037030313233343536373839616263646566046d31302e302e302e313a37323031058262723162" +
		"72320681a301627231027030313233343536373839616263646566036d31302e302e302e313a373230310770356366643237" +
		"3937393436626633633308817372312f3031323334353637383961626364656609090a0a0bf50c6676312e302e300df50ea3" +
		"010b020c03f50f817372312f30313233343536373839616263646566100d1166646967657374120e130f1410" +
		"15827372322f6665646362613938373635343332313062723216816d31302e302e302e313a37323031"
	if got := hex.EncodeToString(raw); err != nil || got != want {
		t.Errorf("%v: it is\n%s and was\n%s", err, got, want)
	}
	var again Info
	if err := cbor.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again, card) {
		t.Errorf("read %+v, %v", again, err)
	}
}
