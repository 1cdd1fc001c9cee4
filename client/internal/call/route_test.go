package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func TestBusy(t *testing.T) {
	const s = time.Second
	for _, test := range []struct{ heard, took, now, sent, wait, want time.Duration }{
		{0, 0, 10 * s, 9 * s, 0, 0},                                    // never answered
		{9 * s, 0, 10 * s, 9 * s, 0, 0},                                // no answer since
		{9*s + 900, 0, 9*s + hedgeAfter, 9 * s, 0, hedgeAfter},         // an answer just now
		{9*s + 1, 0, 10 * s, 9 * s, 0, 0},                              // an answer, then silence
		{10 * s, s, 11 * s, 9 * s, 0, 2 * s},                           // slow network
		{9*s + 1, 0, 10 * s, 9 * s, 30 * s, 29*s + hedgeAfter},         // the replica holds the call on purpose
		{9*s + 1, 0, 39*s + hedgeAfter, 9 * s, 30 * s, 0},              // too long
		{39 * s, 0, 39*s + hedgeAfter/2, 9 * s, 30 * s, hedgeAfter},    // but it answers others
		{9*s + 1, 100 * s, 10 * s, 9 * s, 30 * s, 29*s + mostPatience}, // the patience is bounded
	} {
		var r Route
		r.heard.Store(int64(test.heard))
		r.took.Store(int64(test.took))
		if got := r.busy(test.now, test.sent, test.wait); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

// The number of penalties is bounded, however many masters are named.
func TestPenaltiesAreBounded(t *testing.T) {
	now := time.Duration(0)
	given := []*Endpoint{{URL: "http://r1"}, {URL: "http://r2"}}
	router := newRouter(given, func() time.Duration { return now })
	for i := range 10_000 {
		now += time.Millisecond
		router.failed(&Route{To: &Endpoint{URL: fmt.Sprintf("http://m%d", i)}})
	}
	if n := len(router.penalties); n > mostPenalties {
		t.Errorf("%d penalties are kept", n)
	}
	router.failed(&Route{To: given[1]})
	if router.resolve(&Route{To: given[0]}, "http://r2") != nil {
		t.Error("the last penalty is forgotten")
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	for given, want := range map[string]int{"7": 7, "-1": 0, "9223372036854775807": mostRetryAfter, "99999999999999999999": 0, "soon": 0} {
		c := callerOf(t, &answerOf{status: 429, body: `{"code":"too_many","delay_remaining_ms":-5}`, retryFor: given}, "http://r1")
		var e *lockapi.Error
		if err := c.Do(t.Context(), &Call{Method: http.MethodGet, Path: lockapi.RouteLocks + "/a"}); !errors.As(err, &e) || e.RetryAfter != want || e.DelayRemainingMS != 0 {
			t.Errorf("Retry-After %s: %+v", given, e)
		}
	}
}

// The client does not call a reported URL that its own rules forbid.
func TestLearnedEndpoints(t *testing.T) {
	evil := []string{"http://evil:7101", "ftp://evil", "https://", "https://me:secret@evil", "https://evil/path", "https://evil?x",
		"https://evil#x", "file:///etc/passwd", "//evil", "evil:7101", "", "https://evil:0", "https://evil:71010", "https://0.0.0.0:1",
		"unix:/run/x", "dns:evil:7101", "https://ev il:1", "https://evil:1\r\nX: y", "https://" + strings.Repeat("e", 600), "javascript:alert(1)"}
	for _, url := range evil {
		if e, err := learnedEndpoint(url, true); err == nil {
			t.Errorf("%q is accepted: %s", url, e.URL)
		}
	}
	for _, url := range []string{"https://r2:7101", "https://[::1]:7101", "https://r2/"} {
		if _, err := learnedEndpoint(url, true); err != nil {
			t.Error(err)
		}
	}
	if _, err := learnedEndpoint("http://r2:7101", false); err != nil {
		t.Error(err)
	}
}

// TestReplicasAreNotBlamedForTheToken: a function that supplies no token, or
// none in time, is no fault of the replica.
func TestReplicasAreNotBlamedForTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, token := range map[string]func(context.Context) (string, error){
			"fails": func(context.Context) (string, error) { return "", io.ErrUnexpectedEOF },
			"hangs": func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() },
		} {
			c := callerOf(t, &answerOf{status: 200, body: `{}`}, "http://r1", "http://r2")
			c.Token = token
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := c.Do(ctx, &Call{Method: http.MethodGet, Path: lockapi.RouteLocks + "/a"})
			cancel()
			if err == nil || !strings.Contains(err.Error(), errNoToken.Error()) || len(c.router.penalties) > 0 {
				t.Errorf("a token function that %s: %v, %d penalties", name, err, len(c.router.penalties))
			}
		}
	})
}
