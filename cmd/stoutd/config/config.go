package config

import (
	"fmt"
	"io"
	"time"

	"github.com/stoutlock/stout/master"
	"github.com/stoutlock/stout/replica/membership"
)

// Where log entries go first; see docs/settings.md.
const (
	StoreBolt = "bolt" // raft-boltdb
	StoreWAL  = "wal"  // a write-ahead log, and raft-boltdb from time to time
)

// Config is every setting of one replica; docs/settings.md says more of each.
// Load makes one from flags, environment and file, and Default one for a
// program to fill in. It may be read concurrently.
type Config struct {
	// Stdout takes the audit log where AuditLog is "-", and Stderr the log; nil
	// for those of the process.
	Stdout, Stderr io.Writer

	// Cell is the name of the cell. A data directory remembers it and is
	// refused by a replica of another cell.
	Cell string
	// ID names this replica within the cell; it is one of Replicas. A member of
	// a cell is an ID and a data directory.
	ID string
	// DataDir holds the log, the votes and the snapshots. Load refuses it with
	// Dev, for which command stoutd makes a temporary one.
	DataDir string
	// Dev asks for a cell of a single replica. Cell, ID and Replicas are left
	// empty then and filled in.
	Dev bool

	// APIListen and RaftListen are host:port to bind. What others dial stands
	// in Replicas and may differ. Port 0 (any free port) is allowed with Dev
	// only.
	APIListen  string
	RaftListen string

	// APICert and APIKey are the PEM files of the API's certificate and its key;
	// with them it speaks TLS, and nothing else. APIClientCA has the CAs that sign
	// its clients' certificates, and APIClientAuth is ClientAuthNone,
	// ClientAuthOptional or ClientAuthRequired.
	APICert, APIKey, APIClientCA, APIClientAuth string
	// RaftCert, RaftKey and RaftCA are those of the connections between replicas:
	// with them both ends show a certificate that names the replica.
	RaftCert, RaftKey, RaftCA string

	// Replicas found the cell, all together, where their data directories are
	// new: the same list on every replica. Later it says where to reach each of
	// them; it does not change the membership.
	Replicas []Replica
	// Join are base URLs of replicas of a cell that runs. This replica then founds
	// none: it waits to be made a member, and Replicas has its own entry only.
	Join []string

	// MasterLease is for how long a master may act on its own after a batch of
	// the log was proposed. A longer lease rides out slower disks; a successor
	// that has not heard of an orderly end waits it out. One and a half times
	// HeartbeatTimeout is about as long as an election takes anyway.
	MasterLease time.Duration
	// HeartbeatTimeout is the silence after which a replica suspects that the
	// master is gone; a random part of up to a quarter is added. It should be
	// several times the slowest write of the disk.
	HeartbeatTimeout time.Duration
	// ElectionTimeout is how long a candidate waits for votes before it tries
	// again. At least HeartbeatTimeout.
	ElectionTimeout time.Duration
	// ClockDrift bounds how far the rate of this machine's clock may be from
	// true time, as a fraction: 0.01 allows for one second in a hundred.
	ClockDrift float64

	// SnapshotThreshold is how many log entries are applied before a snapshot
	// is taken, looked at once in SnapshotInterval.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	// TrailingLogs is how many entries are kept behind a snapshot, so that a
	// replica which was away for a moment catches up from the log. It should
	// cover what is written while one snapshot is sent.
	TrailingLogs uint64

	// EventHistory and EventHistoryBytes are how many events this replica keeps
	// for watchers that were away, and how much memory they may take: the one
	// that is reached first counts.
	EventHistory, EventHistoryBytes uint64

	// LogStore is where log entries go first: StoreBolt or StoreWAL.
	LogStore string

	// ShutdownTimeout bounds an orderly stop: handing mastership over,
	// releasing the calls that wait, closing the stores.
	ShutdownTimeout time.Duration

	// Quotas bound what clients may take up; 0 is no bound. Those of the replica that is
	// master count.
	Quotas master.Quotas
	// MaxWatchers bounds the calls that wait for events at this replica.
	MaxWatchers uint64
	// MaxAnonymousWatchers bounds those without a credential, for each address,
	// while access is on.
	MaxAnonymousWatchers uint64
	// MaxConnections bounds the open connections to the API; 0 is as many as
	// the process's limit on open files leaves beside the replica's own.
	MaxConnections uint64

	// AllowOrigins are the sites whose web pages may use the API besides its
	// own.
	AllowOrigins []string
	// APIHosts are names by which browsers, and on loopback anybody, may call
	// the API besides localhost, addresses and the hosts of Replicas and
	// AllowOrigins.
	APIHosts []string

	// JWTKeys is the file of keys (JWKS) by which JWTs are judged that are by
	// JWTIssuer and for JWTAudience; JWTClaim names their principal. All but the
	// claim are empty where none are taken.
	JWTIssuer, JWTAudience, JWTKeys, JWTClaim string
	// JWTPrefix and CertificatePrefix stand before the names of their principals,
	// and before those of no other source's. Empty for none.
	JWTPrefix, CertificatePrefix string
	// FoundTokenFile has the secret of user:root with which a cell is founded with
	// access on. BreakGlassTokenFile has one that is user:root's in calls to this
	// replica while it is master. Empty for none.
	FoundTokenFile, BreakGlassTokenFile string
	// PublicMetrics shows /metrics to everybody, also while access is on.
	PublicMetrics bool

	// AuditLog is the file of the audit log, "-" for standard output; empty for none.
	AuditLog string
	// AuditChanges has it take a line for each change of a file, a lock or a session,
	// too. AuditRequired refuses changes while it can't be written.
	AuditChanges, AuditRequired bool
	// AuditMaxSize is the size in bytes, whole MiB, at which the file is put aside, 0
	// for never, and AuditKeep how many of those are kept, 0 for all.
	AuditMaxSize, AuditKeep uint64

	// BackupEvery is how often this replica writes a backup of its own state into
	// BackupDir, 0 for never, and BackupKeep how many of them stay there, 0 for all.
	BackupEvery time.Duration
	BackupDir   string
	BackupKeep  uint64

	// AutoReplace is for how long a member's directory is not heard of before this
	// replica, while it is master, gives its place to a new one; 0 for never.
	AutoReplace time.Duration

	// StaleFor is for how long after it has last caught up with a master this replica
	// answers by its own state while access is on.
	StaleFor time.Duration

	// TraceEndpoint is the URL of a collector of traces by OTLP over HTTP, empty for
	// none. TraceShare is the share of the calls without a trace of their own that
	// begin one.
	TraceEndpoint string
	TraceShare    float64

	// LogLevel is trace, debug, info, warn or error.
	LogLevel string
	// LogFormat is json (one object a line) or console (for people).
	LogFormat string

	// File is the configuration file that was read, or empty.
	File string

	sources map[string]Source
}

// Replica is one entry of the list that founds a cell.
type Replica = membership.Member

// formatReplica returns the form of the --replica flag: id=host:port,http://host:port.
func formatReplica(r Replica) string { return r.ID + "=" + r.RaftAddr + "," + r.APIURL }

// Source says where a value came from, in words for a person: "default",
// "flag --cell", "environment STOUTD_CELL", "r1.yaml:3".
type Source string

// SourceDefault marks a value that nobody gave.
const SourceDefault Source = "default"

// sourceProgram marks a value that the program has put into a Config.
const sourceProgram Source = "program"

// sourceDev marks a value that follows from Dev.
const sourceDev Source = "dev"

// Source tells where the value of the named setting (a flag's name, without
// dashes) came from.
func (c *Config) Source(name string) Source {
	if s, ok := c.sources[name]; ok {
		return s
	}
	return SourceDefault
}

// given reports whether somebody gave the named setting a value.
func (c *Config) given(name string) bool {
	_, ok := c.sources[name]
	return ok
}

// Self is the entry of Replicas that describes this replica; the zero Replica
// where there is none, which Load refuses.
func (c *Config) Self() Replica {
	for _, r := range c.Replicas {
		if r.ID == c.ID {
			return r
		}
	}
	return Replica{}
}

// Default returns the settings of a replica that was given none. Unless they are
// changed too, timings and APIClientAuth follow the settings they depend on.
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
