package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/lockapi"
)

// candidate is one process of the election: a client with a session and a
// sequential ephemeral file. It runs the lab's algorithm zookeeper, with files
// instead of messages:
//
//	candidates/SEQUENCE         id, ephemeral: the highest leads
//	phases/EPOCH/new_leader/ID  ID asks all for their ACKs
//	phases/EPOCH/ack/ID         the candidate that got ID's ACK: a file is created once
//	phases/EPOCH/commit         the leader of this epoch
//
// The epoch counts the removed files of candidates, from 1.
type candidate struct {
	run     *election
	id      int
	s       *client.Session
	file    string
	link    *link
	stop    context.CancelFunc
	epoch   int         // the highest that it answered in
	acks    map[int]int // in its own epochs
	crashed bool        // used by the run, not by the candidate
}

// link is a connection to the cell that can be cut permanently.
type link struct {
	dead atomic.Bool
	http.RoundTripper
}

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.dead.Load() {
		return nil, errors.New("this process has crashed")
	}
	return l.RoundTripper.RoundTrip(r)
}

// ttl is longer than any delay of a keepalive on a busy machine.
const ttl = 20 * time.Second

func (r *election) enter(ctx context.Context, id int) (*candidate, error) {
	l := &link{RoundTripper: &http.Transport{MaxIdleConnsPerHost: 10}}
	cell, err := client.Config{URLs: r.urls, Transport: l}.New()
	if err != nil {
		return nil, err
	}
	s, err := cell.NewSession(ctx, client.TTL(ttl), client.Name(fmt.Sprint("candidate ", id)))
	if err != nil {
		return nil, err
	}
	stat, err := s.CreateSequential(ctx, r.dir+"candidates/", []byte(strconv.Itoa(id)), client.Ephemeral())
	if err != nil {
		return nil, err
	}
	return &candidate{run: r, id: id, s: s, file: stat.Path, link: l, acks: map[int]int{}}, nil
}

// campaign watches the next-higher candidate until there is no such candidate,
// and then asks for the ACKs.
func (c *candidate) campaign(ctx context.Context) error {
	for {
		above, gone, asOf, err := c.above(ctx)
		if err != nil {
			return err
		}
		if above == nil {
			return c.propose(ctx, gone+1)
		}
		if err := c.watch(ctx, above, asOf); err != nil {
			return err
		}
	}
}

// above returns the candidate to watch, or nil, and how many have gone.
func (c *candidate) above(ctx context.Context) (above *client.File, gone int, asOf uint64, err error) {
	there := 0
	for file, err := range c.s.Client().List(ctx, c.run.dir+"candidates/", client.Contents()) {
		if err != nil {
			return nil, 0, 0, err
		}
		there, asOf = there+1, file.AsOf
		if file.Path > c.file && (above == nil || c.run.herd) {
			above = &file
		}
	}
	return above, c.run.n - there, asOf, nil
}

// watch returns when a candidate's file is gone, and reports that this woke its
// caller.
func (c *candidate) watch(ctx context.Context, above *client.File, asOf uint64) error {
	filters := []client.Filter{client.OnPath(above.Path), client.OfType(lockapi.EventFileDeleted)}
	for e, err := range c.s.Client().Watch(ctx, asOf, filters...) {
		switch {
		case err != nil:
			return err
		case e.Compacted != nil:
			return nil // look again
		case e.Type == lockapi.EventFileDeleted:
			c.run.send(ctx, report{id: c.id, what: woken, about: number(string(above.Content))})
			return nil
		}
	}
	return ctx.Err()
}

// propose gives this candidate its own ACK, if it is still free, and asks the
// others.
func (c *candidate) propose(ctx context.Context, epoch int) error {
	if given, err := c.ack(ctx, epoch, c.id); !given {
		return err
	}
	return c.create(ctx, epoch, fmt.Sprint("new_leader/", c.id), c.id)
}

// ack gives the ACK of an epoch, once: the cell refuses a second one.
func (c *candidate) ack(ctx context.Context, epoch, receiver int) (given bool, err error) {
	err = c.create(ctx, epoch, fmt.Sprint("ack/", c.id), receiver)
	if errors.Is(err, client.ErrPrecondition) {
		return false, nil
	}
	return err == nil, err
}

func (c *candidate) create(ctx context.Context, epoch int, name string, about int) error {
	_, err := c.s.Create(ctx, fmt.Sprintf("%sphases/%d/%s", c.run.dir, epoch, name), []byte(strconv.Itoa(about)))
	return err
}

// follow takes part in the two phases.
func (c *candidate) follow(ctx context.Context) error {
	prefix := c.run.dir + "phases/"
	for change, err := range c.s.Client().Follow(ctx, prefix, client.Contents()) {
		if err != nil {
			return err
		}
		if change.File == nil {
			continue
		}
		epoch, step, _ := strings.Cut(strings.TrimPrefix(change.Path, prefix), "/")
		kind, _, _ := strings.Cut(step, "/")
		if err := c.handle(ctx, number(epoch), kind, number(string(change.File.Content))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *candidate) handle(ctx context.Context, epoch int, kind string, about int) error {
	switch {
	case kind == "new_leader" && epoch > c.epoch:
		c.epoch = epoch
		_, err := c.ack(ctx, epoch, about)
		return err
	case kind == "ack" && about == c.id:
		c.acks[epoch]++
		if c.acks[epoch] == c.run.n/2+1 {
			return c.create(ctx, epoch, "commit", c.id)
		}
	case kind == "commit" && epoch >= c.epoch:
		c.run.send(ctx, report{id: c.id, what: believes, about: about})
	case kind == "fence":
		c.run.send(ctx, report{id: c.id, what: fenced, about: about})
	}
	return nil
}

// number parses a number that this program wrote.
func number(text string) int {
	n, err := strconv.Atoi(path.Base(text))
	if err != nil {
		return -1
	}
	return n
}
