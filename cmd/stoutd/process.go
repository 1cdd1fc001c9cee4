package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
)

// serve runs one replica until ctx ends (nil) or a fault ends it.
// What is meant for a person at a terminal goes to stdout.
func serve(ctx context.Context, c *config.Config, log zerolog.Logger, stdout io.Writer) error {
	reportFileSizeLimit()
	limit, known := openFileLimit()
	most, err := maxConnections(c, limit, known)
	if err != nil {
		return exitError{code: exitConfig, err: err}
	}
	go paceCollector(ctx)
	p := &process{config: c, log: log, maxConnections: most}
	if err := p.start(ctx); err != nil {
		return exitError{code: exitStart, err: err}
	}
	log.Info().Str("version", buildinfo.Version()).Str("cell", c.Cell).
		Str("api", p.listener.Addr().String()).Str("raft", c.RaftListen).
		Str("url", c.Self().APIURL).Str("data_dir", p.dataDir).
		Int("replicas", len(c.Replicas)).Int("max_connections", most).Msg("started")
	if c.Dev {
		go p.introduce(ctx, stdout)
	}
	if err := p.wait(ctx); err != nil {
		log.Error().Err(err).Msg("ending on a fault")
		p.removeTemp()
		return exitError{code: exitFault, err: err, logged: true}
	}
	began := time.Now()
	log.Info().Dur("within_ms", c.ShutdownTimeout).Msg("stopping")
	p.close()
	log.Info().Dur("took_ms", time.Since(began)).Msg("stopped")
	return nil
}

// process is the parts of a running replica, in the order in which they open.
type process struct {
	config  *config.Config
	log     zerolog.Logger
	dataDir string
	temp    string // removed at the end, where not empty

	maxConnections int

	listener net.Listener
	replica  *replica.Replica
	master   *master.Master
	server   *server.Server
	served   chan error // what Serve returned
}

// start opens the parts, or leaves none of them open. A disk that does not
// answer may keep it waiting for ever: once ctx has ended it gets as long as an
// orderly stop, and is then left behind, for the process to end.
func (p *process) start(ctx context.Context) error {
	opened := make(chan error, 1)
	go func() { opened <- p.open() }()
	stuck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(p.config.ShutdownTimeout, func() { close(stuck) })
	})
	defer stop()
	select {
	case err := <-opened:
		if err != nil {
			p.close()
		}
		return err
	case <-stuck:
		return fmt.Errorf("told to stop, and the start, which was under way, has not ended within %s; does the disk of data-dir %q answer?",
			p.config.ShutdownTimeout, p.config.DataDir)
	}
}

// open opens the parts. The API's port comes first: that it is taken is the
// most likely mistake, and is told before anything is written. Calls that
// arrive meanwhile wait in the listener.
func (p *process) open() (err error) {
	if p.listener, err = p.listen(); err != nil {
		return err
	}
	if err := p.openDataDir(); err != nil {
		return err
	}
	c := p.config
	members := make([]replica.Member, len(c.Replicas))
	for i, r := range c.Replicas {
		members[i] = replica.Member{ID: r.ID, RaftAddr: r.RaftAddr, APIURL: r.APIURL}
	}
	p.replica, err = replica.Open(replica.Options{
		Cell: c.Cell, ID: c.ID, DataDir: p.dataDir,
		RaftListen: c.RaftListen, Members: members,
		MasterLease: c.MasterLease, HeartbeatTimeout: c.HeartbeatTimeout,
		ElectionTimeout: c.ElectionTimeout, ClockDrift: c.ClockDrift,
		SnapshotThreshold: c.SnapshotThreshold, SnapshotInterval: c.SnapshotInterval, TrailingLogs: c.TrailingLogs,
		WAL:    c.LogStore == config.StoreWAL,
		Logger: p.log,
	})
	if err != nil {
		return explainDataDir(c, p.dataDir, explainListen(c, "raft-listen", c.RaftListen, err))
	}
	p.master = master.New(p.replica, p.replica, master.Options{
		Cell: c.Cell, ID: c.ID, Version: buildinfo.Version(),
		LeaseTerm: p.replica.LeaseTerm(), Drift: p.replica.Drift(), Clock: p.replica.Now,
		Quotas: quotas(c.Quotas),
		Logger: p.log,
	})
	p.server = server.New(server.Options{Master: p.master, Logger: p.log, Checksum: p.checksum, MaxConnections: p.maxConnections})
	p.served = make(chan error, 1)
	go func() { p.served <- p.server.Serve(p.listener) }()
	return nil
}

// checksum is the replica's, as the server shows it.
func (p *process) checksum() (index uint64, sum []byte, ok bool) {
	c, ok := p.replica.Checksum()
	return c.Index, c.Sum[:], ok
}

// quotas are the settings as the master takes them; validated, they fit.
func quotas(q config.Quotas) master.Quotas {
	return master.Quotas{
		Sessions: int64(q.MaxSessions), Holds: int64(q.MaxHolds), Waiters: int64(q.MaxWaiters), Bytes: int64(q.MaxBytes),
		SessionHolds: int64(q.MaxSessionHolds), SessionWaiters: int64(q.MaxSessionWaiters), SessionBytes: int64(q.MaxSessionBytes),
	}
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
	host, _, _ := net.SplitHostPort(self.APIURL[len("http://"):])
	self.APIURL = fmt.Sprintf("http://%s", net.JoinHostPort(host, fmt.Sprint(apiPort)))
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
	if p.replica != nil {
		p.warn("closing the stores", atMost(ctx, lastStep, p.replica.Close))
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
	done := make(chan error, 1)
	go func() { done <- step() }()
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
