package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/lockapi"
)

// A client that is given only followers, one of them dead, finds the master and
// keeps using it.
func TestFollowsTheMaster(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		tc.kill("r1")
		tc.Elect("r3")
		began := time.Now()
		must(t, second(c.ReadLock(t.Context(), "/a")))
		wantWithin(t, began, 200*time.Millisecond)
		before := len(tc.sent())
		must(t, second(c.ReadLock(t.Context(), "/a")))
		if got := tc.sent()[before:]; len(got) != 1 || got[0].host != "r3" || got[0].header.Get(lockapi.HeaderForward) != lockapi.ForwardNever {
			t.Errorf("the second call sent %+v", got)
		}
	})
}

// After a failover the client finds the new master soon after its election.
func TestFailOverIsNoticedQuickly(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		s := open(t, c)
		tc.kill("r1")
		time.AfterFunc(5*time.Second, func() { tc.Elect("r2") })
		began := time.Now()
		lock(t, s, "/a")
		if got := time.Since(began) - 5*time.Second; got > client.MostPause+100*time.Millisecond {
			t.Errorf("noticed %s after the election", got)
		}
	})
}

func TestReads(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, c *client.Client) {
		lock(t, open(t, c), "/a")
		tc.Depose()
		if l, err := c.ReadLock(t.Context(), "/a", client.Stale()); err != nil || len(l.Holders) != 1 {
			t.Errorf("stale read: %+v, %v", l, err)
		}
		if _, err := c.ReadLock(t.Context(), "/a", client.Stale(), client.Waiters(7)); err != nil || tc.count(func(r sentRequest) bool {
			return r.query == "consistency=stale&waiters=7"
		}) != 1 {
			t.Errorf("the request did not name the queue: %v", err)
		}
		tc.Elect("r1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range c.ListLocks(ctx, "") {
			wantErr(t, err, context.Canceled)
		}
	})
}

// An answer that is not a problem document does not count as the cell's. The
// call still ends with a *lockapi.Error.
func TestForeignAnswers(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   error
	}{
		{http.StatusOK, "<html>", client.ErrInternal},
		{http.StatusFound, "", client.ErrInternal},
		{http.StatusNotFound, "404 page not found", client.ErrInternal},
		{http.StatusInternalServerError, "{}", client.ErrInternal},
		{http.StatusConflict, `{"code":"conflict","detail":"no"}`, client.ErrConflict},
		{http.StatusTooManyRequests, `{"code":"too_many"}`, client.ErrTooMany},
	} {
		c := newClient(t, client.Config{URLs: []string{"http://r1"}, Transport: answer(func(*http.Request) (int, string) { return test.status, test.body })})
		_, err := c.ReadLock(t.Context(), "/a")
		wantErr(t, err, test.want)
		if _, ok := err.(*lockapi.Error); !ok {
			t.Errorf("%d %q: the error is a %T", test.status, test.body, err)
		}
		if err := admin.New(c).Ready(t.Context(), "http://r1"); test.status >= 300 {
			wantErr(t, err, test.want)
			if _, ok := err.(*lockapi.Error); !ok {
				t.Errorf("%d %q: the error of one attempt is a %T", test.status, test.body, err)
			}
		}
	}
}
