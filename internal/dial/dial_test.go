package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
)

// fakeNet is a DNS and a network.
type fakeNet struct {
	mu     sync.Mutex
	says   map[string][]string // addresses by name
	slow   time.Duration       // how long the DNS takes
	hangs  bool                // no answer, even after the context has ended
	fails  error
	up     map[string]bool // addresses that accept connections; with false, packets are lost
	asked  int
	dialed []string
}

func (f *fakeNet) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	f.mu.Lock()
	f.asked++
	says, slow, hangs, fails := f.says[host], f.slow, f.hangs, f.fails
	f.mu.Unlock()
	if hangs {
		time.Sleep(time.Hour)
		return nil, errors.New("at last")
	}
	time.Sleep(slow)
	if fails != nil {
		return nil, fails
	}
	var out []netip.Addr
	for _, a := range says {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (f *fakeNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	ip, _, _ := net.SplitHostPort(address)
	f.dialed = append(f.dialed, ip)
	up, known := f.up[ip]
	f.mu.Unlock()
	time.Sleep(time.Millisecond)
	if up {
		return &conn{ip: ip}, nil
	}
	if known {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func (f *fakeNet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

type conn struct {
	net.Conn
	ip string
}

func (*conn) Close() error { return nil }

// A host that was reached before is reached at once, even if the DNS hangs or fails. A
// host that moved is found.
func TestDialer(t *testing.T) {
	type step struct {
		name   string
		change func(*fakeNet)
		want   string        // address, or part of the error
		within time.Duration // upper bound, reached exactly
	}
	const ms = time.Millisecond
	hang := func(f *fakeNet) { f.hangs = true }
	for name, steps := range map[string][]step{
		"well": {{"first", nil, "10.0.0.1", 11 * ms}, {"again", nil, "10.0.0.1", ms}},
		"it hangs": {
			{"first", nil, "10.0.0.1", 11 * ms},
			{"hangs", hang, "10.0.0.1", ms},
			{"hangs yet", nil, "10.0.0.1", ms},
		},
		"it hangs at first": {
			{"first", hang, "lookup n1: the DNS does not answer", 3 * time.Second},
			{"again", nil, "lookup n1: the DNS does not answer", 3 * time.Second},
			{"well", func(f *fakeNet) { f.hangs = false }, "10.0.0.1", 11 * ms},
		},
		"it fails at first": {
			{"first", func(f *fakeNet) { f.fails = errors.New("server misbehaving") }, "server misbehaving", 10 * ms},
			{"well", func(f *fakeNet) { f.fails = nil }, "10.0.0.1", 11 * ms},
		},
		"it fails": {
			{"first", nil, "10.0.0.1", 11 * ms},
			{"fails", func(f *fakeNet) { f.fails = errors.New("server misbehaving") }, "10.0.0.1", ms},
		},
		"it lies": {
			{"first", nil, "10.0.0.1", 11 * ms},
			{"a lie that refuses", func(f *fakeNet) { f.says["n1"] = []string{"10.6.6.6"} }, "10.0.0.1", ms},
			{"and is known", nil, "10.0.0.1", 2 * ms},
			{"one that loses packets", func(f *fakeNet) { f.says["n1"] = []string{"10.7.7.7"} }, "10.0.0.1", 2 * ms},
			{"and is known", nil, "10.0.0.1", nextAddress + ms},
			{"nothing", func(f *fakeNet) { f.says["n1"] = nil }, "10.0.0.1", nextAddress + ms},
		},
		"the host moves": {
			{"first", nil, "10.0.0.1", 11 * ms},
			{"to another address", func(f *fakeNet) {
				f.up["10.0.0.1"] = false
				f.says["n1"] = []string{"10.0.0.2"}
			}, "10.0.0.2", 11 * ms},
			{"and stays there", nil, "10.0.0.2", ms},
		},
		"one of several": {
			{"first", func(f *fakeNet) { f.says["n1"] = []string{"10.7.7.7", "10.6.6.6", "10.0.0.1"} }, "10.0.0.1", 12*ms + nextAddress},
			{"again", nil, "10.0.0.1", ms},
		},
		"none is reached": {
			{"first", func(f *fakeNet) { f.says["n1"] = []string{"10.7.7.7"} }, "deadline exceeded", 3 * time.Second},
			{"refused", func(f *fakeNet) { f.says["n1"] = []string{"10.6.6.6"} }, "connection refused", 3 * time.Second},
		},
		"no such host": {{"first", func(f *fakeNet) { f.says["n1"] = nil }, "no address", 10 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeNet{
					slow: 10 * ms, says: map[string][]string{"n1": {"10.0.0.1"}},
					up: map[string]bool{"10.0.0.1": true, "10.0.0.2": true, "10.7.7.7": false},
				}
				d := &Dialer{Resolver: f, Dial: f.dial}
				for _, s := range steps {
					if s.change != nil {
						f.set(func() { s.change(f) })
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					began := time.Now()
					c, err := d.DialContext(ctx, "tcp", "n1:80")
					took := time.Since(began)
					got := fmt.Sprint(err)
					if err == nil {
						got = c.(*conn).ip
					} else if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
						t.Errorf("%s: %v is no failure to dial", s.name, err)
					}
					if err == nil && got != s.want || !strings.Contains(got, s.want) || took > s.within {
						t.Errorf("%s: %s after %s", s.name, got, took)
					}
					cancel()
					time.Sleep(2 * lookupTime)
				}
				time.Sleep(2 * time.Hour) // for lookups that hang
			})
		})
	}
}

// A host has one lookup at a time and one per second, however many calls dial. An
// address is not looked up.
func TestFewLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{slow: 100 * time.Millisecond, says: map[string][]string{"n1": {"10.0.0.1"}}, up: map[string]bool{"10.0.0.1": true}}
		d := &Dialer{Resolver: f, Dial: f.dial}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 10 {
					if _, err := d.DialContext(t.Context(), "tcp", "n1:80"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		if f.asked != 1 {
			t.Errorf("the DNS was asked %d times", f.asked)
		}
		for _, address := range []string{"10.0.0.1:80", "[::ffff:10.0.0.1]:80", ":80"} {
			_, _ = d.DialContext(t.Context(), "tcp", address)
		}
		if f.asked != 1 || !slices.Contains(f.dialed, "") {
			t.Errorf("addresses were looked up; dialed %v", f.dialed[len(f.dialed)-3:])
		}
	})
}

// The number of remembered hosts is bounded.
func TestHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNet{}
		d := &Dialer{Resolver: f, Dial: f.dial}
		for i := range 10 * mostHosts {
			if _, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("n%d:80", i)); err == nil {
				t.Fatal("it was dialled")
			}
		}
		if n := len(d.hosts); n > mostHosts {
			t.Errorf("%d hosts are remembered", n)
		}
	})
}
