package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stoutlock/stout/lease"
)

func (c *Config) validate() Problems {
	v := &validator{config: c, rows: settings(c), defaults: settings(Default())}
	for _, s := range v.rows {
		if reason := s.problem(); reason != "" {
			v.refuse(s.field, "%s", reason)
		}
	}
	v.identity()
	v.addresses()
	v.replicas()
	v.join()
	v.tls()
	v.jwt()
	v.prefixes()
	v.timings()
	v.audit()
	v.backups()
	v.traces()
	return v.problems
}

type validator struct {
	config         *Config
	rows, defaults []setting
	problems       Problems
}

// row returns the index of the setting with this field of the Config.
func (v *validator) row(field any) int {
	return slices.IndexFunc(v.rows, func(s setting) bool { return s.field == field })
}

func (v *validator) changed(field any) bool {
	i := v.row(field)
	return v.rows[i].get() != v.defaults[i].get()
}

func (v *validator) refuse(field any, format string, args ...any) {
	v.refuseValue(field, v.rows[v.row(field)].get(), format, args...)
}

// refuseValue is refuse for a value that is shown in another form than the whole of
// the setting.
func (v *validator) refuseValue(field any, shown, format string, args ...any) {
	name := v.rows[v.row(field)].name
	v.problems = append(v.problems, Problem{Field: name, Value: shown, Source: v.config.Source(name), Reason: fmt.Sprintf(format, args...)})
}

// require refuses a setting that has no value; what describes the value.
func (v *validator) require(field any, what string) {
	s := v.rows[v.row(field)]
	give := fmt.Sprintf("give --%s, %s, or %s in the file", s.name, s.env(), s.key())
	if v.config.program {
		give = "set " + v.config.name(field)
	}
	v.refuse(field, "it is required: %s; %s", what, give)
	v.problems[len(v.problems)-1].missing = true
}

// called returns the name by which a setting is given: a flag, or a field in a program.
func (v *validator) called(field any) string {
	if v.config.program {
		return v.config.name(field)
	}
	return "--" + v.config.name(field)
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const nameRule = "1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit"

func (v *validator) identity() {
	c := v.config
	if c.Dev {
		for _, field := range []any{&c.Cell, &c.ID, &c.DataDir, &c.Replicas} {
			s := v.rows[v.row(field)]
			switch {
			case !c.given(s.name) || c.Source(s.name) == sourceDev:
			case s.name == nameReplica:
				v.refuseValue(field, "", "contradicts dev, which is a cell of one replica")
			default:
				v.refuse(field, "contradicts dev, which makes a cell and a directory of its own")
			}
		}
		return
	}
	for _, one := range []struct {
		field *string
		what  string
	}{
		{&c.Cell, "the name of the cell (or " + v.called(&c.Dev) + ", to try things out)"},
		{&c.ID, "the id of this replica in the list of replicas"},
	} {
		switch {
		case *one.field == "":
			v.require(one.field, one.what)
		case !nameForm.MatchString(*one.field):
			v.refuse(one.field, "a name is %s", nameRule)
		}
	}
	if c.DataDir == "" {
		v.require(&c.DataDir, "the directory that keeps this replica's log")
	}
}

func (v *validator) addresses() {
	c := v.config
	for _, field := range []*string{&c.APIListen, &c.RaftListen} {
		if _, port, err := splitHostPort(*field); err == nil && port == 0 && !c.Dev {
			v.refuse(field, "port 0 is a different port at each start, so that the others could not find it")
		}
	}
	if _, port, err := splitHostPort(c.APIListen); err == nil && port != 0 && c.APIListen == c.RaftListen {
		v.refuse(&c.RaftListen, "%s has the same address; each needs its own port", c.name(&c.APIListen))
	}
	if _, port, err := splitHostPort(c.ConsulListen); err == nil && port != 0 && (c.ConsulListen == c.APIListen || c.ConsulListen == c.RaftListen) {
		v.refuse(&c.ConsulListen, "%s or %s has the same address; each needs its own port", c.name(&c.APIListen), c.name(&c.RaftListen))
	}
}

func (v *validator) replicas() {
	c := v.config
	if c.Dev {
		return
	}
	if len(c.Replicas) == 0 {
		v.require(&c.Replicas, "id=host:port,http://host:port of each replica of the cell, this one included (or "+v.called(&c.Join)+", to join a running cell)")
		return
	}
	seen := map[string]string{}
	for _, r := range c.Replicas {
		v.replica(r)
		for _, one := range []struct{ what, value string }{{"id", r.ID}, {"raft address", r.RaftAddr}, {"API URL", strings.TrimSuffix(r.APIURL, "/")}} {
			key := one.what + " " + one.value
			if other, ok := seen[key]; ok && one.value != "" {
				v.refuseValue(&c.Replicas, formatReplica(r), "another entry has the same %s: %s; each replica needs its own", one.what, other)
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
		v.refuse(&c.ID, "the list of replicas (%s) has no such id; it has %s: give the id of this machine's replica", c.Source(nameReplica), strings.Join(ids, ", "))
	}
}

func (v *validator) replica(r Replica) {
	c := v.config
	refuse := func(format string, args ...any) { v.refuseValue(&c.Replicas, formatReplica(r), format, args...) }
	if !nameForm.MatchString(r.ID) {
		refuse("id %q: a name is %s", r.ID, nameRule)
	}
	give := fmt.Sprintf("give the addresses at which they reach this replica: %s %s=host:port,url", v.called(&c.Replicas), r.ID)
	host, port, err := splitHostPort(r.RaftAddr)
	switch {
	case err != nil:
		refuse("raft address %q: %v", r.RaftAddr, err)
	case c.derivedEntry() && unspecified(host):
		v.refuse(&c.RaftListen, "others can't dial it; %s", give)
		return
	case unspecified(host) || port == 0:
		refuse("raft address %q: others must be able to dial it, so it needs a host and a port", r.RaftAddr)
	}
	if err := checkURL(r.APIURL); err != nil && c.derivedEntry() {
		v.refuse(&c.APIListen, "clients can't dial it; %s", give)
	} else if err != nil {
		refuse("API URL %q: %v", r.APIURL, err)
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

// unspecified reports whether a host means every interface. It cannot be dialed.
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

func (v *validator) timings() {
	c := v.config
	heartbeat := fmt.Sprintf("shorter than %s (%s, %s)", c.name(&c.HeartbeatTimeout), c.HeartbeatTimeout, c.Source("heartbeat-timeout"))
	if c.ElectionTimeout < c.HeartbeatTimeout {
		v.refuse(&c.ElectionTimeout, "%s: candidates would give up before the others suspect the master", heartbeat)
	}
	if c.MasterLease < c.HeartbeatTimeout {
		v.refuse(&c.MasterLease, "%s: a master could lose its lease before any replica suspects it; 1.3 times %s is a good value", heartbeat, c.name(&c.HeartbeatTimeout))
	}
	if c.StaleFor < min(c.MasterLease, lease.MaxTerm) {
		v.refuse(&c.StaleFor, "shorter than %s (%s, %s): replicas would refuse stale reads although the master is well", c.name(&c.MasterLease), c.MasterLease, c.Source("master-lease"))
	}
	if c.AutoReplace != 0 && c.Dev {
		v.refuse(&c.AutoReplace, "contradicts dev, which is a cell of one replica")
	}
}

func (v *validator) audit() {
	c := v.config
	if c.AuditLog == "" {
		for _, field := range []any{&c.AuditChanges, &c.AuditRequired, &c.AuditMaxSize, &c.AuditKeep} {
			if v.changed(field) {
				v.refuse(field, "it needs an audit log: give %s as well", c.name(&c.AuditLog))
			}
		}
		return
	}
	const mib = 1 << 20
	switch n := c.AuditMaxSize; {
	case n != 0 && c.AuditLog == "-":
		v.refuse(&c.AuditMaxSize, "standard output cannot be put aside; leave it out")
	case n > mib && n%mib != 0:
		v.refuse(&c.AuditMaxSize, "it is a whole number of MiB")
	case n == 0 && c.AuditKeep > 0:
		v.refuse(&c.AuditKeep, "files are put aside only at %s; give that as well", c.name(&c.AuditMaxSize))
	}
}

func (v *validator) backups() {
	c := v.config
	switch {
	case c.BackupEvery == 0 && c.BackupDir != "":
		v.refuse(&c.BackupDir, "it is for backups by schedule: give %s as well", c.name(&c.BackupEvery))
	case c.BackupEvery == 0 && v.changed(&c.BackupKeep):
		v.refuse(&c.BackupKeep, "it is for backups by schedule: give %s and %s as well", c.name(&c.BackupEvery), c.name(&c.BackupDir))
	case c.BackupEvery != 0 && c.BackupDir == "":
		v.refuse(&c.BackupEvery, "backups need a directory: give %s as well", c.name(&c.BackupDir))
	}
	if c.BackupDir != "" && c.DataDir != "" && within(c.BackupDir, c.DataDir) {
		v.refuse(&c.BackupDir, "it is in %s (%s), and would be lost with it", c.name(&c.DataDir), c.DataDir)
	}
}

// within reports whether a path is a directory or below it, by their names alone.
func within(path, dir string) bool {
	a, errA := filepath.Abs(path)
	b, errB := filepath.Abs(dir)
	rel, errRel := filepath.Rel(b, a)
	return errA == nil && errB == nil && errRel == nil && filepath.IsLocal(rel)
}

func (v *validator) traces() {
	c := v.config
	if c.TraceEndpoint == "" {
		if v.changed(&c.TraceShare) {
			v.refuse(&c.TraceShare, "traces need a collector: give %s as well", c.name(&c.TraceEndpoint))
		}
		return
	}
	u, err := url.Parse(c.TraceEndpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.RawQuery != "", u.Fragment != "":
		v.refuse(&c.TraceEndpoint, "it is the URL of a collector, like http://127.0.0.1:4318")
	case u.User != nil:
		v.refuseValue(&c.TraceEndpoint, u.Redacted(), "it must not have a secret: give that in the environment, by OTEL_EXPORTER_OTLP_HEADERS")
	}
}
