package stouttest

import (
	"net/url"
	"strings"
	"time"
)

// Stop ends the process of a replica, as a crash does, until Start. If it was
// the master, another replica takes over. Without a running majority the cell
// has no master.
func (c *Cell) Stop(id string) {
	r := c.replica(id)
	r.end()
	switch {
	case !c.majority():
		for _, other := range c.replicas {
			c.log.Depose(other.node)
		}
	case c.master() == nil:
		time.Sleep(electionTime)
		c.elect(r)
	}
}

// Start starts the process of a stopped replica. If a majority runs, it returns
// when the cell has a master.
func (c *Cell) Start(id string) {
	r := c.replica(id)
	if r.running() != nil {
		return
	}
	r.node.Restore()
	r.begin()
	c.log.Cut(r.node, false)
	if c.master() == nil && c.majority() {
		c.elect(nil)
	}
}

// majority reports whether a majority of the replicas runs.
func (c *Cell) majority() bool {
	running := 0
	for _, r := range c.replicas {
		if r.running() != nil {
			running++
		}
	}
	return 2*running > len(c.replicas)
}

// replica returns the replica with this id. If there is no such replica it ends
// the test.
func (c *Cell) replica(id string) *replica {
	for _, r := range c.replicas {
		if r.node.ID() == id {
			return r
		}
	}
	c.fatalf("the cell has no replica %q", id)
	return nil
}

// at returns the id of the replica with this host and port in its URL, or else
// the address.
func (c *Cell) at(address string) string {
	for _, r := range c.replicas {
		u, err := url.Parse(r.node.URL(r.node.ID()))
		if err == nil && (u.Host == address || u.Host+":80" == address) {
			return r.node.ID()
		}
	}
	return strings.TrimSuffix(address, ":80")
}
