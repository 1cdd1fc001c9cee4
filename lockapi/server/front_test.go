package server

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// A malformed request gets an answer with the reason, and a dropped one with advice.
func TestAnswersToIncompleteRequests(t *testing.T) {
	s := New(Options{Master: knowing{}})
	for answer, parts := range map[string][]string{
		string(s.refuse(http.StatusBadRequest, "missing required Host header")): {
			"HTTP/1.1 400 Bad Request\r\n", "\r\nStout-Epoch: 7\r\n", "\r\nContent-Type: application/problem+json\r\n",
			"\r\nConnection: close\r\n", `"detail":"missing required Host header"`,
		},
		string(s.refuse(http.StatusTooManyRequests, "")): {"HTTP/1.1 429 Too Many Requests\r\n", "\r\nRetry-After: 1\r\n", `"code":"too_many"`, "send it again"},
	} {
		for _, part := range parts {
			if !strings.Contains(answer, part) {
				t.Errorf("%q is not in %q", part, answer)
			}
		}
	}
}

// TestGoldenAssertion: replicas of different releases forward calls to each other.
// The encoding of an assertion must not change unnoticed, and unknown fields
// are ignored.
func TestGoldenAssertion(t *testing.T) {
	c := assertion{Principal: "user:a", How: "jwt", Ends: time.Unix(1_700_000_000, 0).UTC(), Token: "5f0a", Remote: "10.0.0.9:5312", Enables: true}
	raw, err := json.Marshal(c)
	const want = `{"principal":"user:a","how":"jwt","ends":"2023-11-14T22:13:20Z","token":"5f0a","remote":"10.0.0.9:5312","enables":true}`
	if err != nil || string(raw) != want {
		t.Errorf("%v: it is\n%s and was\n%s", err, raw, want)
	}
	var again assertion
	if err := json.Unmarshal([]byte(want[:len(want)-1]+`,"later":1}`), &again); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%+v, %v", again, err)
	}
	if headerCaller != "Stout-Caller" {
		t.Errorf("it is in %s", headerCaller)
	}
}

// A body is read up to the limit of its route, on every path to it.
func TestBodiesAreBoundedByRoute(t *testing.T) {
	const large = 256 << 10
	files := table{
		{method: http.MethodPut, template: "/v1/files/{path}", pattern: "/v1/files/*path", body: large, handle: countBody},
		{method: http.MethodPost, template: "/v1/files/{path}", pattern: "/v1/files/*path", handle: countBody},
		{method: http.MethodPut, template: "/v1/small", pattern: "/v1/small", handle: countBody},
	}
	s := New(Options{Master: knowing{}})
	engine := s.engineOf(false, files, errNoRoute)
	direct := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(engine, w, r) })
	s.api.Handler, s.api.MaxBody = direct, files.maxBody
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Shutdown(t.Context()) }()
	url := "http://" + l.Addr().String()
	for _, c := range []struct {
		method, path string
		most         int
	}{
		{"PUT", "/v1/files/a/b", large},
		{"POST", "/v1/files/a/b", lockapi.MaxBodyBytes},
		{"PUT", "/v1/small", lockapi.MaxBodyBytes},
		{"PUT", "/v1/%66iles/a", lockapi.MaxBodyBytes},
	} {
		if got := files.maxBody(httptest.NewRequest(c.method, c.path, nil)); got != int64(c.most) {
			t.Errorf("%s %s: %d bytes are read before it is routed", c.method, c.path, got)
		}
		for size, tooLong := range map[int]bool{c.most: false, c.most + 1: true} {
			for name, send := range map[string]func(*http.Request) int{
				"wire":     func(r *http.Request) int { return statusOver(t, r) },
				"net/http": func(r *http.Request) int { return recorded(direct, r) },
			} {
				for _, chunked := range []bool{false, true} {
					r := httptest.NewRequest(c.method, url+c.path, strings.NewReader(strings.Repeat("x", size)))
					if r.RequestURI = ""; chunked {
						r.ContentLength = -1
					}
					if got := send(r); (got == http.StatusRequestEntityTooLarge) != tooLong {
						t.Errorf("%s %s, %d bytes by %s, chunked %v: %d", c.method, c.path, size, name, chunked, got)
					}
				}
			}
		}
	}
}

func countBody(x *exchange) error { return x.reply(http.StatusOK, len(x.body)) }

func recorded(h http.Handler, r *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// statusOver returns the status of the answer on a connection.
func statusOver(t *testing.T, r *http.Request) int {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
