package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/master"
)

// defaultQuotas are those of a machine with 4 GiB of memory. A hold takes about
// 1.5 KiB and a session 1 KiB, and the garbage collector as much again; a
// client that waits at the master takes a connection, of about 50 KiB. The
// bound on one session's holds is also one on how long the end of a session
// keeps the log: about 10 ms for 1000.
func defaultQuotas() master.Quotas {
	return master.Quotas{
		Sessions: 100_000, Holds: 500_000, Waiters: 100_000, Bytes: 1 << 30, Files: 200_000, Content: 512 << 20,
		SessionHolds: 10_000, SessionWaiters: 10_000, SessionBytes: 64 << 20,
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
		count(nameMaxSessions, "open sessions of the cell; 0 for no bound, as with all quotas", func(c *Config) *int64 { return &c.Quotas.Sessions }),
		count(nameMaxHolds, "holds and queue positions of the cell", func(c *Config) *int64 { return &c.Quotas.Holds }),
		count(nameMaxWaiters, "queue positions of the cell", func(c *Config) *int64 { return &c.Quotas.Waiters }),
		count(nameMaxFiles, "files of the cell", func(c *Config) *int64 { return &c.Quotas.Files }),
		size(nameMaxContent, "bytes of content of the cell's files", func(c *Config) *int64 { return &c.Quotas.Content }),
		size(nameMaxBytes, "memory of the cell's state, estimated", func(c *Config) *int64 { return &c.Quotas.Bytes }),
		count(nameMaxSessionHolds, "holds and queue positions of one session", func(c *Config) *int64 { return &c.Quotas.SessionHolds }),
		count(nameMaxSessionWaiters, "queue positions of one session", func(c *Config) *int64 { return &c.Quotas.SessionWaiters }),
		size(nameMaxSessionBytes, "memory of what one session holds and waits for, estimated", func(c *Config) *int64 { return &c.Quotas.SessionBytes }),
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
func size[N whole](name, usage string, field func(*Config) *N) setting {
	return scalar(name, "size", usage, field,
		func(s string) (N, error) { n, err := readSize(s); return N(n), err }, func(n N) string { return writeSize(uint64(n)) })
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
		{nameMaxSessions, uint64(q.Sessions), 1, ""},
		{nameMaxHolds, uint64(q.Holds), 1, ""},
		{nameMaxWaiters, uint64(q.Waiters), 1, ""},
		{nameMaxFiles, uint64(q.Files), 1, ""},
		{nameMaxContent, uint64(q.Content), minBytes, "a single file may have as much"},
		{nameMaxBytes, uint64(q.Bytes), minBytes, "a single session may take half of that"},
		{nameMaxSessionHolds, uint64(q.SessionHolds), 1, ""},
		{nameMaxSessionWaiters, uint64(q.SessionWaiters), 1, ""},
		{nameMaxSessionBytes, uint64(q.SessionBytes), minBytes, "a session's own metadata may take half of that"},
		{nameMaxWatchers, v.config.MaxWatchers, 1, ""},
		{nameMaxAnonymous, v.config.MaxAnonymousWatchers, 1, ""},
		{nameMaxConnections, v.config.MaxConnections, minConnections, "what watches a replica needs some of them"},
	} {
		if b.value != 0 && b.value < b.low {
			v.refuse(b.name, strconv.FormatUint(b.value, 10), "at least %d, or 0 for no bound: %s", b.low, b.lowReason)
		}
	}
}
