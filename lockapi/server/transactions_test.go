package server_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// TestRefusedTransactions: the answer names the place of the fault.
func TestRefusedTransactions(t *testing.T) {
	master, replica := startPair(t, nil)
	refuse(t, []refusals{
		{"body", "POST /v1/transactions []", nil},
		{"then[0]", `POST /v1/transactions {"then":[}`, nil},
		{"session", "POST /v1/transactions ", []string{
			`{"session":""}`, `{"session":"","then":[{"put":{"path":"/a","content":"x"}}]}`,
			`{"session":"","then":[{"acquire":{"path":"/a"}}]}`,
		}},
		{"then[0].get.path", `POST /v1/transactions {"session":"\u0000","then":[{"get":{"path":"a"}}]}`, nil},
		{"when", `POST /v1/transactions {"when":[]}`, nil},
		{"session", `POST /v1/transactions {"session":1}`, nil},
		{"then", "POST /v1/transactions ", []string{`{"then":{}}`, `{"then":null}`}},
		{"then[0]", "POST /v1/transactions ", []string{`{"then":[null]}`, `{"then":[1]}`, `{"then":[{}]}`}},
		{"then[1]", `POST /v1/transactions {"then":[{"put":{"path":"/a"}},{"put":{"path":"/a"},"get":{"path":"/a"}}]}`, nil},
		{"then[0].write", `POST /v1/transactions {"then":[{"write":{"path":"/a"}}]}`, nil},
		{"then[0].put.contents", `POST /v1/transactions {"then":[{"put":{"path":"/a","contents":"x"}}]}`, nil},
		{"then[0].put.path", "POST /v1/transactions ", []string{
			`{"then":[{"put":{"path":"a"}}]}`, `{"then":[{"put":{}}]}`, `{"then":[{"put":{"path":"/a/"}}]}`,
		}},
		{"then[0].put.content_base64", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","content":"x","content_base64":""}}]}`, `a","content_base64":"*"}}]}`,
		}},
		{"then[0].put.content", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","content":"\ud800"}}]}`,
			`a","content":"` + strings.Repeat("x", lockapi.MaxFileBytes+1) + `"}}]}`,
		}},
		{"then[0].put.ephemeral", `POST /v1/transactions {"then":[{"put":{"path":"/`, []string{
			`a","ephemeral":true}}]}`, `a","ephemeral":1}}]}`,
		}},
		{"else[0].create.path", `POST /v1/transactions {"else":[{"create":{"path":"//"}}]}`, nil},
		{"else[0].create_sequential.path", `POST /v1/transactions {"else":[{"create_sequential":{"path":"/` + strings.Repeat("x", 240) + `"}}]}`, nil},
		{"then[0].delete.revision", `POST /v1/transactions {"then":[{"delete":{"path":"/a","revision":1}}]}`, nil},
		{"then[0].delete.path", `POST /v1/transactions {"then":[{"delete":{"path":""}}]}`, nil},
		{"then[0].get.path", `POST /v1/transactions {"then":[{"get":{"path":"/.."}}]}`, nil},
		{"then[0].acquire.path", `POST /v1/transactions {"then":[{"acquire":{"path":"/a"}}]}`, nil},
		{"then[0].acquire.mode", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","mode":"all"}}]}`, nil},
		{"then[0].acquire.limit", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","limit":2}}]}`, nil},
		{"then[0].acquire.wait_ms", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","wait_ms":2}}]}`, nil},
		{"then[0].acquire.lock_delay_ms", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","lock_delay_ms":60001}}]}`, nil},
		{"then[0].acquire.handle", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"/a","handle":"` + strings.Repeat("h", 65) + `"}}]}`, nil},
		{"then[0].acquire.path", `POST /v1/transactions {"session":"s1","then":[{"acquire":{"path":"a"}}]}`, nil},
		{"then[0].release.path", `POST /v1/transactions {"then":[{"release":{"path":"/a"}}]}`, nil},
		{"then[0].release.token", `POST /v1/transactions {"session":"s1","then":[{"release":{"path":"/`, []string{
			`a","token":-1}}]}`, `a","token":9007199254740992}}]}`,
		}},
		{"if[0]", `POST /v1/transactions {"if":[{}]}`, nil},
		{"if[0].revision", `POST /v1/transactions {"if":[{"file":"/`, []string{
			`a"}]}`, `a","revision":1,"exists":true}]}`, `a","revision":0}]}`, `a","revision":"57"}]}`,
			`a","revision":1.5}]}`,
		}},
		{"if[0].file", `POST /v1/transactions {"if":[{"file":"a","exists":true}]}`, nil},
		{"if[0]", `POST /v1/transactions {"if":[{"exists":true}]}`, nil},
		{"if[0].file", `POST /v1/transactions {"if":[{"session":"s1","exists":true}]}`, nil},
		{"if[1]", `POST /v1/transactions {"if":[{"file":"/a","exists":true},{"file":"/a","session":"s1"}]}`, nil},
		{"if[0].sequencer", `POST /v1/transactions {"if":[{"sequencer":"42"}]}`, nil},
		{"if[0].state", `POST /v1/transactions {"if":[{"lock":"/`, []string{`a"}]}`, `a","state":"held"}]}`}},
		{"if[0].lock", "POST /v1/transactions ", []string{
			`{"if":[{"lock":"a","state":"free"}]}`, `{"if":[{"session":"s1","state":"free"}]}`,
		}},
		{"body", `POST /v1/transactions {"then":[` + strings.TrimSuffix(strings.Repeat(`{"get":{"path":"/a"}},`, 129), ",") + "]}", nil},
	}, master, replica)
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
