package server_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// refusedTransactions have one fault each, and the place that the answer names.
var refusedTransactions = []struct{ body, field string }{
	{`[]`, "body"},
	{`{"then":[}`, "then[0]"},
	{`{"session":""}`, "session"},
	{`{"session":"","then":[{"put":{"path":"/a","content":"x"}}]}`, "session"},
	{`{"session":"","then":[{"acquire":{"path":"/a"}}]}`, "session"},
	{`{"session":"\u0000","then":[{"get":{"path":"a"}}]}`, "then[0].get.path"},
	{`{"when":[]}`, "when"},
	{`{"session":1}`, "session"},
	{`{"then":{}}`, "then"},
	{`{"then":null}`, "then"},
	{`{"then":[null]}`, "then[0]"},
	{`{"then":[1]}`, "then[0]"},
	{`{"then":[{}]}`, "then[0]"},
	{`{"then":[{"put":{"path":"/a"}},{"put":{"path":"/a"},"get":{"path":"/a"}}]}`, "then[1]"},
	{`{"then":[{"write":{"path":"/a"}}]}`, "then[0].write"},
	{`{"then":[{"put":{"path":"/a","contents":"x"}}]}`, "then[0].put.contents"},
	{`{"then":[{"put":{"path":"a"}}]}`, "then[0].put.path"},
	{`{"then":[{"put":{}}]}`, "then[0].put.path"},
	{`{"then":[{"put":{"path":"/a/"}}]}`, "then[0].put.path"},
	{`{"then":[{"put":{"path":"/a","content":"x","content_base64":""}}]}`, "then[0].put.content_base64"},
	{`{"then":[{"put":{"path":"/a","content_base64":"*"}}]}`, "then[0].put.content_base64"},
	{`{"then":[{"put":{"path":"/a","content":"\ud800"}}]}`, "then[0].put.content"},
	{`{"then":[{"put":{"path":"/a","content":"` + strings.Repeat("x", lockapi.MaxFileBytes+1) + `"}}]}`, "then[0].put.content"},
	{`{"then":[{"put":{"path":"/a","ephemeral":true}}]}`, "then[0].put.ephemeral"},
	{`{"then":[{"put":{"path":"/a","ephemeral":1}}]}`, "then[0].put.ephemeral"},
	{`{"else":[{"create":{"path":"//"}}]}`, "else[0].create.path"},
	{`{"else":[{"create_sequential":{"path":"/` + strings.Repeat("x", 240) + `"}}]}`, "else[0].create_sequential.path"},
	{`{"then":[{"delete":{"path":"/a","revision":1}}]}`, "then[0].delete.revision"},
	{`{"then":[{"delete":{"path":""}}]}`, "then[0].delete.path"},
	{`{"then":[{"get":{"path":"/.."}}]}`, "then[0].get.path"},
	{`{"then":[{"acquire":{"path":"/a"}}]}`, "then[0].acquire.path"},
	{`{"session":"s1","then":[{"acquire":{"path":"/a","mode":"all"}}]}`, "then[0].acquire.mode"},
	{`{"session":"s1","then":[{"acquire":{"path":"/a","limit":2}}]}`, "then[0].acquire.limit"},
	{`{"session":"s1","then":[{"acquire":{"path":"/a","wait_ms":2}}]}`, "then[0].acquire.wait_ms"},
	{`{"session":"s1","then":[{"acquire":{"path":"/a","lock_delay_ms":60001}}]}`, "then[0].acquire.lock_delay_ms"},
	{`{"session":"s1","then":[{"acquire":{"path":"/a","handle":"` + strings.Repeat("h", 65) + `"}}]}`, "then[0].acquire.handle"},
	{`{"session":"s1","then":[{"acquire":{"path":"a"}}]}`, "then[0].acquire.path"},
	{`{"then":[{"release":{"path":"/a"}}]}`, "then[0].release.path"},
	{`{"session":"s1","then":[{"release":{"path":"/a","token":-1}}]}`, "then[0].release.token"},
	{`{"session":"s1","then":[{"release":{"path":"/a","token":9007199254740992}}]}`, "then[0].release.token"},
	{`{"if":[{}]}`, "if[0]"},
	{`{"if":[{"file":"/a"}]}`, "if[0].revision"},
	{`{"if":[{"file":"/a","revision":1,"exists":true}]}`, "if[0].revision"},
	{`{"if":[{"file":"/a","revision":0}]}`, "if[0].revision"},
	{`{"if":[{"file":"/a","revision":"57"}]}`, "if[0].revision"},
	{`{"if":[{"file":"/a","revision":1.5}]}`, "if[0].revision"},
	{`{"if":[{"file":"a","exists":true}]}`, "if[0].file"},
	{`{"if":[{"exists":true}]}`, "if[0]"},
	{`{"if":[{"session":"s1","exists":true}]}`, "if[0].file"},
	{`{"if":[{"file":"/a","exists":true},{"file":"/a","session":"s1"}]}`, "if[1]"},
	{`{"if":[{"sequencer":"42"}]}`, "if[0].sequencer"},
	{`{"if":[{"lock":"/a"}]}`, "if[0].state"},
	{`{"if":[{"lock":"/a","state":"held"}]}`, "if[0].state"},
	{`{"if":[{"lock":"a","state":"free"}]}`, "if[0].lock"},
	{`{"if":[{"session":"s1","state":"free"}]}`, "if[0].lock"},
	{`{"then":[` + strings.TrimSuffix(strings.Repeat(`{"get":{"path":"/a"}},`, 129), ",") + `]}`, "body"},
}

// TestRefusedTransactions: each gets 400 with the place of the fault, without
// an effect.
func TestRefusedTransactions(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, c := range refusedTransactions {
		for _, n := range []*node{master, replica} {
			got := call(t, "POST", n.url+"/v1/transactions", c.body)
			if got.status != 400 || got.problem(t).Field != c.field {
				t.Errorf("%.80s of %s: %d, want 400 for %s: %.300s", c.body, n.id, got.status, c.field, got.body)
			}
		}
	}
	for _, headers := range [][]string{{"Idempotency-Key", "k"}, {"Idempotency-Key", ""}} {
		if e := call(t, "POST", master.url+"/v1/transactions", "{}", headers...).wantCode(t, lockapi.CodeInvalidArgument); e.Field != "Idempotency-Key" {
			t.Errorf("%q: %+v", headers, e)
		}
	}
	long := `{"then":[{"put":{"path":"/a","content":"x"}}]}` + strings.Repeat(" ", lockapi.MaxTransactionBytes)
	call(t, "POST", replica.url+"/v1/transactions", long).wantCode(t, lockapi.CodeTooLarge)
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("calls went on to the master: %q", calls)
	}
}

// TestTransactions: valid transactions reach the master unchanged.
func TestTransactions(t *testing.T) {
	master, replica := startPair(t, nil)
	for _, c := range []struct{ body, made string }{
		{``, `{}`},
		{`{}`, `{}`},
		{`{"then":[{"put":{"path":"/a"}}]}`, `{"then":[{"put":{"path":"/a"}}]}`},
		{`{"session":"s1","if":[{"file":"/a","exists":false},{"file":"/b","revision":57},{"sequencer":"shared:1:/l"},{"session":"s2"},{"lock":"/x","state":"free"}],"else":[{"get":{"path":"/a"}}]}`,
			`{"session":"s1","if":[{"file":"/a","exists":false},{"file":"/b","revision":57},{"sequencer":"shared:1:/l"},{"session":"s2"},{"lock":"/x","state":"free"}],"else":[{"get":{"path":"/a"}}]}`},
		{`{"session":"s1","then":[{"acquire":{"path":"/x","handle":"","mode":"exclusive","limit":0,"lock_delay_ms":0}},{"release":{"path":"/x","handle":"","token":42}}]}`,
			`{"session":"s1","then":[{"acquire":{"path":"/x","mode":"exclusive"}},{"release":{"path":"/x","token":42}}]}`},
		{`{"then":[{"create":{"path":"/a","content_base64":"` + base64.StdEncoding.EncodeToString([]byte("\x00\xff")) + `","ephemeral":false}},{"create_sequential":{"path":"/q/"}}]}`,
			`{"then":[{"create":{"path":"/a","content_base64":"AP8=","ephemeral":false}},{"create_sequential":{"path":"/q/"}}]}`},
	} {
		for _, n := range []*node{master, replica} {
			master.forget()
			got := call(t, "POST", n.url+"/v1/transactions", c.body)
			if calls := master.made(); len(calls) != 1 || calls[0] != strings.TrimSuffix("Transact "+c.made, " {}") {
				t.Errorf("%s of %s: made %q; answer %d %s", c.body, n.id, calls, got.status, got.body)
			}
		}
	}
	master.addSession(lockapi.Session{ID: "s1"})
	for _, replayed := range []string{"", "true"} {
		got := call(t, "POST", replica.url+"/v1/transactions", `{"session":"s1"}`, "Idempotency-Key", "k")
		if got.status != 200 || got.header.Get(lockapi.HeaderReplayed) != replayed || !strings.Contains(got.body, `"succeeded":true`) {
			t.Errorf("%d %v %s", got.status, got.header, got.body)
		}
	}
}
