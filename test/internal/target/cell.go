// Package target is the cell under load: a running cell, or one of three
// processes that it starts on loopback. It makes the calls of a load: through
// the Go SDK, like most programs, or by plain HTTP with a minimal client, which
// shows the capacity of the server itself. It also measures the resource use of
// the cell's processes.
package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/test/cell"
)

// Options describe the cell under load.
type Options struct {
	// URLs are the base URLs of a running cell's replicas. If empty, a cell of
	// three processes is started.
	URLs []string
	// The other options describe the cell to start: its stoutd (empty: build
	// it), additional flags of stoutd, and its directory (empty: a temporary
	// one that is removed).
	Binary string
	Args   []string
	Dir    string
	Secure bool // with TLS everywhere
	Access bool // with access control; the load's calls send a token
	Rules  int  // access rules, besides the rule for the load
	Doors  bool // with a door for Consul's clients at each replica
}

// Cell is a running cell. The caller must Close it.
type Cell struct {
	urls []string
	own  *cell.Cell // nil for a given cell
	temp string     // directory to remove

	root, token string // secrets of user:root and of the load's caller; empty without access control
}

// Open starts the cell, or uses the given one, and waits for its master.
func Open(ctx context.Context, o Options) (*Cell, error) {
	ctx, cancel := context.WithTimeout(ctx, cell.StartTimeout)
	defer cancel()
	if len(o.URLs) > 0 {
		c := &Cell{urls: o.URLs}
		if _, err := c.View(ctx); err != nil {
			return nil, fmt.Errorf("no master at %s: %w", strings.Join(o.URLs, ", "), err)
		}
		return c, nil
	}
	c := &Cell{}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "stout-bench-")
		if err != nil {
			return nil, err
		}
		o.Dir, c.temp = dir, dir
	}
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cell) start(ctx context.Context, o Options) (err error) {
	own := cell.Options{Dir: o.Dir, Name: "bench", Binary: o.Binary, Args: o.Args, Secure: o.Secure}
	if o.Access {
		if own.RootToken, err = c.foundingToken(o.Dir); err != nil {
			return err
		}
	}
	if o.Doors {
		own.Door = true
	}
	if c.own, err = cell.Start(own); err != nil {
		return err
	}
	c.urls = c.own.URLs()
	if _, err = c.own.WaitReady(ctx); err == nil && o.Access {
		err = c.allow(ctx, o.Rules)
	}
	return err
}

// Close ends a cell that Open started.
func (c *Cell) Close() error {
	var errs []error
	if c.own != nil {
		errs = append(errs, c.own.Close())
	}
	if c.temp != "" {
		errs = append(errs, os.RemoveAll(c.temp))
	}
	return errors.Join(errs...)
}

// Refresh stops the started cell cleanly and starts it again, so that its
// memory shows no effect of earlier loads. It does nothing to a given cell.
func (c *Cell) Refresh(ctx context.Context) error {
	if c.own == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cell.StartTimeout)
	defer cancel()
	if err := c.own.Stop(ctx); err != nil {
		return err
	}
	for _, r := range c.own.Replicas() {
		if err := r.Start(); err != nil {
			return err
		}
	}
	_, err := c.own.WaitReady(ctx)
	return err
}

// Way returns the addresses and credentials for the load.
func (c *Cell) Way() Way {
	way := Way{URLs: c.urls, TLS: c.tls(), Token: c.token, Doors: map[string]string{}}
	if c.own == nil {
		return way
	}
	for _, r := range c.own.Replicas() {
		way.Doors[r.URL] = r.Door
	}
	return way
}

// tls returns the configuration of its clients; nil without TLS.
func (c *Cell) tls() *tls.Config {
	if c.own == nil {
		return nil
	}
	return c.own.TLS()
}

// View returns the cell's state from the first replica that knows a master.
func (c *Cell) View(ctx context.Context) (lockapi.Cell, error) {
	var errs []error
	for i, url := range c.urls {
		way := c.Way()
		way.URLs = c.urls[i : i+1]
		if c.root != "" {
			way.Token = c.root // the caller's token is made later
		}
		var view lockapi.Cell
		one := NewRaw(way)
		err := one.Call(ctx, http.MethodGet, lockapi.RouteCell, nil, &view)
		_ = one.Close()
		if err == nil && view.Master != nil {
			return view, nil
		}
		if err == nil {
			err = fmt.Errorf("%s knows no master", url)
		}
		errs = append(errs, err)
	}
	return lockapi.Cell{}, errors.Join(errs...)
}

// Sample is the resource use of the cell's processes so far.
type Sample struct {
	Master   string           // id of the master
	Replicas map[string]Usage // by id
}

// Sample asks the system for processes that it started, and /metrics for
// others.
func (c *Cell) Sample(ctx context.Context) (Sample, error) {
	view, err := c.View(ctx)
	if err != nil {
		return Sample{}, err
	}
	out := Sample{Master: view.Master.ID, Replicas: map[string]Usage{}}
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
		errs []error
	)
	for _, r := range view.Replicas {
		wait.Go(func() {
			u, err := c.usage(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("usage of %s: %w", r.ID, err))
				return
			}
			out.Replicas[r.ID] = u
		})
	}
	wait.Wait()
	return out, errors.Join(errs...)
}

func (c *Cell) usage(ctx context.Context, r lockapi.Replica) (Usage, error) {
	if c.own != nil {
		if u, err := ProcessUsage(c.own.Replica(r.ID).PID()); !errors.Is(err, os.ErrNotExist) {
			return u, err
		}
	}
	_, page, err := cell.Exchange(ctx, nil, http.MethodGet, r.URL+lockapi.RouteMetrics, nil, nil)
	if err != nil {
		return Usage{}, err
	}
	return parseMetrics(bytes.NewReader(page))
}

// KillMaster ends the master like kill -9. It returns the function that
// restarts it and waits until the whole cell is ready.
func (c *Cell) KillMaster(ctx context.Context) (restore func(context.Context) error, err error) {
	if c.own == nil {
		return nil, errors.New("cannot kill the master of a given cell; leave --server out")
	}
	master, err := c.own.WaitMaster(ctx)
	if err != nil {
		return nil, err
	}
	if err := master.Kill(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, cell.StartTimeout)
		defer cancel()
		if err := master.Start(); err != nil {
			return err
		}
		_, err := c.own.WaitReady(ctx)
		return err
	}, nil
}

// Lapses counts how often a master of the started cell logged that its lease
// had lapsed; 0 for a given cell, because its logs are out of reach.
func (c *Cell) Lapses() (n int) {
	if c.own == nil {
		return 0
	}
	for _, r := range c.own.Replicas() {
		if content, err := os.ReadFile(r.LogFile); err == nil {
			n += bytes.Count(content, []byte("master lease lapsed"))
		}
	}
	return n
}

// MasterPID returns the process id of the started cell's master, for a
// profiler; 0 without one.
func (c *Cell) MasterPID(ctx context.Context) int {
	if c.own == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	master, err := c.own.Master(ctx)
	if err != nil {
		return 0
	}
	return master.PID()
}
