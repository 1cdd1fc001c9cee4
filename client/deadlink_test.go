package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// deadLink is a transport that loses requests to some replicas, or their
// answers. The replicas still reach each other.
type deadLink struct {
	*testCell
	to      []string // hosts to which requests get lost
	from    []string // hosts from which answers get lost
	large   []string // hosts to and from which messages longer than a packet get lost
	refused []string // hosts that refuse connections
	on      atomic.Bool
}

func (d *deadLink) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	switch {
	case !d.on.Load():
	case slices.Contains(d.refused, host):
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case slices.Contains(d.to, host), slices.Contains(d.large, host) && r.ContentLength > 1400:
		return hang(r)
	case slices.Contains(d.from, host):
		_, _ = d.testCell.RoundTrip(r)
		return hang(r)
	}
	resp, err := d.testCell.RoundTrip(r)
	switch {
	case err != nil || !d.on.Load():
	case slices.Contains(d.from, host):
		return hang(r)
	case slices.Contains(d.large, host):
		b, _ := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(b))
		if len(b) > 1400 {
			resp.Body = io.NopCloser(stalled{r})
		}
	}
	return resp, err
}

// stalled is an answer that ends after its head.
type stalled struct{ *http.Request }

func (s stalled) Read([]byte) (int, error) {
	<-s.Context().Done()
	return 0, s.Context().Err()
}

// While a client has any path to the cell, dead links cost no session its
// lease, at any ttl. New locks are granted. The master is r1.
func TestDeadLinks(t *testing.T) {
	ways := []struct {
		name string
		cut  func(*deadLink)
	}{
		{"to the master", func(d *deadLink) { d.to = []string{"r1"} }},
		{"from the master", func(d *deadLink) { d.from = []string{"r1"} }},
		{"large ones", func(d *deadLink) { d.large = []string{"r1"} }},
		{"to a follower", func(d *deadLink) { d.to = []string{"r2"} }},
		{"to all but one follower", func(d *deadLink) { d.to, d.from = []string{"r1"}, []string{"r2"} }},
		{"refused", func(d *deadLink) { d.refused = []string{"r1"} }},
	}
	ttls := []time.Duration{time.Second, 6 * time.Second, 12 * time.Second, 30 * time.Second, time.Minute}
	for _, n := range testrun.Sample(t, 6, 2*len(ways)*len(ttls)) {
		way, ttl, busy := ways[n%len(ways)], ttls[n/len(ways)%len(ttls)], n/len(ways)/len(ttls) > 0
		subBubble(t, fmt.Sprint(way.name, ttl, busy), func(t *testing.T, tc *testCell, _ *client.Client) {
			d := &deadLink{testCell: tc}
			way.cut(d)
			c := d.knowing(t, client.Config{Transport: d}, d.URLs()...)
			s := open(t, c, client.TTL(ttl))
			h := lock(t, s, "/a")
			time.Sleep(3 * time.Second)
			d.on.Store(true)
			least, slowest := ttl, time.Duration(0)
			for cut, next := time.Now(), time.Now(); time.Since(cut) < time.Minute; time.Sleep(ttl / 50) {
				if h.Err() != nil || s.State() != client.Safe {
					t.Fatalf("%s after the cut: %v, %v", time.Since(cut), s.State(), h.Err())
				}
				least = min(least, s.Remaining())
				if !busy || time.Now().Before(next) {
					continue
				}
				next = time.Now().Add(7 * time.Second)
				began := time.Now()
				must(t, lock(t, s, "/b").Unlock(t.Context()))
				must(t, second(s.Put(t.Context(), "/large", make([]byte, 8<<10))))
				must(t, second(c.Get(t.Context(), "/large")))
				slowest = max(slowest, time.Since(began))
			}
			// Commands that run under a lock get the signal to stop when a
			// sixth of the lease is left.
			if least <= ttl/6 && ttl > time.Second {
				t.Errorf("%s of the lease were left", least)
			}
			if slowest > 7*time.Second {
				t.Errorf("calls took %s", slowest)
			}
			t.Logf("%s of the lease were left at least; calls took %s at most", least, slowest)
			d.on.Store(false)
		})
	}
}

// A replica that has forwarded calls loses its link to the master, and answers
// for itself as before. Calls go through another replica in time.
func TestForwarderWithoutItsMaster(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		d := &deadLink{testCell: tc, to: []string{"r1"}}
		c := d.knowing(t, client.Config{Transport: d}, d.URLs()...)
		s := open(t, c)
		d.on.Store(true)
		for i := range 5 {
			lock(t, s, fmt.Sprint("/", i))
			time.Sleep(10 * time.Second)
		}
		var by string
		for _, r := range tc.sent() {
			if strings.HasPrefix(r.path, lockapi.RouteLocks) {
				by = r.host
			}
		}
		tc.lose(func(r *http.Request) bool { return r.URL.Host == by && strings.HasPrefix(r.URL.Path, "/v1/") })
		for i := range 20 {
			began := time.Now()
			lock(t, s, fmt.Sprint("/then/", i))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("lock %d was granted after %s; %s had forwarded the calls", i, took, by)
			}
			time.Sleep(time.Second)
		}
	})
}

// The client probes a failed endpoint with growing pauses, and uses it again
// once it has answered.
func TestDeadLinkIsProbed(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		d := &deadLink{testCell: tc, to: []string{"r1"}}
		c := d.knowing(t, client.Config{Transport: d}, d.URLs()...)
		calls := func() int { return tc.count(func(r sentRequest) bool { return r.host == "r1" }) }
		read := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				must(t, second(c.ReadLock(t.Context(), "/a")))
			}
		}
		read(time.Second)
		d.on.Store(true)
		read(time.Second)
		before := calls()
		read(2 * time.Minute)
		wantAtMost(t, calls()-before, 0, "calls arrived over a dead link")
		d.on.Store(false)
		read(client.MostPenalty + 2*time.Second)
		before = calls()
		read(time.Second)
		if n := calls() - before; n < 5 {
			t.Errorf("only %d calls go to the master a minute after the link came back", n)
		}
	})
}
