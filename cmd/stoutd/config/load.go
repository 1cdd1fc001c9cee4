package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/internal/suggest"
	"github.com/stoutlock/stout/lease"
)

// Load merges the sources, derives missing values and validates the result. environ
// has the form of os.Environ; flags may be nil.
//
// The error is a Problems, or the error of ctx if that ended while Load read the
// file. The Config is never nil: with an error it holds the values that could be
// read, only for showing them to a person.
func Load(ctx context.Context, flags *Flags, environ []string) (*Config, error) {
	return LoadAs(ctx, flags, environ, "")
}

// LoadAs is Load with a name of the cell for settings without one.
func LoadAs(ctx context.Context, flags *Flags, environ []string, cell string) (*Config, error) {
	if flags == nil {
		flags = &Flags{}
	}
	l := newLoader()
	l.env = stoutdVariables(environ)
	if err := l.readFile(ctx, flags); err != nil {
		return l.config, err
	}
	l.readEnvironment()
	l.readFlags(flags)
	if cell != "" && l.config.Cell == "" {
		l.config.Cell = cell
	}
	return l.config, l.finish()
}

// Complete returns a copy of c with the missing values derived. The error is a
// Problems. It does not change a Config made by Load.
func Complete(c *Config) (*Config, error) {
	if c.sources != nil {
		whole := *c
		return &whole, nil
	}
	l := newLoader()
	l.config.program = true
	for i, s := range settings(c) {
		if texts := s.texts(); !slices.Equal(texts, l.table[i].texts()) && !(s.name == nameDataDir && c.Dev) {
			l.apply(l.table[i], texts, Source("field "+l.config.name(l.table[i].field)))
		}
	}
	l.config.DataDir, l.config.Stdout, l.config.Stderr = c.DataDir, c.Stdout, c.Stderr
	return l.config, l.finish()
}

func newLoader() *loader {
	c := Default()
	c.sources = map[string]Source{}
	return &loader{config: c, table: settings(c), refused: map[string]bool{}, sought: map[string]bool{}}
}

// finish derives missing values and returns all problems.
func (l *loader) finish() error {
	l.config.derive()
	problems := l.problems
	for _, p := range l.config.validate() {
		explained := p.missing && (l.unread || l.sought[p.Field] || p.Field == nameReplica && l.refused["join"])
		if !l.refused[p.Field] && !explained {
			problems = append(problems, p)
		}
	}
	return problems.err()
}

// loader collects one configuration and its problems.
type loader struct {
	config   *Config
	table    []setting
	env      map[string]string
	problems Problems
	refused  map[string]bool // settings with an unreadable text
	sought   map[string]bool // settings with a mistyped name
	unread   bool            // the file could not be read: it may have the missing settings
}

func (l *loader) apply(s setting, values []string, from Source) {
	err := notText(values)
	if err == nil {
		err = s.set(values)
	}
	if err != nil {
		l.refuse(s.name, strings.Join(values, "; "), from, err.Error())
		return
	}
	l.config.sources[s.name] = from
}

// notText returns an error if a value is not UTF-8. The system allows such flags and
// variables, but a YAML file cannot hold the value.
func notText(values []string) error {
	for _, v := range values {
		if !utf8.ValidString(v) {
			return errors.New("it is not UTF-8")
		}
	}
	return nil
}

func (l *loader) refuse(field, value string, from Source, reason string) {
	l.refused[field] = true
	l.problems = append(l.problems, Problem{Field: field, Value: value, Source: from, Reason: reason})
}

// readFile reads the file that --config or the environment names, if any. It returns
// an error only if ctx ended.
func (l *loader) readFile(ctx context.Context, flags *Flags) error {
	from := Source("flag --" + nameConfig)
	name := ""
	if given := flags.given[nameConfig]; len(given) > 0 {
		name = given[len(given)-1]
	} else if value, ok := l.env[envPrefix+"CONFIG"]; ok {
		name, from = value, "environment "+envPrefix+"CONFIG"
	} else {
		return nil
	}
	content, err := readBounded(ctx, name)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s %q (%s): stopped while reading it: %w", nameConfig, name, from, ctx.Err())
	case err != nil:
		l.refuseFile(name, from, err.Error())
	default:
		l.config.File = name
		l.readYAML(name, content)
	}
	return nil
}

func (l *loader) refuseFile(name string, from Source, reason string) {
	l.unread = true
	l.refuse(nameConfig, name, from, reason)
}

// refuseName refuses an unknown name, and suggests the most similar setting. shown
// returns the form of a setting's name in that source.
func (l *loader) refuseName(name, value string, from Source, shown func(setting) string, note string) {
	reason := "no setting has this name; `stoutd --help` lists them"
	names := make([]string, len(l.table))
	for i, s := range l.table {
		names[i] = s.name
	}
	meant := suggest.Nearest(strings.TrimPrefix(name, envPrefix), names)
	if i := slices.Index(names, meant); i >= 0 {
		reason = fmt.Sprintf("no setting has this name; did you mean %s?", shown(l.table[i]))
		l.sought[meant] = true
	}
	l.refuse(name, value, from, reason+note)
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
		if s.list != nil {
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
		note := ""
		if strings.HasPrefix(name, envPrefix+"SERVICE_") || strings.HasPrefix(name, envPrefix+"PORT") {
			note = " (Kubernetes sets such variables for a service called stoutd: set enableServiceLinks: false)"
		}
		l.refuseName(name, l.env[name], "environment", setting.env, note)
	}
}

func (l *loader) readFlags(flags *Flags) {
	for _, s := range l.table {
		if values := flags.given[s.name]; len(values) > 0 {
			l.apply(s, values, Source("flag --"+s.name))
		}
	}
}

// stoutdVariables returns the variables with the prefix of stoutd.
func stoutdVariables(environ []string) map[string]string {
	env := map[string]string{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	return env
}

// derive sets the missing values that follow from others.
func (c *Config) derive() {
	if !c.given("election-timeout") && c.given("heartbeat-timeout") {
		c.ElectionTimeout = c.HeartbeatTimeout
		c.sources["election-timeout"] = Source("default, as " + c.name(&c.HeartbeatTimeout))
	}
	if !c.given("master-lease") && c.given("heartbeat-timeout") {
		c.MasterLease = min(c.HeartbeatTimeout*13/10, lease.MaxTerm)
		c.sources["master-lease"] = Source("default, 1.3 × " + c.name(&c.HeartbeatTimeout))
	}
	if !c.given("api-client-auth") && c.APIClientCA != "" {
		c.APIClientAuth = ClientAuthOptional
		c.sources["api-client-auth"] = Source("default, with " + c.name(&c.APIClientCA))
	}
	if c.Dev {
		c.deriveDev()
	} else {
		c.deriveJoin()
	}
}

// deriveDev describes the cell of one replica that Dev asks for.
func (c *Config) deriveDev() {
	for _, name := range []string{"cell", "id", nameReplica} {
		if c.given(name) {
			return // refused by validate
		}
		c.sources[name] = sourceDev
	}
	if !c.given("log-format") {
		c.LogFormat = "console" // a person reads it
		c.sources["log-format"] = sourceDev
	}
	c.Cell, c.ID = "dev", "r1"
	c.Replicas = []Replica{{
		ID:       c.ID,
		RaftAddr: dialable(c.RaftListen),
		APIURL:   c.scheme() + "://" + dialable(c.APIListen),
	}}
}
