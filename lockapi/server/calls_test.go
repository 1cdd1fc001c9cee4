package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
)

// Each side bounds the calls, and refuses further ones without an effect.
func TestBoundsOfForwardedCalls(t *testing.T) {
	master, replica := startPair(t, nil)
	leave := replica.server.Crowd(server.MostForwarded, 0)
	if e := call(t, "POST", replica.url+"/v1/sessions", "").wantCode(t, lockapi.CodeTooMany); e.Quota != "forwarded-calls" || !strings.Contains(e.Detail, master.url) {
		t.Errorf("%s", e.Detail)
	}
	call(t, "GET", replica.url+"/readyz", "").wantStatus(t, 200) // a health question still has room
	leave()
	leave = master.server.Crowd(0, server.MostServed)
	got := call(t, "POST", replica.url+"/v1/sessions", "")
	if e := got.wantCode(t, lockapi.CodeTooMany); e.Quota != "served-calls" || !strings.Contains(e.Detail, "calls of other replicas") || got.header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", got.header, got.body)
	}
	leave()
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("the master was called: %q", calls)
	}
	call(t, "POST", replica.url+"/v1/sessions", "").wantStatus(t, http.StatusCreated)
}

// The connection alone determines the origin of a call: a call from a member is
// not forwarded again, and the API's port accepts no members.
func TestOriginIsTheConnection(t *testing.T) {
	_, replica := startPair(t, nil)
	for peer, want := range map[bool]int{true: http.StatusMisdirectedRequest, false: http.StatusCreated} {
		h := replica.server.Handler()
		if peer {
			h = replica.server.PeerHandler()
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/sessions", nil))
		if w.Code != want {
			t.Errorf("from a member: %v: %d %s", peer, w.Code, w.Body)
		}
	}
	// HTTP/2 is for members only, not on the API's port.
	c := transmit(t, replica, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	answer, _ := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("the API answers HTTP/2: %q", answer)
	}
}

// A body that does not arrive ends its own call, not others on the connection.
func TestHalfABodyBetweenReplicas(t *testing.T) {
	master, calls := startCounting(t, func(o *server.Options) { o.BodyTimeout = 50 * time.Millisecond })
	client := other(0)
	base := "http://" + calls.Addr().String()
	body, write := io.Pipe()
	defer write.Close()
	go func() { _, _ = io.WriteString(write, `{"name":`) }()
	resp, err := client.Post(base+"/v1/sessions", "application/json", body)
	must(t, err)
	if e := readReply(t, resp).wantCode(t, lockapi.CodeInvalidArgument); e.Field != "body" {
		t.Errorf("%+v", e)
	}
	if resp, err = client.Get(base + "/livez"); err != nil {
		t.Fatal(err)
	}
	readReply(t, resp).wantStatus(t, 200)
	if got := calls.taken.Load(); got != 1 {
		t.Errorf("%d connections", got)
	}
	if calls := master.made(); len(calls) > 0 {
		t.Errorf("the master was called: %q", calls)
	}
}

// other returns a client for another member's connection, with a receive window
// of this many bytes for each reply, or the usual one if 0.
func other(window int) *http.Client {
	way := &http.Transport{Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window}}
	way.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: way}
}

// Incomplete calls from other members are bounded, while complete ones still
// have room.
func TestHalfSentBetweenReplicas(t *testing.T) {
	_, calls := startCounting(t, func(o *server.Options) { o.BodyTimeout = time.Minute })
	base, member := "http://"+calls.Addr().String(), other(0)
	ctx, leave := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var refused atomic.Int64
	for range server.MaxHalfBytes/lockapi.MaxBodyBytes + 5 {
		senders.Go(func() {
			body, write := io.Pipe()
			defer write.Close()
			req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/sessions", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.ContentLength = lockapi.MaxBodyBytes
			if resp, err := member.Do(req); err == nil {
				readReply(t, resp).wantCode(t, lockapi.CodeTooMany)
				refused.Add(1)
			}
		})
	}
	eventually(t, "those beyond are refused", func() bool { return refused.Load() == 5 })
	resp, err := member.Get(base + "/livez")
	must(t, err)
	readReply(t, resp).wantStatus(t, 200)
	leave()
	senders.Wait()
	eventually(t, "there is room again", func() bool {
		resp, err := member.Post(base+"/v1/sessions", "application/json", strings.NewReader("{}"))
		return err == nil && readReply(t, resp).status == http.StatusCreated
	})
}

// Unread replies to other members are bounded, and each has a time limit.
func TestUnreadBetweenReplicas(t *testing.T) {
	testrun.Sequential(t) // it encodes 150 MB
	t.Parallel()
	for _, timeout := range []time.Duration{time.Hour, time.Second} {
		master, calls := startCounting(t, func(o *server.Options) { o.WriteTimeout = timeout })
		master.set(func() { master.view.Own.Version = strings.Repeat("x", server.MaxUnreadBytes/8) })
		base, member := "http://"+calls.Addr().String(), other(1)
		get := func() int {
			resp, err := member.Get(base + "/v1/replica")
			if err != nil { // on a busy machine a reply may miss its short time limit
				t.Log(err)
				return 0
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			return resp.StatusCode
		}
		for n := range 9 { // each takes slightly more than an eighth
			if timeout < time.Hour {
				eventually(t, "there is room", func() bool { return get() == 200 })
			} else if want := map[bool]int{true: 200, false: 429}[n < 7]; get() != want {
				t.Errorf("reply %d has not status %d", n, want)
			}
		}
	}
}

// TestNoRoomForAnAnswerOfAChange: too_many would wrongly mean that nothing was
// changed.
func TestNoRoomForAnAnswerOfAChange(t *testing.T) {
	url, s := startReal(t)
	call(t, "PUT", url+"/v1/files/p/f", strings.Repeat("x", 20<<10)).wantStatus(t, 201)
	s.FillUnread()
	ask := func(method, path, body string) reply {
		w := httptest.NewRecorder()
		s.PeerHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return reply{w.Code, w.Header(), w.Body.String()}
	}
	ask("GET", "/v1/files/p/f", "").wantCode(t, lockapi.CodeTooMany)
	ask("POST", "/v1/transactions", `{"then":[{"put":{"path":"/p/g","content":"x"}},{"get":{"path":"/p/f"}}]}`).wantCode(t, lockapi.CodeOutcomeUnknown)
	call(t, "GET", url+"/v1/files/p/g", "").wantStatus(t, 200)
}
