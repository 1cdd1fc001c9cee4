//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/identity"
	"github.com/stoutlock/stout/internal/jwttest"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// shortLife is for how long a token of the test counts, the leeway included, and
// rotateEvery is how often there is another one.
const (
	shortLife   = 6 * time.Second
	rotateEvery = 500 * time.Millisecond
)

// rotation puts a new token into a file, again and again.
type rotation struct {
	file string
	told chan struct{} // gets one for each new token
}

func rotate(t *testing.T, by *jwttest.Issuer, who string) *rotation {
	t.Helper()
	r := &rotation{filepath.Join(t.TempDir(), "token"), make(chan struct{})}
	write := func() {
		next := r.file + ".new"
		if err := os.WriteFile(next, []byte(by.Token(who, shortLife-identity.Leeway, nil)+"\n"), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(next, r.file); err != nil {
			t.Error(err)
		}
	}
	write()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() { stop(); done.Wait() })
	done.Go(func() {
		tick := time.NewTicker(rotateEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				write()
				select {
				case r.told <- struct{}{}:
				default:
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return r
}

// lives waits until as many tokens have ended, one after the other.
func (r *rotation) lives(n int) {
	for range n * int(shortLife/rotateEvery) {
		<-r.told
	}
}

// TestRotatedTokens: stout waits for a lock, holds it and releases it under JWTs
// that last for a part of each of these only, while access is on.
func TestRotatedTokens(t *testing.T) {
	testrun.E2E(t)
	t.Parallel()
	by := jwttest.New()
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, by.Keys(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cell.New(t, cell.Options{Args: []string{"--heartbeat-timeout=5s", "--jwt-issuer", jwttest.Name, "--jwt-audience", jwttest.Audience, "--jwt-keys", keys}})
	base := c.Ready(t).URL
	ctx := cell.Bounded(t)
	root := ""
	admin := func(method, path string, in, out any) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		q, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if root != "" {
			q.Header.Set("Authorization", "Bearer "+root)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode > 299 {
			t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
		}
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
	var made lockapi.Token
	admin(http.MethodPost, lockapi.RouteEnable, struct{}{}, &made)
	root = made.Secret
	admin(http.MethodPut, lockapi.RouteCellAccess, lockapi.CellAccess{Observe: []string{"anonymous"}, Operate: []string{}}, &lockapi.CellAccess{})
	admin(http.MethodPut, lockapi.RouteRules+"/jobs", lockapi.AccessLists{Read: []string{"user:nightly"}, Lock: []string{"user:nightly"}}, &lockapi.AccessRule{})

	other, err := client.Config{URLs: c.URLs(), Token: func(context.Context) (string, error) { return root, nil }}.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	session, err := other.NewSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held, err := session.Lock(ctx, "/jobs/x")
	if err != nil {
		t.Fatal(err)
	}

	tokens := rotate(t, by, "nightly")
	cmd := exec.CommandContext(ctx, "stout", "--server", strings.Join(c.URLs(), ","), "--token-file", tokens.file,
		"lock", "--ttl", "5s", "/jobs/x", "--", "sh", "-c", "echo up $STOUT_AUTH_TOKEN_FILE; read end; echo down")
	var said bytes.Buffer
	cmd.Stderr = &said
	release, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	told := begin(t, cmd)
	lock := func(want string) {
		t.Helper()
		err := cell.Wait(ctx, want, func(context.Context) error {
			var l lockapi.Lock
			admin(http.MethodGet, lockapi.RouteLocks+"/jobs/x?waiters=1", nil, &l)
			got := fmt.Sprint(len(l.Holders), " ", l.Waiters)
			for _, h := range l.Holders {
				got += " held by " + h.Principal
			}
			for _, w := range l.Queue {
				got += " waited for by " + w.Principal
			}
			if got != want {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%v; stout says: %s", err, &said)
		}
	}
	lock("1 1 held by user:root waited for by user:nightly")
	tokens.lives(2)
	lock("1 1 held by user:root waited for by user:nightly")
	if err := held.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	told("up")
	tokens.lives(2) // more than the session's ttl
	lock("1 0 held by user:nightly")
	_, _ = io.WriteString(release, "end\n")
	told("down")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &said)
	}
	lock("0 0")
}
