package config

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/stoutlock/stout/lease"
)

// Names of settings that are special in the code. A name is the flag and, except
// for replicas, the key in the file.
const (
	nameReplica  = "replica"
	fileReplicas = "replicas" // the list of replicas, in the file
	nameDataDir  = "data-dir"
	nameConfig   = "config"
	envPrefix    = "STOUTD_"
)

// setting is one row of the table from which flags, environment, file, defaults,
// bounds, printed configuration and docs/settings.md are made.
type setting struct {
	name string
	value
	def   string // the default; empty for the zero value
	unset string // the default in words, if it follows from other settings
	// least and most bound the value. 0 is allowed beside them if it has its own
	// meaning, zero.
	least, most limit
	zero        string
	oneOf       []string
	check       func(string) error // any other condition on the value alone
	help        string
	see         string // a link to more about it, for docs/settings.md
}

// limit is one end of the range of a value, and why the range ends there.
type limit struct{ at, why string }

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// key returns the setting's name in a file.
func (s setting) key() string {
	if s.name == nameReplica {
		return fileReplicas
	}
	return s.name
}

// usage returns the help for the flag.
func (s setting) usage() string {
	usage := s.help
	if s.unset != "" {
		usage += "; unless given, " + s.unset
	}
	if s.zero != "" {
		usage += "; 0 for " + s.zero
	}
	return usage
}

// problem returns what is wrong with the value by itself; empty if it is valid.
func (s setting) problem() string {
	beside := ""
	if s.zero != "" {
		if !s.below("0") && !s.above("0") {
			return ""
		}
		beside = ", or 0 for " + s.zero
	}
	why := func(l limit) string {
		if l.why == "" {
			return ""
		}
		return ": " + l.why
	}
	switch {
	case s.oneOf != nil && !slices.Contains(s.oneOf, s.get()):
		return "it is one of " + strings.Join(s.oneOf, ", ")
	case s.least.at != "" && s.below(s.least.at):
		return "at least " + s.least.at + beside + why(s.least)
	case s.most.at != "" && s.above(s.most.at):
		return "at most " + s.most.at + beside + why(s.most)
	case s.check != nil:
		if err := s.check(s.get()); err != nil {
			return err.Error()
		}
	}
	return ""
}

// settings returns every setting of c, in the order in which a person meets them.
//
// The quotas' defaults suit a machine with 4 GiB of memory. A hold takes about 1.5
// KiB and a session 1 KiB, and the garbage collector as much again. A client that
// waits at the master takes a connection, of about 50 KiB. The bound on one
// session's holds also bounds the time for which its end delays the log: about 10
// ms for 1000.
func settings(c *Config) []setting {
	const (
		slowFailover = "a longer one leaves the cell without a master for minutes"
		year         = "8784h"
	)
	return []setting{
		{name: "cell", value: text("name", &c.Cell), help: "name of the cell; a data directory remembers it"},
		{name: "id", value: text("id", &c.ID), help: "id of this replica, one of the --replica list"},
		{name: nameDataDir, value: text("dir", &c.DataDir), help: "directory of the log, the votes and the snapshots"},
		{name: "dev", value: boolean(&c.Dev), help: "run a cell of one replica in a temporary directory, removed at the end"},
		{name: "api-listen", value: text("host:port", &c.APIListen), def: "127.0.0.1:7101", check: checkHostPort, help: "address to bind for the HTTP API"},
		{name: "consul-listen", value: text("host:port", &c.ConsulListen), check: checkOptionalHostPort, help: "address to bind for clients of Consul; none without it", see: "consul.md"},
		{name: "raft-listen", value: text("host:port", &c.RaftListen), def: "127.0.0.1:7201", check: checkHostPort, help: "address to bind for the other replicas"},
		{name: nameReplica, value: several("id=host:port,url", &c.Replicas, parseReplica, formatReplica), help: "a replica of the cell, with the addresses that others dial; repeat it for each, the same list on all (in a file: replicas)"},
		{name: "join", value: urls(&c.Join), help: "join a running cell instead of founding one: base URLs of its replicas"},
		{name: "auto-replace", value: duration(&c.AutoReplace), zero: "never", least: limit{"1s", "1h gives a person time to look first"}, most: limit{at: year},
			help: "as master, replace a member's directory by a new one after no contact for this long", see: "operations.md#when-a-replica-has-lost-its-directory"},

		{name: "master-lease", value: duration(&c.MasterLease), def: "650ms", unset: "1.3 × heartbeat-timeout",
			least: limit{"100ms", "the master renews it four times within its length, by a write on every replica"},
			most:  limit{lease.MaxTerm.String(), "recovery by hand relies on this bound"},
			help:  "how long a master may act after it proposed a log entry"},
		{name: "heartbeat-timeout", value: duration(&c.HeartbeatTimeout), def: "500ms",
			least: limit{"50ms", "with a shorter one every slow write looks like a dead master"}, most: limit{"30s", slowFailover},
			help: "silence of the master after which a replica campaigns"},
		{name: "election-timeout", value: duration(&c.ElectionTimeout), def: "500ms", unset: "heartbeat-timeout",
			least: limit{"50ms", "votes need time to reach the disk"}, most: limit{"60s", slowFailover},
			help: "how long a candidate waits for votes"},
		{name: "stale-for", value: duration(&c.StaleFor), def: "1m", most: limit{"24h", "a replica that is cut off accepts a revoked token for this long"},
			help: "while access is on, how long to answer stale reads and events without contact with a master; at least master-lease", see: "#access"},
		{name: "clock-drift", value: fraction(&c.ClockDrift), def: "0.01", least: limit{at: "0"}, most: limit{"0.1", "it is a fraction: 0.01 allows an error of one second in a hundred"},
			help: "bound on the error of this machine's clock rate"},
		{name: "snapshot-threshold", value: count(&c.SnapshotThreshold), def: "8192", least: limit{"1", "the number of log entries between snapshots"}, help: "log entries between snapshots"},
		{name: "snapshot-interval", value: duration(&c.SnapshotInterval), def: "30s",
			least: limit{"100ms", "a shorter one costs time and gains nothing"}, most: limit{"24h", "the log would grow without bound"},
			help: "how often to check whether a snapshot is due"},
		{name: "trailing-logs", value: count(&c.TrailingLogs), def: "10240", least: limit{"1", "without them a replica needs a whole snapshot after a moment's absence"}, help: "log entries kept behind a snapshot"},
		{name: "event-history", value: count(&c.EventHistory), def: "65536", least: limit{"1", "with fewer, a watcher that was away must read everything again"}, most: limit{at: "100000000"}, help: "events kept for watchers that were away"},
		{name: "event-history-bytes", value: size(&c.EventHistoryBytes), def: "64MiB", least: limit{"1KiB", "with less, a watcher that was away must read everything again"}, most: limit{at: "64GiB"}, help: "memory that the kept events may take, estimated"},
		{name: "log-store", value: text("store", &c.LogStore), def: StoreWAL, oneOf: []string{StoreBolt, StoreWAL}, help: "wal: a write-ahead log before raft-boltdb, one sync for an entry; bolt: raft-boltdb alone"},
		{name: "shutdown-timeout", value: duration(&c.ShutdownTimeout), def: "8s",
			least: limit{"100ms", "a hand-over of mastership takes longer"}, most: limit{"10m", "a supervisor does not wait longer"},
			help: "bound on an orderly stop; 2s later the process ends in any state (code 74)"},

		{name: "api-cert", value: text("file", &c.APICert), help: "certificate of the API with its chain (PEM); the API then speaks https only", see: "security.md"},
		{name: "api-key", value: text("file", &c.APIKey), help: "private key of api-cert (PEM)"},
		{name: "api-client-ca", value: text("file", &c.APIClientCA), help: "CAs that sign the certificates of the API's clients (PEM)"},
		{name: "api-client-auth", value: text("policy", &c.APIClientAuth), def: ClientAuthNone, unset: "optional with api-client-ca, else none",
			oneOf: []string{ClientAuthNone, ClientAuthOptional, ClientAuthRequired}, help: "request for clients' certificates: none, optional or required"},
		{name: "raft-cert", value: text("file", &c.RaftCert), help: "certificate of this replica for the others, with the URI stout://replica/ID (PEM)", see: "security.md"},
		{name: "raft-key", value: text("file", &c.RaftKey), help: "private key of raft-cert (PEM)"},
		{name: "raft-ca", value: text("file", &c.RaftCA), help: "CAs that sign the certificates of the replicas (PEM); needed with raft-cert and raft-key"},

		{name: "max-sessions", value: count(&c.Quotas.Sessions), def: "100000", zero: noBound, help: "open sessions of the cell"},
		{name: "max-holds", value: count(&c.Quotas.Holds), def: "500000", zero: noBound, help: "holds and queue positions of the cell together, since a position becomes a hold by itself"},
		{name: "max-waiters", value: count(&c.Quotas.Waiters), def: "100000", zero: noBound, help: "queue positions of the cell"},
		{name: "max-files", value: count(&c.Quotas.Files), def: "200000", zero: noBound, help: "files of the cell"},
		{name: "max-content", value: size(&c.Quotas.Content), def: "512MiB", zero: noBound, least: limit{"256KiB", "a single file may have as much"}, help: "bytes of content of the cell's files"},
		{name: "max-bytes", value: size(&c.Quotas.Bytes), def: "1GiB", zero: noBound, least: limit{"256KiB", "a single session may take half of that"}, help: "memory of the cell's state, estimated"},
		{name: "max-session-holds", value: count(&c.Quotas.SessionHolds), def: "10000", zero: noBound, help: "holds and queue positions of one session"},
		{name: "max-session-waiters", value: count(&c.Quotas.SessionWaiters), def: "10000", zero: noBound, help: "queue positions of one session"},
		{name: "max-session-bytes", value: size(&c.Quotas.SessionBytes), def: "64MiB", zero: noBound, least: limit{"256KiB", "a session's own metadata may take half of that"},
			help: "memory of one session's holds, waits and remembered answers, estimated"},
		{name: "max-watchers", value: count(&c.MaxWatchers), def: "20000", zero: noBound, help: "calls that wait for events at this replica, streams and others"},
		{name: "max-anonymous-watchers", value: count(&c.MaxAnonymousWatchers), def: "32", zero: noBound, help: "calls without a credential that wait for events from one address, while access is on"},
		{name: "max-connections", value: count(&c.MaxConnections), zero: "as many as the limit on open files leaves", least: limit{"16", "health checks and monitoring need some of them"},
			help: "open connections to this replica's API"},

		{name: "allow-origin", value: several("url", &c.AllowOrigins, readOrigin, same), help: "a site with web pages that may use the API, like https://ui.example.com; may be repeated", see: "#web-pages-and-proxies"},
		{name: "api-host", value: several("name", &c.APIHosts, readHost, same), help: "a name by which browsers may call the API, beside the hosts of the replicas; may be repeated", see: "#web-pages-and-proxies"},

		{name: "jwt-issuer", value: text("name", &c.JWTIssuer), check: checkExact, help: "accept JWTs with this iss as bearer tokens", see: "security.md"},
		{name: "jwt-audience", value: text("name", &c.JWTAudience), check: checkExact, help: "a value that the aud of each JWT must have"},
		{name: "jwt-keys", value: text("file", &c.JWTKeys), help: "public keys that verify the signatures of JWTs (JWKS); needed with jwt-issuer and jwt-audience"},
		{name: "jwt-claim", value: text("name", &c.JWTClaim), def: defaultClaim, check: checkClaim, help: "the claim of a JWT that names the principal"},
		{name: "jwt-prefix", value: text("text", &c.JWTPrefix), help: "prefix, after user:, of principals that JWTs prove, and of no others", see: "security.md#callers-and-principals"},
		{name: "certificate-prefix", value: text("text", &c.CertificatePrefix), help: "prefix, after user:, of principals that client certificates prove, and of no others", see: "security.md#callers-and-principals"},
		{name: "found-token-file", value: text("file", &c.FoundTokenFile), help: "found the cell with access on; the file has the secret of user:root, the same on every replica", see: "#access"},
		{name: "break-glass-token-file", value: text("file", &c.BreakGlassTokenFile), help: "the file has a secret that is user:root in calls to this replica while it is master", see: "#access"},
		{name: "public-metrics", value: boolean(&c.PublicMetrics), help: "show /metrics to every caller, also while access is on"},

		{name: "audit-log", value: text("file", &c.AuditLog), help: "file for a line of JSON about each denial and each change of access, members and mastership; - for standard output", see: "#audit"},
		{name: "audit-changes", value: boolean(&c.AuditChanges), help: "also audit each change of a file, a lock or a session"},
		{name: "audit-required", value: boolean(&c.AuditRequired), help: "refuse changes while the audit log cannot be written"},
		{name: "audit-max-size", value: size(&c.AuditMaxSize), zero: "never", least: limit{at: "1MiB"}, most: limit{at: "1024GiB"}, help: "put the audit log's file aside at this size, a whole number of MiB"},
		{name: "audit-keep", value: count(&c.AuditKeep), zero: "all", most: limit{at: "10000"}, help: "how many files put aside to keep"},

		{name: "backup-dir", value: text("dir", &c.BackupDir), help: "directory for backups of this replica's own state", see: "backups.md#backups"},
		{name: "backup-every", value: duration(&c.BackupEvery), zero: "never",
			least: limit{"1s", "each backup writes the whole state"}, most: limit{year, "there would be no backup when it is needed"}, help: "how often to write a backup"},
		{name: "backup-keep", value: count(&c.BackupKeep), def: "24", zero: "all", most: limit{at: "100000"}, help: "how many backups to keep"},

		{name: "trace-endpoint", value: text("url", &c.TraceEndpoint), help: "send spans to this collector by OTLP over HTTP, like http://127.0.0.1:4318", see: "watching.md#traces"},
		{name: "trace-share", value: fraction(&c.TraceShare), least: limit{at: "0"}, most: limit{at: "1"}, help: "share of the calls without a trace of their own that begin one"},

		{name: "log-level", value: text("level", &c.LogLevel), def: "info", oneOf: []string{"trace", "debug", "info", "warn", "error"}, help: "least severe lines to log: trace, debug, info, warn or error"},
		{name: "log-format", value: text("format", &c.LogFormat), def: "json", unset: "console with --dev, else json", oneOf: []string{"json", "console"}, help: "json, one object a line, or console, for people"},
	}
}

// noBound is the meaning of 0 for a quota.
const noBound = "no bound"

// defaultClaim is a JWT's subject.
const defaultClaim = "sub"

func checkHostPort(s string) error {
	_, _, err := splitHostPort(s)
	return err
}

// checkOptionalHostPort is checkHostPort for an address that may be missing.
func checkOptionalHostPort(s string) error {
	if s == "" {
		return nil
	}
	return checkHostPort(s)
}

// checkExact refuses a text that cannot equal a claim of a token.
func checkExact(s string) error {
	if strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("it is compared exactly, and no token has spaces around it or control characters in it")
	}
	return nil
}

// registeredClaims name something other than the bearer of the token.
var registeredClaims = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

func checkClaim(s string) error {
	switch {
	case s == "":
		return errors.New("it is the name of a claim; leave it out for " + defaultClaim)
	case slices.Contains(registeredClaims, s):
		return errors.New("that claim does not name the bearer of the token; sub, email or preferred_username may")
	}
	return checkExact(s)
}
