package admin_test

import (
	"cmp"
	"context"
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
	"github.com/stoutlock/stout/lockapi"
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
	must(t, err)
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

// lose passes a request on and loses its answer.
func (n *network) lose(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	return nil, errReset
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// timeout returns a context that ends after d, or with the test.
func timeout(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
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

// Cell does not rely on a replica that is cut off from the others.
func TestCellAsksTheOthers(t *testing.T) {
	for _, others := range []string{"well", "hung", "none"} {
		bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
			cell.Elect("r3")
			if others == "none" {
				cell.Depose()
			}
			n.instead = func(r *http.Request) (*http.Response, error) {
				switch {
				case r.URL.Host == "r1" && r.URL.Path == lockapi.RouteCell:
					return answer(http.StatusOK, `{"cell":"test","epoch":1}`), nil
				case r.URL.Host == "r2" && others == "hung":
					return hang(r)
				}
				return nil, nil
			}
			began := time.Now()
			view, err := a.Cell(t.Context())
			if err != nil || (view.Master == nil) != (others == "none") {
				t.Errorf("%s: %+v, %v", others, view, err)
			}
			if got := time.Since(began); got > 100*time.Millisecond {
				t.Errorf("%s: it took %s", others, got)
			}
		})
	}
}

func isPost(r *http.Request) bool { return r.Method == http.MethodPost }

// Transfer is not sent again once it may have taken effect.
func TestTransferIsSentOnce(t *testing.T) {
	bubble(t, func(t *testing.T, _ *stouttest.Cell, n *network, a *admin.Admin) {
		if got, err := a.Transfer(t.Context(), "r2"); err != nil || got.Master != "r2" {
			t.Fatalf("transfer: %+v, %v", got, err)
		}
		n.instead = func(r *http.Request) (*http.Response, error) {
			if isPost(r) {
				return n.lose(r)
			}
			return nil, nil
		}
		before := n.count(isPost)
		if _, err := a.Transfer(t.Context(), "r3"); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Error(err)
		}
		if n := n.count(isPost) - before; n > 2 { // one of them was answered with 421
			t.Errorf("the transfer was sent %d times", n)
		}
	})
}

// A call that must not be sent twice is not hedged: the client finds the master
// first.
func TestTransferIsNotHedged(t *testing.T) {
	bubble(t, func(t *testing.T, cell *stouttest.Cell, n *network, a *admin.Admin) {
		cell.Elect("r2")
		lost := false
		n.instead = func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "r1" || lost && isPost(r) {
				return hang(r)
			}
			return nil, nil
		}
		must(t, second(a.Transfer(t.Context(), "r3")))
		if n := n.count(isPost); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		lost = true
		ctx := timeout(t, 3*time.Second)
		if _, err := a.Transfer(ctx, "r2"); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Error(err)
		}
		if n := n.count(isPost); n != 2 {
			t.Errorf("to a master that hangs it was sent %d times", n-1)
		}
	})
}

func TestReads(t *testing.T) {
	bubble(t, func(t *testing.T, cell *stouttest.Cell, _ *network, a *admin.Admin) {
		s, err := cell.Client().NewSession(t.Context(), client.Name("reader"), client.Meta(map[string]string{"pid": "8"}))
		must(t, err)
		defer s.Close(context.WithoutCancel(t.Context()))
		h, err := s.Lock(t.Context(), "/a")
		must(t, err)
		cell.Depose()
		if view, err := a.Cell(t.Context()); err != nil || view.Cell != "test" {
			t.Errorf("cell: %+v, %v", view, err)
		}
		if r, err := a.Replica(t.Context(), "http://r3"); err != nil || r.ID != "r3" {
			t.Errorf("replica: %+v, %v", r, err)
		}
		cell.Elect("r1")
		state, err := a.ReadSession(t.Context(), s.ID())
		if err != nil || len(state.Holds) != 1 || state.Holds[0].Token != h.Token() || state.Meta["pid"] != "8" {
			t.Errorf("session: %+v, %v", state, err)
		}
		for one, err := range a.ListSessions(t.Context()) {
			if err != nil || one.Name != "reader" {
				t.Errorf("sessions: %+v, %v", one, err)
			}
		}
		for name, err := range map[string]error{
			"session to read": second(a.ReadSession(t.Context(), "a/keepalive")), "session to end": a.KillSession(t.Context(), ""),
			"holder": second(a.Release(t.Context(), "/a", "", "", 0)), "new master": second(a.Transfer(t.Context(), "r9")),
		} {
			if !errors.Is(err, client.ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestRequests: each call sends this request.
func TestRequests(t *testing.T) {
	replica := new(scripted)
	a, ctx, stale := adminOf(t, replica), t.Context(), client.Stale()
	for want, test := range map[string]struct {
		answer any
		call   func() error
	}{
		"GET /v1/cell":                      {lockapi.Cell{Master: new(lockapi.MasterRef)}, func() error { return second(a.Cell(ctx)) }},
		"GET /v1/history?limit=3&path=%2Fa": {lockapi.History{Path: "/a"}, func() error { return second(a.History(ctx, "/a", 3)) }},

		"GET /v1/members?consistency=stale":     {lockapi.Members{}, func() error { return second(a.Members(ctx, stale)) }},
		"GET /v1/deadlocks?consistency=stale":   {lockapi.Deadlocks{}, func() error { return second(a.Deadlocks(ctx, stale)) }},
		"GET /v1/sessions/s1?consistency=stale": {map[string]string{"id": "s1"}, func() error { return second(a.ReadSession(ctx, "s1", stale)) }},
		"GET /v1/sessions?consistency=stale&limit=1000": {lockapi.SessionList{}, func() error {
			for _, err := range a.ListSessions(ctx, stale) {
				return err
			}
			return nil
		}},
		"DELETE /v1/locks/a?by_force=true&handle=h&session=s1&token=7": {lockapi.Released{}, func() error { return second(a.Release(ctx, "/a", "s1", "h", 7)) }},
	} {
		replica.always(http.StatusOK, test.answer)
		replica.asked = nil
		if err := test.call(); err != nil || len(replica.asked) != 1 || replica.asked[0] != want {
			t.Errorf("%q, %v; want %s", replica.asked, err, want)
		}
	}
}

// Transfer awaits a new master that takes long to catch up.
func TestTransferIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, _ *stouttest.Cell, n *network, a *admin.Admin) {
		n.instead = func(r *http.Request) (*http.Response, error) {
			if !isPost(r) {
				return nil, nil
			}
			time.Sleep(25 * time.Second)
			return answer(http.StatusOK, `{"master":"r2"}`), nil
		}
		must(t, second(a.Transfer(t.Context(), "r2")))
	})
}

// Answers about something else are rejected.
func TestAnswersThatAreNotBelieved(t *testing.T) {
	replica := new(scripted)
	a, ctx := adminOf(t, replica), t.Context()
	for name, test := range map[string]struct {
		answer any
		call   func() error
	}{
		"other session": {map[string]string{"id": "s9"}, func() error { return second(a.ReadSession(ctx, "s1")) }},
		"other master":  {lockapi.Transferred{Master: "r3"}, func() error { return second(a.Transfer(ctx, "r1")) }},
		"no master":     {lockapi.Transferred{}, func() error { return second(a.Transfer(ctx, "")) }},
		"no release":    {nil, func() error { return second(a.Release(ctx, "/b", "s1", "h", 0)) }},
		"no end":        {struct{}{}, func() error { return a.KillSession(ctx, "s9") }}, // with 200
		"same page": {lockapi.SessionList{Next: "s1"}, func() (last error) {
			for _, last = range a.ListSessions(ctx) {
			}
			return last
		}},
	} {
		replica.always(http.StatusOK, test.answer)
		if err := test.call(); !errors.Is(err, client.ErrInternal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change that took effect, but lost its answer, never ends as one without
// effect. A refusal of the next attempt is about that attempt only. A change
// that removes something may find it gone.
func TestChangesRefusedBehindALostAnswer(t *testing.T) {
	member := lockapi.AddMemberRequest{ID: "r4", Directory: "d1d1d1d1d1d1d1d4", RaftAddr: "r4:1", URL: "http://r4"}
	for name, change := range map[string]struct {
		call func(context.Context, *admin.Admin) error
		gone bool // it removes something: an answer that it is gone settles it
	}{
		"kill":    {func(ctx context.Context, a *admin.Admin) error { return a.KillSession(ctx, "S1") }, false},
		"release": {func(ctx context.Context, a *admin.Admin) error { return second(a.Release(ctx, "/a", "S1", "h", 0)) }, true},
		"revoke":  {func(ctx context.Context, a *admin.Admin) error { return a.Access().RevokeToken(ctx, "T1") }, true},
		"add":     {func(ctx context.Context, a *admin.Admin) error { return a.AddMember(ctx, member) }, false},
		"remove": {func(ctx context.Context, a *admin.Admin) error {
			return a.RemoveMember(ctx, "r3", lockapi.RemoveMemberRequest{Directory: "d1d1d1d1d1d1d1d3"})
		}, true},
	} {
		for _, code := range []lockapi.Code{client.ErrPermissionDenied, client.ErrUnauthenticated, client.ErrInvalidArgument, client.ErrSessionNotFound, client.ErrNotFound} {
			bubble(t, func(t *testing.T, _ *stouttest.Cell, n *network, a *admin.Admin) {
				ctx := timeout(t, time.Minute)
				changes := func(r *http.Request) bool { return r.Method != http.MethodGet }
				n.instead = func(r *http.Request) (*http.Response, error) {
					switch {
					case !changes(r):
						return nil, nil
					case n.count(changes) == 1:
						return n.lose(r)
					}
					return answer(code.Status(), `{"code":"`+string(code)+`"}`), nil
				}
				err := change.call(ctx, a)
				settled := change.gone && (code == client.ErrNotFound || code == client.ErrSessionNotFound)
				if errors.Is(err, client.ErrOutcomeUnknown) == settled || errors.Is(err, code) != settled {
					t.Errorf("%s, %s: %v", name, code, err)
				}
			})
		}
	}
}
