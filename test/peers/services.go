package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/test/cell"
	"github.com/stoutlock/stout/test/internal/target"
)

// service is three processes on this machine, each with its own data directory.
type service interface {
	// ready waits until all servers are ready.
	ready(ctx context.Context) error
	// dial makes a client with its own connections: to all servers, or to the
	// one that was leader when ready returned.
	dial(all bool) (target.Client, error)
	// cpu returns the CPU time of the processes so far.
	cpu() (time.Duration, error)
	// killLeader ends the leader like kill -9. restore starts it again and waits
	// until all servers are ready.
	killLeader(ctx context.Context) (restore func(context.Context) error, err error)
	Close() error
}

type stout struct{ *target.Cell }

func openStout(ctx context.Context, dir string) (service, error) {
	c, err := target.Open(ctx, target.Options{Dir: dir})
	return stout{c}, err
}

func (s stout) ready(ctx context.Context) error {
	_, err := s.View(ctx)
	return err
}

// dial knows all servers in any case: the client finds the master.
func (s stout) dial(bool) (target.Client, error) { return target.NewClient(target.SDK, s.Way()) }

func (s stout) cpu() (sum time.Duration, err error) {
	now, err := s.Sample(context.Background())
	for _, u := range now.Replicas {
		sum += u.CPU
	}
	return sum, err
}

func (s stout) killLeader(ctx context.Context) (func(context.Context) error, error) {
	return s.KillMaster(ctx)
}

// ensemble is the servers of another service.
type ensemble struct {
	servers []*cell.Replica
	addrs   []string // for clients
	connect func(addrs []string) (target.Client, error)
	// find returns the index of the leader, or an error while a server is not
	// ready.
	find   func(ctx context.Context, addrs []string) (int, error)
	leader int // when ready returned
}

const members = 3

// start starts the servers and waits until all are ready.
func (e *ensemble) start(ctx context.Context) (service, error) {
	for _, s := range e.servers {
		if err := s.Start(); err != nil {
			_ = e.Close()
			return nil, err
		}
	}
	if err := e.ready(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, e.servers[0].LogTail(10))
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

func (e *ensemble) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cell.StartTimeout)
	defer cancel()
	return cell.Wait(ctx, "all servers are ready", func(ctx context.Context) (err error) {
		e.leader, err = e.find(ctx, e.addrs)
		return err
	})
}

func (e *ensemble) dial(all bool) (target.Client, error) {
	if all {
		return e.connect(e.addrs)
	}
	return e.connect(e.addrs[e.leader : e.leader+1])
}

func (e *ensemble) cpu() (sum time.Duration, err error) {
	for _, s := range e.servers {
		u, err := target.ProcessUsage(s.PID())
		if err != nil {
			return 0, err
		}
		sum += u.CPU
	}
	return sum, nil
}

func (e *ensemble) killLeader(ctx context.Context) (func(context.Context) error, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	leader := e.servers[e.leader]
	if err := leader.Kill(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := leader.Start(); err != nil {
			return err
		}
		return e.ready(ctx)
	}, nil
}

func (e *ensemble) Close() (err error) {
	for _, s := range e.servers {
		if failed := s.Kill(); failed != nil {
			err = failed
		}
	}
	return err
}

// add adds a server that runs a command line in its own directory.
func (e *ensemble) add(dir, name, binary string, args ...string) {
	e.servers = append(e.servers, cell.Program(name, filepath.Join(dir, name+".log"), binary, args...))
}

// addresses returns that many free addresses on loopback.
func addresses(n int) (all []string, err error) {
	for range n {
		port, err := freeport.Get()
		if err != nil {
			return nil, err
		}
		all = append(all, freeport.Address(port))
	}
	return all, nil
}
