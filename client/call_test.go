package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no URL":         {},
		"empty":          {URLs: []string{""}},
		"host alone":     {URLs: []string{"localhost"}},
		"port alone":     {URLs: []string{":7101"}},
		"host, no port":  {URLs: []string{"localhost:"}},
		"port's name":    {URLs: []string{"localhost:http"}},
		"port too high":  {URLs: []string{"http://localhost:71010"}},
		"port zero":      {URLs: []string{"localhost:0"}},
		"bare IPv6":      {URLs: []string{"::1:7101"}},
		"several in one": {URLs: []string{"r1:7101,r2:7101"}},
		"other scheme":   {URLs: []string{"ftp://r1"}},
		"no host":        {URLs: []string{"http://:7101"}},
		"credentials":    {URLs: []string{"http://me:secret@r1"}},
		"query":          {URLs: []string{"http://r1?x=1"}},
		"malformed":      {URLs: []string{"http://r1", "http://%zz"}},
		"negative grace": {URLs: []string{"http://r1"}, Grace: -1},
	} {
		if got, err := c.New(); err == nil || got != nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for given, want := range map[string]string{
		"localhost:7101": "http://localhost:7101", "10.0.0.1:7101": "http://10.0.0.1:7101", "[::1]:7101": "http://[::1]:7101",
		"gateway:80/stout/": "http://gateway:80/stout", "http://r1": "http://r1", "https://r1:8443": "https://r1:8443",
	} {
		c, err := New(given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
		} else if got := c.calls.targets.pick().to.base; got != want {
			t.Errorf("%s stands for %s, want %s", given, got, want)
		}
	}
	if _, err := New("localhost"); err == nil || !strings.Contains(err.Error(), "write http://host:port") {
		t.Errorf("the error does not say what to write: %v", err)
	}
	c, err := New("https://gateway:8443/stout/")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.calls.targets.pick().to.url("/v1/locks/a b/%/ü", "").String(); got != "https://gateway:8443/stout/v1/locks/a%20b/%25/%C3%BC" {
		t.Errorf("address is %s", got)
	}
}

// A client that knows only replicas that are no masters, one of them dead,
// finds the master and stays with it.
func TestFollowsTheMaster(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		f.kill("r1")
		f.elect("r3")
		if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(f.start); got > 200*time.Millisecond {
			t.Errorf("it took %s to find the master", got)
		}
		before := len(f.sent())
		if _, err := c.ReadLock(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if got := f.sent()[before:]; len(got) != 1 || got[0].host != "r3" || got[0].header.Get(lockapi.HeaderForward) != lockapi.ForwardNever {
			t.Errorf("the second call went %+v", got)
		}
	})
}

// After a fail-over the new master is found soon after it is in office.
func TestFailOverIsNoticedQuickly(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c)
		f.kill("r1")
		time.AfterFunc(5*time.Second, func() { f.elect("r2") })
		began := time.Now()
		lock(t, s, "/a")
		if got := time.Since(began) - 5*time.Second; got > mostPause+100*time.Millisecond {
			t.Errorf("noticed %s after the election", got)
		}
	})
}

// Where the URL that the cell gives for its master cannot be reached, calls are
// forwarded.
func TestForwardsWhereTheMasterIsOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, _ *Client) {
		// From here only r2 is to be reached.
		c, err := Config{
			URLs: []string{"http://r2"}, Transport: onlyHost{f, "r2"}, Clock: func() time.Duration { return time.Since(f.start) },
		}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		s := open(t, c)
		h := lock(t, s, "/a")
		time.Sleep(10 * time.Minute)
		if s.State() != Safe || h.Err() != nil {
			t.Errorf("session is %s, hold %v", s.State(), h.Err())
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type onlyHost struct {
	next http.RoundTripper
	host string
}

func (o onlyHost) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != o.host {
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route to host")}
	}
	return o.next.RoundTrip(r)
}

// A call under a context that ends says why it failed, and whether it may have
// taken effect.
func TestGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for id := range f.replicas {
			f.kill(id)
		}
		_, err := c.NewSession(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, ErrNoMaster)

		f.set(func() {
			f.drop = func(*http.Request) bool { return true }
			for _, r := range f.replicas {
				r.dead = false
			}
		})
		f.elect("r1")
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = c.NewSession(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, ErrOutcomeUnknown)
	})
}

// Transfer is not sent again once it may have been done.
func TestTransferIsSentOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		if got, err := c.Transfer(t.Context(), "r2"); err != nil || got.Master != "r2" {
			t.Fatalf("transfer: %+v, %v", got, err)
		}
		f.set(func() { f.drop = func(*http.Request) bool { return true } })
		before := f.count(isMethod(http.MethodPost))
		_, err := c.Transfer(t.Context(), "r3")
		wantErr(t, err, ErrOutcomeUnknown)
		if n := f.count(isMethod(http.MethodPost)) - before; n > 2 { // one of them was told 421
			t.Errorf("the transfer was sent %d times", n)
		}
	})
}

func TestReads(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeCell, c *Client) {
		s := open(t, c, WithName("reader"), WithMeta(map[string]string{"pid": "8"}))
		h := lock(t, s, "/a")
		f.set(func() { f.master = "" })
		if l, err := c.ReadLock(t.Context(), "/a", Stale()); err != nil || len(l.Holders) != 1 {
			t.Errorf("stale read: %+v, %v", l, err)
		}
		if _, err := c.ReadLock(t.Context(), "/a", Stale(), Queue(7)); err != nil || f.count(func(r fakeRequest) bool {
			return r.query == "consistency=stale&waiters=7"
		}) != 1 {
			t.Errorf("the queue was not asked for: %v", err)
		}
		if cell, err := c.Cell(t.Context()); err != nil || cell.Cell != "fake" {
			t.Errorf("cell: %+v, %v", cell, err)
		}
		if r, err := c.Replica(t.Context(), "http://r3"); err != nil || r.ID != "r3" {
			t.Errorf("replica: %+v, %v", r, err)
		}
		f.elect("r1")
		state, err := c.ReadSession(t.Context(), s.ID())
		if err != nil || len(state.Holds) != 1 || state.Holds[0].Token != h.Token() || state.Meta["pid"] != "8" {
			t.Errorf("session: %+v, %v", state, err)
		}
		for one, err := range c.ListSessions(t.Context()) {
			if err != nil || one.Name != "reader" {
				t.Errorf("sessions: %+v, %v", one, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range c.ListLocks(ctx, "") {
			wantErr(t, err, context.Canceled)
		}
	})
}

// What is not a problem document is not taken for the cell's word.
func TestForeignAnswers(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   error
	}{
		{http.StatusOK, "<html>", ErrInternal},
		{http.StatusFound, "", ErrInternal},
		{http.StatusNotFound, "404 page not found", ErrNotFound},
		{http.StatusInternalServerError, "{}", ErrInternal},
		{http.StatusConflict, `{"code":"conflict","detail":"no"}`, ErrConflict},
		{http.StatusTooManyRequests, `{"code":"too_many"}`, ErrTooMany},
	} {
		c, err := Config{URLs: []string{"http://r1"}, Transport: answer(func(*http.Request) (int, string) { return test.status, test.body })}.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.ReadLock(t.Context(), "/a")
		wantErr(t, err, test.want)
		if _, ok := err.(*lockapi.Error); !ok {
			t.Errorf("%d %q: the error is a %T", test.status, test.body, err)
		}
		if err := c.Ready(t.Context(), "http://r1"); test.status >= 300 {
			wantErr(t, err, test.want)
			if _, ok := err.(*lockapi.Error); !ok {
				t.Errorf("%d %q: the error of one attempt is a %T", test.status, test.body, err)
			}
		}
	}
}

type answer func(*http.Request) (int, string)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := a(r)
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(body))}, nil
}

// BenchmarkLockUnlock measures a cycle of the client over a real connection.
func BenchmarkLockUnlock(b *testing.B) {
	server := httptest.NewServer(newFakeCell())
	defer server.Close()
	c, err := New(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	s, err := c.NewSession(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.WithoutCancel(ctx))
	b.ReportAllocs()
	for b.Loop() {
		h, err := s.Lock(ctx, "/a")
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
