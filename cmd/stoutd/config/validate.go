package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoutlock/stout/lease"
)

// validate checks the settings one by one and against each other.
func (c *Config) validate() Problems {
	v := &validator{config: c}
	v.identity()
	v.addresses()
	v.replicas()
	v.join()
	v.tls()
	v.jwt()
	v.prefixes()
	v.timings()
	v.staleFor()
	v.quotas()
	v.audit()
	v.backups()
	v.traces()
	v.autoReplace()
	v.choice(nameLogStore, c.LogStore, StoreBolt, StoreWAL)
	v.choice(nameLogLevel, c.LogLevel, "trace", "debug", "info", "warn", "error")
	v.choice(nameLogFormat, c.LogFormat, "json", "console")
	return v.problems
}

type validator struct {
	config   *Config
	problems Problems
}

// refuse blames a setting; value is how the person wrote it, or would.
func (v *validator) refuse(name, value, format string, args ...any) {
	v.problems = append(v.problems, Problem{
		Field: name, Value: value, Source: v.config.Source(name), Reason: fmt.Sprintf(format, args...),
	})
}

// require refuses a setting that has no value; what says what it is for.
func (v *validator) require(name, what string) {
	s := setting{name: name}
	v.refuse(name, "", "it is required: %s; give --%s, %s, or %s in the file", what, name, s.env(), s.key())
	v.problems[len(v.problems)-1].missing = true
}

func (v *validator) choice(name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.refuse(name, value, "it is one of %s", strings.Join(allowed, ", "))
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const nameRule = "1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"

func (v *validator) identity() {
	c := v.config
	if c.Dev {
		for _, one := range []struct{ name, value string }{{nameCell, c.Cell}, {nameID, c.ID}, {nameDataDir, c.DataDir}} {
			if c.given(one.name) && c.Source(one.name) != sourceDev {
				v.refuse(one.name, one.value, "contradicts dev, which makes a cell and a directory of its own")
			}
		}
		if c.given(nameReplica) && c.Source(nameReplica) != sourceDev {
			v.refuse(nameReplica, "", "contradicts dev, which is a cell of one replica")
		}
		return
	}
	for _, one := range []struct{ name, value, what string }{
		{nameCell, c.Cell, "the name of the cell (or --dev, for one to try things out)"},
		{nameID, c.ID, "which of the list of replicas this one is"},
	} {
		switch {
		case one.value == "":
			v.require(one.name, one.what)
		case !nameForm.MatchString(one.value):
			v.refuse(one.name, one.value, "a name is %s", nameRule)
		}
	}
	if c.DataDir == "" {
		v.require(nameDataDir, "the directory that keeps this replica's log")
	}
}

func (v *validator) addresses() {
	c := v.config
	for _, one := range []struct{ name, value string }{{nameAPIListen, c.APIListen}, {nameRaftListen, c.RaftListen}} {
		_, port, err := splitHostPort(one.value)
		switch {
		case err != nil:
			v.refuse(one.name, one.value, "%v", err)
		case port == 0 && !c.Dev:
			v.refuse(one.name, one.value, "port 0 would be another one at each start; the others could not find it")
		}
	}
	if _, port, err := splitHostPort(c.APIListen); err == nil && port != 0 && c.APIListen == c.RaftListen {
		v.refuse(nameRaftListen, c.RaftListen, "it is api-listen's address too; they need a port each")
	}
}

func (v *validator) replicas() {
	c := v.config
	if c.Dev {
		return
	}
	if len(c.Replicas) == 0 {
		v.require(nameReplica, "id=host:port,http://host:port of each replica of the cell, this one included (or --join, for one that is to become a member of a cell that runs)")
		return
	}
	seen := map[string]string{}
	for _, r := range c.Replicas {
		v.replica(r)
		for _, one := range []struct{ what, value string }{{"id", r.ID}, {"raft address", r.RaftAddr}, {"API URL", strings.TrimSuffix(r.APIURL, "/")}} {
			key := one.what + " " + one.value
			if other, ok := seen[key]; ok && one.value != "" {
				v.refuse(nameReplica, formatReplica(r), "its %s stands in the list already: %s; each replica needs its own", one.what, other)
				break
			}
			seen[key] = formatReplica(r)
		}
	}
	if c.ID != "" && c.Self() == (Replica{}) {
		ids := make([]string, len(c.Replicas))
		for i, r := range c.Replicas {
			ids[i] = r.ID
		}
		v.refuse(nameID, c.ID, "the list of replicas (%s) has no such id; it has %s: give the one that is this machine's", c.Source(nameReplica), strings.Join(ids, ", "))
	}
}

func (v *validator) replica(r Replica) {
	if !nameForm.MatchString(r.ID) {
		v.refuse(nameReplica, formatReplica(r), "id %q: a name is %s", r.ID, nameRule)
	}
	host, port, err := splitHostPort(r.RaftAddr)
	switch {
	case err != nil:
		v.refuse(nameReplica, formatReplica(r), "raft address %q: %v", r.RaftAddr, err)
	case v.config.derivedEntry() && unspecified(host):
		v.refuse(nameRaftListen, v.config.RaftListen, "others can't dial it; say where they reach this replica: --replica %s=host:port,url", r.ID)
		return
	case unspecified(host) || port == 0:
		v.refuse(nameReplica, formatReplica(r), "raft address %q: others must be able to dial it, so it needs a host and a port", r.RaftAddr)
	}
	if err := checkURL(r.APIURL); err != nil && v.config.derivedEntry() {
		v.refuse(nameAPIListen, v.config.APIListen, "clients can't dial it; say where they reach this replica: --replica %s=host:port,url", r.ID)
	} else if err != nil {
		v.refuse(nameReplica, formatReplica(r), "API URL %q: %v", r.APIURL, err)
	}
}

// checkURL accepts the base URL of an API: scheme, host and port, no more.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL, like http://10.0.0.1:7101")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("it begins with http:// or https://")
	case unspecified(u.Hostname()):
		return fmt.Errorf("clients must be able to dial it, so it needs a host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("it is scheme, host and port only")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %q is not within 1..65535", p)
		}
	}
	return nil
}

// splitHostPort reads host:port with a numeric port.
func splitHostPort(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("not of the form host:port")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number within 0..65535", text)
	}
	return host, uint16(n), nil
}

// unspecified reports whether a host means every interface, so that nobody can
// dial it.
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}

// dialable turns a listening address into one that this machine can dial.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !unspecified(host) {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// bound is the range of a duration and why it ends where it does.
type bound struct {
	name       string
	value      time.Duration
	low, high  time.Duration
	lowReason  string
	highReason string
}

func (v *validator) timings() {
	c := v.config
	for _, b := range []bound{
		{nameHeartbeat, c.HeartbeatTimeout, 50 * time.Millisecond, 30 * time.Second,
			"a shorter one takes every slow write for a dead master", "a longer one leaves the cell without a master for minutes"},
		{nameElection, c.ElectionTimeout, 50 * time.Millisecond, 60 * time.Second,
			"votes need time to reach the disk", "a longer one leaves the cell without a master for minutes"},
		{nameLease, c.MasterLease, 100 * time.Millisecond, lease.MaxTerm,
			"it is renewed every quarter of it, with a write on every replica", "the bound on which a cell recovered by hand relies"},
		{nameSnapEvery, c.SnapshotInterval, 100 * time.Millisecond, 24 * time.Hour,
			"looking more often only costs", "the log would grow without bound"},
		{nameShutdown, c.ShutdownTimeout, 100 * time.Millisecond, 10 * time.Minute,
			"mastership cannot be handed over in less", "whoever stops the process will not wait longer"},
	} {
		if b.value < b.low {
			v.refuse(b.name, b.value.String(), "at least %s: %s", b.low, b.lowReason)
		}
		if b.value > b.high {
			v.refuse(b.name, b.value.String(), "at most %s: %s", b.high, b.highReason)
		}
	}
	if c.ElectionTimeout < c.HeartbeatTimeout {
		v.refuse(nameElection, c.ElectionTimeout.String(),
			"shorter than heartbeat-timeout (%s, %s): candidates would give up before the others suspect the master", c.HeartbeatTimeout, c.Source(nameHeartbeat))
	}
	if c.MasterLease < c.HeartbeatTimeout {
		v.refuse(nameLease, c.MasterLease.String(),
			"shorter than heartbeat-timeout (%s, %s): a master that nobody suspects would lose its lease; one and a half times that is a good value", c.HeartbeatTimeout, c.Source(nameHeartbeat))
	}
	if !(c.ClockDrift >= 0 && c.ClockDrift <= 0.1) {
		v.refuse(nameDrift, strconv.FormatFloat(c.ClockDrift, 'g', -1, 64), "within 0..0.1: the part by which the clock's rate may be wrong")
	}
	if c.SnapshotThreshold == 0 {
		v.refuse(nameSnapLogs, "0", "at least 1: the number of log entries between snapshots")
	}
	if c.TrailingLogs == 0 {
		v.refuse(nameTrailing, "0", "at least 1: without them a replica that was away for a moment needs a whole snapshot")
	}
	v.events()
}

// Bounds of what is kept for watchers: less, and they would be told of hardly
// anything; more, and the memory could not be had.
const (
	leastEvents, mostEvents         = 1, 100_000_000
	leastEventBytes, mostEventBytes = 1 << 10, 64 << 30
)

func (v *validator) events() {
	for _, b := range []struct {
		name               string
		value, least, most uint64
		write              func(uint64) string
	}{
		{nameEvents, v.config.EventHistory, leastEvents, mostEvents, func(n uint64) string { return strconv.FormatUint(n, 10) }},
		{nameEventBytes, v.config.EventHistoryBytes, leastEventBytes, mostEventBytes, writeSize},
	} {
		if b.value < b.least || b.value > b.most {
			v.refuse(b.name, b.write(b.value), "within %s..%s: a watcher that was away for longer has to read everything anew", b.write(b.least), b.write(b.most))
		}
	}
}
