package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// forger adds headers to each call that could forge an identity.
type forger struct{ via http.RoundTripper }

func (f forger) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range map[string]string{
		"Stout-Caller": `{"principal":"user:admin","how":"certificate"}`, "Stout-Principal": "user:root", "X-Forwarded-User": "user:root",
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Client-Cert": "URI=user:root", "Forwarded": "for=127.0.0.1", "Remote-User": "root",
	} {
		r.Header.Set(name, value)
	}
	return f.via.RoundTrip(r)
}

// TestSameDecisionEverywhere: over TLS a caller has the same identity and the
// same rights at the master and at each forwarding replica. This holds for
// every kind of credential, and for any forged header.
func TestSameDecisionEverywhere(t *testing.T) {
	t.Parallel()
	by, keys := jwttest.New(), filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(keys, by.Keys(), 0o600))
	c := cell.New(t, cell.Options{Secure: true, Clients: []string{"billing"},
		Args: append([]string{"--jwt-issuer=" + jwttest.Name, "--jwt-audience=" + jwttest.Audience, "--jwt-keys=" + keys}, calm...)})
	master := c.Ready(t)
	config, err := c.ClientTLS("billing")
	must(t, err)
	anonymous := &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.TLS()}
	shows := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	root := call[lockapi.Token](t, c.Others(master)[0], http.MethodPost, lockapi.RouteEnable, nil)
	admin := &http.Client{Transport: bearer{root.Secret, anonymous}}
	change := func(method, path string, in any) {
		t.Helper()
		_, err := through[map[string]any](t.Context(), admin, master, method, path, in)
		must(t, err)
	}
	change(http.MethodPut, lockapi.RouteCellAccess, lockapi.CellAccess{Observe: []string{"anonymous"}, Operate: []string{}})
	change(http.MethodPut, lockapi.RouteRules+"/c", lockapi.AccessLists{Read: []string{"user:billing"}, Write: []string{"user:billing"}})
	change(http.MethodPut, lockapi.RouteRules+"/t", lockapi.AccessLists{Read: []string{"*"}, Write: []string{"user:writer"}})
	change(http.MethodPut, lockapi.RouteRules+"/o", lockapi.AccessLists{Read: []string{"anonymous", "*"}})
	token, err := through[lockapi.Token](t.Context(), admin, master, http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: "user:writer"})
	must(t, err)

	callers := map[string]http.RoundTripper{
		"no credential":   anonymous,
		"a certificate":   shows,
		"a JWT":           bearer{by.Token("zoe", time.Hour, nil), shows},
		"a token":         bearer{token.Secret, anonymous},
		"both":            bearer{token.Secret, shows},
		"the root":        bearer{root.Secret, shows},
		"a wrong token":   bearer{"stout_" + strings.Repeat("x", 64), shows},
		"no token at all": bearer{"eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.", shows},
	}
	calls := []struct {
		method, path string
		in           any
	}{
		{http.MethodGet, lockapi.RouteWhoAmI, nil},
		{http.MethodPut, lockapi.RouteFiles + "/c/f", "x"},
		{http.MethodPut, lockapi.RouteFiles + "/t/f", "x"},
		{http.MethodGet, lockapi.RouteFiles + "/c/f?as=json", nil},
		{http.MethodGet, lockapi.RouteFiles + "/o/none?as=json", nil},
		{http.MethodGet, lockapi.RouteFiles + "?prefix=/", nil},
		{http.MethodGet, lockapi.RouteTokens, nil},
		{http.MethodPut, lockapi.RouteRules + "/x", lockapi.AccessLists{}},
	}
	decision := func(via http.RoundTripper, r *cell.Replica, method, path string, in any) string {
		out, err := through[map[string]any](t.Context(), &http.Client{Transport: via}, r, method, path, in)
		e, _ := err.(*lockapi.Error)
		switch {
		case err == nil:
			return fmt.Sprint("done ", out["principal"], " ", out["how"])
		case e == nil:
			return err.Error()
		}
		return fmt.Sprintf("%s %s %s %s", e.Code, e.Principal, e.Permission, e.Path)
	}
	for name, via := range callers {
		for _, do := range calls {
			want := decision(via, master, do.method, do.path, do.in)
			for _, r := range c.Replicas() {
				for _, by := range []http.RoundTripper{via, forger{via}} {
					if got := decision(by, r, do.method, do.path, do.in); got != want {
						t.Errorf("%s: %s %s at %s: %s; at the master: %s", name, do.method, do.path, r.ID, got, want)
					}
				}
			}
		}
		if strings.Contains(name, "token") || name == "the root" || name == "both" {
			continue
		}
		if got := decision(via, master, http.MethodGet, lockapi.RouteTokens, nil); strings.HasPrefix(got, "done") {
			t.Errorf("%s reads tokens", name)
		}
	}
	if got := decision(callers["a token"], c.Others(master)[0], http.MethodPut, lockapi.RouteFiles+"/t/f", "x"); got != "done user:writer <nil>" {
		t.Errorf("the decision for a permitted writer is %s", got)
	}
	for name, want := range map[string]string{"a certificate": "done user:billing certificate", "a JWT": "done user:zoe jwt"} {
		if got := decision(callers[name], master, http.MethodGet, lockapi.RouteWhoAmI, nil); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, r := range c.Replicas() {
		if tail := r.LogTail(1000); strings.Contains(tail, "have no TLS") || strings.Contains(tail, token.Secret) || strings.Contains(tail, root.Secret) {
			t.Errorf("the log of %s: %s", r.ID, tail)
		}
	}
}

// TestFoundersAgreeOnAccess: if one replica lacks a found-token-file, or has
// another secret, no cell is founded, and each replica reports why. With equal
// secrets the cell is founded.
func TestFoundersAgreeOnAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, of string) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, []byte("stout_"+strings.Repeat(of, 40)+"\n"), 0o600))
		return "--found-token-file=" + name
	}
	same, other := file("same", "a"), file("other", "b")
	c := cell.NewPrepared(t, cell.Options{Args: calm})
	last := c.Replicas()[2]
	for _, r := range c.Replicas()[:2] {
		must(t, r.StartWith(same))
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{nil, "has a found-token-file, and r3 has none"},
		{[]string{other}, "have different secrets"},
	} {
		must(t, last.StartWith(step.args...))
		must(t, cell.Wait(cell.Bounded(t), "all report the reason", func(ctx context.Context) error {
			for _, r := range []*cell.Replica{c.Replicas()[0], last} {
				if report, err := standby(ctx, r); err != nil || !strings.Contains(report.Detail, "found-token-file") || r != last && !strings.Contains(report.Detail, step.want) {
					return fmt.Errorf("%s reports %v, %v", r.ID, report, err)
				}
			}
			return nil
		}))
		must(t, last.Terminate(cell.Bounded(t)))
	}
	must(t, last.StartWith(same))
	must(t, cell.Wait(cell.Bounded(t), "access is on", func(ctx context.Context) error {
		for _, r := range c.Replicas() {
			if _, err := r.Call(ctx, http.MethodGet, lockapi.RouteSessions, nil, nil); err == nil || !strings.Contains(err.Error(), string(lockapi.CodeUnauthenticated)) {
				return fmt.Errorf("%s answers %v", r.ID, err)
			}
		}
		return nil
	}))
}

// TestForwardedCallsAreClearOfMaxConnections: when the master's API has no free
// connection, calls through another replica are still answered.
func TestForwardedCallsAreClearOfMaxConnections(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: append([]string{"--max-connections=16"}, still...)})
	master := c.Ready(t)
	other := c.Others(master)[0]
	for range 3 {
		s := open(t, other, aWhile)
		for range 8 { // 24 in all, more than the limit of connections
			keepalive(t, master, s.ID, "")
		}
	}
	must(t, cell.Wait(cell.Bounded(t), "the master's connections are used up", func(ctx context.Context) error {
		if status, err := master.Call(ctx, http.MethodGet, lockapi.RouteCell, nil, nil); status != http.StatusTooManyRequests {
			return fmt.Errorf("%d, %v", status, err)
		}
		return nil
	}))
	for range 20 {
		s := open(t, other, aWhile)
		release(t, other, acquire(t, other, "/clear", ask(s.ID, "", 0)))
	}
}
