package peers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Calls between members travel over the members' own connections, not through
// the API's port. The hello of such a connection identifies both ends as
// members of this cell, and a flood of API connections cannot block it. A pair
// of members has one connection in each direction. It speaks HTTP/2 without TLS
// of its own; any number of calls can wait on it at the cost of one open file.

// Links are a member's connections to the others. *replica.Replica implements
// it.
type Links interface {
	// Calls returns a listener for the connections that others open.
	Calls() net.Listener
	// DialCall connects to the named member.
	DialCall(ctx context.Context, id string) (net.Conn, error)
	// Proven reports whether both ends of each connection, in both directions,
	// have shown the certificates of their members.
	Proven() bool
	// Caller returns the server id of the replica that opened a connection of
	// Calls.
	Caller(c net.Conn) string
	// Member returns why the server is not a member, as far as this replica
	// knows; nil if it is one or is being added.
	Member(server string) error
}

const (
	// MostForwarded bounds the calls that a replica has under way at others.
	// Each needs about 20 KiB at both ends.
	MostForwarded = 16 << 10
	// KeptFree of these places are for keepalives only.
	KeptFree = 1 << 10
	// MostStreams is the number of calls that the other end permits. It exceeds
	// MostForwarded, to leave room for health questions and for calls that were
	// just cut off.
	MostStreams = 2 * MostForwarded
	// MostServed bounds the calls that a replica serves for others: four
	// others, as in the largest usual cell.
	MostServed = 4 * MostForwarded

	// dialTimeout bounds the opening of a connection to another member.
	dialTimeout = time.Second
	// QuietFor is the silence on a connection after which it sends a ping;
	// PingTimeout is the time limit of the answer. Without an answer the
	// connection is closed, and its calls fail: their callers may have another
	// path. Health questions keep a connection from being quiet.
	QuietFor    = 2 * time.Second
	PingTimeout = 3 * time.Second
)

// Protocols returns the protocols that members speak to each other.
func Protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Transport is the http.RoundTripper for calls to other members. The host of a URL
// is the member's name.
type Transport struct {
	links     Links
	transport *http.Transport

	mu     sync.Mutex
	to     map[string]*peer
	closed bool
}

// peer is a connection to a member, or an attempt to connect.
type peer struct {
	done chan struct{} // closed once conn or err is set
	conn *http.ClientConn
	err  error
}

// NewTransport returns a transport to the members that links can reach. With
// nil links every call fails.
func NewTransport(links Links) *Transport {
	p := &Transport{links: links, to: map[string]*peer{}}
	p.transport = &http.Transport{
		Protocols: Protocols(), DialContext: p.dial, DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			StrictMaxConcurrentRequests: true,
			SendPingTimeout:             QuietFor, PingTimeout: PingTimeout, WriteByteTimeout: PingTimeout,
		},
	}
	return p
}

// dial connects the HTTP transport to a member.
func (p *Transport) dial(ctx context.Context, _, address string) (net.Conn, error) {
	id, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if p.links == nil {
		return nil, errors.New("this replica has no connections to others")
	}
	return p.links.DialCall(ctx, id)
}

// RoundTrip sends a call to the member named by the URL's host. It reports
// httptrace's GotConn before the call can have been sent.
func (p *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	conn, err := p.conn(r.Context(), r.URL.Host)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return conn.RoundTrip(r)
}

// conn returns the connection to a member. Concurrent callers share one attempt
// to connect.
func (p *Transport) conn(ctx context.Context, id string) (*http.ClientConn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, net.ErrClosed
	}
	to := p.to[id]
	if to == nil || to.over() {
		to = &peer{done: make(chan struct{})}
		p.to[id] = to
		go p.open(id, to)
	}
	p.mu.Unlock()
	select {
	case <-to.done:
		return to.conn, to.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over reports whether the connection is no longer usable. A connection without
// room for another call is about to end, since it never carries so many calls.
func (to *peer) over() bool {
	select {
	case <-to.done:
		return to.err != nil || to.conn.Available() == 0
	default:
		return false
	}
}

// open connects and makes one call. After its answer both ends know how many
// calls the connection permits.
func (p *Transport) open(id string, to *peer) {
	defer close(to.done)
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := p.transport.NewClientConn(ctx, "http", net.JoinHostPort(id, "80"))
	if err == nil {
		_, err = Ask(ctx, conn, id, lockapi.RouteLive, nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.closed {
		err = net.ErrClosed
	}
	if err != nil {
		if conn != nil {
			_ = conn.Close()
		}
		to.err = err
		return
	}
	to.conn = conn
}

// Close closes all connections and cuts off the calls under way.
func (p *Transport) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.to
	p.mu.Unlock()
	for _, to := range all {
		<-to.done
		if to.conn != nil {
			_ = to.conn.Close()
		}
	}
}
