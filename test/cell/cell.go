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

// Options describe a cell. The zero value is three replicas with the shipped
// defaults on free ports; Start needs a Dir.
type Options struct {
	// Dir keeps the data directories and the logs, over the end of the cell: a
	// cell started again with the same Dir, Size and ports goes on. New has a
	// temporary one where it is empty.
	Dir string
	// Name is the cell's name; default "test".
	Name string
	// Size is the number of replicas, r1 to rN; default 3.
	Size int
	// Args are further flags of stoutd for every replica, as --master-lease=2s.
	Args []string
	// Binary is the stoutd to run; default: built from the sources. Releases
	// builds others.
	Binary string
	// APIPort and RaftPort are the ports of r1, those of the others follow; 0
	// means free ones.
	APIPort, RaftPort int
	// Network puts proxies between the replicas, for Raft and for forwarded
	// calls, so that they can be parted.
	Network bool
	// Named has the replicas call each other by the names of hosts: Host of their ids,
	// which stand for 127.0.0.1 where the caller has seen to it.
	Named bool
	// Secure has all speak TLS: the API, which takes the certificates of Clients
	// for what they are, and the replicas among themselves. The certificates are in
	// Dir/certs, as `stout certs new` makes them.
	Secure bool
	// Clients are the names of those that certificates are made for, too.
	Clients []string
	// RootToken is a file with the secret of user:root with which the cell is founded
	// with access on. The harness's own calls bring it. Empty for access off.
	RootToken string
	// FaultPoints has stoutd built with fault points, and each replica look for orders
	// in its Replica.FaultFile. A Binary is to be built so.
	FaultPoints bool
	// Audit has each replica keep an audit log, of changes too: see Replica.AuditLog.
	Audit bool
}

// Cell is a running cell. Its methods are safe for concurrent use.
type Cell struct {
	opts     Options
	replicas []*Replica
	joined   []*Replica // none of Replicas
	network  *Network
	tls      *tls.Config // of its clients; nil where it speaks none
}

// Start starts every replica of a cell. It does not wait for a master. Close
// the cell when it is no longer needed, also after the processes have ended.
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
		if c.opts.FaultPoints {
			r.env = []string{faultpoint.Variable + "=" + r.FaultFile()}
		}
	}
	return nil
}

// listFor is the --replica flags of one replica: the others' raft addresses are
// proxies where the cell has a network.
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

// Host is the name of the host of a replica, see Options.Named.
func Host(id string) string { return id + ".stout.test" }

// Join starts a replica that is to become a member (--join), and waits for that. It
// is none of Replicas. Nobody else uses the cell meanwhile. It is for cells
// without TLS and proxies.
func (c *Cell) Join(id string) (*Replica, error) {
	r, err := c.Rejoin(&Replica{ID: id, DataDir: filepath.Join(c.opts.Dir, id), LogFile: filepath.Join(c.opts.Dir, id+".log")})
	if err != nil {
		return nil, err
	}
	return r, r.Start()
}

// Rejoin is a replica that has joined and was stopped, at other ports; it waits for
// its Start.
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

// Close ends every process, at once, and the proxies. Stop is the orderly way.
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

// Stop asks every running replica to stop in good order and waits until they
// are gone. The error names each that did not, or not with exit code 0.
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

// Dir is the directory of the data and the logs.
func (c *Cell) Dir() string { return c.opts.Dir }

// Replicas are the members, r1 first.
func (c *Cell) Replicas() []*Replica { return c.replicas }

// Replica is the member of the given id. It panics where there is none: ids
// are the caller's own, or the cell's answers.
func (c *Cell) Replica(id string) *Replica {
	for _, r := range c.replicas {
		if r.ID == id {
			return r
		}
	}
	panic(fmt.Sprintf("cell: no replica %q", id))
}

// Others are the members but the given one.
func (c *Cell) Others(r *Replica) []*Replica {
	var others []*Replica
	for _, other := range c.replicas {
		if other != r {
			others = append(others, other)
		}
	}
	return others
}

// URLs are the base URLs of all members, r1 first.
func (c *Cell) URLs() []string {
	urls := make([]string, len(c.replicas))
	for i, r := range c.replicas {
		urls[i] = r.URL
	}
	return urls
}

// Network is what parts the replicas; nil without Options.Network.
func (c *Cell) Network() *Network { return c.network }

// Master is the replica that says of itself that it is master and holds the
// lease, asked just now; an error where none does. Paused replicas, which
// would not answer, are left out.
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

// WaitMaster waits until some replica is master, in office, with its lease
// running. It ends early when no replica runs any more.
func (c *Cell) WaitMaster(ctx context.Context) (*Replica, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var master *Replica
	err := Wait(ctx, "a master is in office", func(ctx context.Context) error {
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

// WaitReady waits until every running replica knows the master and is caught
// up (GET /readyz), and returns the master.
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

// StartTimeout is what New gives a cell to have a master: many times what it
// takes, for machines that do other work as well.
const StartTimeout = Step
