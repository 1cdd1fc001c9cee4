package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoutlock/stout/lockapi"
)

// TestEncodedSlashes: %2F and / in a path are the same separator on every route
// with a path: under the server's own HTTP, under net/http, and through a replica,
// which forwards by HTTP/2.
func TestEncodedSlashes(t *testing.T) {
	calls := []struct{ method, target, body, made string }{
		{"PUT", "/v1/locks/a/b/c", `{"session":"s1"}`, `AcquireLock Path=/a/b/c Session=s1 Mode=exclusive`},
		{"GET", "/v1/locks/a/b/c", "", "GetLock Path=/a/b/c"},
		{"HEAD", "/v1/locks/a/b/c", "", "GetLock Path=/a/b/c"},
		{"GET", "/v1/locks/a/%252F/b", "", "GetLock Path=/a/%2F/b"},
		{"DELETE", "/v1/locks/a/b/c?session=s1", "", "ReleaseLock Path=/a/b/c Session=s1"},
		{"PUT", "/v1/files/a/b/c", "", "WriteFile Path=/a/b/c"},
		{"POST", "/v1/files/a/b", "", "WriteFile Path=/a/b Sequential=true"},
		{"POST", "/v1/files/a/b/", "", "WriteFile Path=/a/b/ Sequential=true"},
		{"GET", "/v1/files/a/b/c", "", "GetFile Path=/a/b/c"},
		{"DELETE", "/v1/files/a/b/c", "", "DeleteFiles Path=/a/b/c"},
		{"PUT", "/v1/access/rules/a/b/c", `{}`, "PutRule Path=/a/b/c"},
		{"GET", "/v1/access/rules/a/b/c", "", "GetRule Path=/a/b/c"},
		{"DELETE", "/v1/access/rules/a/b/c", "", "DeleteRule Path=/a/b/c"},
		// Refused: the master is not called.
		{"PUT", "/v1/locks/a/", `{"session":"s1"}`, ""},
		{"GET", "/v1/locks//a", "", ""},
		{"GET", "/v1/files/a//b", "", ""},
		{"GET", "/v1/files/a/../b", "", ""},
		{"POST", "/v1/files/a//", "", ""},
		{"PUT", "/v1/access/rules/a/", `{}`, ""},
		{"PUT", "/v1/access/rules//", `{}`, ""},
	}
	master, replica := startPair(t, nil)
	master.addSession(lockapi.Session{ID: "s1"})
	other := httptest.NewServer(master.server.Handler())
	t.Cleanup(other.Close)
	for door, base := range map[string]string{"wire": master.url, "net/http": other.URL, "a replica": replica.url} {
		for _, c := range calls {
			route := c.target[:routeEnd(c.target)]
			var plain reply
			for i, path := range slashed(c.target[len(route):]) {
				master.forget()
				replica.forget()
				got := call(t, c.method, base+route+path, c.body)
				what := fmt.Sprintf("%s: %s %s%s", door, c.method, route, path)
				if made := strings.Join(slices.Concat(master.made(), replica.made()), "; "); made != c.made {
					t.Errorf("%s: made %q, want %q; answer %d %s", what, made, c.made, got.status, got.body)
				}
				if c.made == "" {
					got.wantField(t, "path")
				}
				if i == 0 {
					plain = got
				}
				if got.body != plain.body && got.status >= 300 {
					t.Errorf("%s: answer %d %s; with plain slashes %d %s", what, got.status, got.body, plain.status, plain.body)
				}
			}
		}
	}
	for _, n := range []*node{master, replica} {
		routes := slices.DeleteFunc(labels(t, n, "route"), func(r string) bool { return r == lockapi.RouteLive }) // of the replicas' probes
		if !slices.Equal(routes, []string{"/v1/access/rules/{path}", "/v1/files/{path}", "/v1/locks/{path}"}) {
			t.Errorf("the metrics have the routes %q", routes)
		}
	}
	// A write under a key is the same call in both forms.
	for i, target := range []string{"/v1/files/k/l?session=s1", "/v1/files/k%2Fl?session=s1"} {
		got := call(t, "PUT", replica.url+target, "x", lockapi.HeaderIdempotencyKey, "once")
		if replayed := got.header.Get(lockapi.HeaderReplayed) != ""; got.status != http.StatusCreated || replayed != (i > 0) {
			t.Errorf("PUT %s: status %d, replayed: %v: %s", target, got.status, replayed, got.body)
		}
	}
	// An encoded slash of the route itself does not match it.
	for _, target := range []string{"/v1%2Flocks/a", "/v1/locks%2Fa", "/v1/access%2Frules/a"} {
		call(t, "GET", master.url+target, "").wantCode(t, lockapi.CodeNotFound)
	}
}

// routeEnd returns the length of the route before the path, with its slash.
func routeEnd(target string) int {
	for _, route := range []string{lockapi.RouteLocks, lockapi.RouteFiles, lockapi.RouteRules} {
		if strings.HasPrefix(target, route+"/") {
			return len(route) + 1
		}
	}
	panic(target)
}

// slashed returns the path with each subset of its slashes encoded: first with
// none, last with all.
func slashed(path string) (all []string) {
	path, query, _ := strings.Cut(path, "?")
	if query != "" {
		query = "?" + query
	}
	for which := range uint64(1) << strings.Count(path, "/") {
		all = append(all, encodeSlashes(path, which)+query)
	}
	return all
}

// encodeSlashes encodes the slashes with set bits, in upper and lower case by
// turns.
func encodeSlashes(path string, which uint64) string {
	var b strings.Builder
	n := 0
	for i, segment := range strings.Split(path, "/") {
		switch {
		case i == 0:
		case which&(1<<(i-1)) == 0:
			b.WriteString("/")
		default:
			b.WriteString([]string{"%2F", "%2f"}[n%2])
			n++
		}
		b.WriteString(segment)
	}
	return b.String()
}

// labels returns the values of a label in the counter of requests.
func labels(t *testing.T, n *node, name string) (values []string) {
	t.Helper()
	families, err := n.registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != "stout_http_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == name {
					values = append(values, l.GetValue())
				}
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// TestAnySlashesEncoded: a valid path with any subset of its slashes encoded is
// the same call, at the master and through a replica.
func TestAnySlashesEncoded(t *testing.T) {
	b := newBench(t)
	segment := rapid.StringOfN(rapid.RuneFrom([]rune("a.%2fF+ ?#é日")), 1, 8, lockapi.MaxSegmentBytes)
	rapid.Check(t, func(r *rapid.T) {
		path := "/" + strings.Join(rapid.SliceOfN(segment, 1, lockapi.MaxPathSegments).Draw(r, "segments"), "/")
		if lockapi.ValidatePath(path) != nil {
			r.Skip()
		}
		route := rapid.SampledFrom([]string{lockapi.RouteLocks, lockapi.RouteFiles, lockapi.RouteRules}).Draw(r, "route")
		to := rapid.SampledFrom([]http.Handler{b.toMaster, b.toOther}).Draw(r, "to")
		// The first slash is the end of the route.
		target := route + "/" + encodeSlashes(lockapi.EscapePath(path)[1:], rapid.Uint64().Draw(r, "encoded"))
		b.master.forget()
		to.ServeHTTP(httptest.NewRecorder(), parse("GET", target, "", "", nil))
		if made := b.master.made(); len(made) != 1 || !strings.HasSuffix(made[0], " Path="+path) {
			r.Errorf("%s made %q instead of a call for %s", target, made, path)
		}
	})
}
