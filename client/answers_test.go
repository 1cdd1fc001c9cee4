package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/stouttest"
	"github.com/stoutlock/stout/lockapi"
)

// Answers that no replica gives, and failures on the way to an answer.

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errReset   = errors.New("connection reset by peer")
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// hang answers never.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// answer is a transport that answers each request itself.
type answer func(*http.Request) (int, string)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return response(a(r)), nil }

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// reply returns an answer in JSON.
func reply(status int, v any) *http.Response {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return response(status, string(b))
}

func refusal(e *lockapi.Error) *http.Response { return reply(e.Code.Status(), e) }

// sse formats an event of a stream.
func sse(event string, id uint64, data any) string {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(": a comment\nid: %d\nevent: %s\ndata: %s\n\n", id, event, raw)
}

// script limits the streams of the replicas with these ids, or of all, to the
// text.
func (tc *testCell) script(text string, ids ...string) {
	tc.insteadBy(func(r *http.Request) *http.Response {
		if r.Header.Get("Accept") != lockapi.TypeEventStream || len(ids) > 0 && !slices.Contains(ids, r.URL.Host) {
			return nil
		}
		resp := response(http.StatusOK, text)
		resp.Header.Set("Content-Type", lockapi.TypeEventStream)
		return resp
	})
}

// serve serves a cell in memory at a port, and returns the URL.
func serve(t stouttest.TB) string {
	cell := stouttest.New(t, stouttest.Options{Size: 1})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "r1"}) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del(lockapi.HeaderMaster) // its URL cannot be reached
			return nil
		},
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	cell.Client(func(c *client.Config) { proxy.Transport = c.Transport })
	server := httptest.NewServer(proxy)
	if t != nil {
		t.Cleanup(server.Close)
	}
	return server.URL
}

// lieAbout changes an answer's body.
func lieAbout(lie func(*http.Request, *http.Response, map[string]any), q *http.Request, resp *http.Response, b []byte) []byte {
	body := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	_ = d.Decode(&body) // fails for the empty body of a 204
	lie(q, resp, body)
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	if body["nothing"] != nil {
		return nil
	}
	return b
}
