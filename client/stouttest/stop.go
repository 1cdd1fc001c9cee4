package stouttest

import (
	"net/url"
	"strings"
	"time"
)

// Stop ends the process of a replica, as a crash does, until Start. Another
// replica takes over from a master. While no majority runs the cell has no
// master.
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

// Start starts the process of a replica that was stopped, and returns when the
// cell has a master if a majority runs.
func (c *Cell) Start(id string) {
	r := c.replica(id)
	if r.running() != nil {
		return
	}
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

// replica is the one of that name; without one the test ends.
func (c *Cell) replica(id string) *replica {
	for _, r := range c.replicas {
		if r.node.ID() == id {
			return r
		}
	}
	c.fatalf("the cell has no replica %q", id)
	return nil
}

// at is the id of the replica at the host and port of a URL, and otherwise the
// address.
func (c *Cell) at(address string) string {
	for _, r := range c.replicas {
		u, err := url.Parse(r.node.URL(r.node.ID()))
		if err == nil && (u.Host == address || u.Host+":80" == address) {
			return r.node.ID()
		}
	}
	return strings.TrimSuffix(address, ":80")
}
