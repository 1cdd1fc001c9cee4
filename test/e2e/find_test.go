package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
	"github.com/stoutlock/stout/test/cell"
)

// zone is a DNS server on loopback. It has the SRV records of a cell's replicas
// at _stout._tcp.stout.test, and the addresses of their hosts.
type zone struct {
	conn net.PacketConn

	mu       sync.Mutex
	replicas []*cell.Replica
}

func newZone(t *testing.T) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	z := &zone{conn: conn}
	var serving sync.WaitGroup
	serving.Go(func() { z.serve(t) })
	t.Cleanup(func() {
		_ = conn.Close()
		serving.Wait()
	})
	return z
}

func (z *zone) has(replicas ...*cell.Replica) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.replicas = slices.Clone(replicas)
}

func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.conn.LocalAddr().String())
	}}
}

func (z *zone) serve(t *testing.T) {
	in := make([]byte, 1500)
	for {
		n, from, err := z.conn.ReadFrom(in)
		if err != nil {
			return // closed
		}
		var q dnsmessage.Message
		if q.Unpack(in[:n]) != nil || len(q.Questions) != 1 {
			continue
		}
		out, err := z.answer(q).Pack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := z.conn.WriteTo(out, from); err != nil {
			return
		}
	}
}

func (z *zone) answer(q dnsmessage.Message) *dnsmessage.Message {
	z.mu.Lock()
	defer z.mu.Unlock()
	asked := q.Questions[0]
	out := &dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true},
		Questions: q.Questions,
	}
	add := func(body dnsmessage.ResourceBody) {
		h := dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: dnsmessage.ClassINET}
		out.Answers = append(out.Answers, dnsmessage.Resource{Header: h, Body: body})
	}
	known := false
	for _, r := range z.replicas {
		host := dnsmessage.MustNewName(r.ID + ".stout.test.")
		switch {
		case asked.Name.String() == "_stout._tcp.stout.test.":
			if known = true; asked.Type != dnsmessage.TypeSRV {
				continue
			}
			u, _ := url.Parse(r.URL)
			port, _ := strconv.Atoi(u.Port())
			add(&dnsmessage.SRVResource{Target: host, Port: uint16(port)})
		case asked.Name.String() == host.String():
			if known = true; asked.Type == dnsmessage.TypeA {
				add(&dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}})
			}
		}
	}
	if !known {
		out.RCode = dnsmessage.RCodeNameError
	}
	return out
}

// finding is a client that finds the cell in one of the ways, with a session, a
// lock and a watch.
type finding struct {
	what    string
	sdk     *client.Client
	session *client.Session
	held    *client.Held
	seen    seenEvents
}

func newFinding(t *testing.T, what string, config client.Config, urls ...string) *finding {
	t.Helper()
	config.URLs = urls
	sdk, err := config.New()
	must(t, err)
	t.Cleanup(func() { _ = sdk.Close() })
	f := &finding{what: what, sdk: sdk}
	f.session, err = sdk.NewSession(cell.Bounded(t), client.TTL(30*time.Second)) // shorter than the test
	must(t, err)
	f.held, err = f.session.Lock(cell.Bounded(t), "/held/"+what)
	must(t, err)
	return f
}

// TestEveryMachineIsReplaced: each machine of a cell is replaced by another one
// at another address, one after the other. The clients know the URL of one of
// the first machines, or a DNS name. Sessions, locks and watches continue, and
// each write reaches the watchers.
func TestEveryMachineIsReplaced(t *testing.T) {
	t.Parallel()
	c := cell.New(t, cell.Options{Args: calm})
	c.Ready(t)
	dns := newZone(t)
	now := slices.Clone(c.Replicas())
	dns.has(now...)
	finders := []*finding{
		newFinding(t, "url", client.Config{}, now[0].URL),
		newFinding(t, "dns", client.Config{Resolver: dns.resolver(), OnlyURLs: true}, "dns:stout.test."),
	}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	for _, f := range finders {
		first, err := f.sdk.Revision(cell.Bounded(t))
		must(t, err)
		watching.Go(func() { f.seen.watch(ctx, t, f.sdk, first) })
	}
	writes := 0
	write := func() {
		for _, f := range finders {
			_, err := f.session.Put(cell.Bounded(t), fmt.Sprintf("/put/%d", writes), []byte("x"))
			must(t, err)
			writes++
		}
	}
	write()
	for i, old := range c.Replicas() {
		other, err := c.Join(fmt.Sprint("r", 4+i))
		must(t, err)
		admit(t, now, other, "")
		now = append(now, other)
		wantVoters(t, other, 1, voters(now)...)
		mastered(t, c, now, old)
		now = slices.DeleteFunc(now, func(r *cell.Replica) bool { return r == old })
		insistMember(t, now, http.MethodDelete, "/"+old.ID, nil)
		wantRemoved(t, old)
		wantVoters(t, other, 1, voters(now)...)
		dns.has(now...)
		write()
		must(t, cell.Wait(cell.Bounded(t), "a client has learned of "+other.ID, func(ctx context.Context) error {
			urls, err := admin.New(finders[0].sdk).URLs(ctx)
			if err == nil && !slices.Contains(urls, other.URL) {
				err = fmt.Errorf("it knows %q", urls)
			}
			return err
		}))
	}
	write()
	want := make([]string, writes)
	for i := range want {
		want[i] = fmt.Sprintf("/put/%d", i)
	}
	for _, f := range finders {
		must(t, cell.Wait(cell.Bounded(t), f.what+" has its session", func(context.Context) error {
			if now := f.session.State(); now != client.Safe {
				return fmt.Errorf("it is %v", now)
			}
			return nil
		}))
		if f.held.Err() != nil {
			t.Errorf("%s: the hold: %v", f.what, f.held.Err())
		}
		if l := read(t, now[0], "/held/"+f.what); len(l.Holders) != 1 || l.Holders[0].Token != f.held.Token() {
			t.Errorf("%s: the lock is %+v, want held with token %d", f.what, l, f.held.Token())
		}
		must(t, cell.Wait(cell.Bounded(t), f.what+" has all events", func(context.Context) error {
			if got := f.seen.paths(); !slices.Equal(got, want) {
				return fmt.Errorf("it received %q, want %q", got, want)
			}
			return nil
		}))
	}
}

func (h *seenEvents) paths() (out []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.seen {
		out = append(out, e[strings.LastIndex(e, " ")+1:])
	}
	return out
}

func voters(replicas []*cell.Replica) (out []string) {
	for _, r := range replicas {
		out = append(out, r.ID+"+")
	}
	return out
}

// mastered makes the replica the master of the current ones.
func mastered(t *testing.T, c *cell.Cell, now []*cell.Replica, r *cell.Replica) {
	t.Helper()
	if isMaster(cell.Bounded(t), r) != nil {
		transferTo(t, c, now[0], r)
	}
}
