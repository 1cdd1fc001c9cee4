package config

import (
	"os"
	"sort"
	"strings"
	"time"
)

// Load puts the layers on top of one another, fills in what follows from
// others and validates the whole. environ is in the form of os.Environ; flags
// may be nil.
//
// The error is a Problems. The Config is never nil: beside an error it holds
// what could be read, for showing it to a person and for nothing else.
func Load(flags *Flags, environ []string) (*Config, error) {
	if flags == nil {
		flags = &Flags{}
	}
	l := &loader{config: defaults(), table: settings(), env: stoutdVariables(environ)}
	l.readFile(flags)
	l.readEnvironment()
	l.readFlags(flags)
	l.config.derive()
	problems := l.problems
	for _, p := range l.config.validate() {
		if !l.refused[p.Field] {
			problems = append(problems, p)
		}
	}
	return l.config, problems.err()
}

// loader gathers one configuration and the problems met on the way.
type loader struct {
	config   *Config
	table    []setting
	env      map[string]string
	problems Problems
	refused  map[string]bool // settings whose text could not be read
}

// apply gives a setting its value from one source.
func (l *loader) apply(s setting, values []string, from Source) {
	if err := s.set(l.config, values); err != nil {
		l.refuse(s.name, strings.Join(values, "; "), from, err.Error())
		return
	}
	l.config.sources[s.name] = from
}

func (l *loader) refuse(field, value string, from Source, reason string) {
	if l.refused == nil {
		l.refused = map[string]bool{}
	}
	l.refused[field] = true
	l.problems = append(l.problems, Problem{Field: field, Value: value, Source: from, Reason: reason})
}

func (l *loader) readFile(flags *Flags) {
	from := Source("flag --" + nameConfig)
	name := ""
	if given := flags.given[nameConfig]; len(given) > 0 {
		name = given[len(given)-1]
	} else if value, ok := l.env[envPrefix+"CONFIG"]; ok {
		name, from = value, "environment "+envPrefix+"CONFIG"
	} else {
		return
	}
	content, err := os.ReadFile(name)
	if err != nil {
		l.refuse(nameConfig, name, from, err.Error())
		return
	}
	l.config.File = name
	l.readYAML(name, content)
}

func (l *loader) readEnvironment() {
	known := map[string]bool{envPrefix + "CONFIG": true}
	for _, s := range l.table {
		known[s.env()] = true
		value, ok := l.env[s.env()]
		if !ok {
			continue
		}
		values := []string{value}
		if s.name == nameReplica {
			values = strings.FieldsFunc(value, func(r rune) bool { return r == ';' || strings.ContainsRune(" \t\r\n", r) })
		}
		l.apply(s, values, Source("environment "+s.env()))
	}
	unknown := []string{}
	for name := range l.env {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	for _, name := range unknown {
		reason := "no setting has this name; `stoutd --help` lists them"
		if strings.HasPrefix(name, envPrefix+"SERVICE_") || strings.HasPrefix(name, envPrefix+"PORT") {
			reason += " (Kubernetes sets such variables for a service called stoutd: say enableServiceLinks: false)"
		}
		l.refuse(name, l.env[name], "environment", reason)
	}
}

func (l *loader) readFlags(flags *Flags) {
	for _, s := range l.table {
		if values := flags.given[s.name]; len(values) > 0 {
			l.apply(s, values, Source("flag --"+s.name))
		}
	}
}

// stoutdVariables picks the variables that are meant for stoutd.
func stoutdVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	return env
}

// derive fills in what was not given and follows from what was.
func (c *Config) derive() {
	if !c.given(nameElection) && c.given(nameHeartbeat) {
		c.ElectionTimeout = c.HeartbeatTimeout
		c.sources[nameElection] = "default, as heartbeat-timeout"
	}
	if !c.given(nameLease) && c.given(nameHeartbeat) {
		c.MasterLease = min(c.HeartbeatTimeout*3/2, maxLease)
		c.sources[nameLease] = "default, 1.5 × heartbeat-timeout"
	}
	if c.Dev {
		c.deriveDev()
	}
}

// deriveDev describes the cell of one replica that Dev asks for.
func (c *Config) deriveDev() {
	for _, name := range []string{nameCell, nameID, nameReplica} {
		if c.given(name) {
			return // refused by validate
		}
		c.sources[name] = sourceDev
	}
	c.Cell, c.ID = "dev", "r1"
	c.Replicas = []Replica{{
		ID:       c.ID,
		RaftAddr: dialable(c.RaftListen),
		APIURL:   "http://" + dialable(c.APIListen),
	}}
}

// maxLease is lease.MaxTerm, the upper bound of every master lease, which
// helpers do not import; replica.Open checks it again.
const maxLease = 60 * time.Second
