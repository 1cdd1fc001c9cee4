package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// liar is a cell that changes the answers to some requests.
type liar struct {
	*testCell
	about func(*http.Request) bool
}

func (l *liar) tell(lie func(*http.Response, map[string]any)) {
	l.set(func() {
		l.lie = func(q *http.Request, r *http.Response, body map[string]any) {
			if l.about(q) {
				lie(r, body)
			}
		}
	})
}

// wantDisbelieved makes a call once for each lie, and checks that it rejects the
// answer.
func (l *liar) wantDisbelieved(t *testing.T, lies map[string]func(*http.Response, map[string]any), call func() error) {
	t.Helper()
	for name, lie := range lies {
		l.tell(lie)
		if err := call(); !errors.Is(err, client.ErrInternal) {
			t.Errorf("%s is accepted: %v", name, err)
		}
	}
	l.stop()
}

func (l *liar) stop() { l.set(func() { l.lie = nil }) }

// amongLies is a bubble with a client that gets false answers to some requests.
func amongLies(t *testing.T, about func(*http.Request) bool, test func(*testing.T, *liar, *client.Client)) {
	t.Helper()
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) { test(t, &liar{tc, about}, c) })
}

// set returns a lie that sets fields.
func set(pairs ...any) func(*http.Response, map[string]any) {
	return func(_ *http.Response, body map[string]any) {
		for i := 0; i < len(pairs); i += 2 {
			body[pairs[i].(string)] = pairs[i+1]
		}
	}
}

func nothing(_ *http.Response, body map[string]any) { body["nothing"] = true }

func outOfDate(r *http.Response, _ map[string]any) { r.Header.Set(lockapi.HeaderStale, "true") }

func asks(method, what string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, what) }
}
