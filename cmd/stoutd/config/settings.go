package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of settings that the code refers to. Every name is at once the flag
// and, but for replicas, the key in the file.
const (
	nameCell       = "cell"
	nameID         = "id"
	nameDataDir    = "data-dir"
	nameDev        = "dev"
	nameAPIListen  = "api-listen"
	nameRaftListen = "raft-listen"
	nameReplica    = "replica"
	nameLease      = "master-lease"
	nameHeartbeat  = "heartbeat-timeout"
	nameElection   = "election-timeout"
	nameDrift      = "clock-drift"
	nameSnapLogs   = "snapshot-threshold"
	nameSnapEvery  = "snapshot-interval"
	nameTrailing   = "trailing-logs"
	nameEvents     = "event-history"
	nameEventBytes = "event-history-bytes"
	nameLogStore   = "log-store"
	nameShutdown   = "shutdown-timeout"
	nameLogLevel   = "log-level"
	nameLogFormat  = "log-format"
	nameConfig     = "config"

	fileReplicas = "replicas" // the list of replicas, in the file
	envPrefix    = "STOUTD_"
)

// setting is one row of the table that flags, environment, file and printed
// configuration share.
type setting struct {
	name  string
	kind  string // what a value looks like, for the help
	usage string
	text  bool // any text, which a file may have to quote
	// list is the values of a setting that may be given several times, nil for
	// others.
	list func(*Config) []string
	get  func(*Config) string
	// set reads the texts given for the setting, in order. Where the setting
	// is not a list the last one counts.
	set func(*Config, []string) error
}

// texts are the setting's values as set reads them.
func (s setting) texts(c *Config) []string {
	if s.list != nil {
		return s.list(c)
	}
	return []string{s.get(c)}
}

// env is the setting's name in the environment.
func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// key is the setting's name in a file.
func (s setting) key() string {
	if s.name == nameReplica {
		return fileReplicas
	}
	return s.name
}

// settings lists every setting, in the order in which a person meets them.
func settings() []setting {
	list := []setting{
		text(nameCell, "name", "name of the cell", func(c *Config) *string { return &c.Cell }),
		text(nameID, "id", "this replica's id, one of the --replica list", func(c *Config) *string { return &c.ID }),
		text(nameDataDir, "dir", "directory of the log, votes and snapshots", func(c *Config) *string { return &c.DataDir }),
		boolean(nameDev, "a cell of one replica in a temporary directory, removed at the end", func(c *Config) *bool { return &c.Dev }),
		text(nameAPIListen, "host:port", "address to serve the HTTP API on", func(c *Config) *string { return &c.APIListen }),
		text(nameRaftListen, "host:port", "address to serve the other replicas on", func(c *Config) *string { return &c.RaftListen }),
		replicaList(),
		joinList(),
		autoReplaceSetting(),
		duration(nameLease, "how long a master may act after a proposal; unless given, 1.5 × heartbeat-timeout", func(c *Config) *time.Duration { return &c.MasterLease }),
		duration(nameHeartbeat, "silence after which a master is suspected", func(c *Config) *time.Duration { return &c.HeartbeatTimeout }),
		duration(nameElection, "how long a candidate waits for votes; unless given, heartbeat-timeout", func(c *Config) *time.Duration { return &c.ElectionTimeout }),
		staleForSetting(),
		fraction(nameDrift, "bound on the error of this machine's clock rate", func(c *Config) *float64 { return &c.ClockDrift }),
		count(nameSnapLogs, "log entries between snapshots", func(c *Config) *uint64 { return &c.SnapshotThreshold }),
		duration(nameSnapEvery, "how often to look whether a snapshot is due", func(c *Config) *time.Duration { return &c.SnapshotInterval }),
		count(nameTrailing, "log entries kept behind a snapshot", func(c *Config) *uint64 { return &c.TrailingLogs }),
		count(nameEvents, "events kept for watchers that were away", func(c *Config) *uint64 { return &c.EventHistory }),
		size(nameEventBytes, "memory that these may take, estimated", func(c *Config) *uint64 { return &c.EventHistoryBytes }),
		text(nameLogStore, "store", "wal: a write-ahead log before raft-boltdb, one sync an entry; bolt: raft-boltdb alone", func(c *Config) *string { return &c.LogStore }),
		duration(nameShutdown, "bound on an orderly stop", func(c *Config) *time.Duration { return &c.ShutdownTimeout }),
	}
	list = slices.Concat(list, tlsSettings(), quotaSettings(), browserSettings(), accessSettings(), auditSettings(), backupSettings(), traceSettings())
	return append(list,
		text(nameLogLevel, "level", "trace, debug, info, warn or error", func(c *Config) *string { return &c.LogLevel }),
		text(nameLogFormat, "format", "json or console; unless given, console with --dev", func(c *Config) *string { return &c.LogFormat }))
}

// scalar makes a row for a setting of one value from how such a value is read
// and written. A reading error says what the value ought to be.
func scalar[T any](name, kind, usage string, field func(*Config) *T, read func(string) (T, error), write func(T) string) setting {
	return setting{
		name: name, kind: kind, usage: usage,
		get: func(c *Config) string { return write(*field(c)) },
		set: func(c *Config, values []string) error {
			v, err := read(values[len(values)-1])
			if err == nil {
				*field(c) = v
			}
			return err
		},
	}
}

func same(s string) string { return s }

func text(name, kind, usage string, field func(*Config) *string) setting {
	s := scalar(name, kind, usage, field, func(s string) (string, error) { return s, nil }, same)
	s.text = true
	return s
}

func boolean(name, usage string, field func(*Config) *bool) setting {
	read := func(s string) (bool, error) {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return false, fmt.Errorf("not true or false")
		}
		return v, nil
	}
	return scalar(name, "bool", usage, field, read, strconv.FormatBool)
}

func duration(name, usage string, field func(*Config) *time.Duration) setting {
	read := func(s string) (time.Duration, error) {
		v, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf("not a duration; write a number and a unit, like 500ms or 2s")
		}
		return v, nil
	}
	return scalar(name, "duration", usage, field, read, time.Duration.String)
}

func fraction(name, usage string, field func(*Config) *float64) setting {
	read := func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, fmt.Errorf("not a number; write a fraction like 0.01")
		}
		return v, nil
	}
	write := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return scalar(name, "fraction", usage, field, read, write)
}

// whole is a number that is not negative.
type whole interface{ int64 | uint64 }

func count[N whole](name, usage string, field func(*Config) *N) setting {
	read := func(s string) (N, error) {
		v, err := strconv.ParseUint(s, 10, 64)
		switch {
		case err == nil && v > math.MaxInt64, errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("at most %d", int64(math.MaxInt64))
		case err != nil:
			return 0, errors.New("not a whole number of at least 0")
		}
		return N(v), nil
	}
	return scalar(name, "number", usage, field, read, func(v N) string { return fmt.Sprint(v) })
}

// several makes a row for a setting that may be given several times, from how
// one value is read and written.
func several[T any](name, kind, usage string, field func(*Config) *[]T, read func(string) (T, error), write func(T) string) setting {
	s := setting{name: name, kind: kind, usage: usage}
	s.list = func(c *Config) (texts []string) {
		for _, v := range *field(c) {
			texts = append(texts, write(v))
		}
		return texts
	}
	s.get = func(c *Config) string { return strings.Join(s.list(c), "; ") }
	s.set = func(c *Config, values []string) error {
		var all []T
		for _, value := range values {
			v, err := read(value)
			if err != nil {
				return err
			}
			all = append(all, v)
		}
		*field(c) = all
		return nil
	}
	return s
}

func replicaList() setting {
	return several(nameReplica, "id=host:port,url",
		"a replica of the cell, with its addresses as others dial them; one for each, the same on all",
		func(c *Config) *[]Replica { return &c.Replicas }, parseReplica, formatReplica)
}

// parseReplica reads the form that formatReplica writes.
func parseReplica(s string) (Replica, error) {
	id, rest, ok1 := strings.Cut(s, "=")
	raft, api, ok2 := strings.Cut(rest, ",")
	if !ok1 || !ok2 {
		return Replica{}, fmt.Errorf("%q is not of the form id=host:port,http://host:port", s)
	}
	return Replica{ID: id, RaftAddr: raft, APIURL: api}, nil
}
