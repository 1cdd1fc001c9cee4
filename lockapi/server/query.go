package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// param is a parameter of a query.
type param struct {
	name string
	need string // what it says, where there has to be one
	many bool   // it may be given more than once
}

// All parameters there are, as routes name them.
var (
	paramConsistency = param{name: "consistency"}
	paramLimit       = param{name: "limit"}
	paramAfter       = param{name: "after"}
	paramPrefix      = param{name: "prefix"}
	paramToken       = param{name: "token"}
	paramDirectory   = param{name: "directory"}
	paramCell        = param{name: "cell", need: "the name of the cell"}
	paramOnBehalf    = param{name: "session"}
	paramEphemeral   = param{name: "ephemeral"}
	paramSequencer   = param{name: "sequencer", many: true}
	paramDelimiter   = param{name: "delimiter"}
	paramContent     = param{name: "content"}
	paramAs          = param{name: "as"}
	paramPaths       = param{name: "path", many: true}
	paramPrefixes    = param{name: "prefix", many: true}
	paramTypes       = param{name: "types"}
	paramWaitMS      = param{name: "wait_ms"}
	paramBelow       = param{name: "prefix", need: "the directory whose files are to be deleted"}
)

// query holds the parameters of a request, each known, by name. Of one that may be
// given more than once the values are parted by NUL, which none of them has.
type query map[string]string

// all are the values of a parameter that may be given more than once.
func (q query) all(p param) []string {
	joined, given := q[p.name]
	if !given {
		return nil
	}
	return strings.Split(joined, "\x00")
}

// of is the value of a parameter, "" where it is not given.
func (q query) of(p param) string { return q[p.name] }

// parseQuery reads the parameters strictly; known are those of the route.
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
			return nil, lockapi.Invalid(lockapi.Clip(name), "there is no parameter %q here; %s", lockapi.Clip(name), choices(known))
		}
		if known[i].many && strings.Contains(value, "\x00") {
			return nil, lockapi.Invalid(name, "parameter %s has a NUL", name)
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
		if p.need != "" && q.of(p) == "" {
			return nil, lockapi.Invalid(p.name, "parameter %s is required: %s", p.name, p.need)
		}
	}
	return q, nil
}

func choices(known []param) string {
	if len(known) == 0 {
		return "this call takes none"
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	return "this call takes " + strings.Join(names, ", ")
}

// parameter decodes one name=value.
func parameter(pair string) (name, value string, err error) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err = url.QueryUnescape(rawName)
	if err != nil || name == "" || !utf8.ValidString(name) || strings.Contains(rawName, ";") {
		return "", "", lockapi.Invalid("query", "the name %q of a parameter is malformed", lockapi.Clip(rawName))
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

// stale reports whether the caller is content with a replica's own state.
func (q query) stale() (bool, error) {
	value, given := q[paramConsistency.name]
	switch {
	case !given || value == lockapi.ConsistencyLinear:
		return false, nil
	case value == lockapi.ConsistencyStale:
		return true, nil
	}
	return false, lockapi.Invalid(paramConsistency.name, "consistency is %q; it is %q or %q",
		lockapi.Clip(value), lockapi.ConsistencyStale, lockapi.ConsistencyLinear)
}

// limit is the longest page that the caller takes.
func (q query) limit() (int, error) {
	value, given := q[paramLimit.name]
	if !given {
		return lockapi.DefaultListLimit, nil
	}
	n, err := wholeNumber(paramLimit.name, value, 1, lockapi.MaxListLimit)
	return int(n), err
}

// flag reads true or false; false where it is not given.
func (q query) flag(p param) (bool, error) {
	switch value, given := q[p.name]; {
	case !given || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, lockapi.Invalid(p.name, "%s is %q; it is \"true\" or \"false\"", p.name, lockapi.Clip(value))
	}
}

// choice reads true or false; nil where it is not given.
func (q query) choice(p param) (*bool, error) {
	if _, given := q[p.name]; !given {
		return nil, nil
	}
	value, err := q.flag(p)
	return &value, err
}

// top is the path at which a list of what begins with a prefix is judged: all that it
// shows is there or below, or is judged by itself.
func top(prefix string) string {
	if trimmed := strings.TrimSuffix(prefix, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}

// checkPrefix refuses a prefix that no path can have, which would name nothing
// in silence.
func checkPrefix(prefix string) error {
	if prefix != "" && prefix[0] != '/' {
		return lockapi.Invalid(paramPrefix.name, "prefix %q begins no path: paths begin with /", lockapi.Clip(prefix))
	}
	return nil
}

// choiceOf reports whether a parameter has the only value that it may have.
func (q query) choiceOf(p param, only string) (bool, error) {
	value, given := q[p.name]
	if given && value != only {
		return false, lockapi.Invalid(p.name, "%s is %q; the only value is %q", p.name, lockapi.Clip(value), only)
	}
	return given, nil
}

// onBehalf is the session that a write is for, empty for none.
func (q query) onBehalf() (string, error) {
	session, given := q[paramOnBehalf.name]
	if given && session == "" {
		return "", lockapi.Invalid(paramOnBehalf.name, "session is empty; it is the id of an open session")
	}
	return session, nil
}

// token is the grant that a release is for; 0 where any is meant.
func (q query) token() (uint64, error) {
	value, given := q[paramToken.name]
	if !given {
		return 0, nil
	}
	return wholeNumber(paramToken.name, value, 1, lockapi.MaxToken)
}

// wholeNumber reads a decimal number within least..most, without sign or
// leading zeros.
func wholeNumber(name, value string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < least || n > most || strconv.FormatUint(n, 10) != value {
		return 0, lockapi.Invalid(name, "%s is %q; it must be a whole number within %d..%d", name, lockapi.Clip(value), least, most)
	}
	return n, nil
}
