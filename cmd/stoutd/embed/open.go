package embed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"time"

	"github.com/stoutlock/stout/cmd/stoutd/config"
	"github.com/stoutlock/stout/cmd/stoutd/internal/setup"
	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/metric"
	"github.com/stoutlock/stout/internal/wait"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/state"
)

// open opens the parts that a replica has before it is a member. The API's port comes
// first: a port in use is the most likely mistake, and is reported before anything is
// written. From then on the API answers, and shows what the replica waits for.
func (r *Replica) open(ctx, running context.Context) (err error) {
	c := r.config
	if r.dataDir, err = filepath.Abs(c.DataDir); err != nil {
		return fmt.Errorf("data-dir %q (%s): %w", c.DataDir, c.Source("data-dir"), err)
	}
	foundToken, err := readFoundToken(c.FoundTokenFile, r.dataDir, r.log)
	if err != nil {
		return err
	}
	breakGlass, err := readSecret("break-glass-token-file", c.BreakGlassTokenFile)
	if err != nil {
		return err
	}
	if r.security, err = openSecurity(c); err != nil {
		return err
	}
	if r.listener, err = r.listen(); err != nil {
		return err
	}
	if c.ConsulListen != "" {
		if r.consul, err = listenTo(c.ConsulListen); err != nil {
			return setup.ExplainListen(c, "consul-listen", c.ConsulListen, err)
		}
	}
	if r.audit, err = openAudit(c, r.log); err != nil {
		return err
	}
	spans, err := r.openTraces(ctx)
	if err != nil {
		return err
	}
	if r.candidate, err = replica.Prepare(r.replicaOptions(foundToken)); err != nil {
		return setup.ExplainDataDir(c, r.dataDir, setup.ExplainListen(c, "raft-listen", c.RaftListen, err))
	}
	r.foundToken = foundToken
	r.backups = newBackups(c, r.log)
	r.server = server.New(server.Options{Standby: r.standby, Logger: r.log, LogBlocked: r.lines.Blocked, Checksum: r.checksum, Metrics: r.metrics(),
		Clock: boottime.Now, Drift: lease.Drift(c.ClockDrift),
		MaxConnections: r.connections, MaxWatchers: int(min(c.MaxWatchers, math.MaxInt32)),
		MaxAnonymousWatchers: int(min(c.MaxAnonymousWatchers, math.MaxInt32)), Browsers: browsers(c, r.listener.Addr()), DoorLoopback: r.consul != nil && isLoopback(r.consul.Addr()),
		TLS: r.security.serverTLS(c), JWTs: r.security.jwts, Certificates: c.APIClientAuth != config.ClientAuthNone, CertificatePrefix: c.CertificatePrefix,
		BreakGlass: breakGlass, EnableSecret: newEnableSecret(r.dataDir, r.log), PublicMetrics: c.PublicMetrics,
		Audit: r.audit, AuditChanges: c.AuditChanges, Tracer: spans})
	r.security.watch(running, r.log)
	warnShared(r.log, c)
	go r.free.watch(running, r.dataDir)
	go func() { r.served <- r.server.Serve(r.listener) }()
	if r.consul != nil {
		go func() { r.served <- r.server.ServeConsul(r.consul) }()
	}
	return nil
}

func (r *Replica) metrics() (set metric.Set) {
	r.security.metrics(&set)
	auditMetrics(&set, r.audit)
	r.free.metrics(&set)
	r.backups.metrics(&set)
	set.Counter("stout_log_lines_dropped_total", "Log lines dropped because standard error blocked or failed.", r.lines.Dropped)
	return set
}

// join waits, without a time limit, until the data directory belongs to a member, and
// opens the parts of a member.
func (r *Replica) join(ctx context.Context) (err error) {
	c := r.config
	if err := r.wait(ctx); err != nil {
		return setup.ExplainDataDir(c, r.dataDir, err)
	}
	r.used = true
	if r.replica, err = r.candidate.Start(); err != nil {
		return setup.ExplainDataDir(c, r.dataDir, err)
	}
	r.master = master.New(r.replica, r.replica, master.Options{
		Cell: c.Cell, ID: c.ID, Version: buildinfo.Version(),
		LeaseTerm: r.replica.LeaseTerm(), Drift: r.replica.Drift(), Clock: r.replica.Now,
		Quotas: c.Quotas, FoundToken: r.foundToken, FoundedWithAccess: r.replica.FoundedWithAccess(),
		Progress: r.progress, AutoReplace: c.AutoReplace, StaleFor: c.StaleFor, Happened: happened(r.audit), Logger: r.log,
	})
	r.server.Attach(r.master, r.replica)
	r.backups.own = r.master.OwnBackup
	r.backing = true
	go r.backups.run(ctx)
	go warnMoved(ctx, r.log, c, func() bool { return r.master.Known().ID != "" }, r.replica.Members)
	go warnOwned(ctx, r.log, c, func() bool { return r.master.Ready() == nil },
		func() iter.Seq[*state.Token] { return r.replica.State().Tokens("") })
	if !r.replica.Proven() {
		go warnUnproven(ctx, r.log, func() bool { return r.master.AccessOn() && len(r.replica.Members()) > 1 })
	}
	return nil
}

func (r *Replica) replicaOptions(foundToken *[sha256.Size]byte) replica.Options {
	c := r.config
	return replica.Options{
		Join: r.joining(),
		Cell: c.Cell, ID: c.ID, DataDir: r.dataDir, Version: buildinfo.Version(),
		RaftListen: c.RaftListen, Members: c.Replicas, Security: r.security.links(), FoundAccess: foundingDigest(foundToken),
		MasterLease: c.MasterLease, HeartbeatTimeout: c.HeartbeatTimeout,
		ElectionTimeout: c.ElectionTimeout, ClockDrift: c.ClockDrift,
		Progress:          r.progress,
		SnapshotThreshold: c.SnapshotThreshold, SnapshotInterval: c.SnapshotInterval, TrailingLogs: c.TrailingLogs,
		EventHistory: int(c.EventHistory), EventHistoryBytes: int64(c.EventHistoryBytes),
		WAL:    c.LogStore == config.StoreWAL,
		Logger: r.log,
	}
}

// wait returns when the data directory belongs to a member.
func (r *Replica) wait(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	joined := wait.Err(func() error { return r.candidate.Wait(waiting) })
	select {
	case err := <-joined:
		return err
	case err := <-r.served:
		cancel()
		<-joined
		return fmt.Errorf("the API's listener ended: %w", err)
	}
}

// standby returns what the API shows of the replica before it is a member.
func (r *Replica) standby() server.Standby {
	self, now, uptime := r.config.Self(), r.candidate.Standby(), time.Since(r.began).Milliseconds()
	return server.Standby{Why: now.Why, Command: now.Command, Replica: lockapi.Replica{
		ID: self.ID, URL: self.APIURL, RaftAddr: self.RaftAddr, Role: lockapi.RoleNone, LastContactMS: uptime,
		Directory: now.Directory, Version: buildinfo.Version(), UptimeMS: &uptime,
	}}
}

func (r *Replica) logStarted() {
	c := r.config
	if r.consul != nil {
		r.log.Info().Str("consul", r.consul.Addr().String()).Msg("the door for Consul's clients is open")
	}
	r.log.Info().Str("version", buildinfo.Version()).Str("cell", c.Cell).Str("cell_id", r.replica.CellID()).
		Str("api", r.listener.Addr().String()).Str("raft", c.RaftListen).
		Str("url", c.Self().APIURL).Str("data_dir", r.dataDir).Str("directory", r.replica.Directory()).
		Bool("api_tls", c.APISecure()).Bool("raft_tls", c.RaftSecure()).
		Int("replicas", len(c.Replicas)).Int("max_connections", r.connections).Msg("started")
}

func (r *Replica) checksum() (index uint64, sum []byte, ok bool) {
	c, ok := r.replica.Checksum()
	return c.Index, c.Sum[:], ok
}
