package cell

import (
	"errors"
	"io"
	"net"
	"sync"
)

// link is the proxy of one replica's connections to another.
type link struct {
	network  *Network
	dir      direction // of dialing
	listener net.Listener
	target   string
}

func (l *link) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		c := &conn{network: l.network, dir: l.dir, near: near.(*net.TCPConn), gone: make(chan struct{}), lost: map[direction]bool{}}
		go c.run(l.target)
	}
}

// conn is one connection through a link: near is the dialing replica's end, far
// the dialed one's.
type conn struct {
	network   *Network
	dir       direction // from near to far
	near, far *net.TCPConn
	gone      chan struct{} // closed by reset
	once      sync.Once
	lost      map[direction]bool // guarded by network.mu
}

func (c *conn) run(target string) {
	far, err := net.Dial("tcp", target)
	if err != nil {
		// A refusal is information from the other side, so a cut holds it back.
		if c.network.add(c) {
			c.passes(c.dir.reverse())
		}
		c.reset()
		return
	}
	c.far = far.(*net.TCPConn)
	if !c.network.add(c) {
		c.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { c.pump(c.near, c.far, c.dir) })
	both.Go(func() { c.pump(c.far, c.near, c.dir.reverse()) })
	both.Wait()
	c.reset()
}

// pump copies the bytes of one direction until src ends. It then passes the end
// to dst, once the direction lets it through.
func (c *conn) pump(src, dst *net.TCPConn, d direction) {
	chunks, stop := make(chan chunk, chunksUnderWay), make(chan struct{})
	defer close(stop)
	go c.receive(src, d, chunks, stop)
	for {
		next := <-chunks
		if !c.await(next.due) {
			return
		}
		if next.reset {
			c.reset()
			return
		}
		if len(next.bytes) > 0 && c.deliver(d, len(next.bytes)) {
			if _, err := dst.Write(next.bytes); err != nil {
				break
			}
		}
		if next.err != nil {
			if !errors.Is(next.err, io.EOF) {
				defer c.reset()
			}
			break
		}
	}
	c.passes(d)
	_ = dst.CloseWrite()
}

// deliver waits while the direction is held, and reports whether the bytes read
// may be delivered.
func (c *conn) deliver(d direction, size int) bool {
	for {
		r, changed := c.network.look(c, d, size)
		switch r {
		case pass:
			return true
		case drop:
			return false
		}
		select {
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}

// passes waits until the direction lets bytes through or the connection is
// reset.
func (c *conn) passes(d direction) {
	for {
		r, changed := c.network.look(c, d, 0)
		if r == pass {
			return
		}
		select {
		case <-changed:
		case <-c.gone:
			return
		}
	}
}

// reset closes both ends so that the replicas see a broken connection instead
// of a clean end.
func (c *conn) reset() {
	c.once.Do(func() {
		close(c.gone)
		c.network.remove(c)
		for _, end := range []*net.TCPConn{c.near, c.far} {
			if end != nil {
				_ = end.SetLinger(0)
				_ = end.Close()
			}
		}
	})
}
