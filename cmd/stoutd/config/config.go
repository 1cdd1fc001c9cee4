package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/membership"
)

// Stores that receive log entries first; see docs/settings.md.
const (
	StoreBolt = "bolt" // raft-boltdb
	StoreWAL  = "wal"  // a write-ahead log, and at intervals raft-boltdb
)

// Config has every setting of one replica; docs/settings.md describes them. Load
// makes one from flags, environment and file. Default makes one for a program to
// fill in. It may be read concurrently.
type Config struct {
	// Stdout receives the audit log if AuditLog is "-", and Stderr the log. If nil,
	// the process's own are used.
	Stdout, Stderr io.Writer

	// Cell is the name of the cell. A data directory records it; a replica of
	// another cell refuses the directory.
	Cell string
	// ID names this replica within the cell, and is in Replicas. A member of a cell
	// is an ID and a data directory.
	ID string
	// DataDir holds the log, the votes and the snapshots. Load refuses it with Dev,
	// for which command stoutd makes a temporary directory.
	DataDir string
	// Dev requests a cell of a single replica. Cell, ID and Replicas are left empty
	// and filled in.
	Dev bool

	// APIListen and RaftListen are host:port to bind. Others dial the addresses in
	// Replicas, which may differ. Port 0 (any free port) is allowed with Dev only.
	APIListen  string
	RaftListen string
	// ConsulListen is where the door for Consul's clients listens; empty for
	// none.
	ConsulListen string

	// APICert and APIKey are the PEM files of the API's certificate and its key;
	// with them the API speaks TLS only. APIClientCA has the CAs that sign its
	// clients' certificates, and APIClientAuth is ClientAuthNone,
	// ClientAuthOptional or ClientAuthRequired.
	APICert, APIKey, APIClientCA, APIClientAuth string
	// RaftCert, RaftKey and RaftCA are for the connections between replicas: with
	// them both ends show a certificate that names the replica.
	RaftCert, RaftKey, RaftCA string

	// Replicas, the same list on every replica, found the cell together if their
	// data directories are new. Later the list has their addresses, and does not
	// change the membership.
	Replicas []Replica
	// Join has base URLs of replicas of a running cell. This replica then founds no
	// cell: it waits to become a member, and Replicas has its own entry only.
	Join []string

	// MasterLease is how long a master may act by itself after it proposed a batch
	// of the log. A longer lease tolerates slower disks. A successor waits until it
	// has ended, unless it received the notice of an orderly end. An election takes
	// about 1.3 times HeartbeatTimeout anyway.
	MasterLease time.Duration
	// HeartbeatTimeout is the silence of the master after which a replica suspects
	// it, or a part of it later: the replicas take turns. It should be several times
	// the slowest write of the disk.
	HeartbeatTimeout time.Duration
	// ElectionTimeout is how long a candidate waits for votes before it tries
	// again. At least HeartbeatTimeout.
	ElectionTimeout time.Duration
	// ClockDrift bounds how far the rate of this machine's clock may be from
	// true time, as a fraction: 0.01 allows for one second in a hundred.
	ClockDrift float64

	// SnapshotThreshold is how many log entries are applied before a snapshot. The
	// replica checks this once in SnapshotInterval.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	// TrailingLogs is how many entries are kept behind a snapshot, so that a replica
	// catches up from the log after a short absence. They should cover the entries
	// written while one snapshot is sent.
	TrailingLogs uint64

	// EventHistory and EventHistoryBytes bound the events that this replica keeps
	// for watchers that were away, by number and by memory.
	EventHistory, EventHistoryBytes uint64

	// LogStore receives log entries first: StoreBolt or StoreWAL.
	LogStore string

	// ShutdownTimeout bounds an orderly stop: the hand-over of mastership, the
	// release of waiting calls, the closing of the stores.
	ShutdownTimeout time.Duration

	// Quotas limit the resources of clients; 0 is no bound. The master's own quotas
	// count.
	Quotas master.Quotas
	// MaxWatchers bounds the calls that wait for events at this replica.
	MaxWatchers uint64
	// MaxAnonymousWatchers bounds such calls without a credential, for each address,
	// while access is on.
	MaxAnonymousWatchers uint64
	// MaxConnections bounds the open connections to the API; 0 is as many as the
	// process's limit on open files leaves beside the replica's own files.
	MaxConnections uint64

	// AllowOrigins are the other sites with web pages that may use the API.
	AllowOrigins []string
	// APIHosts are names by which browsers, and on loopback all programs, may call
	// the API, besides localhost, addresses and the hosts of Replicas and
	// AllowOrigins.
	APIHosts []string

	// JWTKeys is the file of keys (JWKS) that verify JWTs by JWTIssuer for
	// JWTAudience; JWTClaim is the claim with the principal's name. All but the claim
	// are empty if the API accepts no JWTs.
	JWTIssuer, JWTAudience, JWTKeys, JWTClaim string
	// JWTPrefix and CertificatePrefix precede the names of principals from that
	// source, and of no others. Empty for no prefix.
	JWTPrefix, CertificatePrefix string
	// FoundTokenFile has the secret of user:root, to found a cell with access on.
	// BreakGlassTokenFile has a secret that is user:root in calls to this replica
	// while it is master. Empty for no such secret.
	FoundTokenFile, BreakGlassTokenFile string
	// PublicMetrics shows /metrics to every caller, also while access is on.
	PublicMetrics bool

	// AuditLog is the file of the audit log, "-" for standard output; empty for no
	// audit log.
	AuditLog string
	// AuditChanges adds a line for each change of a file, a lock or a session.
	// AuditRequired refuses changes while the audit log cannot be written.
	AuditChanges, AuditRequired bool
	// AuditMaxSize is the size in bytes, whole MiB, at which the file is put aside; 0
	// for never. AuditKeep is how many such files are kept; 0 for all.
	AuditMaxSize, AuditKeep uint64

	// BackupEvery is how often this replica writes a backup of its own state into
	// BackupDir; 0 for never. BackupKeep is how many are kept there; 0 for all.
	BackupEvery time.Duration
	BackupDir   string
	BackupKeep  uint64

	// AutoReplace is how long a member's directory has no contact before this
	// replica, while it is master, gives its place to a new directory; 0 for never.
	AutoReplace time.Duration

	// StaleFor is how long this replica answers from its own state after it last
	// caught up with a master, while access is on.
	StaleFor time.Duration

	// TraceEndpoint is the URL of a collector of traces by OTLP over HTTP; empty for
	// no traces. TraceShare is the share of the calls without a trace of their own
	// that begin one.
	TraceEndpoint string
	TraceShare    float64

	// LogLevel is trace, debug, info, warn or error.
	LogLevel string
	// LogFormat is json (one object a line) or console (for people).
	LogFormat string

	// File is the configuration file, if one was read.
	File string

	sources map[string]Source
	program bool // made by Complete for a program
}

// Replica is one entry of the list that founds a cell.
type Replica = membership.Member

// formatReplica returns the form of the --replica flag: id=host:port,http://host:port.
func formatReplica(r Replica) string { return r.ID + "=" + r.RaftAddr + "," + r.APIURL }

// Source describes the source of a value for a person: "default", "flag --cell",
// "environment STOUTD_CELL", "r1.yaml:3"; for a program "field Cell" or "default of field Cell".
type Source string

// SourceDefault marks a default value.
const SourceDefault Source = "default"

// sourceDev marks a value that follows from Dev.
const sourceDev Source = "dev"

// Source returns the source of the named setting's value. The name is the flag's,
// without dashes.
func (c *Config) Source(name string) Source {
	if s, ok := c.sources[name]; ok {
		return s
	}
	for _, s := range settings(c) {
		if c.program && s.name == name {
			return Source("default of field " + c.name(s.field))
		}
	}
	return SourceDefault
}

// given reports whether the named setting was given a value.
func (c *Config) given(name string) bool {
	_, ok := c.sources[name]
	return ok
}

// name returns the name of the setting with a field of c: the flag's, or the field's
// in a program.
func (c *Config) name(field any) string {
	if c.program {
		return nameIn(reflect.ValueOf(c).Elem(), field)
	}
	all := settings(c)
	return all[slices.IndexFunc(all, func(s setting) bool { return s.field == field })].name
}

func nameIn(all reflect.Value, field any) string {
	for at, f := range all.Fields() {
		switch {
		case !at.IsExported():
		case f.Addr().Interface() == field:
			return at.Name
		case f.Kind() == reflect.Struct:
			if name := nameIn(f, field); name != "" {
				return at.Name + "." + name
			}
		}
	}
	return ""
}

// Self returns the entry of Replicas for this replica. It is the zero Replica if
// the entry is missing, which Load refuses.
func (c *Config) Self() Replica {
	for _, r := range c.Replicas {
		if r.ID == c.ID {
			return r
		}
	}
	return Replica{}
}

// Default returns the default settings. Timings and APIClientAuth follow the settings
// they depend on, unless they are changed too.
func Default() *Config {
	c := &Config{}
	for _, s := range settings(c) {
		if s.def == "" {
			continue
		}
		if err := s.set([]string{s.def}); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.name, err)) // a test sets each
		}
	}
	return c
}
