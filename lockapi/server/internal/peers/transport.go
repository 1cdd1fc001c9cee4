package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
)

// Calls from one member to another travel over the members' own connections,
// not through the API's port: those connections say in their hello that both
// ends are members of this cell, and no flood of API connections is in their
// way. A pair of members has one connection each way, HTTP/2 without TLS of its
// own, on which any number of calls wait at the cost of one file.

// Links are a member's connections to the others. *replica.Replica is one.
type Links interface {
	// Calls listens for the connections that others open.
	Calls() net.Listener
	// DialCall opens one to the member of that name.
	DialCall(ctx context.Context, id string) (net.Conn, error)
	// Proven says that on each of these connections, both ways, both ends have
	// shown certificates of the members that they are.
	Proven() bool
	// Caller is the server id of the replica that opened a connection of Calls.
	Caller(c net.Conn) string
	// Member is why such a server is no member, nil where it is one or is being added,
	// as far as this replica knows.
	Member(server string) error
}

const (
	// MostForwarded bounds the calls that a replica has under way at others. Each
	// costs some 20 KiB at both ends.
	MostForwarded = 16 << 10
	// KeptFree of them are for keepalives only.
	KeptFree = 1 << 10
	// MostStreams is what the other end allows. It is beyond MostForwarded, so
	// that looks at the others' health find room, and calls that were just cut
	// off.
	MostStreams = 2 * MostForwarded
	// MostServed bounds the calls that a replica serves for others: four of them,
	// as in the largest cell.
	MostServed = 4 * MostForwarded

	// dialTimeout bounds the opening of a connection to another member.
	dialTimeout = time.Second
	// QuietFor is the silence of a connection after which the other end is pinged,
	// and PingTimeout is what its answer may take. Without one the connection is
	// closed, and the calls under way on it fail: their callers may have another
	// path. Questions about health keep a connection from being quiet.
	QuietFor    = 2 * time.Second
	PingTimeout = 3 * time.Second
)

// Protocols are those that members speak to each other.
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

// peer is a connection to a member, or the attempt to make one.
type peer struct {
	done chan struct{} // closed when conn or err is set
	conn *http.ClientConn
	err  error
}

// NewTransport returns the way to the members that links reach; nil links reach none.
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

// dial is the transport's way to a member.
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

// RoundTrip sends a call to the member that the URL's host names. It reports
// httptrace's GotConn before the call can have left.
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

// conn is the connection to a member. However many ask for it, it is opened
// once.
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

// over reports whether it is of no use any more. A connection that has room for
// no further call is about to end: there are never so many calls.
func (to *peer) over() bool {
	select {
	case <-to.done:
		return to.err != nil || to.conn.Available() == 0
	default:
		return false
	}
}

// open makes the connection, and has one call answered over it: from then on
// both ends know how many calls it takes.
func (p *Transport) open(id string, to *peer) {
	defer close(to.done)
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := p.transport.NewClientConn(ctx, "http", net.JoinHostPort(id, "80"))
	if err == nil {
		err = greet(ctx, conn, id)
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

func greet(ctx context.Context, conn *http.ClientConn, id string) error {
	u, err := URL(id, lockapi.RouteLive, "")
	if err != nil {
		return err
	}
	resp, err := conn.RoundTrip((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReplicaBytes))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("replica %s answered %s", id, resp.Status)
	}
	return nil
}

// Close closes all connections, and cuts off the calls that are under way.
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
