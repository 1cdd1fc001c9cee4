package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoutlock/stout/client/fence"
	_ "github.com/stoutlock/stout/internal/racebubble"
)

func splitLines(b []byte) []string { return strings.Split(strings.TrimSpace(string(b)), "\n") }

// byPath guards requests below /db, by their whole path.
func byPath(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/db") {
		return r.URL.Path
	}
	return ""
}

// call sends a request to a handler and returns the status.
func call(h http.Handler, path string, token ...string) *httptest.ResponseRecorder {
	return callUnder(context.Background(), h, path, token...)
}

func callUnder(ctx context.Context, h http.Handler, path string, token ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil)
	for _, one := range token {
		r.Header.Add(fence.HeaderToken, one)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// TestLateRequest: a request with a lower token is refused, for that resource
// only, and a refusal has both tokens.
func TestLateRequest(t *testing.T) {
	calls := 0
	h := fence.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }), new(fence.Memory), byPath)
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/db/a", "5", 200},
		{"/db/a", "5", 200},
		{"/db/a", "6", 200},
		{"/db/a", "5", 412},
		{"/db/b", "5", 200},
		{"/db/a", "6", 200},
	} {
		before := calls
		w := call(h, c.path, c.token)
		if w.Code != c.want || calls-before != map[int]int{200: 1}[c.want] {
			t.Errorf("%s with token %s: %d, and %d calls", c.path, c.token, w.Code, calls-before)
		}
		var problem struct{ Token, Highest uint64 }
		if c.want == 412 && (json.Unmarshal(w.Body.Bytes(), &problem) != nil || problem.Token != 5 || problem.Highest != 6 ||
			w.Header().Get("Content-Type") != "application/problem+json") {
			t.Errorf("the refusal is %v %s", w.Header(), w.Body)
		}
	}
}

// TestTokenHeader: the header must be one number; requests without a resource
// need none.
func TestTokenHeader(t *testing.T) {
	h := fence.NewHandler(ok, new(fence.Memory), byPath)
	for token, want := range map[string]int{"": 400, "x": 400, "-1": 400, "0": 400, " 5": 400, "9007199254740992": 400, "9007199254740991": 200, "18446744073709551616": 400} {
		if w := call(h, "/db/"+fmt.Sprintf("%x", token), token); w.Code != want {
			t.Errorf("token %q: %d", token, w.Code)
		}
	}
	if w := call(h, "/db/a"); w.Code != 428 {
		t.Errorf("no token: %d", w.Code)
	}
	if w := call(h, "/db/a", "5", "6"); w.Code != 400 {
		t.Errorf("two tokens: %d", w.Code)
	}
	if w := call(h, "/db/"+strings.Repeat("x", 2000), "5"); w.Code != 400 {
		t.Errorf("a long resource: %d", w.Code)
	}
	if w := call(h, "/read"); w.Code != 200 {
		t.Errorf("a request that is not guarded: %d", w.Code)
	}
}

// TestRequestUnderWay: a request that is under way when a later holder comes
// loses its context, and the later one begins after it has returned.
func TestRequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		h := fence.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token := r.Header.Get(fence.HeaderToken)
			order = append(order, token+" begins")
			if token == "5" {
				<-r.Context().Done()
				if cause := context.Cause(r.Context()); !errors.Is(cause, fence.ErrStale) {
					t.Errorf("the context ended by %v", cause)
				}
				time.Sleep(time.Second)
			}
			order = append(order, token+" ends")
		}), new(fence.Memory), byPath)
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() { call(h, "/db", "5") })
		synctest.Wait()

		// A request that gives up before it may begin.
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if w := callUnder(brief, h, "/db", "6"); w.Code != 503 {
			t.Errorf("a request that gives up: %d", w.Code)
		}
		if w := call(h, "/db", "5"); w.Code != 412 {
			t.Errorf("a lower token after that: %d", w.Code)
		}
		if w := call(h, "/db", "7"); w.Code != 200 {
			t.Errorf("a later holder: %d", w.Code)
		}
		if got := strings.Join(order, ", "); got != "5 begins, 5 ends, 7 begins, 7 ends" {
			t.Error(got)
		}
	})
}

// TestConcurrentRequests: requests of two holders never overlap, and tokens only
// rise. Requests of one holder run side by side.
func TestConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, highest, most := make(map[string]int), "", 0
		h := fence.NewHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token := r.Header.Get(fence.HeaderToken)
			mu.Lock()
			if running[token]++; len(running) > 1 || token < highest {
				t.Errorf("token %s after %s, beside %v", token, highest, running)
			}
			highest, most = token, max(most, running[token])
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if running[token]--; running[token] == 0 {
				delete(running, token)
			}
		}), new(fence.Memory), byPath)
		var all sync.WaitGroup
		answers := make(map[int]int)
		for i := range 60 {
			all.Go(func() {
				time.Sleep(time.Duration(i/3) * time.Millisecond)
				w := call(h, "/db", string('1'+byte((i*7%60)/10)))
				mu.Lock()
				defer mu.Unlock()
				answers[w.Code]++
			})
		}
		all.Wait()
		if highest != "6" || most < 2 || answers[200] < 10 || answers[412] == 0 || answers[200]+answers[412] != 60 {
			t.Errorf("highest %s, %d side by side, answers %v", highest, most, answers)
		}
	})
}

// failing is a store that fails.
type failing struct{}

func (failing) Raise(context.Context, string, uint64) (uint64, error) {
	return 0, errors.New("no disk")
}

// TestStoreFails: a request is refused if its token cannot be recorded.
func TestStoreFails(t *testing.T) {
	h := fence.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request passed") }), failing{}, byPath)
	if w := call(h, "/db", "5"); w.Code != 503 || !strings.Contains(w.Body.String(), "no disk") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestFile: tokens survive a restart, and a damaged file is refused.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens.json")
	open := func() *fence.File {
		t.Helper()
		f, err := fence.OpenFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if w := call(fence.NewHandler(ok, open(), byPath), "/db", "6"); w.Code != 200 {
		t.Errorf("%d", w.Code)
	}
	if w := call(fence.NewHandler(ok, open(), byPath), "/db", "5"); w.Code != 412 {
		t.Errorf("after a restart: %d", w.Code)
	}
	f := open()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			resource := fmt.Sprintf("/db/%d", i%4)
			if highest, err := f.Raise(t.Context(), resource, uint64(i+1)); err != nil || highest < uint64(i+1) {
				t.Errorf("%d: %d, %v", i+1, highest, err)
			}
		})
	}
	all.Wait()
	f = open()
	for i := range 4 {
		if highest, err := f.Raise(t.Context(), fmt.Sprintf("/db/%d", i), 1); err != nil || highest != uint64(17+i) {
			t.Errorf("/db/%d: %d, %v", i, highest, err)
		}
	}
	for _, content := range []string{"", "null", "[]", `{"/db":-1}`, `{"/db":6`} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := fence.OpenFile(name); err == nil {
			t.Errorf("a file %q was accepted", content)
		}
	}
	if err := os.RemoveAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if highest, err := f.Raise(t.Context(), "/db/0", 99); err == nil || highest != 17 {
		t.Errorf("without its directory: %d, %v", highest, err)
	}
}
