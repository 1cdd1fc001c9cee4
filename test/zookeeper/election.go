package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/client/admin"
)

// election is a run: candidates 0 to n−1 over the files of a cell.
type election struct {
	urls       []string
	dir        string // directory of this run's files, ending in "/"
	n          int
	herd       bool // all watch the leader
	operator   *client.Client
	candidates []*candidate
	reports    chan report

	leaders []int // each candidate's leader, -1 for unknown
	woken   []wake
	fences  map[int]int
}

// wake is a candidate that learned of the end of a candidate that it watched.
type wake struct{ ID, By int }

type report struct {
	id    int
	what  what
	about int
	err   error
}

type what int

const (
	woken    what = iota // by the end of the candidate that the report is about
	believes             // in the leader that the report is about
	fenced               // has read everything before the fence
	failed
)

// start makes all candidates enter, in the order of their ids, and then take
// part. With rush, each assumes that it is the highest without checking.
func start(ctx context.Context, urls []string, dir string, n int, herd, rush bool) (*election, error) {
	operator, err := client.New(urls...)
	if err != nil {
		return nil, err
	}
	r := &election{urls: urls, dir: dir, n: n, herd: herd, operator: operator,
		reports: make(chan report, 100), fences: map[int]int{}}
	for id := range n {
		c, err := r.enter(ctx, id)
		if err != nil {
			return nil, err
		}
		r.candidates = append(r.candidates, c)
		r.leaders = append(r.leaders, -1)
	}
	if rush { // all give themselves their ACK before any candidate asks for it
		for _, c := range r.candidates {
			c.epoch = 1
			if err := c.propose(ctx, 1); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range r.candidates {
		own, stop := context.WithCancel(ctx)
		c.stop = stop
		go c.work(own, c.follow)
		if !rush {
			go c.work(own, c.campaign)
		}
	}
	return r, nil
}

// work reports an error to the run, unless the candidate has crashed.
func (c *candidate) work(ctx context.Context, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		c.run.send(ctx, report{id: c.id, what: failed, err: err})
	}
}

func (r *election) send(ctx context.Context, sent report) {
	select {
	case r.reports <- sent:
	case <-ctx.Done():
	}
}

// until processes reports until the condition holds.
func (r *election) until(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case got := <-r.reports:
			switch got.what {
			case woken:
				r.woken = append(r.woken, wake{got.id, got.about})
			case believes:
				r.leaders[got.id] = got.about
			case fenced:
				r.fences[got.about]++
			case failed:
				return fmt.Errorf("candidate %d: %w", got.id, got.err)
			}
		case <-ctx.Done():
			return fmt.Errorf("leaders %v, woken %v: %w", r.leaders, r.woken, ctx.Err())
		}
	}
	return nil
}

// elected waits until all live candidates believe in a leader.
func (r *election) elected(ctx context.Context, leader int) error {
	return r.until(ctx, func() bool {
		return !slices.ContainsFunc(r.candidates, func(c *candidate) bool { return !c.crashed && r.leaders[c.id] != leader })
	})
}

// crash stops a candidate without closing its session. The session, and its
// file, would end after its ttl; an operator kills the session instead, to save
// that time.
func (r *election) crash(ctx context.Context, id int) error {
	c := r.candidates[id]
	c.crashed = true
	c.stop()
	c.link.dead.Store(true)
	return admin.New(r.operator).KillSession(ctx, c.s.ID())
}

// fence waits until all live candidates have read everything written so far.
func (r *election) fence(ctx context.Context, number int) error {
	if _, err := r.operator.Put(ctx, fmt.Sprintf("%sphases/0/fence", r.dir), fmt.Append(nil, number)); err != nil {
		return err
	}
	return r.until(ctx, func() bool { return r.fences[number] == r.living() })
}

func (r *election) living() (n int) {
	for _, c := range r.candidates {
		if !c.crashed {
			n++
		}
	}
	return n
}

func (r *election) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range r.candidates {
		c.stop()
		if !c.crashed {
			_ = c.s.Close(ctx) // otherwise it expires
		}
	}
	_ = r.operator.Close() // it has no calls under way
}
