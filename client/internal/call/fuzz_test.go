package call

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// answerOf gives every request the same answer. It writes requests as a client
// connection would.
type answerOf struct {
	status                 int
	body, master, retryFor string
	sent                   int
}

func (a *answerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent++
	if err := r.Write(io.Discard); err != nil {
		return nil, err
	}
	h := http.Header{}
	for name, value := range map[string]string{lockapi.HeaderMaster: a.master, "Retry-After": a.retryFor} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Header: h, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// FuzzAnswer: any answer to a call becomes success or an error with a known
// code. Only an answer of the contract counts as proof that the call had no
// effect. The client continues at an address that can be called.
func FuzzAnswer(f *testing.F) {
	f.Add(200, `{"path":"/a","state":"held","holders":[{"token":1}],"waiters":0}`, "http://r1", "")
	f.Add(201, `{"id":"s1","ttl_ms":12000,"epoch":3,"created_at":"2026-01-02T03:04:05.6Z","meta":{}}`, "http://r2", "")
	f.Add(204, ``, "http://r2:7101/stout/", "")
	f.Add(200, `[`, "", "")
	f.Add(423, `{"status":423,"code":"lock_held","detail":"x","holders":[{"session":"s","token":2}]}`, "http://r1", "")
	f.Add(429, `{"code":"too_many"}`, "", "7")
	f.Add(421, `{"code":"not_master","master":"http://r2:7101"}`, "http://r2:7101", "")
	f.Add(421, `{"code":"not_master","master":"http://[::1%25x]:0"}`, "://", "")
	f.Add(503, `{"code":"no_master"}`, "", "-1")
	f.Add(503, `<html>Service Unavailable</html>`, "", "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Add(504, `{"code":"GATEWAY_TIMEOUT","message":"upstream"}`, "", "")
	f.Add(502, `{"code":"lock_held"}`, "", "")
	f.Add(302, ``, "", "")
	f.Add(404, `null`, "", "")
	f.Fuzz(func(t *testing.T, status int, body, master, retryFor string) {
		if status < 200 || status > 999 { // net/http handles the others
			return
		}
		for _, q := range someCalls() {
			checkAnswer(t, &q, &answerOf{status: status, body: body, master: master, retryFor: retryFor})
		}
	})
}

// someCalls returns a call for each type of answer.
func someCalls() []Call {
	outs := []any{nil, &lockapi.Session{}, &lockapi.SessionState{}, &lockapi.Keepalive{}, &lockapi.Grant{}, &lockapi.Released{},
		&lockapi.Lock{}, &lockapi.LockList{}, &lockapi.SequencerCheck{}, &lockapi.Cell{}, &lockapi.Replica{}, &lockapi.Transferred{},
		&lockapi.File{}, &lockapi.FileList{}, &lockapi.FileStat{}, &lockapi.FilesDeleted{}, &lockapi.TransactionResult{}, &lockapi.EventList{}}
	all := make([]Call, len(outs))
	for i, out := range outs {
		all[i] = Call{Method: http.MethodPost, Path: "/v1/locks/a b", Body: []byte("{}"), Fields: [][2]string{{lockapi.HeaderIdempotencyKey, "k"}}, Out: out, NoRetry: i%2 == 0}
	}
	return all
}

func checkAnswer(t *testing.T, q *Call, a *answerOf) {
	t.Helper()
	c := callerOf(t, a, "http://r1", "http://r2")
	for range 3 { // each at the replica that the previous answer led to
		r := c.router.pick()
		err := c.Attempt(t.Context(), r, q)
		refused := new(lockapi.Error)
		switch {
		case err == nil && a.status >= 300:
			t.Fatalf("%d %q counts as a success", a.status, a.body)
		case err == nil:
			continue
		case !errors.As(err, &refused):
			t.Fatalf("%d %q: %T %v is no *lockapi.Error", a.status, a.body, err, err)
		}
		if refused.Error() == "" || refused.RetryAfter < 0 || !slices.Contains(lockapi.Codes(), refused.Code) {
			t.Fatalf("%d %q: %+v", a.status, a.body, refused)
		}
		if !q.effective && (a.status < 300 || a.status >= 500 && refused.Code.Status() != a.status) {
			t.Fatalf("%d %q counts as a call without effect: %v", a.status, a.body, err)
		}
		if next, _ := c.classify(t.Context(), r, q, err); next == redirect && refused.Code != lockapi.CodeNotMaster {
			t.Fatalf("%v redirects", err)
		}
	}
	if a.sent != 3 {
		t.Fatalf("%d requests were sent", a.sent)
	}
}

// callerOf returns a caller of replicas that a transport answers for.
func callerOf(t *testing.T, transport http.RoundTripper, urls ...string) *Caller {
	t.Helper()
	c, err := New(Settings{URLs: urls, Transport: transport, Scheme: "http", Log: slog.New(slog.DiscardHandler), Now: func() time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
