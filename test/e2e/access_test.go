package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

func bearing(secret string) *http.Client {
	return &http.Client{Transport: bearer{secret, &http.Transport{DisableKeepAlives: true}}}
}

type bearer struct {
	secret string
	via    http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.via.RoundTrip(r)
}

// through makes a call by a client, and returns the final answer or refusal.
func through[T any](ctx context.Context, via *http.Client, r *cell.Replica, method, path string, in any) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, cell.Step)
	defer cancel()
	_, err = cell.Repeat(ctx, func(int) error {
		_, err := cell.CallVia(ctx, via, method, r.URL, path, in, &out)
		return err
	})
	return out, err
}

// TestAccessOverReplicas: access rules belong to the cell. Every replica
// enforces them, for forwarded calls and others, and they survive changes of
// master, restarts and snapshots.
func TestAccessOverReplicas(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: append(frequentSnapshots, calm...)})
	follower := c.Others(c.Ready(t))[0]
	root := call[lockapi.Token](t, follower, http.MethodPost, lockapi.RouteEnable, nil)
	as := map[string]*http.Client{"root": bearing(root.Secret)}
	admin := func(r *cell.Replica, method, path string, in any) {
		t.Helper()
		_, err := through[map[string]any](t.Context(), as["root"], r, method, path, in)
		must(t, err)
	}
	// The harness, and the cell's own health checks, send no credential.
	admin(follower, http.MethodPut, lockapi.RouteCellAccess, lockapi.CellAccess{Observe: []string{"anonymous"}, Operate: []string{}})
	admin(follower, http.MethodPut, lockapi.RouteRules+"/p", lockapi.AccessLists{Read: []string{"user:reader", "group:writers"}, Write: []string{"group:writers"}})
	admin(follower, http.MethodPut, lockapi.RouteGroups+"/writers", lockapi.GroupMembers{Members: []string{"user:writer"}})
	for _, name := range []string{"reader", "writer", "stranger"} {
		token, err := through[lockapi.Token](t.Context(), as["root"], follower, http.MethodPost, lockapi.RouteTokens, lockapi.TokenRequest{Principal: "user:" + name})
		must(t, err)
		as[name] = bearing(token.Secret)
	}
	check := func(when string) {
		t.Helper()
		for i, r := range c.Replicas() {
			file := fmt.Sprintf("%s/p/%s-%d", lockapi.RouteFiles, when, i)
			for name, want := range map[string]error{"reader": lockapi.CodePermissionDenied, "stranger": lockapi.CodePermissionDenied, "writer": nil} {
				if _, err := through[lockapi.FileStat](t.Context(), as[name], r, http.MethodPut, file, "x"); !errors.Is(err, want) {
					t.Errorf("%s, through %s: %s writes: %v", when, r.ID, name, err)
				}
			}
			if _, err := call2(t, r, http.MethodGet, file+"?as=json"); !errors.Is(err, lockapi.CodeUnauthenticated) {
				t.Errorf("%s, through %s: an anonymous caller reads: %v", when, r.ID, err)
			}
			// A stale read is checked against the replica's own state, which
			// catches up.
			must(t, cell.Wait(cell.Bounded(t), r.ID+" checks stale reads", func(ctx context.Context) error {
				for name, want := range map[string]error{"reader": nil, "stranger": lockapi.CodePermissionDenied} {
					if _, err := through[lockapi.File](ctx, as[name], r, http.MethodGet, file+"?as=json&consistency=stale", nil); !errors.Is(err, want) {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
				return nil
			}))
			list, err := through[lockapi.EventList](t.Context(), as["stranger"], r, http.MethodGet, lockapi.RouteEvents+"?after=0", nil)
			for _, e := range list.Events {
				if e.Path != "" {
					t.Errorf("%s, through %s: a stranger sees %s (%v)", when, r.ID, e.Path, err)
				}
			}
		}
	}
	check("at first")
	for _, r := range c.Replicas() { // the connections between them have no TLS
		must(t, cell.Wait(cell.Bounded(t), r.ID+" warns", func(context.Context) error {
			if !strings.Contains(r.LogTail(1000), "access is on without TLS between replicas") {
				return errors.New("it does not log that")
			}
			return nil
		}))
	}
	master := c.Ready(t)
	must(t, master.Kill())
	newMaster(t, c, master)
	must(t, master.Start())
	c.Ready(t)
	check("after a change of master")
	for _, r := range c.Replicas() {
		must(t, r.Kill())
	}
	for _, r := range c.Replicas() {
		must(t, r.Start())
	}
	c.Ready(t)
	check("after a restart")

	// A revocation is effective at every replica once it is acknowledged.
	admin(c.Replicas()[0], http.MethodPut, lockapi.RouteGroups+"/writers", lockapi.GroupMembers{Members: []string{}})
	for _, r := range c.Replicas() {
		if _, err := through[lockapi.FileStat](t.Context(), as["writer"], r, http.MethodPut, lockapi.RouteFiles+"/p/late", "x"); !errors.Is(err, lockapi.CodePermissionDenied) {
			t.Errorf("through %s: %v", r.ID, err)
		}
	}
	admin(c.Replicas()[1], http.MethodDelete, lockapi.RouteTokens+"/"+root.ID, nil)
	for _, r := range c.Replicas() {
		if _, err := through[lockapi.WhoAmI](t.Context(), as["root"], r, http.MethodGet, lockapi.RouteWhoAmI, nil); !errors.Is(err, lockapi.CodeUnauthenticated) {
			t.Errorf("through %s: %v", r.ID, err)
		}
	}
}

// call2 is a call without a credential that returns its error.
func call2(t *testing.T, r *cell.Replica, method, path string) (out lockapi.File, err error) {
	t.Helper()
	_, err = cell.Insist(cell.Bounded(t), []*cell.Replica{r}, method, path, nil, &out)
	return out, err
}

// TestFoundedWithAccess: a cell that is founded with access control never
// serves an unknown caller. An operator without the root's tokens can regain
// access on a host.
func TestFoundedWithAccess(t *testing.T) {
	t.Parallel()
	secret := func(name, of string) (file, secret string) {
		file, secret = filepath.Join(t.TempDir(), name), "stout_"+strings.Repeat(of, 20)
		must(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
		return file, secret
	}
	rootFile, root := secret("root", "ab")
	glassFile, glass := secret("glass", "cd")
	c := cell.NewPrepared(t, cell.Options{Args: append([]string{"--found-token-file=" + rootFile, "--break-glass-token-file=" + glassFile}, calm...)})
	served, stop := make(chan error, 1), make(chan struct{})
	go func() { // the first caller
		defer close(served)
		for {
			for _, r := range c.Replicas() {
				if s, err := r.Call(context.Background(), http.MethodPost, lockapi.RouteSessions, nil, nil); err == nil {
					served <- fmt.Errorf("%s has opened a session for an unknown caller: %d", r.ID, s)
					return
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	for _, r := range c.Replicas() {
		must(t, r.Start())
	}
	identities := func(secret string) (all []lockapi.WhoAmI) {
		for _, r := range c.Replicas() {
			var one lockapi.WhoAmI
			if _, err := cell.CallVia(t.Context(), bearing(secret), http.MethodGet, r.URL, lockapi.RouteWhoAmI, nil, &one); err == nil {
				all = append(all, one)
			}
		}
		return all
	}
	must(t, cell.Wait(cell.Bounded(t), "the root is known at every replica", func(context.Context) error {
		if all := identities(root); len(all) != 3 {
			return fmt.Errorf("%v", all)
		}
		return nil
	}))
	close(stop)
	must(t, <-served)
	if all := identities(glass); len(all) != 1 || all[0] != (lockapi.WhoAmI{Principal: lockapi.PrincipalRoot, How: lockapi.HowBreakGlass}) {
		t.Errorf("by the secret behind the glass: %v", all)
	}
	for _, r := range c.Replicas() {
		if tail := r.LogTail(1000); strings.Contains(tail, root) || strings.Contains(tail, glass) {
			t.Errorf("the log of %s has a secret", r.ID)
		}
	}
}
