package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/audit"
	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/internal/nonblock"
	"github.com/stoutlock/stout/internal/progress"
	"github.com/stoutlock/stout/internal/tracing"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
)

// serve runs one replica until ctx ends (nil) or a fault ends it.
// What is meant for a person at a terminal goes to stdout.
func serve(ctx context.Context, c *config.Config, lines *nonblock.Writer, stdout io.Writer) error {
	// A write to a pipe without a reader then fails, and does not end the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	log := newLogger(c, lines)
	reportFileSizeLimit()
	limit, known := openFileLimit()
	most, err := maxConnections(c, limit, known)
	if err != nil {
		return exitError{code: exitConfig, err: err}
	}
	go paceCollector(ctx)
	within := c.ShutdownTimeout + lastStep
	defer endAnyway(ctx, within, func() {
		fmt.Fprintf(lines, "stoutd: the stop has not ended within %v; ending now\n", within)
		lines.Flush(lastLogLines)
		os.Exit(exitFault)
	})()
	supervisor := newSupervisor(log)
	go supervisor.begin(ctx)
	for {
		p := &process{config: c, log: log, lines: lines, stdout: stdout, supervisor: supervisor, maxConnections: most, began: time.Now(), progress: progress.New(boottime.Now)}
		if err := p.serve(ctx, stdout); !errors.Is(err, replica.ErrReplaced) {
			return err
		}
		// Its directory is no member's any more: it goes back to waiting.
	}
}

// endAnyway calls end so long after ctx has ended, unless the returned function was
// called before: an orderly stop may hang in any state.
func endAnyway(ctx context.Context, within time.Duration, end func()) (stop func()) {
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		select {
		case <-time.After(within):
			end()
		case <-ended:
		}
	})
	return sync.OnceFunc(func() { close(ended) })
}

// serve opens the parts, and returns when they are closed again. The error is
// an exitError, or replica.ErrReplaced.
func (p *process) serve(ctx context.Context, stdout io.Writer) error {
	c, log := p.config, p.log
	err := p.start(ctx)
	switch {
	case err == nil:
		p.tellStarted()
		p.supervisor.ready(p.works)
		if c.Dev {
			go p.introduce(ctx, stdout)
		}
		err = p.wait(ctx)
		switch {
		case errors.Is(err, replica.ErrRemoved):
			log.Warn().Err(err).Msg("this replica was removed from the cell, and ends")
			err = nil
		case errors.Is(err, replica.ErrReplaced):
			log.Warn().Err(err).Msg("standing by from now on")
			p.supervisor.waiting(err.Error)
		case err != nil:
			fault := log.Error().Err(err)
			if cure := diskCure(err); cure != "" {
				fault = fault.Str("cure", fmt.Sprintf("data-dir %q: %s", p.dataDir, cure))
			}
			fault.Msg("ending on a fault")
			p.removeTemp()
			return exitError{code: exitFault, err: err, logged: true}
		}
	case errors.Is(err, errStopped):
		err = nil
	default:
		return exitError{code: exitStart, err: err}
	}
	if err == nil {
		p.supervisor.stopping()
	}
	began := time.Now()
	log.Info().Dur("within_ms", c.ShutdownTimeout).Msg("stopping")
	p.close()
	log.Info().Dur("took_ms", time.Since(began)).Msg("stopped")
	return err
}

// process is the parts of a running replica, in the order in which they open.
type process struct {
	config  *config.Config
	log     zerolog.Logger
	lines   *nonblock.Writer // the log's
	stdout  io.Writer
	dataDir string
	free    freeSpace

	progress *progress.Watch
	temp     string // removed at the end, where not empty

	supervisor     *supervisor
	maxConnections int
	began          time.Time

	security     security
	stopWatching func() // its files; nil before

	audit       *audit.Log // nil for none
	stopReopens func()     // of its file; nil before

	traces *tracing.Traces // nil for none

	backups *backups
	backing bool // they are under way

	listener  net.Listener
	candidate *replica.Candidate // what replica was before it was started
	replica   *replica.Replica
	master    *master.Master
	server    *server.Server
	served    chan error // what Serve returned
}

// listen binds the API's address. For a cell of one replica it also finds out
// the ports that were left open (port 0).
func (p *process) listen() (net.Listener, error) {
	c := p.config
	l, err := net.Listen("tcp", c.APIListen)
	if err != nil {
		return nil, explainListen(c, "api-listen", c.APIListen, err)
	}
	if c.Dev {
		if err := p.settlePorts(l.Addr().(*net.TCPAddr).Port); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

// settlePorts puts the API's real port and a free one for Raft in place of the
// zeros that --dev allows.
func (p *process) settlePorts(apiPort int) error {
	c := p.config
	self := c.Self()
	scheme, authority, _ := strings.Cut(self.APIURL, "://")
	host, _, _ := net.SplitHostPort(authority)
	self.APIURL = fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, fmt.Sprint(apiPort)))
	if host, port, _ := net.SplitHostPort(c.RaftListen); port == "0" {
		l, err := net.Listen("tcp", c.RaftListen)
		if err != nil {
			return explainListen(c, "raft-listen", c.RaftListen, err)
		}
		free := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
		raftHost, _, _ := net.SplitHostPort(self.RaftAddr)
		c.RaftListen, self.RaftAddr = net.JoinHostPort(host, free), net.JoinHostPort(raftHost, free)
	}
	c.Replicas = []config.Replica{self}
	return nil
}

// openDataDir is the configured directory, or a new temporary one.
func (p *process) openDataDir() (err error) {
	p.dataDir = p.config.DataDir
	if p.config.Dev {
		if p.temp, err = os.MkdirTemp("", "stoutd-dev-"); err != nil {
			return fmt.Errorf("--dev needs a temporary directory (TMPDIR says where): %w", err)
		}
		p.dataDir = p.temp
	}
	if absolute, err := filepath.Abs(p.dataDir); err == nil {
		p.dataDir = absolute
	}
	return nil
}

// wait returns nil when ctx ends, else the fault after which the process must
// end. It then does so without the orderly steps of close: those write, and a
// replica whose disk failed makes no more promises.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.replica.Failed():
		return err
	case err := <-p.served:
		return fmt.Errorf("the API's listener ended: %w", err)
	}
}

// works tells the supervisor what a member of the cell does. A replica that
// cannot write its log hangs here.
func (p *process) works(ctx context.Context) (string, error) {
	if err := p.master.Hangs(); err != nil {
		return "", err
	}
	if err := p.replica.Answers(ctx); err != nil {
		return "", err
	}
	switch leader := p.replica.Leader(); leader {
	case "":
		return "serving; knows no master", nil
	case p.config.ID:
		return "serving; master", nil
	default:
		return "serving; follows " + leader, nil
	}
}

// lastStep is what the stores get for closing, even where the steps before
// took all of the time.
const lastStep = 2 * time.Second

// close closes what was opened, bounded by the configured time and lastStep.
// It is the reverse of open but for one step: the master closes before the
// server, because calls that wait are released by it, and because the server
// goes on forwarding calls to the new master until its own end.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), p.config.ShutdownTimeout)
	defer cancel()
	if p.server != nil {
		p.server.Drain()
	}
	if p.master != nil {
		handOver, cancel := context.WithTimeout(ctx, p.config.ShutdownTimeout/2)
		p.warn("hand-over of mastership", p.master.Close(handOver))
		cancel()
	}
	if p.server != nil {
		p.warn("end of the API", p.server.Shutdown(ctx))
	}
	if p.listener != nil {
		_ = p.listener.Close() // the server did already, where there is one
	}
	if p.candidate != nil {
		p.warn("closing the data directory", p.candidate.Close())
	}
	if p.replica != nil {
		p.warn("closing the stores", atMost(ctx, lastStep, p.replica.Close))
	}
	if p.stopWatching != nil {
		p.stopWatching()
	}
	if p.backing {
		p.warn("ending a backup", atMost(ctx, lastStep, func() error { <-p.backups.done; return nil }))
	}
	last, cancel := context.WithTimeout(context.Background(), lastStep)
	defer cancel()
	if p.traces != nil {
		p.warn("sending the last spans", p.traces.Close(last))
	}
	p.warn("closing the audit log", p.audit.Close(last))
	if p.stopReopens != nil {
		p.stopReopens()
	}
	p.removeTemp()
}

func (p *process) removeTemp() {
	if p.temp != "" {
		p.warn("removing the temporary directory", os.RemoveAll(p.temp))
	}
}

// warn logs a step of stopping that went wrong: the next ones are taken anyway.
func (p *process) warn(step string, err error) {
	if err != nil {
		p.log.Warn().Err(err).Str("step", step).Msg("not stopped in good order")
	}
}

// atMost calls a step that knows no context, and gives up waiting for it when
// ctx is over and the grace as well.
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
