package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stoutlock/stout/client"
)

// election is a run: candidates 0 to n−1 over the files of a cell.
type election struct {
	urls       []string
	dir        string // whose files are this run's, with the "/" at its end
	n          int
	herd       bool // all watch the leader
	operator   *client.Client
	candidates []*candidate
	reports    chan report

	leaders []int // in whom each believes, -1 for nobody
	woken   []wake
	fences  map[int]int
}

// wake is a candidate that heard of the end of one that it watched.
type wake struct{ Who, By int }

// report is what a candidate tells the run.
type report struct {
	who   int
	what  what
	about int
	err   error
}

type what int

const (
	woken    what = iota // by the end of the candidate that it is about
	believes             // in the leader that it is about
	fenced               // has heard all that was written before the fence
	failed
)

// start has all enter, in the order of their ids, and then take part. Who
// rushes takes itself for the highest without looking.
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
	if rush { // all give themselves their ACK before anybody asks for it
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

// work tells the run of an error, unless the candidate has crashed.
func (c *candidate) work(ctx context.Context, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		c.run.tell(ctx, report{who: c.id, what: failed, err: err})
	}
}

func (r *election) tell(ctx context.Context, told report) {
	select {
	case r.reports <- told:
	case <-ctx.Done():
	}
}

// until takes reports in until something is so.
func (r *election) until(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case told := <-r.reports:
			switch told.what {
			case woken:
				r.woken = append(r.woken, wake{told.who, told.about})
			case believes:
				r.leaders[told.who] = told.about
			case fenced:
				r.fences[told.about]++
			case failed:
				return fmt.Errorf("candidate %d: %w", told.who, told.err)
			}
		case <-ctx.Done():
			return fmt.Errorf("leaders %v, woken %v: %w", r.leaders, r.woken, ctx.Err())
		}
	}
	return nil
}

// elected waits until all that live believe in a leader.
func (r *election) elected(ctx context.Context, leader int) error {
	return r.until(ctx, func() bool {
		return !slices.ContainsFunc(r.candidates, func(c *candidate) bool { return !c.crashed && r.leaders[c.id] != leader })
	})
}

// crash has a candidate stop without a word. Its session, and its file with it,
// would end once its time to live is over; so as not to wait for that, an
// operator kills it.
func (r *election) crash(ctx context.Context, id int) error {
	c := r.candidates[id]
	c.crashed = true
	c.stop()
	c.link.dead.Store(true)
	return r.operator.KillSession(ctx, c.s.ID())
}

// fence waits until all that live have heard what was written so far.
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

// close ends the sessions of those that live.
func (r *election) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range r.candidates {
		c.stop()
		if !c.crashed {
			_ = c.s.Close(ctx) // it ends by itself, too
		}
	}
	_ = r.operator.Close() // it has no calls under way
}
