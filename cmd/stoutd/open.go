package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoutlock/stout/internal/boottime"
	"github.com/stoutlock/stout/internal/buildinfo"
	"github.com/stoutlock/stout/internal/config"
	"github.com/stoutlock/stout/lease"
	"github.com/stoutlock/stout/lockapi"
	"github.com/stoutlock/stout/lockapi/server"
	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica"
	"github.com/stoutlock/stout/replica/membership"
	"github.com/stoutlock/stout/replica/state"
)

// errStopped is the end of open where ctx ended first.
var errStopped = errors.New("stopped before the replica was a member of the cell")

// start opens the parts. Where it fails none is left open, unless the error is
// errStopped. A disk that does not answer may keep it waiting for ever: once
// ctx has ended it gets as long as an orderly stop, and is then left behind,
// for the process to end.
func (p *process) start(ctx context.Context) error {
	opened := make(chan error, 1)
	go func() { opened <- p.open(ctx) }()
	stuck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(p.config.ShutdownTimeout, func() { close(stuck) })
	})
	defer stop()
	select {
	case err := <-opened:
		if err != nil && !errors.Is(err, errStopped) {
			p.close()
		}
		return err
	case <-stuck:
		return fmt.Errorf("told to stop, and the start, which was under way, has not ended within %s; does the disk of data-dir %q answer?",
			p.config.ShutdownTimeout, p.config.DataDir)
	}
}

// open opens the parts. The API's port comes first: that it is taken is the
// most likely mistake, and is told before anything is written. The API answers
// from when the data directory is claimed: what the replica waits for until the
// directory is a member's is to be seen there.
func (p *process) open(ctx context.Context) (err error) {
	foundToken, err := readSecret("found-token-file", p.config.FoundTokenFile)
	if err != nil {
		return err
	}
	breakGlass, err := readSecret("break-glass-token-file", p.config.BreakGlassTokenFile)
	if err != nil {
		return err
	}
	if p.security, err = openSecurity(p.config); err != nil {
		return err
	}
	if p.listener, err = p.listen(); err != nil {
		return err
	}
	if p.audit, err = openAudit(p.config, p.log, p.stdout); err != nil {
		return err
	}
	p.stopReopens = reopenOnHangup(p.audit, hasSupervisor(), p.log)
	spans, err := p.openTraces(ctx)
	if err != nil {
		return err
	}
	if err := p.openDataDir(); err != nil {
		return err
	}
	c := p.config
	if p.candidate, err = replica.Prepare(p.replicaOptions(foundToken)); err != nil {
		return explainDataDir(c, p.dataDir, explainListen(c, "raft-listen", c.RaftListen, err))
	}
	candidate := p.candidate
	p.supervisor.waiting(func() string { return candidate.Standby().Why })
	registry := prometheus.NewRegistry()
	p.backups = newBackups(c, p.log)
	registry.MustRegister(certificates{p.security}, auditing{p.audit}, logging{p.lines}, &p.free, p.backups)
	p.server = server.New(server.Options{Standby: p.standby(p.candidate), Logger: p.log, LogBlocked: p.lines.Blocked, Checksum: p.checksum, Registry: registry,
		Clock: boottime.Now, Drift: lease.Drift(p.config.ClockDrift),
		MaxConnections: p.maxConnections, MaxWatchers: int(min(p.config.MaxWatchers, math.MaxInt32)),
		MaxAnonymousWatchers: int(min(p.config.MaxAnonymousWatchers, math.MaxInt32)), Browsers: browsers(p.config, p.listener.Addr()),
		TLS: p.security.serverTLS(p.config), JWTs: p.security.jwts, Certificates: p.config.APIClientAuth != config.ClientAuthNone, CertificatePrefix: p.config.CertificatePrefix,
		BreakGlass: breakGlass, EnableSecret: newEnableSecret(p.dataDir, p.log), PublicMetrics: p.config.PublicMetrics,
		Audit: p.audit, AuditChanges: p.config.AuditChanges, Tracer: spans})
	watching, stop := context.WithCancel(context.Background())
	p.stopWatching = stop
	p.security.watch(watching, p.log)
	warnShared(p.log, c)
	go p.free.watch(watching, p.dataDir)
	p.served = make(chan error, 1)
	go func() { p.served <- p.server.Serve(p.listener) }()
	if err := p.join(ctx); err != nil {
		return explainDataDir(c, p.dataDir, err)
	}
	p.candidate = nil // used up, also where it does not start
	if p.replica, err = candidate.Start(); err != nil {
		return explainDataDir(c, p.dataDir, err)
	}
	p.master = master.New(p.replica, p.replica, master.Options{
		Cell: c.Cell, ID: c.ID, Version: buildinfo.Version(),
		LeaseTerm: p.replica.LeaseTerm(), Drift: p.replica.Drift(), Clock: p.replica.Now,
		Quotas: quotas(c.Quotas), FoundToken: foundToken, FoundedWithAccess: p.replica.FoundedWithAccess(),
		Progress: p.progress, AutoReplace: c.AutoReplace, StaleFor: c.StaleFor, Happened: happened(p.audit), Logger: p.log,
	})
	p.server.Attach(p.master, p.replica)
	p.backups.own = p.master.OwnBackup
	p.backing = true
	go p.backups.run(watching)
	go warnMoved(watching, p.log, c, func() bool { return p.master.Known().ID != "" }, p.replica.Members)
	go warnOwned(watching, p.log, c, func() bool { return p.master.Ready() == nil },
		func() iter.Seq[*state.Token] { return p.replica.State().Tokens("") })
	if !p.replica.Proven() {
		go warnUnproven(watching, p.log, func() bool { return p.master.AccessOn() && len(p.replica.Members()) > 1 })
	}
	return nil
}

// replicaOptions are the settings as the replica takes them.
func (p *process) replicaOptions(foundToken *[sha256.Size]byte) replica.Options {
	c := p.config
	return replica.Options{
		Join: p.joining(),
		Cell: c.Cell, ID: c.ID, DataDir: p.dataDir, Version: buildinfo.Version(),
		RaftListen: c.RaftListen, Members: members(c), Security: p.security.links(), FoundAccess: foundingDigest(foundToken),
		MasterLease: c.MasterLease, HeartbeatTimeout: c.HeartbeatTimeout,
		ElectionTimeout: c.ElectionTimeout, ClockDrift: c.ClockDrift,
		Progress:          p.progress,
		SnapshotThreshold: c.SnapshotThreshold, SnapshotInterval: c.SnapshotInterval, TrailingLogs: c.TrailingLogs,
		EventHistory: int(c.EventHistory), EventHistoryBytes: int64(c.EventHistoryBytes),
		WAL:    c.LogStore == config.StoreWAL,
		Logger: p.log,
	}
}

// members is the list of replicas of the settings.
func members(c *config.Config) []membership.Member {
	all := make([]membership.Member, len(c.Replicas))
	for i, r := range c.Replicas {
		all[i] = membership.Member{ID: r.ID, RaftAddr: r.RaftAddr, APIURL: r.APIURL}
	}
	return all
}

// join waits, without a bound, until the data directory is a member's.
func (p *process) join(ctx context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	joined := make(chan error, 1)
	go func() { joined <- p.candidate.Wait(waiting) }()
	select {
	case err := <-joined:
		if err != nil && ctx.Err() != nil {
			return errStopped
		}
		return err
	case err := <-p.served:
		cancel()
		<-joined
		return fmt.Errorf("the API's listener ended: %w", err)
	}
}

// standby is what the API says of the replica before it is a member.
func (p *process) standby(candidate *replica.Candidate) func() server.Standby {
	self := p.config.Self()
	return func() server.Standby {
		now, uptime := candidate.Standby(), time.Since(p.began).Milliseconds()
		return server.Standby{Why: now.Why, Command: now.Command, Replica: lockapi.Replica{
			ID: self.ID, URL: self.APIURL, RaftAddr: self.RaftAddr, Role: lockapi.RoleNone, LastContactMS: uptime,
			Directory: now.Directory, Version: buildinfo.Version(), UptimeMS: &uptime,
		}}
	}
}

func (p *process) tellStarted() {
	c := p.config
	p.log.Info().Str("version", buildinfo.Version()).Str("cell", c.Cell).Str("cell_id", p.replica.CellID()).
		Str("api", p.listener.Addr().String()).Str("raft", c.RaftListen).
		Str("url", c.Self().APIURL).Str("data_dir", p.dataDir).Str("directory", p.replica.Directory()).
		Bool("api_tls", c.APISecure()).Bool("raft_tls", c.RaftSecure()).
		Int("replicas", len(c.Replicas)).Int("max_connections", p.maxConnections).Msg("started")
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
		Files: int64(q.MaxFiles), Content: int64(q.MaxContent),
		SessionHolds: int64(q.MaxSessionHolds), SessionWaiters: int64(q.MaxSessionWaiters), SessionBytes: int64(q.MaxSessionBytes),
	}
}
