package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/internal/certs"
	"github.com/stoutlock/stout/internal/testrun"
	"github.com/stoutlock/stout/lockapi"
)

// fakeDNS resolves names. Its zero value knows no name.
type fakeDNS struct {
	mu    sync.Mutex
	hosts map[string][]string
	srv   map[string][]*net.SRV
	hangs bool
	asked int
}

func (d *fakeDNS) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *fakeDNS) times() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

func (d *fakeDNS) answer(ctx context.Context) error {
	d.mu.Lock()
	d.asked++
	hangs := d.hangs
	d.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return ctx.Err()
}

func notFound(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (d *fakeDNS) LookupNetIP(ctx context.Context, _, host string) (out []netip.Addr, err error) {
	if err := d.answer(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	addrs, ok := d.hosts[host]
	if !ok {
		return nil, notFound(host)
	}
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (d *fakeDNS) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if err := d.answer(ctx); err != nil {
		return "", nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if service != "" || proto != "" || d.srv[name] == nil {
		return "", nil, notFound(name)
	}
	return name, d.srv[name], nil
}

// at is a network in which the replicas of a cell are at addresses.
func at(tc *testCell, addrs map[string]string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		tc.mu.Lock()
		id := addrs[r.URL.Host]
		tc.mu.Unlock()
		r = r.Clone(r.Context())
		if r.URL.Host = id; id == "" {
			r.URL.Host = "nobody"
		}
		return tc.RoundTrip(r)
	}
}

// A client finds the cell by a DNS name. It continues when all of the name's
// addresses change, even if no replica reports members.
func TestFindsByName(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"10.0.0.1", "10.0.0.2", "fd00::3"}}}
		addrs := map[string]string{"10.0.0.1:7101": "r1", "10.0.0.2:7101": "r2", "[fd00::3]:7101": "r3"}
		c := tc.knowing(t, client.Config{Transport: at(tc, addrs), Resolver: dns}, "dns:stout.example:7101")
		s := open(t, c)
		h := lock(t, s, "/a")
		w := watchFor(t, c, 0)
		wantKnown(t, c, "http://10.0.0.1:7101", "http://10.0.0.2:7101", "http://[fd00::3]:7101")
		tc.set(func() {
			addrs["10.0.0.4:7101"], addrs["10.0.0.5:7101"] = "r3", "r2"
			delete(addrs, "10.0.0.1:7101")
			delete(addrs, "10.0.0.2:7101")
			delete(addrs, "[fd00::3]:7101")
		})
		dns.set(func() { dns.hosts["stout.example"] = []string{"10.0.0.4", "10.0.0.5"} })
		tc.failOver("r2")
		time.Sleep(time.Minute)
		wantState(t, s, client.Safe)
		must(t, h.Err())
		tc.put("/f", "x")
		time.Sleep(time.Minute)
		wantTold(t, w, tc.past(0, nil)...)
	})
}

// The DNS may fail, hang or return no address. Earlier answers remain valid,
// calls end with their contexts, and lookups are paced.
func TestTheDNSIsNotWell(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"10.0.0.1"}}, hangs: true}
		way := at(tc, map[string]string{"10.0.0.1:7101": "r1"})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:stout.example:7101")
		ctx := timeout(t, time.Second)
		began := time.Now()
		_, err := c.ReadLock(ctx, "/a")
		if wantErr(t, err, client.ErrNoAnswer); time.Since(began) != time.Second || !strings.Contains(err.Error(), "dns:stout.example:7101") {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := admin.New(c).URLs(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		dns.set(func() { dns.hangs = false })
		time.Sleep(client.LookupTime)
		wantRead(t, c, time.Second)
		for what, change := range map[string]func(){
			"hangs":      func() { dns.hangs = true },
			"no such":    func() { dns.hangs = false; delete(dns.hosts, "stout.example") },
			"no address": func() { dns.hosts["stout.example"] = nil },
			"useless":    func() { dns.hosts["stout.example"] = []string{"0.0.0.0", "::", "ff02::1"} },
		} {
			dns.set(change)
			for range 5 {
				wantRead(t, c, time.Second)
				time.Sleep(time.Minute)
			}
			if t.Failed() {
				t.Fatal(what)
			}
		}
		wantKnown(t, c, "http://10.0.0.1:7101")
		tc.kill("r1")
		dns.set(func() { dns.asked = 0 })
		ctx = timeout(t, time.Minute)
		wantErr(t, second(c.ReadLock(ctx, "/a")), client.ErrNoAnswer)
		if dns.asked < 5 || dns.asked > 13 {
			t.Errorf("%d lookups in a minute without an answer", dns.asked)
		}
	})
}

// The client repeats the lookup of a name while its addresses give no useful
// answer. One lookup without result is not the last.
func TestANameThatLeadsToNoPurpose(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"10.0.0.1"}}}
		cell := at(tc, map[string]string{"10.0.0.1:7101": "r1", "10.0.0.2:7101": "r2"})
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "10.0.0.1:7101" {
				return cell(r)
			}
			return refusal(lockapi.Errorf(lockapi.CodeNoMaster, "no master")), nil
		})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:stout.example:7101")
		ctx := timeout(t, 5*time.Minute)
		wantErr(t, second(c.ReadLock(ctx, "/a")), client.ErrNoMaster)
		if n := dns.times(); n < 20 || n > 5*60/5+2 {
			t.Errorf("%d lookups in five minutes of useless answers", n)
		}
		tc.Elect("r2")
		dns.set(func() { dns.hosts["stout.example"] = []string{"10.0.0.2"} })
		wantRead(t, c, 2*client.LeastLook)
	})
}

// A watch also repeats the lookup while the addresses send no events, whether
// they refuse, hang or break off.
func TestAWatchByANameThatLeadsToNoPurpose(t *testing.T) {
	refuses := func(*http.Request) (*http.Response, error) {
		return refusal(lockapi.Errorf(lockapi.CodeNoMaster, "no master")), nil
	}
	breaksOff := func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }
	for name, useless := range testrun.Table(t, 1, map[string]roundTrip{"refuses": refuses, "hangs": hang, "breaks off": breaksOff}) {
		subBubble(t, name, func(t *testing.T, tc *testCell, _ *client.Client) {
			dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"10.0.0.1"}}}
			cell := at(tc, map[string]string{"10.0.0.2:7101": "r1"})
			way := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "10.0.0.1:7101" {
					return useless(r)
				}
				return cell(r)
			})
			c := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:stout.example:7101")
			tc.put("/f", "x")
			w := watchFor(t, c, 0)
			time.Sleep(5 * time.Minute)
			wantAtMost(t, dns.times(), 5*60/5+2, "lookups in five minutes")
			dns.set(func() { dns.hosts["stout.example"] = []string{"10.0.0.2"} })
			time.Sleep(time.Minute)
			wantTold(t, w, tc.past(0, nil)...)
		})
	}
}

// The lookup of a name that does not exist is repeated, with pauses, until it
// exists.
func TestANameThatComesLater(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hosts: map[string][]string{}}
		way := at(tc, map[string]string{"10.0.0.1:7101": "r1"})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns}, "dns:stout.example:7101", "dns:other.example")
		ctx := timeout(t, 20*time.Second)
		_, err := c.ReadLock(ctx, "/a")
		if wantErr(t, err, client.ErrNoMaster); !strings.Contains(err.Error(), "no such host") {
			t.Error(err)
		}
		if dns.asked > 2*21 {
			t.Errorf("%d lookups in 20 s", dns.asked)
		}
		for _, err := range c.Watch(ctx, 1) {
			wantErr(t, err, context.DeadlineExceeded)
		}
		dns.set(func() { dns.hosts["stout.example"] = []string{"10.0.0.1"} })
		wantRead(t, c, 3*time.Second)
	})
}

// SRV records name hosts and ports. A host without an address, or a record that
// denies the service, does not disturb the others.
func TestFindsByService(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{
			hosts: map[string][]string{"a.example.": {"10.0.0.1"}, "b.example.": {"10.0.0.2", "10.0.0.3"}},
			srv: map[string][]*net.SRV{
				"_stout._tcp.stout.example": {{Target: "a.example.", Port: 1}, {Target: "b.example.", Port: 2}, {Target: "none.example.", Port: 3}, {Target: ".", Port: 4}, {Target: "a.example."}},
				"_api._tcp.stout.example":   {{Target: "a.example.", Port: 1}},
				"_no._tcp.stout.example":    {{Target: "."}},
			},
		}
		way := at(tc, map[string]string{"10.0.0.1:1": "r1", "10.0.0.2:2": "r2", "10.0.0.3:2": "r3"})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:stout.example")
		wantKnown(t, c, "http://10.0.0.1:1", "http://10.0.0.2:2", "http://10.0.0.3:2")
		wantRead(t, c, time.Second)
		dns.set(func() { delete(dns.hosts, "a.example."); dns.hosts["b.example."] = []string{"10.0.0.4"} })
		time.Sleep(time.Minute)
		wantRead(t, c, time.Second)
		time.Sleep(time.Minute)
		wantKnown(t, c, "http://10.0.0.1:1", "http://10.0.0.2:2", "http://10.0.0.3:2", "http://10.0.0.4:2") // the address of a.example is kept
		api := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:_api._tcp.stout.example", "http://10.0.0.2:2", "http://10.0.0.2:2/")
		wantKnown(t, api, "http://10.0.0.2:2")
		no := tc.knowing(t, client.Config{Transport: way, Resolver: dns}, "dns:_no._tcp.stout.example")
		if _, err := admin.New(no).URLs(t.Context()); err == nil || !strings.Contains(err.Error(), "name no host") {
			t.Error(err)
		}
	})
}

// The client uses some of a name's very many addresses, and others each time.
func TestANameWithManyAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		var all []string
		for i := range 500 {
			all = append(all, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		all = append(all, all...)
		dns := &fakeDNS{hosts: map[string][]string{"stout.example": all}}
		way := at(tc, map[string]string{"10.0.1.7:7101": "r1"})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns, OnlyURLs: true}, "dns:stout.example:7101")
		urls, err := admin.New(c).URLs(t.Context())
		if slices.Sort(urls); err != nil || len(urls) > client.MostFound || len(slices.Compact(urls)) < client.MostFound-5 {
			t.Errorf("%d addresses, %v", len(urls), err)
		}
		wantRead(t, c, time.Hour)
	})
}

// A call to one replica also accepts a DNS name: the first of its addresses
// with an answer counts.
func TestOneOfAName(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "dead.example": {"10.0.0.8", "10.0.0.9"}}}
		way := at(tc, map[string]string{"10.0.0.1:7101": "r1", "10.0.0.2:7101": "r2"})
		c := tc.knowing(t, client.Config{Transport: way, Resolver: dns}, "dns:stout.example:7101", "dns:dead.example:7101", "dns:none.example:7101")
		tc.isolate("r1", true)
		began := time.Now()
		cell, err := admin.New(c).CellAt(t.Context(), "dns:stout.example:7101")
		if err != nil || cell.Cell != "test" || time.Since(began) > time.Second {
			t.Errorf("%+v, %v after %v", cell, err, time.Since(began))
		}
		tc.insteadBy(lonely("r2"))
		if err := admin.New(c).Ready(t.Context(), "dns:stout.example:7101"); !errors.Is(err, lockapi.CodeNoMaster) {
			t.Error(err)
		}
		if _, err := admin.New(c).Replica(t.Context(), "dns:dead.example:7101"); err == nil || strings.Count(err.Error(), "connection refused") != 2 {
			t.Error(err)
		}
		if _, err := admin.New(c).Replica(t.Context(), "dns:none.example:7101"); err == nil || !strings.Contains(err.Error(), "no such host") {
			t.Error(err)
		}
		if _, err := admin.New(c).Replica(t.Context(), "dns:other.example:7101"); err == nil || !strings.Contains(err.Error(), "not among the DNS names of this client") {
			t.Error(err)
		}
	})
}

// A client that is given names in plain text and URLs uses both, and does not
// wait for the DNS.
func TestNamesAndURLs(t *testing.T) {
	bubble(t, func(t *testing.T, tc *testCell, _ *client.Client) {
		dns := &fakeDNS{hangs: true}
		c := tc.knowing(t, client.Config{Resolver: dns, OnlyURLs: true}, "dns:stout.example:7101", "http://r1")
		wantRead(t, c, 100*time.Millisecond)
		time.Sleep(time.Minute)
		wantRead(t, c, 100*time.Millisecond)
		wantKnown(t, c, "http://r1")
	})
	if _, err := (client.Config{URLs: []string{"dns+https:stout.example:7101"}, Transport: http.DefaultTransport}).New(); err == nil || !strings.Contains(err.Error(), "give TLS or TLSSource") {
		t.Error(err)
	}
}

// nobodysToken is a client's token that must not reach any server.
const nobodysToken = "stout_secret"

// A replica found by a DNS name must show a certificate with that name. A
// forged DNS answer may lead to another server, which must receive nothing,
// from calls or from streams. For URLs given beside names the usual checks
// apply.
func TestCertificatesOfNames(t *testing.T) {
	ca := newAuthority(t)
	dns := &fakeDNS{hosts: map[string][]string{"stout.example": {"127.0.0.1"}}, srv: map[string][]*net.SRV{}}
	dns.hosts["elsewhere.example."] = dns.hosts["stout.example"]
	for name, test := range map[string]struct {
		hosts  []string // of the certificate
		config *tls.Config
		given  string // %s is the port
		want   string // error; empty for none
	}{
		"the name":              {hosts: []string{"stout.example"}, given: "dns:stout.example:%s"},
		"with a final dot":      {hosts: []string{"stout.example"}, given: "dns+https:stout.example.:%s"},
		"of SRV records":        {hosts: []string{"stout.example"}, given: "dns:stout.example"},
		"its address":           {hosts: []string{"127.0.0.1"}, given: "dns:stout.example:%s", want: "stout.example"},
		"the record's target":   {hosts: []string{"elsewhere.example"}, given: "dns:stout.example", want: "stout.example"},
		"an address, by a URL":  {hosts: []string{"127.0.0.1"}, given: "https://127.0.0.1:%s"},
		"the name, by a URL":    {hosts: []string{"stout.example"}, given: "https://127.0.0.1:%s", want: "127.0.0.1"},
		"a name of one's own":   {hosts: []string{"cell"}, config: &tls.Config{ServerName: "cell"}, given: "dns:stout.example:%s"},
		"another than that one": {hosts: []string{"stout.example"}, config: &tls.Config{ServerName: "cell"}, given: "dns:stout.example:%s", want: "cell"},
	} {
		t.Run(name, func(t *testing.T) {
			server, callers, _ := secureServer(t, &tls.Config{Certificates: []tls.Certificate{ca.pair(t, certs.Leaf{Name: "r1", Hosts: test.hosts})}})
			u, err := url.Parse(server)
			must(t, err)
			port, _ := strconv.Atoi(u.Port())
			dns.set(func() {
				dns.hosts["stout.example."] = dns.hosts["stout.example"]
				dns.srv["_stout._tcp.stout.example"] = []*net.SRV{{Target: "elsewhere.example.", Port: uint16(port)}}
			})
			config := test.config
			if config == nil {
				config = &tls.Config{}
			}
			config.RootCAs = ca.pool()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			again, stop := context.WithCancel(t.Context())
			defer stop()
			c := newClient(t, client.Config{
				URLs: []string{strings.ReplaceAll(test.given, "%s", u.Port())}, TLS: config, Resolver: dns,
				Token: func(context.Context) (string, error) { return nobodysToken, nil },
				Logger: slog.New(onLog{slog.DiscardHandler, func(message string) {
					switch message {
					case "stout: attempt failed":
						cancel()
					case "stout: watch moves to another replica":
						stop()
					}
				}}),
			})
			_, err = c.ReadLock(ctx, "/a")
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if test.want == "" {
				<-callers
			}
			for range c.Watch(again, 1) {
				break
			}
			wantEqual(t, "the server received the watch", len(callers) > 0, (test.want == ""))
		})
	}
}
