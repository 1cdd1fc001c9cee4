// Package fakecell answers as the replicas of a cell, in virtual time. Only
// tests import it.
package fakecell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/cmd/stout/internal/ask"
	"github.com/stoutlock/stout/lockapi"
)

// Hosts are the replicas of a test, by host name, in virtual time. It is their
// transport.
type Hosts map[string]*Host

// Host is one replica. The zero value refuses connections.
type Host struct {
	Cell  *lockapi.Cell  // its view
	Later *lockapi.Cell  // its view from the second question on
	Ready *lockapi.Error // why it is not ready
	After time.Duration  // how long an answer takes
	Hangs bool           // takes calls and does not answer them
	// asleep: it hangs for so long, then answers for awake, and so on.
	Sleeps time.Duration
	ID     string         // of its cell, which its answers have
	Mute   string         // calls of paths that begin so are not answered
	API    map[string]any // other answers, by path

	asked atomic.Bool // for its view; a survey asks again while a late answer is on its way
}

const awake = 10 * time.Second

func (h Hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	at := h[r.URL.Host]
	if at == nil {
		at = &Host{}
	}
	began := time.Unix(946684800, 0) // when virtual time begins
	switch {
	case at.Hangs, at.Mute != "" && strings.HasPrefix(r.URL.Path, at.Mute), at.Sleeps > 0 && time.Since(began)%(at.Sleeps+awake) < at.Sleeps, strings.HasSuffix(r.URL.Path, "/keepalive"):
		<-r.Context().Done()
		return nil, r.Context().Err()
	case at.Cell == nil && at.Ready == nil:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if at.After > 0 && ask.Sleep(r.Context(), at.After) != nil {
		return nil, r.Context().Err()
	}
	status, body := http.StatusOK, any(struct{}{})
	switch {
	case at.API[r.URL.Path] != nil:
		body = at.API[r.URL.Path]
		if refused, ok := body.(*lockapi.Error); ok {
			status = refused.Code.Status()
		}
	case r.Method == http.MethodDelete:
		status = http.StatusNoContent
	case at.Ready != nil && (at.Cell == nil || r.URL.Path == lockapi.RouteReady):
		status, body = at.Ready.Code.Status(), at.Ready
	case r.URL.Path == lockapi.RouteCell:
		body = at.Cell
		if again := at.asked.Swap(true); again && at.Later != nil {
			body = at.Later
		}
	case r.URL.Path == lockapi.RouteReplica:
		i := slices.IndexFunc(at.Cell.Replicas, func(r1 lockapi.Replica) bool { return r1.URL == "http://"+r.URL.Host })
		body = at.Cell.Replicas[i]
	}
	text, err := json.Marshal(body)
	header := http.Header{"Content-Type": {"application/json"}}
	if at.ID != "" {
		header.Set(lockapi.HeaderCell, at.ID)
	}
	return &http.Response{
		StatusCode: status, Header: header,
		Body: io.NopCloser(strings.NewReader(string(text))), ContentLength: int64(len(text)),
	}, err
}

// NewView is the state of a cell of r1, r2 and r3 at the hosts of these names,
// with the given master.
func NewView(epoch uint64, master string, held bool) *lockapi.Cell {
	c := &lockapi.Cell{Cell: "test", Epoch: epoch, Lease: lockapi.Lease{Held: held}}
	for i := range 3 {
		id := fmt.Sprint("r", i+1)
		c.Replicas = append(c.Replicas, lockapi.Replica{ID: id, URL: "http://" + id, Role: lockapi.RoleReplica, Healthy: true})
		if id == master {
			c.Replicas[i].Role = lockapi.RoleMaster
			c.Master = &lockapi.MasterRef{ID: id, URL: "http://" + id}
		}
	}
	return c
}

// fakeDNS is a DNS that knows one name.
type fakeDNS struct{}

func (fakeDNS) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != "cell.example" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
}

func (fakeDNS) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// Client returns a client of the given servers. cleanup takes what ends it.
func Client(cleanup func(func()), h Hosts, servers ...string) *client.Client {
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) }
	c, err := client.Config{URLs: servers, OnlyURLs: true, Transport: h, Clock: clock, Resolver: fakeDNS{}}.New()
	if err != nil {
		panic(err) // a test names no such server
	}
	cleanup(func() { _ = c.Close() })
	return c
}
