// Package embed runs a replica of a cell in the caller's process. Command stoutd
// is this package with flags, signals and a supervisor around it.
//
//	c := config.Default()
//	c.Cell, c.ID, c.DataDir = "prod", "r1", "/var/lib/program/r1"
//	c.Replicas = ... // the same list in each replica of the cell
//	r, err := embed.Start(ctx, c)
//	if err != nil {
//		return err
//	}
//	defer r.Stop(context.Background())
//
// The caller waits for [Replica.Ready], handles [Replica.Failed] and uses the cell
// through package client. Replicas in one process share only the resources of the
// process:
//
//   - Set MaxConnections if there are several: each assumes that it has the whole
//     limit on open files.
//   - Times and durations in the log have zerolog's global format.
//   - The package handles no signal, never ends the process and does not tune the
//     garbage collector. Long pauses of the program end a replica's lease.
package embed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/tracing"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
)

// Replica is a replica that runs, or waits to become a member of its cell. Its
// methods are safe for concurrent use.
type Replica struct {
	config  *config.Config
	log     zerolog.Logger
	lines   *nonblock.Writer // writer of the log
	dataDir string
	began   time.Time
	// connections bounds the API's open connections. foundToken is the digest of the
	// secret for founding a cell with access on.
	connections int
	foundToken  *[sha256.Size]byte

	ready  chan struct{} // closed when the replica is a member and serves
	failed chan error
	ended  chan struct{} // closed when run has returned
	cancel func()        // ends run and all watching goroutines
	faulty bool          // written by run: the disk or the state is in doubt

	stopping sync.Once
	stopped  chan struct{} // closed when Stop has closed all parts
	stopErr  error         // its result

	behind    chan struct{} // closed when a start that hung has ended and is closed; nil if none hung
	behindErr error         // its result

	// The parts, in the order of opening; nil before.
	security  security
	listener  net.Listener
	consul    net.Listener // nil without the door for Consul's clients
	audit     *audit.Log
	traces    *tracing.Traces
	candidate *replica.Candidate // replica before its start
	used      bool               // candidate.Start was called
	progress  *progress.Watch
	free      freeSpace
	backups   *backups
	backing   bool // backups.run was started
	server    *server.Server
	served    chan error // the results of Serve and ServeConsul
	replica   *replica.Replica
	master    *master.Master
}

// Start opens the ports and the data directory, and returns. The replica then waits,
// without a time limit, until it is a member of the cell, and runs until Stop. The
// error is a config.Problems if settings are refused. ctx bounds Start on a disk that
// hangs: after the end of ctx, Start waits for another ShutdownTimeout and then
// abandons the open step.
func Start(ctx context.Context, c *config.Config) (*Replica, error) {
	if c == nil {
		return nil, errors.New("there is no configuration: begin with config.Default")
	}
	c, err := config.Complete(c)
	if err != nil {
		return nil, err
	}
	limit, known := openFileLimit()
	connections, err := maxConnections(c, limit, known)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	r := &Replica{config: c, began: time.Now(), connections: connections, cancel: cancel, progress: progress.New(boottime.Now),
		ready: make(chan struct{}), failed: make(chan error, 1), ended: make(chan struct{}), stopped: make(chan struct{}), served: make(chan error, 2)}
	r.log, r.lines = setup.Logger(c)
	opened := wait.Err(func() error { return r.open(ctx, running) })
	stuck := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(c.ShutdownTimeout, func() { close(stuck) })
	})()
	select {
	case err = <-opened:
	case <-stuck:
		closeBehind(r, opened)
		return nil, r.errStuck()
	}
	if err != nil {
		bounded, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
		defer cancel()
		_ = r.close(bounded)
		return nil, err
	}
	go r.run(running)
	return r, nil
}

// ErrStuck is the error of Start and Stop for a start that hangs.
var ErrStuck = errors.New("stopped during the start, which has not ended")

func (r *Replica) errStuck() error {
	return fmt.Errorf("%w within %s; does the disk of data-dir %q respond?", ErrStuck, r.config.ShutdownTimeout, r.config.DataDir)
}

// closeBehind closes an abandoned start when it ends. The process may continue, and
// must not have a running replica that cannot be stopped.
func closeBehind[T any](r *Replica, end <-chan T) {
	r.cancel()
	r.behind = make(chan struct{})
	go func() {
		defer close(r.behind)
		<-end
		ctx, cancel := context.WithTimeout(context.Background(), r.config.ShutdownTimeout)
		defer cancel()
		r.behindErr = r.close(ctx)
	}()
}

// run joins the cell and waits for the end of the replica.
func (r *Replica) run(ctx context.Context) {
	defer close(r.ended)
	err := r.join(ctx)
	if err == nil {
		r.logStarted()
		close(r.ready)
		select {
		case <-ctx.Done():
		case err = <-r.replica.Failed():
		case err = <-r.served:
			err = fmt.Errorf("the API's listener ended: %w", err)
		}
	}
	if err != nil && ctx.Err() == nil {
		r.faulty = r.replica != nil && !errors.Is(err, replica.ErrRemoved) && !errors.Is(err, replica.ErrReplaced)
		r.failed <- err
	}
}

// URL returns the base URL of this replica's API.
func (r *Replica) URL() string { return r.config.Self().APIURL }

// Ready returns a channel that is closed when this replica is a member of its cell and
// serves. The cell may have no master yet.
func (r *Replica) Ready() <-chan struct{} { return r.ready }

// Failed returns a channel with the error after which the caller must stop this
// replica.
//
//   - Before Ready: the replica could not become a member.
//   - replica.ErrRemoved: the replica was removed from the cell.
//   - replica.ErrReplaced: another directory has its place. After Stop, another Start
//     waits until it is a member again.
//   - Others are faults, of the disk for instance. The program should end: this
//     process may still read data that the disk has not stored.
func (r *Replica) Failed() <-chan error { return r.failed }

// Master waits until the cell has a master and returns the URL of its API. It
// returns an error when ctx ends, or after the replica has stopped.
func (r *Replica) Master(ctx context.Context) (string, error) {
	select {
	case <-r.ready:
	case <-r.ended:
		if !r.isReady() {
			return "", errEnded
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
	for { // Locate gives up after a while
		at, err := r.master.Locate(ctx)
		if err == nil || ctx.Err() != nil {
			return at.URL, err
		}
		select {
		case <-r.ended:
			return "", err
		default:
		}
	}
}

var errEnded = errors.New("the replica has ended before it was a member")

func (r *Replica) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// Status returns a line for people about what the replica does. It fails after Stop, and
// fails or hangs until ctx ends if the replica cannot continue.
func (r *Replica) Status(ctx context.Context) (string, error) {
	select {
	case <-r.stopped:
		return "", errors.New("the replica is stopped")
	default:
	}
	if !r.isReady() {
		select {
		case <-r.ended:
			return "", errEnded
		default:
		}
		return "waiting: " + r.candidate.Standby().Why, nil
	}
	if err := r.master.Hangs(); err != nil {
		return "", err
	}
	if err := r.replica.Answers(ctx); err != nil {
		return "", err
	}
	switch leader := r.replica.Leader(); leader {
	case "":
		return "serving; knows no master", nil
	case r.config.ID:
		return "serving; master", nil
	default:
		return "serving; follows " + leader, nil
	}
}

// ReopenAudit opens the file of the audit log again by its name, after a rotation.
func (r *Replica) ReopenAudit() { r.audit.Reopen() }

// listen binds the API's address. With Dev it also replaces port 0 in the settings.
func (r *Replica) listen() (net.Listener, error) {
	c := r.config
	l, err := listenTo(c.APIListen)
	if err != nil {
		return nil, setup.ExplainListen(c, "api-listen", c.APIListen, err)
	}
	if c.Dev {
		if err := settlePorts(c, l.Addr().(*net.TCPAddr).Port); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

func listenTo(address string) (net.Listener, error) {
	of := net.ListenConfig{Control: setUserTimeout}
	of.SetMultipathTCP(false) // which has no such bound
	return of.Listen(context.Background(), "tcp", address)
}

// settlePorts sets the API's actual port, and a free port for Raft in place of 0.
func settlePorts(c *config.Config, apiPort int) error {
	self := c.Self()
	scheme, authority, _ := strings.Cut(self.APIURL, "://")
	host, _, _ := net.SplitHostPort(authority)
	self.APIURL = fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, fmt.Sprint(apiPort)))
	if host, port, _ := net.SplitHostPort(c.RaftListen); port == "0" {
		l, err := net.Listen("tcp", c.RaftListen)
		if err != nil {
			return setup.ExplainListen(c, "raft-listen", c.RaftListen, err)
		}
		free := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
		raftHost, _, _ := net.SplitHostPort(self.RaftAddr)
		c.RaftListen, self.RaftAddr = net.JoinHostPort(host, free), net.JoinHostPort(raftHost, free)
	}
	c.Replicas = []config.Replica{self}
	return nil
}

// lastStep is the time for closing the stores, even if the steps before it used all of
// ShutdownTimeout.
const lastStep = 2 * time.Second

// Stop hands mastership over, lets active calls end and closes everything that Start
// opened. It takes at most ShutdownTimeout and a few seconds; ctx can shorten it.
// After a fault it does not hand mastership over. The log also has the errors of its
// steps. Another call waits for the first one and returns its error. After ErrStuck
// each call waits for the end of what hangs, for ShutdownTimeout at most.
func (r *Replica) Stop(ctx context.Context) error {
	first := false
	r.stopping.Do(func() {
		first = true
		r.stopErr = r.stop(ctx)
		close(r.stopped)
	})
	if first || r.behind == nil {
		return r.stopErr
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.ShutdownTimeout)
	defer cancel()
	select {
	case <-r.behind:
		return r.behindErr
	case <-ctx.Done():
		return r.stopErr
	}
}

func (r *Replica) stop(ctx context.Context) error {
	began := time.Now()
	r.log.Info().Dur("within_ms", r.config.ShutdownTimeout).Msg("stopping")
	ctx, cancel := context.WithTimeout(ctx, r.config.ShutdownTimeout)
	defer cancel()
	r.cancel()
	select {
	case <-r.ended:
	case <-ctx.Done():
		closeBehind(r, (<-chan struct{})(r.ended))
		return r.errStuck()
	}
	err := r.close(ctx)
	r.log.Info().Dur("took_ms", time.Since(began)).Msg("stopped")
	r.lines.Flush(lastStep)
	return err
}

// close closes what was opened, within ctx and lastStep. The order is the reverse of
// open, except for one step: the master closes before the server. It releases the
// waiting calls, and the server forwards calls to the new master until its own end.
func (r *Replica) close(ctx context.Context) error {
	r.cancel()
	var errs []error
	step := func(name string, err error) {
		if err != nil {
			r.log.Warn().Err(err).Str("step", name).Msg("not stopped in good order")
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if r.server != nil {
		r.server.Drain()
	}
	// Closing a master writes to the log; skip it after a fault of the disk or the
	// state.
	if r.master != nil && !r.faulty {
		handOver, cancel := context.WithTimeout(ctx, r.config.ShutdownTimeout/2)
		step("hand-over of mastership", r.leave(handOver))
		cancel()
	}
	if r.faulty {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	if r.server != nil {
		step("end of the API", r.server.Shutdown(ctx))
	}
	if r.listener != nil {
		_ = r.listener.Close() // a server has closed it already
	}
	if r.consul != nil {
		_ = r.consul.Close()
	}
	if r.replica != nil {
		step("closing the stores", atMost(ctx, lastStep, r.replica.Close))
	} else if r.candidate != nil && !r.used {
		step("closing the data directory", r.candidate.Close())
	}
	if r.backing {
		step("ending a backup", atMost(ctx, lastStep, func() error { <-r.backups.done; return nil }))
	}
	last, cancel := context.WithTimeout(context.Background(), lastStep)
	defer cancel()
	if r.traces != nil {
		step("sending the last spans", r.traces.Close(last))
	}
	step("closing the audit log", r.audit.Close(last))
	return errors.Join(errs...)
}

// leave hands mastership over for good. The replica then helps the others to elect a
// master until it is closed.
func (r *Replica) leave(ctx context.Context) error {
	defer r.replica.Follow()
	return r.master.Close(ctx)
}

// atMost calls a step without a context. It abandons the step when ctx has ended and
// then grace has passed.
func atMost(ctx context.Context, grace time.Duration, step func() error) error {
	done := wait.Err(step)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return ctx.Err()
	}
}
