package cell

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stoutlock/stout/internal/faultpoint"
	"github.com/stoutlock/stout/internal/freeport"
	"github.com/stoutlock/stout/lockapi"
)

// Options describe a cell. The zero value means three replicas with the shipped
// defaults on free ports; Start also needs a Dir.
type Options struct {
	// Dir holds the data directories and the logs, and outlives the cell. A
	// cell that is started again with the same Dir, Size and ports continues.
	// If it is empty, New uses a temporary directory.
	Dir string
	// Name is the cell's name; default "test".
	Name string
	// Size is the number of replicas, r1 to rN; default 3.
	Size int
	// Args are additional flags of stoutd for every replica, such as
	// --master-lease=2s.
	Args []string
	// Binary is the stoutd to run. By default it is built from the sources;
	// Releases builds others.
	Binary string
	// APIPort and RaftPort are the ports of r1; the other replicas use the
	// following ones. 0 means free ports.
	APIPort, RaftPort int
	// Network puts proxies between the replicas, for Raft and for forwarded
	// calls, so that they can be partitioned.
	Network bool
	// Named makes the replicas call each other by host name: Host of their ids.
	// The caller must make these names resolve to 127.0.0.1.
	Named bool
	// Secure makes all connections use TLS: the API, which accepts the
	// certificates of Clients, and those between the replicas. The certificates
	// are in Dir/certs, as `stout certs new` makes them.
	Secure bool
	// Clients are the names of the clients that also get certificates.
	Clients []string
	// RootToken is a file with the secret of user:root. The cell is founded
	// with access control on, and the harness sends the token in its own calls.
	// Empty means access control off.
	RootToken string
	// FaultPoints builds stoutd with fault points; each replica reads orders
	// from its Replica.FaultFile. A given Binary must have fault points.
	FaultPoints bool
	// Audit makes each replica keep an audit log that includes changes; see
	// Replica.AuditLog.
	Audit bool
	// Door opens the door for Consul's clients at each replica; see
	// Replica.Door.
	Door bool
}

// Cell is a running cell. Its methods are safe for concurrent use.
type Cell struct {
	opts     Options
	replicas []*Replica
	joined   []*Replica // not in replicas
	network  *Network
	tls      *tls.Config // of its clients; nil without TLS
}

// Start starts every replica of a cell. It does not wait for a master. The
// caller must Close the cell, even after its processes have ended.
func Start(opts Options) (*Cell, error) {
	c, err := Prepare(opts)
	if err != nil {
		return nil, err
	}
	for _, r := range c.replicas {
		if err := r.Start(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Prepare is Start without the processes: each replica waits for its Start.
func Prepare(opts Options) (*Cell, error) {
	if opts.Name == "" {
		opts.Name = "test"
	}
	if opts.Size == 0 {
		opts.Size = 3
	}
	if opts.Dir == "" {
		return nil, errors.New("cell: Options.Dir is empty")
	}
	if opts.Binary == "" {
		build := stoutd
		if opts.FaultPoints {
			build = stoutdWithPoints
		}
		binary, err := build()
		if err != nil {
			return nil, err
		}
		opts.Binary = binary
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	opts.Dir = dir
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cell{opts: opts}
	if err := c.layOut(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// layOut gives every replica its ports, proxies and arguments.
func (c *Cell) layOut() error {
	port := func(first, i int) (int, error) {
		if first != 0 {
			return first + i, nil
		}
		return freeport.Get()
	}
	for i := range c.opts.Size {
		api, err := port(c.opts.APIPort, i)
		if err != nil {
			return err
		}
		raft, err := port(c.opts.RaftPort, i)
		if err != nil {
			return err
		}
		id := fmt.Sprintf("r%d", i+1)
		c.replicas = append(c.replicas, &Replica{
			ID: id, URL: c.scheme() + freeport.Address(api), RaftAddr: freeport.Address(raft),
			DataDir: filepath.Join(c.opts.Dir, id), LogFile: filepath.Join(c.opts.Dir, id+".log"),
			binary: c.opts.Binary,
		})
	}
	if c.opts.Network {
		c.network = newNetwork()
	}
	if c.opts.Secure {
		if err := c.secure(); err != nil {
			return err
		}
	}
	if c.opts.RootToken != "" {
		if err := c.authorize(); err != nil {
			return err
		}
	}
	for _, r := range c.replicas {
		list, err := c.listFor(r)
		if err != nil {
			return err
		}
		r.args = append([]string{
			"--cell", c.opts.Name, "--id", r.ID, "--data-dir", r.DataDir,
			"--api-listen", r.Addr(), "--raft-listen", r.RaftAddr,
		}, slices.Concat(list, c.tlsFlags(r), c.accessFlags(r), c.opts.Args)...)
		if c.opts.Door {
			door, err := freeport.Get()
			if err != nil {
				return err
			}
			r.Door = c.scheme() + freeport.Address(door)
			r.args = append(r.args, "--consul-listen", freeport.Address(door))
		}
		if c.opts.FaultPoints {
			r.env = []string{faultpoint.Variable + "=" + r.FaultFile()}
		}
	}
	return nil
}

// listFor returns the --replica flags of one replica. In a cell with a Network,
// the others' Raft addresses are proxies.
func (c *Cell) listFor(r *Replica) ([]string, error) {
	var flags []string
	for _, other := range c.replicas {
		raft := other.RaftAddr
		if other != r && c.opts.Network {
			var err error
			if raft, err = c.network.link(r.ID, other.ID, raft); err != nil {
				return nil, err
			}
		}
		url := other.URL
		if c.opts.Named {
			raft, url = strings.Replace(raft, "127.0.0.1", Host(other.ID), 1), strings.Replace(url, "127.0.0.1", Host(other.ID), 1)
		}
		flags = append(flags, "--replica", other.ID+"="+raft+","+url)
	}
	return flags, nil
}

// Host returns the host name of a replica; see Options.Named.
func Host(id string) string { return id + ".stout.test" }

// Join starts a replica with --join, which waits until it is admitted as a
// member. Replicas does not include it. Join requires exclusive use of the
// cell, and a cell without TLS and proxies.
func (c *Cell) Join(id string) (*Replica, error) {
	r, err := c.Rejoin(&Replica{ID: id, DataDir: filepath.Join(c.opts.Dir, id), LogFile: filepath.Join(c.opts.Dir, id+".log")})
	if err != nil {
		return nil, err
	}
	return r, r.Start()
}

// Rejoin returns a replica that joined and was stopped, with new ports. It
// waits for its Start.
func (c *Cell) Rejoin(r *Replica) (*Replica, error) {
	api, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	raft, err := freeport.Get()
	if err != nil {
		return nil, err
	}
	moved := &Replica{ID: r.ID, URL: c.scheme() + freeport.Address(api), RaftAddr: freeport.Address(raft), DataDir: r.DataDir, LogFile: r.LogFile, binary: c.opts.Binary}
	moved.args = c.joinArgs(moved)
	c.joined = append(c.joined, moved)
	return moved, nil
}

func (c *Cell) joinArgs(r *Replica) []string {
	return append([]string{"--cell", c.opts.Name, "--id", r.ID, "--data-dir", r.DataDir, "--api-listen", r.Addr(),
		"--raft-listen", r.RaftAddr, "--join", strings.Join(c.URLs(), ",")}, c.opts.Args...)
}

// Close kills every process and closes the proxies. Stop is the clean way.
func (c *Cell) Close() error {
	var errs []error
	for _, r := range slices.Concat(c.replicas, c.joined) {
		errs = append(errs, r.Kill())
	}
	if c.network != nil {
		c.network.close()
	}
	return errors.Join(errs...)
}

// Stop asks every running replica to stop cleanly and waits until they have
// ended. The error names each replica that did not end with exit code 0.
func (c *Cell) Stop(ctx context.Context) error {
	var wait sync.WaitGroup
	errs := make([]error, len(c.replicas))
	for i, r := range c.replicas {
		if r.Running() {
			wait.Go(func() { errs[i] = r.Terminate(ctx) })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Dir returns the directory of the data and the logs.
func (c *Cell) Dir() string { return c.opts.Dir }

// Replicas returns the members, r1 first.
func (c *Cell) Replicas() []*Replica { return c.replicas }

// Replica returns the member with the given id. It panics without one: ids come
// from the caller or from the cell's answers.
func (c *Cell) Replica(id string) *Replica {
	for _, r := range c.replicas {
		if r.ID == id {
			return r
		}
	}
	panic(fmt.Sprintf("cell: no replica %q", id))
}

// Others returns the members except the given one.
func (c *Cell) Others(r *Replica) []*Replica {
	var others []*Replica
	for _, other := range c.replicas {
		if other != r {
			others = append(others, other)
		}
	}
	return others
}

// URLs returns the base URLs of all members, r1 first.
func (c *Cell) URLs() []string {
	urls := make([]string, len(c.replicas))
	for i, r := range c.replicas {
		urls[i] = r.URL
	}
	return urls
}

// Doors returns the base URLs of all doors, r1 first, with Options.Door.
func (c *Cell) Doors() []string {
	doors := make([]string, len(c.replicas))
	for i, r := range c.replicas {
		doors[i] = r.Door
	}
	return doors
}

// Network returns the proxies that can partition the replicas; nil without
// Options.Network.
func (c *Cell) Network() *Network { return c.network }

// Master returns the replica that now reports to be master with a running
// lease, or an error without one. Paused replicas are skipped, because they
// would not answer.
func (c *Cell) Master(ctx context.Context) (*Replica, error) {
	type answer struct {
		replica *Replica
		err     error
	}
	asked := slices.DeleteFunc(slices.Clone(c.replicas), (*Replica).Paused)
	answers := make(chan answer, len(asked))
	for _, r := range asked {
		go func() {
			view, err := r.Cell(ctx)
			if err == nil && (view.Master == nil || view.Master.ID != r.ID || !view.Lease.Held) {
				err = fmt.Errorf("%s is not the master", r.ID)
			}
			answers <- answer{r, err}
		}()
	}
	var errs []error
	for range asked {
		a := <-answers
		if a.err == nil {
			return a.replica, nil
		}
		errs = append(errs, a.err)
	}
	return nil, fmt.Errorf("no master: %w", errors.Join(errs...))
}

// WaitMaster waits until a replica is master with a running lease. It returns
// early when no replica runs any more.
func (c *Cell) WaitMaster(ctx context.Context) (*Replica, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var master *Replica
	err := Wait(ctx, "there is a master", func(ctx context.Context) error {
		for _, r := range c.replicas {
			if r.Running() {
				var err error
				master, err = c.Master(ctx)
				return err
			}
		}
		giveUp(errors.New("every replica has ended"))
		return errors.New("no replica is running")
	})
	return master, err
}

// WaitReady waits until every running replica knows the master and has caught
// up (GET /readyz). It returns the master.
func (c *Cell) WaitReady(ctx context.Context) (*Replica, error) {
	master, err := c.WaitMaster(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range c.replicas {
		if !r.Running() || r.Paused() {
			continue
		}
		err := Wait(ctx, r.ID+" is ready", func(ctx context.Context) error {
			_, err := r.Call(ctx, http.MethodGet, lockapi.RouteReady, nil, nil)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return master, nil
}

// StartTimeout is New's limit for the election of a master: many times what it
// needs, for busy machines.
const StartTimeout = Step
