package gate

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/stoutlock/stout/internal/racebubble"
	"github.com/stoutlock/stout/lockapi/server/internal/wire"
)

func TestOrigins(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80":             "127.0.0.1/32",
		"10.1.2.3:80":              "10.1.2.3/32",
		"[::ffff:10.1.2.3]:80":     "10.1.2.3/32",
		"[::1]:80":                 "::/64",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":        "fe80::/64",
	} {
		a := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		if got := netip.Prefix(SourceOf(a)).String(); got != want {
			t.Errorf("%s is of %s, want %s", address, got, want)
		}
	}
	if got := SourceOf(nil); got != (Source{}) {
		t.Errorf("nothing is of %v", got)
	}
}

// A guest is written as the letter of its source, in capital if its request has
// arrived, in the order of arrival. The remaining guests keep their order.
func TestWhoMakesWay(t *testing.T) {
	for _, c := range []struct{ guests, newcomer, want string }{
		{"abcd", "e", "bcd"},
		{"abcd", "b", "acd"},
		{"abbb", "b", "abb"},
		{"abbb", "a", "abb"},
		{"abbc", "d", "abc"},
		{"aaaa", "a", "aaa"},
		{"Aaaa", "a", "Aaa"},
		{"Aaaa", "b", "Aaa"},
		{"AAAa", "a", "AAA"},
		{"AAAA", "a", ""}, // keeps out its own next connection
		{"AAAA", "b", "AAA"},
		{"AAbb", "a", ""},
		{"AABB", "c", "ABB"},
		{"ABCD", "e", ""},
		{"ABCd", "e", "ABC"},
		{"aBBB", "a", "aBB"},
		{"AAAb", "b", "AAb"},
		{"AABb", "b", "AAB"},
	} {
		var guests []*guest
		for _, letter := range []byte(c.guests) {
			guests = append(guests, &guest{from: letterOf(letter | 0x20), busy: letter < 'a'})
		}
		got := ""
		if i, ok := makesWay(guests, letterOf(c.newcomer[0])); ok {
			for _, g := range slices.Delete(guests, i, i+1) {
				letter := netip.Prefix(g.from).Addr().As4()[3]
				if g.busy {
					letter &^= 0x20
				}
				got += string(letter)
			}
		}
		if got != c.want {
			t.Errorf("%s and %s: %q stay, want %q", c.guests, c.newcomer, got, c.want)
		}
	}
}

func letterOf(letter byte) Source {
	return Source(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, letter}), 32))
}

// However many connections arrive, the number of open ones is bounded.
// Displaced connections close at once, the others soon.
func TestSpareConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewReserve(&wire.Server{Refuse: func(int, string) []byte { return nil }})
		var ended []<-chan time.Duration
		began := time.Now()
		for range 3 * spareConns {
			ours, theirs := net.Pipe()
			p.admit(theirs)
			end := make(chan time.Duration, 1)
			go func() {
				_, _ = ours.Read(make([]byte, 1))
				end <- time.Since(began)
			}()
			ended = append(ended, end)
		}
		present := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.guests)
		}
		if open := present(); open != spareConns {
			t.Errorf("%d are open", open)
		}
		for i, end := range ended {
			want := spareTime
			if i < 2*spareConns {
				want = 0
			}
			if got := <-end; got != want {
				t.Errorf("connection %d ends after %v, want %v", i, got, want)
			}
		}
		synctest.Wait()
		if open := present(); open != 0 {
			t.Errorf("%d are left", open)
		}
		if taken, dropped := p.Counts(); taken != 3*spareConns || dropped != 2*spareConns {
			t.Errorf("%d are counted, %d of them dropped", taken, dropped)
		}
	})
}
