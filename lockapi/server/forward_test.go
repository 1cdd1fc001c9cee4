package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// patient allows a long search for a master, in tests that find one.
func patient(o *server.Options) { o.ForwardTimeout = patience }

// TestForwardingKeepsEveryByte: a URL means the same at a replica as at the
// master, with any byte in its path or its query.
func TestForwardingKeepsEveryByte(t *testing.T) {
	master, replica := startPair(t, nil)
	for c := '!'; c <= 0xff; c++ {
		for _, target := range []string{"/v1/files?prefix=/a/%sx/", "/v1/files/a%sx"} {
			target = fmt.Sprintf(target, []byte{byte(c)})
			var status [2]int
			var made [2][]string
			for i, n := range []*node{master, replica} {
				status[i] = raw(t, n, "DELETE", "DELETE "+target+" HTTP/1.1\r\nHost: localhost\r\n\r\n").status
				made[i] = master.made()
				master.forget()
			}
			if status[0] != status[1] || !slices.Equal(made[0], made[1]) {
				t.Errorf("%q: %v, calls %q", target, status, made)
			}
		}
	}
}

func TestForwardingKeepsTheCall(t *testing.T) {
	var got struct {
		method, target, body string
		header               http.Header
	}
	master := startOther(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.method, got.target, got.body, got.header = r.Method, r.RequestURI, string(body), r.Header
		w.Header().Set("Stout-Epoch", "9")
		w.Header().Set("Stout-Master", "http://m")
		w.Header().Set("Stout-Later", "x")
		w.Header().Set("Other", "x")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"code":"too_many"}`)
	})
	replica := startReplica(t, master.URL, nil)

	answer := call(t, "PUT", replica.url+"/v1/locks/a%20b/%C3%A9", `{ "session":"s"}`, "Other", "x")
	if got.method != "PUT" || got.target != "/v1/locks/a%20b/%C3%A9" || got.body != `{ "session":"s"}` {
		t.Errorf("forwarded %s %s %s", got.method, got.target, got.body)
	}
	if got.header.Get("Stout-Forward") != "never" || got.header.Get("Other") != "" || got.header.Get("Accept-Encoding") != "" {
		t.Errorf("forwarded headers %v", got.header)
	}
	want := map[string]string{"Stout-Epoch": "9", "Stout-Master": "http://m", "Stout-Later": "x", "Other": "", "Retry-After": "5", "Content-Type": "application/problem+json", "Content-Length": "19"}
	for name, value := range want {
		if v := answer.header.Get(name); v != value {
			t.Errorf("%s is %q, want %q", name, v, value)
		}
	}
	if answer.status != http.StatusTooManyRequests || answer.body != `{"code":"too_many"}` {
		t.Errorf("answer %d %s", answer.status, answer.body)
	}
	call(t, "POST", replica.url+"/v1/sessions", "", "Idempotency-Key", "k é")
	if got.header.Get("Idempotency-Key") != "k é" {
		t.Errorf("forwarded headers %v", got.header)
	}
	call(t, "DELETE", replica.url+"/v1/locks/a?session=s%26&handle=h+i&token=42", "")
	if got.method != "DELETE" || got.target != "/v1/locks/a?session=s%26&handle=h+i&token=42" || got.body != "" {
		t.Errorf("forwarded %s %s %s", got.method, got.target, got.body)
	}
}

// TestTransferWithoutAnOffice: a Raft leader accepts a transfer even if its
// office is not open, and also from a forwarding replica. It accepts no other
// call.
func TestTransferWithoutAnOffice(t *testing.T) {
	leader, replica := startPair(t, nil)
	leader.setLeads()
	for _, at := range []string{leader.url, replica.url} {
		call(t, "POST", at+"/v1/cell/transfer", `{"to":"r2"}`).wantStatus(t, 200)
		call(t, "POST", at+"/v1/sessions", "").wantCode(t, lockapi.CodeNoMaster)
	}
}

func TestAnswersOfTheMasterPass(t *testing.T) {
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	call(t, "POST", replica.url+"/v1/sessions", "").wantStatus(t, 201)
	call(t, "DELETE", replica.url+"/v1/sessions/s9", "").wantStatus(t, 204)
	call(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s1"}`).wantStatus(t, 200)
	held := call(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s1","handle":"h"}`).wantCode(t, lockapi.CodeLockHeld)
	if len(held.Holders) != 1 {
		t.Errorf("holders %v", held.Holders)
	}
	master.setHook(func(context.Context, string) error { return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "x") })
	call(t, "POST", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeOutcomeUnknown)
	master.setHook(func(context.Context, string) error { panic("x") })
	call(t, "POST", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeInternal)
}

// The answer of any server in the master's place is counted and passed on.
func TestAnswersWithOddStatusPass(t *testing.T) {
	for _, status := range []int{599, 600, 999} {
		other := startOther(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		replica := startReplica(t, other.URL, nil)
		call(t, "DELETE", replica.url+"/v1/sessions/s", "").wantStatus(t, status)
	}
}

func TestForwardNever(t *testing.T) {
	master, replica := startPair(t, nil)
	got := call(t, "POST", replica.url+"/v1/sessions", "", "Stout-Forward", "never")
	if e := got.wantCode(t, lockapi.CodeNotMaster); e.Master != master.url || got.header.Get("Stout-Master") != master.url {
		t.Errorf("%s %v", got.body, got.header)
	}
	if calls := append(master.made(), replica.made()...); len(calls) > 0 {
		t.Errorf("calls were made: %q", calls)
	}
	call(t, "POST", master.url+"/v1/sessions", "", "Stout-Forward", "never").wantStatus(t, 201)
	// Invalid calls are refused before the search for a master.
	call(t, "PUT", replica.url+"/v1/locks/a", "{", "Stout-Forward", "never").wantCode(t, lockapi.CodeInvalidArgument)
}

func TestNoMaster(t *testing.T) {
	n := startNode(t, "r1", nil)
	for _, header := range [][]string{nil, {"Stout-Forward", "never"}} {
		got := call(t, "POST", n.url+"/v1/sessions", "", header...)
		got.wantCode(t, lockapi.CodeNoMaster)
		if got.header.Get("Retry-After") != "1" || got.header.Get("Stout-Master") != "" {
			t.Errorf("headers %v", got.header)
		}
	}
}

func TestMasterIsAwaited(t *testing.T) {
	n := startNode(t, "r1", patient)
	answered := calling(t, "POST", n.url+"/v1/sessions", "")
	eventually(t, "the call is there", func() bool { return inFlight(t, n) == 1 })
	n.setMaster(1, "r1", n.url)
	(<-answered).wantStatus(t, 201)
}

func inFlight(t *testing.T, n *node) int {
	t.Helper()
	return int(gauge(t, n, "stout_http_requests_in_flight"))
}

// Each replica takes the other for the master: the call still ends.
func TestNoLoops(t *testing.T) {
	a, b := startNode(t, "r1", nil), startNode(t, "r2", nil)
	a.setMaster(1, "r2", b.url)
	b.setMaster(1, "r1", a.url)
	call(t, "POST", a.url+"/v1/sessions", "").wantCode(t, lockapi.CodeNoMaster)
	call(t, "GET", a.url+"/v1/locks/a", "").wantCode(t, lockapi.CodeNoMaster)
	call(t, "POST", a.url+"/v1/sessions", "", "Stout-Forward", "never").wantCode(t, lockapi.CodeNotMaster)
}

// The replica known as the master is not the master: the call follows to the
// new one.
func TestMovedMasterIsFollowed(t *testing.T) {
	for name, old := range map[string]func(t *testing.T, master *node) (url string){
		"answers 421": func(t *testing.T, master *node) string {
			n := startNode(t, "r1", nil)
			n.setMaster(3, "r3", master.url)
			return n.url
		},
		"answers no_master": func(t *testing.T, _ *node) string { return startNode(t, "r1", nil).url },
		"is down":           func(t *testing.T, _ *node) string { return "http://" + closedAddr(t) },
	} {
		t.Run(name, func(t *testing.T) {
			master := startNode(t, "r3", nil)
			master.setMaster(4, "r3", master.url)
			replica := startReplica(t, old(t, master), patient)
			answered := calling(t, "POST", replica.url+"/v1/sessions", "")
			eventually(t, "the old master was tried", func() bool { return gauge(t, replica, "stout_http_forwarded_total") > 0 })
			replica.setMaster(4, "r3", master.url)
			(<-answered).wantStatus(t, 201)
			if calls := master.made(); len(calls) != 1 {
				t.Errorf("the master was called %q", calls)
			}
		})
	}
}

// breaking starts a server that accepts each call and breaks its connection.
func breaking(t *testing.T) (url string, taken *atomic.Int64) {
	taken = new(atomic.Int64)
	s := startOther(t, func(http.ResponseWriter, *http.Request) {
		taken.Add(1)
		panic(http.ErrAbortHandler)
	})
	return s.URL, taken
}

func TestLostAnswers(t *testing.T) {
	url, taken := breaking(t)
	replica := startReplica(t, url, nil)
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/v1/sessions", ""},
		{"PUT", "/v1/locks/a", `{"session":"s"}`},
		{"DELETE", "/v1/locks/a?session=s", ""},
		{"DELETE", "/v1/sessions/s", ""},
		{"POST", "/v1/cell/transfer", ""},
	} {
		taken.Store(0)
		call(t, c.method, replica.url+c.target, c.body).wantCode(t, lockapi.CodeOutcomeUnknown)
		if n := taken.Load(); n != 1 {
			t.Errorf("%s %s was sent %d times", c.method, c.target, n)
		}
	}
	for _, target := range []string{"/v1/locks/a", "/v1/locks", "/v1/sessions", "/v1/sessions/s", "/v1/sequencers?value=shared:1:/a"} {
		call(t, "GET", replica.url+target, "").wantCode(t, lockapi.CodeNoMaster)
	}
	call(t, "POST", replica.url+"/v1/sessions/s/keepalive", "").wantCode(t, lockapi.CodeNoMaster)
}

// A keyed call is sent again after a lost answer. The first attempt may have taken effect even if later ones do not, so the caller never gets the
// guarantee of no effect.
func TestLostAnswersUnderAKey(t *testing.T) {
	t.Parallel()
	calls := []struct{ method, target, body string }{
		{"PUT", "/v1/files/a?session=s", "x"},
		{"POST", "/v1/files/a-?session=s", "x"},
		{"DELETE", "/v1/files/a?session=s", ""},
		{"POST", "/v1/transactions", `{"session":"s","then":[{"get":{"path":"/a"}}]}`},
	}
	url, taken := breaking(t)
	lost := startReplica(t, url, nil)
	for _, c := range calls {
		taken.Store(0)
		call(t, c.method, lost.url+c.target, c.body, "Idempotency-Key", "k").wantCode(t, lockapi.CodeOutcomeUnknown)
		if taken.Load() == 0 {
			t.Errorf("%s %s was not sent", c.method, c.target)
		}
	}
	// The refusal of the next attempt is passed on only if it settles the first
	// one.
	master, hasty := startPair(t, nil)
	calm := startReplica(t, master.url, patient)
	for _, code := range lockapi.Codes() {
		refuse := func(context.Context, string) error { return lockapi.Errorf(code, "x") }
		want := lockapi.CodeOutcomeUnknown
		if code.Settles() {
			want = code
		}
		retried := code == lockapi.CodeNoMaster || code == lockapi.CodeNotMaster || code == lockapi.CodeOutcomeUnknown
		replica := calm
		if retried {
			replica = hasty // no attempt succeeds
		}
		for i, c := range calls {
			if retried && i > 0 {
				continue // takes a while
			}
			var made atomic.Int64
			master.setHook(func(ctx context.Context, name string) error {
				if made.Add(1) == 1 {
					return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "x")
				}
				return refuse(ctx, name)
			})
			call(t, c.method, replica.url+c.target, c.body, "Idempotency-Key", "k").wantCode(t, want)
			if retried && code != lockapi.CodeNoMaster {
				continue
			}
			master.setHook(refuse)
			call(t, c.method, replica.url+c.target, c.body, "Idempotency-Key", "k").wantCode(t, code)
		}
	}
}

// The replica that lost an answer is the master itself at the next attempt.
func TestLostAnswerBeforeItsOwnRefusal(t *testing.T) {
	for _, code := range []lockapi.Code{lockapi.CodePermissionDenied, lockapi.CodePrecondition} {
		replica := startNode(t, "r2", nil)
		replica.setHook(func(context.Context, string) error { return lockapi.Errorf(code, "x") })
		before := startOther(t, func(http.ResponseWriter, *http.Request) {
			replica.setMaster(4, "r2", replica.url)
			panic(http.ErrAbortHandler)
		})
		replica.setMaster(3, "r1", before.URL)
		want := lockapi.CodeOutcomeUnknown
		if code.Settles() {
			want = code
		}
		call(t, "PUT", replica.url+"/v1/files/a?session=s", "x", "Idempotency-Key", "k").wantCode(t, want)
	}
}

// The answer breaks off in the middle.
func TestHalfAnAnswerIsNone(t *testing.T) {
	master := startOther(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":`)
		panic(http.ErrAbortHandler)
	})
	replica := startReplica(t, master.URL, nil)
	call(t, "POST", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeOutcomeUnknown)
	call(t, "GET", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeNoMaster)
}

// The connection breaks during the call. Package http would send a keyed call
// again by itself; it is sent once.
func TestCallIsSentOnce(t *testing.T) {
	var taken atomic.Int64
	type key struct{}
	master := startOther(t, func(_ http.ResponseWriter, r *http.Request) {
		taken.Add(1)
		_ = r.Context().Value(key{}).(net.Conn).Close()
	}, func(s *httptest.Server) {
		s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, c) }
	})
	replica := startReplica(t, master.URL, nil)
	for n := range int64(3) {
		call(t, "POST", replica.url+"/v1/sessions", "", "Idempotency-Key", "k1").wantCode(t, lockapi.CodeOutcomeUnknown)
		if got := taken.Load(); got != n+1 {
			t.Errorf("the call was sent %d times", got-n)
		}
	}
}

// A call without an effect that a repetition could double survives a change of
// master.
func TestRepeatableCallIsSentAgainToTheNextMaster(t *testing.T) {
	for _, c := range []struct{ method, target string }{
		{"GET", "/v1/locks/a"},
		{"POST", "/v1/sessions/s/keepalive"},
	} {
		url, taken := breaking(t)
		master := startNode(t, "r3", nil)
		master.setMaster(4, "r3", master.url)
		master.addSession(lockapi.Session{ID: "s"})
		replica := startReplica(t, url, patient)
		answered := calling(t, c.method, replica.url+c.target, "")
		eventually(t, "the old master was tried", func() bool { return taken.Load() > 0 })
		replica.setMaster(4, "r3", master.url)
		(<-answered).wantStatus(t, 200)
	}
}

func TestReadIsSentAgainAfterOutcomeUnknown(t *testing.T) {
	master, replica := startPair(t, patient)
	var calls atomic.Int64
	master.setHook(func(context.Context, string) error {
		if calls.Add(1) == 1 {
			return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "x")
		}
		return nil
	})
	call(t, "GET", replica.url+"/v1/locks/a", "").wantStatus(t, 200)
}

// The replica loses mastership while the call is at the master.
func TestLosingMastershipForwards(t *testing.T) {
	next := startNode(t, "r2", nil)
	next.setMaster(4, "r2", next.url)
	lose := func(old *node) {
		old.setMaster(3, "r1", old.url)
		old.setHook(func(context.Context, string) error {
			old.setMaster(4, "r2", next.url)
			return lockapi.Errorf(lockapi.CodeNoMaster, "the office is closed")
		})
	}
	old := startNode(t, "r1", patient)
	lose(old)
	call(t, "POST", old.url+"/v1/sessions", "").wantStatus(t, 201)
	lose(old)
	call(t, "POST", old.url+"/v1/sessions", "", "Stout-Forward", "never").wantCode(t, lockapi.CodeNotMaster)
}

// A hung master keeps no call once another master is known, or none is.
func TestStuckMasterIsLeft(t *testing.T) {
	master := startNode(t, "r3", nil)
	master.setMaster(4, "r3", master.url)
	stuck, replica := startPair(t, patient)
	entered := make(chan string, 2)
	stuck.setHook(func(ctx context.Context, call string) error {
		entered <- call
		<-ctx.Done()
		return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
	})
	wrote, read := make(chan reply, 1), make(chan reply, 1)
	go func() { wrote <- call(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s","wait_ms":600000}`) }()
	go func() { read <- call(t, "GET", replica.url+"/v1/locks/a", "") }()
	<-entered
	<-entered
	replica.setMaster(4, "r3", master.url)
	(<-wrote).wantCode(t, lockapi.CodeOutcomeUnknown)
	(<-read).wantStatus(t, 200)
}

func TestAnswerTimeout(t *testing.T) {
	t.Parallel()
	// A slow machine needs a longer limit, or the call does not arrive.
	for limit := 100 * time.Millisecond; limit < patience; limit *= 2 {
		master, replica := startPair(t, func(o *server.Options) { o.AnswerTimeout = limit })
		master.setHook(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return lockapi.Errorf(lockapi.CodeOutcomeUnknown, "cancelled")
		})
		opened := call(t, "POST", replica.url+"/v1/sessions", "")
		if len(master.made()) == 0 {
			continue
		}
		opened.wantCode(t, lockapi.CodeOutcomeUnknown)
		call(t, "GET", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeNoMaster)
		// The wait of a call extends the time limit.
		master.setHook(func(ctx context.Context, _ string) error {
			select {
			case <-ctx.Done():
			case <-time.After(limit * 7 / 5):
			}
			return nil
		})
		master.addSession(lockapi.Session{ID: "s"})
		call(t, "PUT", replica.url+"/v1/locks/a", `{"session":"s","wait_ms":60000}`).wantStatus(t, 200)
		return
	}
	t.Fatal("no call arrives")
}

// A call that is sent again waits only for the rest of its wait_ms. On a slow
// machine the first attempt does, too.
func TestLaterAttemptsWaitForTheRest(t *testing.T) {
	t.Parallel()
	const wait, held = 60_000, 50 // in ms; the master holds the first attempt
	for target, body := range map[string]string{
		"PUT /v1/locks/a":               `{"session":"s","wait_ms":60000}`,
		"POST /v1/sessions/s/keepalive": `{"wait_ms":60000}`,
		"POST /v1/keepalives":           `{"sessions":[{"id":"s","ack":0}],"wait_ms":60000}`,
	} {
		master, replica := startPair(t, patient)
		waits := make(chan int, 2)
		master.setHook(func(_ context.Context, call string) error {
			_, text, _ := strings.Cut(call, " WaitMS=")
			ms, _ := strconv.Atoi(strings.Fields(text + " 0")[0])
			if waits <- ms; len(waits) == 2 {
				return lockapi.Errorf(lockapi.CodeSessionNotFound, "x")
			}
			time.Sleep(held * time.Millisecond)
			return lockapi.Errorf(lockapi.CodeNoMaster, "x")
		})
		method, path, _ := strings.Cut(target, " ")
		call(t, method, replica.url+path, body).wantCode(t, lockapi.CodeSessionNotFound)
		if first, second := <-waits, <-waits; first > wait || second > first-held {
			t.Errorf("%s: the attempts wait for %d and %d ms", target, first, second)
		}
	}
}
