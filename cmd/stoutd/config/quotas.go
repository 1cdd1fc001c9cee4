package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quotas bound what clients may take up. 0 is no bound.
type Quotas struct {
	// MaxSessions, MaxHolds, MaxWaiters and MaxBytes are of the whole cell:
	// open sessions; grants and queue positions; the queue positions alone; and
	// the memory that the state takes, as the master estimates it.
	MaxSessions, MaxHolds, MaxWaiters, MaxBytes uint64
	// MaxFiles and MaxContent are, too: files, and the bytes of their contents.
	MaxFiles, MaxContent uint64
	// MaxSessionHolds, MaxSessionWaiters and MaxSessionBytes are of each
	// session.
	MaxSessionHolds, MaxSessionWaiters, MaxSessionBytes uint64
}

// defaultQuotas are those of a machine with 4 GiB of memory. A hold takes about
// 1.5 KiB and a session 1 KiB, and the garbage collector as much again; a
// client that waits at the master takes a connection, of about 50 KiB. The
// bound on one session's holds is also one on how long the end of a session
// keeps the log: about 10 ms for 1000.
func defaultQuotas() Quotas {
	return Quotas{
		MaxSessions: 100_000, MaxHolds: 500_000, MaxWaiters: 100_000, MaxBytes: 1 << 30,
		MaxFiles: 200_000, MaxContent: 512 << 20,
		MaxSessionHolds: 10_000, MaxSessionWaiters: 10_000, MaxSessionBytes: 64 << 20,
	}
}

// Names of the quotas.
const (
	nameMaxSessions       = "max-sessions"
	nameMaxHolds          = "max-holds"
	nameMaxWaiters        = "max-waiters"
	nameMaxFiles          = "max-files"
	nameMaxContent        = "max-content"
	nameMaxBytes          = "max-bytes"
	nameMaxSessionHolds   = "max-session-holds"
	nameMaxSessionWaiters = "max-session-waiters"
	nameMaxSessionBytes   = "max-session-bytes"
	nameMaxWatchers       = "max-watchers"
	nameMaxAnonymous      = "max-anonymous-watchers"
	nameMaxConnections    = "max-connections"
)

func quotaSettings() []setting {
	return []setting{
		count(nameMaxSessions, "open sessions of the cell; 0 for no bound, as with all quotas", func(c *Config) *uint64 { return &c.Quotas.MaxSessions }),
		count(nameMaxHolds, "holds and queue positions of the cell", func(c *Config) *uint64 { return &c.Quotas.MaxHolds }),
		count(nameMaxWaiters, "queue positions of the cell", func(c *Config) *uint64 { return &c.Quotas.MaxWaiters }),
		count(nameMaxFiles, "files of the cell", func(c *Config) *uint64 { return &c.Quotas.MaxFiles }),
		size(nameMaxContent, "bytes of content of the cell's files", func(c *Config) *uint64 { return &c.Quotas.MaxContent }),
		size(nameMaxBytes, "memory of the cell's state, estimated", func(c *Config) *uint64 { return &c.Quotas.MaxBytes }),
		count(nameMaxSessionHolds, "holds and queue positions of one session", func(c *Config) *uint64 { return &c.Quotas.MaxSessionHolds }),
		count(nameMaxSessionWaiters, "queue positions of one session", func(c *Config) *uint64 { return &c.Quotas.MaxSessionWaiters }),
		size(nameMaxSessionBytes, "memory of what one session holds and waits for, estimated", func(c *Config) *uint64 { return &c.Quotas.MaxSessionBytes }),
		count(nameMaxWatchers, "calls that wait for events at this replica", func(c *Config) *uint64 { return &c.MaxWatchers }),
		count(nameMaxAnonymous, "calls without a credential that wait for events from one address, while access is on", func(c *Config) *uint64 { return &c.MaxAnonymousWatchers }),
		count(nameMaxConnections, "open connections to this replica's API; 0 for as many as the limit on open files leaves", func(c *Config) *uint64 { return &c.MaxConnections }),
	}
}

// sizeUnits are those that a size may be given in, the largest first.
var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// size is a row for a number of bytes, which may be given in KiB, MiB or GiB.
func size(name, usage string, field func(*Config) *uint64) setting {
	return scalar(name, "size", usage, field, readSize, writeSize)
}

func readSize(s string) (uint64, error) {
	digits, unit := s, uint64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, unit = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("not a size; write a whole number of bytes, or one with a unit, like 512MiB or 2GiB")
	}
	return n * unit, nil
}

func writeSize(n uint64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatUint(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}

// The least that some quotas may be, where they are not 0.
const (
	minBytes       = 256 << 10 // twice what the largest session takes
	minConnections = 16
)

// quotas refuses what leaves no room at all, or room beyond all reason.
func (v *validator) quotas() {
	q := &v.config.Quotas
	for _, b := range []struct {
		name      string
		value     uint64
		low       uint64
		lowReason string
	}{
		{nameMaxSessions, q.MaxSessions, 1, ""},
		{nameMaxHolds, q.MaxHolds, 1, ""},
		{nameMaxWaiters, q.MaxWaiters, 1, ""},
		{nameMaxFiles, q.MaxFiles, 1, ""},
		{nameMaxContent, q.MaxContent, minBytes, "a single file may have as much"},
		{nameMaxBytes, q.MaxBytes, minBytes, "a single session may take half of that"},
		{nameMaxSessionHolds, q.MaxSessionHolds, 1, ""},
		{nameMaxSessionWaiters, q.MaxSessionWaiters, 1, ""},
		{nameMaxSessionBytes, q.MaxSessionBytes, minBytes, "a session's own metadata may take half of that"},
		{nameMaxWatchers, v.config.MaxWatchers, 1, ""},
		{nameMaxAnonymous, v.config.MaxAnonymousWatchers, 1, ""},
		{nameMaxConnections, v.config.MaxConnections, minConnections, "what watches a replica needs some of them"},
	} {
		if b.value != 0 && b.value < b.low {
			v.refuse(b.name, strconv.FormatUint(b.value, 10), "at least %d, or 0 for no bound: %s", b.low, b.lowReason)
		}
		if b.value > math.MaxInt64 {
			v.refuse(b.name, strconv.FormatUint(b.value, 10), "at most %d; 0 is no bound", int64(math.MaxInt64))
		}
	}
}
