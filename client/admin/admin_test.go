package admin_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/client/stouttest"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

// scripted is a replica with fixed answers, by method and path. It records
// method, URL and body of each request.
type scripted struct {
	status map[string]int // "" is for all other requests
	body   map[string]any
	asked  []string
}

func (a *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.asked = append(a.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	key := r.Method + " " + r.URL.Path
	if status := cmp.Or(a.status[key], a.status[""]); status != 0 {
		w.WriteHeader(status)
	}
	if body := cmp.Or(a.body[key], a.body[""]); body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// always sets the answer to each request.
func (a *scripted) always(status int, body any) {
	a.status, a.body = map[string]int{"": status}, map[string]any{"": body}
}

// over returns the calls over a client with these settings.
func over(t *testing.T, config client.Config) *admin.Admin {
	t.Helper()
	c, err := config.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return admin.New(c)
}

// adminOf returns the calls to a server with this handler.
func adminOf(t *testing.T, h http.Handler) *admin.Admin {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return over(t, client.Config{URLs: []string{server.URL}})
}

// network is the transport to a cell in memory. It records the requests.
type network struct {
	http.RoundTripper
	// instead answers in a replica's place, unless it returns nil and nil; it may
	// be nil.
	instead func(*http.Request) (*http.Response, error)

	mu   sync.Mutex // guards sent
	sent []*http.Request
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.sent = append(n.sent, r)
	n.mu.Unlock()
	if n.instead != nil {
		if resp, err := n.instead(r); resp != nil || err != nil {
			return resp, err
		}
	}
	return n.RoundTripper.RoundTrip(r)
}

// count counts the requests that match.
func (n *network) count(match func(*http.Request) bool) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.sent {
		if match(r) {
			count++
		}
	}
	return count
}

// bubble runs a test in virtual time with a cell, and calls over a network.
func bubble(t *testing.T, test func(*testing.T, *stouttest.Cell, *network, *admin.Admin)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cell, n := stouttest.New(t, stouttest.Options{}), new(network)
		c := cell.Client(func(c *client.Config) { n.RoundTripper, c.Transport, c.OnlyURLs = c.Transport, n, true })
		t.Cleanup(func() { _ = c.Close() })
		test(t, cell, n, admin.New(c))
	})
}

var errReset = errors.New("connection reset by peer")

// answer is an answer with a body.
func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// hang answers never.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

// The answer of another replica is checked by itself, while the first replica
// is silent.
func TestOtherReplicasAnswerIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		new := func(body string) *admin.Admin {
			firstHangs := &network{instead: func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "r1" {
					return hang(r)
				}
				return answer(http.StatusOK, body), nil
			}}
			return over(t, client.Config{
				URLs: []string{"http://r1", "http://r2"}, OnlyURLs: true, Transport: firstHangs,
				Clock: func() time.Duration { return time.Since(start) },
			})
		}
		if who, err := new(`{"principal":"user:a","how":"token"}`).Access().WhoAmI(t.Context()); err != nil || who.Principal != "user:a" {
			t.Errorf("WhoAmI: %+v, %v", who, err)
		}
		if rule, err := new(`{"path":"/a"}`).Access().Rule(t.Context(), "/a"); err != nil || rule.Path != "/a" {
			t.Errorf("Rule: %+v, %v", rule, err)
		}
		if h, err := new(`{"path":"/a","events":[]}`).History(t.Context(), "/a", 0); err != nil || h.Path != "/a" {
			t.Errorf("History: %+v, %v", h, err)
		}
	})
}
