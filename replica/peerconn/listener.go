package peerconn

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Bounds of a Listener.
const (
	// maxUnopened is far more than a cell's replicas open at once.
	maxUnopened = 64
	// maxOpened bounds the open connections of one kind and caller. Raft keeps
	// a pool and a pipeline for each peer, and one connection carries many
	// calls.
	maxOpened = 16
	// maxStrangers bounds the callers that have connections of a kind and are
	// not known as members. A member may not be known yet. It may be the master
	// that fills an empty directory, or a member that was admitted since this
	// replica was last in contact; few of these connect at a time.
	maxStrangers = 4
)

// Admit decides on a hello. An error refuses it, with the reason; a card
// answers a request for it. Many goroutines call it.
type Admit func(Hello) (card []byte, err error)

// Members returns the server ids for which connections are reserved, as far as
// is known now. Many goroutines call it.
type Members func() []string

// Rules configure a Listener. Many goroutines call Refused.
type Rules struct {
	Admit   Admit
	Members Members
	// CheckSender returns an error if messages of a server must be refused. It is
	// called for each piece of data on an opened connection, by many
	// goroutines. May be nil.
	CheckSender func(server string) error
	Security    Security // nil if connections do not use TLS
	// Refused receives the reason why a connection did not open, if it sent
	// data that no replica of this cell sends. May be nil.
	Refused func(caller net.Addr, err error)
}

// Listener accepts the connections of other replicas. Its methods are safe for
// concurrent use.
type Listener struct {
	in    net.Listener
	rules Rules
	kinds map[Kind]*kindListener

	mu       sync.Mutex // guards the fields below
	closed   bool
	unopened list.List // of stranger, oldest first
	opened   map[caller]int
	conns    map[*conn]struct{} // opened connections
	work     sync.WaitGroup
}

type caller struct {
	kind Kind
	from string
}

// Listen accepts connections from in, which Close closes.
func Listen(in net.Listener, rules Rules) *Listener {
	l := &Listener{in: in, rules: rules, opened: map[caller]int{}, conns: map[*conn]struct{}{}, kinds: map[Kind]*kindListener{}}
	for _, k := range []Kind{Raft, Call} {
		l.kinds[k] = &kindListener{of: l, conns: make(chan net.Conn), done: make(chan struct{})}
	}
	l.work.Go(l.accept)
	return l
}

// Kind returns the listener for opened connections of one kind, Raft or Call.
// Closing it refuses further ones; it does not close the Listener.
func (l *Listener) Kind(k Kind) net.Listener { return l.kinds[k] }

// Addr returns the address that it listens on.
func (l *Listener) Addr() net.Addr { return l.in.Addr() }

// Close closes the listener and the connections that have not opened yet.
// Opened connections belong to the code that accepted them.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	for e := l.unopened.Front(); e != nil; e = e.Next() {
		_ = e.Value.(stranger).conn.Close()
	}
	l.mu.Unlock()
	err := l.in.Close()
	for _, k := range l.kinds {
		_ = k.Close()
	}
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accept accepts until the listener is closed. If the process has no free files
// it retries, because that passes.
func (l *Listener) accept() {
	for {
		c, err := l.in.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if e := l.enter(c); e != nil {
			l.work.Go(func() { l.admit(c, e) })
		}
	}
}

// stranger is a connection that has not opened.
type stranger struct {
	conn net.Conn
	from string // its address; for IPv6, the network of 64 bits
}

func strangerOf(c net.Conn) stranger {
	s := stranger{conn: c}
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		addr := tcp.AddrPort().Addr().Unmap()
		if addr.Is6() {
			network, _ := addr.WithZone("").Prefix(64)
			addr = network.Addr()
		}
		s.from = addr.String()
	}
	return s
}

// enter records a connection that has not opened. If there are too many, it
// closes one: the oldest of the address that has the most. A handshake takes
// several round trips. An address that opens too many connections in that time
// keeps out no callers from elsewhere.
func (l *Listener) enter(c net.Conn) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil
	}
	e := l.unopened.PushBack(strangerOf(c))
	if l.unopened.Len() > maxUnopened {
		crowd := l.crowd()
		_ = l.unopened.Remove(crowd).(stranger).conn.Close()
	}
	return e
}

// crowd returns the oldest connection of the address that has the most. The
// lock is held.
func (l *Listener) crowd() (oldest *list.Element) {
	first, n, most := map[string]*list.Element{}, map[string]int{}, 0
	for e := l.unopened.Front(); e != nil; e = e.Next() {
		from := e.Value.(stranger).from
		if n[from]++; n[from] == 1 {
			first[from] = e
		}
		if n[from] > most {
			oldest, most = first[from], n[from]
		}
	}
	return oldest
}

// admit reads the hello and hands the connection over.
func (l *Listener) admit(under net.Conn, e *list.Element) {
	var (
		o Hello
		c net.Conn
	)
	err := under.SetDeadline(time.Now().Add(helloTimeout))
	if err == nil {
		c, err = l.secure(under)
	}
	if err == nil {
		err = readFrame(c, magic, &o)
	}
	l.mu.Lock()
	l.unopened.Remove(e) // no effect if it was removed before
	l.mu.Unlock()
	if err != nil {
		_ = under.Close()
		l.reportRefusal(under, err)
		return
	}
	if err := l.handOver(c, o); err != nil {
		_ = writeFrame(c, magic, reply{Refused: err.Error()})
		_ = c.Close()
	}
}

// reportRefusal reports why a connection did not open, unless it sent nothing,
// as in a check whether the port is open.
func (l *Listener) reportRefusal(c net.Conn, err error) {
	op, cut := errors.AsType[*net.OpError](err)
	cut = cut && op.Op != "remote error"
	if l.rules.Refused != nil && !cut && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		l.rules.Refused(c.RemoteAddr(), err)
	}
}

// handOver decides on a hello. It answers the connection, or returns why the
// connection is refused.
func (l *Listener) handOver(c net.Conn, o Hello) error {
	if err := l.prove(c, o.From); err != nil {
		l.reportRefusal(c, err)
		return err
	}
	card, err := l.rules.Admit(o)
	if err != nil {
		return err
	}
	if o.Kind == Ask {
		_ = writeFrame(c, magic, reply{Info: card})
		_ = c.Close()
		return nil
	}
	to := l.kinds[o.Kind]
	if to == nil {
		return fmt.Errorf("this replica does not know connections of kind %d", o.Kind)
	}
	who := caller{o.Kind, o.From}
	if err := l.count(who); err != nil {
		return err
	}
	opened := &conn{Conn: c, of: l, who: who}
	l.note(opened)
	if err := writeFrame(c, magic, reply{}); err == nil {
		err = c.SetDeadline(time.Time{})
		if err == nil && to.hand(opened) {
			return nil
		}
	}
	_ = opened.Close()
	return nil
}

func (l *Listener) count(who caller) error {
	members := l.rules.Members()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.opened[who]
	if n >= maxOpened {
		return fmt.Errorf("%s has %d open connections for %s, the most that are allowed", who.from, n, who.kind)
	}
	if n == 0 && !slices.Contains(members, who.from) && l.strangers(who.kind, members) >= maxStrangers {
		return fmt.Errorf("%s is not known as a member here, and %d such callers already have connections for %s, the most that are allowed", who.from, maxStrangers, who.kind)
	}
	l.opened[who] = n + 1
	return nil
}

// strangers counts the callers of a kind that are not members. The lock is
// held.
func (l *Listener) strangers(k Kind, members []string) int {
	n := 0
	for who := range l.opened {
		if who.kind == k && !slices.Contains(members, who.from) {
			n++
		}
	}
	return n
}

func (l *Listener) note(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
}

// leave makes space for another connection in place of an opened one.
func (l *Listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	if l.opened[c.who]--; l.opened[c.who] == 0 {
		delete(l.opened, c.who)
	}
}

// Review closes the opened connections of servers that are no longer believed.
// If such a server sends something, its connection is closed even without
// Review.
func (l *Listener) Review() {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range all {
		if c.doubt() != nil {
			_ = c.Close()
		}
	}
}

// conn is an opened connection; closing it makes space for another.
type conn struct {
	net.Conn
	of  *Listener
	who caller
}

// From returns the server id of the caller of an opened connection, empty for a
// connection that is not from a Listener.
func From(c net.Conn) string {
	if opened, ok := c.(*conn); ok {
		return opened.who.from
	}
	return ""
}

// doubt returns an error once the caller's data must be refused.
func (c *conn) doubt() error {
	if c.of.rules.CheckSender == nil {
		return nil
	}
	return c.of.rules.CheckSender(c.who.from)
}

// Read returns the caller's data while the caller is believed.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	if doubt := c.doubt(); doubt != nil {
		_ = c.Close()
		return 0, doubt
	}
	return n, err
}

func (c *conn) Close() error {
	c.of.leave(c)
	return c.Conn.Close()
}

// kindListener is a net.Listener of opened connections.
type kindListener struct {
	of    *Listener
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (k *kindListener) hand(c net.Conn) bool {
	timeout := time.NewTimer(helloTimeout)
	defer timeout.Stop()
	select {
	case k.conns <- c:
		return true
	case <-k.done:
	case <-timeout.C: // no goroutine accepts
	}
	return false
}

// Accept returns the next connection that has opened.
func (k *kindListener) Accept() (net.Conn, error) {
	select {
	case c := <-k.conns:
		return c, nil
	case <-k.done:
		return nil, net.ErrClosed
	}
}

func (k *kindListener) Close() error {
	k.once.Do(func() { close(k.done) })
	return nil
}

func (k *kindListener) Addr() net.Addr { return k.of.in.Addr() }
