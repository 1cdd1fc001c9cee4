package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stoutlock/stout/client"
	"github.com/stoutlock/stout/test/cell"
)

const (
	every   = 250 * time.Millisecond // interval between the begins of probes
	giveUp  = 30 * time.Second       // after it, a probe ends without a grant
	between = 20 * time.Millisecond  // pause between two attempts of a probe
)

// Prober acquires and releases locks.
type Prober struct {
	client *client.Client
	now    func() time.Duration

	mu      sync.Mutex
	session *client.Session // nil without a session
	probes  []Probe
	losses  []Loss
}

// NewProber returns a prober of the cell at some URLs.
func NewProber(urls []string, now func() time.Duration) (*Prober, error) {
	c, err := client.Config{URLs: urls}.New()
	return &Prober{client: c, now: now}, err
}

// Run probes until ctx ends, and returns when every probe has ended.
func (p *Prober) Run(ctx context.Context) (probes []Probe, losses []Loss) {
	probing, end := context.WithCancel(context.WithoutCancel(ctx))
	var keeping, running sync.WaitGroup
	keeping.Go(func() { p.keepSession(probing) })
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		running.Go(func() { p.probe(probing, fmt.Sprintf("/chaos/probe/%d", n)) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	running.Wait()
	end()
	keeping.Wait()
	return p.probes, p.losses
}

// keepSession keeps a session open until ctx ends, and opens another one after
// each loss.
func (p *Prober) keepSession(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := p.client.NewSession(ctx, client.Name("prober"))
		if err != nil {
			cell.Pause(ctx, between)
			continue
		}
		p.use(s)
		select {
		case <-s.Done():
			p.mu.Lock()
			p.losses = append(p.losses, Loss{At: p.now(), TTL: s.TTL(), Err: s.Err().Error()})
			p.mu.Unlock()
			p.use(nil)
		case <-ctx.Done():
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
			_ = s.Close(closing) // if this fails, the session expires
			cancel()
		}
	}
}

func (p *Prober) use(s *client.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
}

// probe acquires a lock once, through all failures, and releases it.
func (p *Prober) probe(ctx context.Context, path string) {
	out := Probe{From: p.now()}
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	held, err := p.acquire(ctx, path)
	out.Until, out.Granted = p.now(), err == nil
	if err != nil {
		out.Err = err.Error()
	}
	p.mu.Lock()
	p.probes = append(p.probes, out)
	p.mu.Unlock()
	if held != nil {
		_ = held.Unlock(ctx) // if this fails, the session keeps releasing it
	}
}

func (p *Prober) acquire(ctx context.Context, path string) (*client.Held, error) {
	why := errors.New("no session could be opened")
	for {
		p.mu.Lock()
		s := p.session
		p.mu.Unlock()
		if s != nil {
			held, err := s.Lock(ctx, path)
			if err == nil {
				return held, nil
			}
			why = err
		}
		if !cell.Pause(ctx, between) {
			return nil, why
		}
	}
}

// Close ends the prober's connections.
func (p *Prober) Close() error { return p.client.Close() }
