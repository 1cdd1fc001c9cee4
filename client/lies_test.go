package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoutlock/stout/lockapi"
)

// liar carries requests to the cell, and changes the answers to those of one
// kind.
type liar struct {
	*fakeCell
	about func(*http.Request) bool
	lie   atomic.Pointer[func(*http.Response, map[string]any)]
}

func (l *liar) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.fakeCell.RoundTrip(r)
	lie := l.lie.Load()
	if err != nil || lie == nil || !l.about(r) {
		return resp, err
	}
	body := map[string]any{}
	_ = json.NewDecoder(resp.Body).Decode(&body) // of a 204, nothing
	(*lie)(resp, body)
	b, err := json.Marshal(body)
	if body["nothing"] != nil {
		b = nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, err
}

func (l *liar) tell(lie func(*http.Response, map[string]any)) { l.lie.Store(&lie) }
func (l *liar) stop()                                         { l.lie.Store(nil) }

// set is a lie that sets fields.
func set(pairs ...any) func(*http.Response, map[string]any) {
	return func(_ *http.Response, body map[string]any) {
		for i := 0; i < len(pairs); i += 2 {
			body[pairs[i].(string)] = pairs[i+1]
		}
	}
}

func nothing(_ *http.Response, body map[string]any) { body["nothing"] = true }

func withStatus(code int) func(*http.Response, map[string]any) {
	return func(r *http.Response, _ map[string]any) { r.StatusCode = code }
}

func outOfDate(r *http.Response, _ map[string]any) { r.Header.Set(lockapi.HeaderStale, "true") }

// amongLies is a bubble with a client that hears lies about some requests.
func amongLies(t *testing.T, about func(*http.Request) bool, test func(*testing.T, *liar, *Client)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		l := &liar{fakeCell: f, about: about}
		told, err := Config{URLs: []string{"http://r1", "http://r2", "http://r3"}, Transport: l, Clock: c.clock.now}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = told.Close() })
		test(t, l, told)
	})
}

func asks(method, what string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, what) }
}
