package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

type param struct {
	name string
	need string // meaning of a required parameter; empty for an optional one
	many bool   // it may be repeated
}

// The parameters that routes use.
var (
	paramConsistency = param{name: "consistency"}
	paramLimit       = param{name: "limit"}
	paramAfter       = param{name: "after"}
	paramDirectory   = param{name: "directory"}
	paramCell        = param{name: "cell", need: "the name of the cell"}
	paramOnBehalf    = param{name: "session"}
	paramEphemeral   = param{name: "ephemeral"}
	paramSequencer   = param{name: "sequencer", many: true}
	paramContent     = param{name: "content"}
	paramAs          = param{name: "as"}
	paramPaths       = param{name: "path", many: true}
	paramPrefixes    = param{name: "prefix", many: true}
	paramTypes       = param{name: "types"}
	paramWaitMS      = param{name: "wait_ms"}
	paramBelow       = param{name: "prefix", need: "the directory of the files to delete"}
)

// query maps the names of known parameters to their values. Values of a
// repeated parameter are separated by NUL, which no value contains.
type query map[string]string

// all returns the values of a parameter that may be repeated.
func (q query) all(p param) []string {
	joined, given := q[p.name]
	if !given {
		return nil
	}
	return strings.Split(joined, "\x00")
}

// parseQuery parses the parameters strictly; known are the route's parameters.
func parseQuery(raw string, known []param) (query, error) {
	var q query
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, err := parameter(pair)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(known, func(p param) bool { return p.name == name })
		if i < 0 {
			return nil, lockapi.Invalid(lockapi.Clip(name), "the parameter %q is unknown here; %s", lockapi.Clip(name), choices(known))
		}
		if known[i].many && strings.Contains(value, "\x00") {
			return nil, lockapi.Invalid(name, "parameter %s contains a NUL, which is not allowed", name)
		}
		before, twice := q[name]
		if twice && known[i].many {
			q[name] = before + "\x00" + value
			continue
		}
		if twice {
			return nil, lockapi.Invalid(name, "parameter %s is given more than once", name)
		}
		if q == nil {
			q = query{}
		}
		q[name] = value
	}
	for _, p := range known {
		if p.need != "" && q[p.name] == "" {
			return nil, lockapi.Invalid(p.name, "parameter %s is missing; give %s", p.name, p.need)
		}
	}
	return q, nil
}

func choices(known []param) string {
	if len(known) == 0 {
		return "this call has no parameters"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return "this call has " + strings.Join(names, ", ")
}

func parameter(pair string) (name, value string, err error) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err = url.QueryUnescape(rawName)
	if err != nil || name == "" || !utf8.ValidString(name) || strings.Contains(rawName, ";") {
		return "", "", lockapi.Invalid("query", "the parameter name %q is malformed", lockapi.Clip(rawName))
	}
	value, err = url.QueryUnescape(rawValue)
	switch {
	case err != nil:
		return "", "", lockapi.Invalid(lockapi.Clip(name), "parameter %s: %v", lockapi.Clip(name), err)
	case strings.Contains(rawValue, ";"):
		return "", "", lockapi.Invalid(lockapi.Clip(name), "parameter %s has a bare %q; write %%3B", lockapi.Clip(name), ";")
	case !utf8.ValidString(value):
		return "", "", lockapi.Invalid(lockapi.Clip(name), "parameter %s is not valid UTF-8", lockapi.Clip(name))
	}
	return name, value, nil
}

// stale reports whether the caller accepts a replica's own state.
func (q query) stale() (bool, error) {
	value, given := q[paramConsistency.name]
	switch {
	case !given || value == lockapi.ConsistencyLinear:
		return false, nil
	case value == lockapi.ConsistencyStale:
		return true, nil
	}
	return false, lockapi.Invalid(paramConsistency.name, "consistency is %q; it must be %q or %q",
		lockapi.Clip(value), lockapi.ConsistencyStale, lockapi.ConsistencyLinear)
}

// number returns the value of a parameter within least..most, or otherwise if it
// is not given.
func (q query) number(p param, least, most, otherwise uint64) (uint64, error) {
	if value, given := q[p.name]; given {
		return wholeNumber(p.name, value, least, most)
	}
	return otherwise, nil
}

// limit returns the length of the longest page that the caller accepts.
func (q query) limit() (int, error) {
	n, err := q.number(paramLimit, 1, lockapi.MaxListLimit, lockapi.DefaultListLimit)
	return int(n), err
}

// flag parses true or false; false if it is not given.
func (q query) flag(p param) (bool, error) {
	switch value, given := q[p.name]; {
	case !given || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, lockapi.Invalid(p.name, "%s is %q; it must be \"true\" or \"false\"", p.name, lockapi.Clip(value))
	}
}

// choice parses true or false; nil if it is not given.
func (q query) choice(p param) (*bool, error) {
	if _, given := q[p.name]; !given {
		return nil, nil
	}
	value, err := q.flag(p)
	return &value, err
}

// top returns the path at which the right to list a prefix is checked. All
// entries are at or below it, or are checked separately.
func top(prefix string) string {
	if trimmed := strings.TrimSuffix(prefix, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}

// checkPrefix refuses a prefix that no path can have. Otherwise such a prefix
// would silently match nothing.
func checkPrefix(prefix string) error {
	if prefix != "" && prefix[0] != '/' {
		return lockapi.Invalid(paramPrefixes.name, "prefix %q matches no path; a prefix must begin with /", lockapi.Clip(prefix))
	}
	return nil
}

// choiceOf reports whether a parameter is given. Its only valid value is the
// argument only.
func (q query) choiceOf(p param, only string) (bool, error) {
	value, given := q[p.name]
	if given && value != only {
		return false, lockapi.Invalid(p.name, "%s is %q; it must be %q", p.name, lockapi.Clip(value), only)
	}
	return given, nil
}

// onBehalf returns the session that owns a write, or "".
func (q query) onBehalf() (string, error) {
	session, given := q[paramOnBehalf.name]
	if given && session == "" {
		return "", lockapi.Invalid(paramOnBehalf.name, "session is empty; give the id of an open session, or omit it")
	}
	return session, nil
}

// wholeNumber parses a decimal number within least..most, without sign or
// leading zeros.
func wholeNumber(name, value string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < least || n > most || strconv.FormatUint(n, 10) != value {
		return 0, lockapi.Invalid(name, "%s is %q; it must be a whole number within %d..%d", name, lockapi.Clip(value), least, most)
	}
	return n, nil
}
