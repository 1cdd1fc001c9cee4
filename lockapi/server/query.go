package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoutlock/stout/lockapi"
)

// Names of query parameters.
const (
	paramConsistency = "consistency"
	paramLimit       = "limit"
	paramAfter       = "after"
	paramPrefix      = "prefix"
	paramSession     = "session"
	paramHandle      = "handle"
	paramToken       = "token"
	paramValue       = "value"
	paramWaiters     = "waiters"
	paramForce       = "force"
)

// query holds the parameters of a request, each given once and known.
type query map[string]string

// query reads the parameters strictly; allowed are the names that the
// operation knows.
func (x *exchange) query(allowed ...string) (query, error) {
	raw := x.c.Request.URL.RawQuery
	if raw == "" {
		return nil, nil
	}
	q := query{}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, err := parameter(pair)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(allowed, name) {
			return nil, lockapi.Invalid(lockapi.Clip(name), "there is no parameter %q here; %s", lockapi.Clip(name), choices(allowed))
		}
		if _, twice := q[name]; twice {
			return nil, lockapi.Invalid(name, "parameter %s is given more than once", name)
		}
		q[name] = value
	}
	return q, nil
}

func choices(allowed []string) string {
	if len(allowed) == 0 {
		return "this call takes none"
	}
	return "this call takes " + strings.Join(allowed, ", ")
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
	value, given := q[paramConsistency]
	switch {
	case !given || value == lockapi.ConsistencyLinear:
		return false, nil
	case value == lockapi.ConsistencyStale:
		return true, nil
	}
	return false, lockapi.Invalid(paramConsistency, "consistency is %q; it is %q or %q",
		lockapi.Clip(value), lockapi.ConsistencyStale, lockapi.ConsistencyLinear)
}

// limit is the longest page that the caller takes.
func (q query) limit() (int, error) {
	value, given := q[paramLimit]
	if !given {
		return lockapi.DefaultListLimit, nil
	}
	n, err := wholeNumber(paramLimit, value, 1, lockapi.MaxListLimit)
	return int(n), err
}

// waiters is how many places of a queue the caller wants to see.
func (q query) waiters() (int, error) {
	value, given := q[paramWaiters]
	if !given {
		return 0, nil
	}
	n, err := wholeNumber(paramWaiters, value, 0, lockapi.MaxWaiters)
	return int(n), err
}

// flag reads true or false; false where it is not given.
func (q query) flag(name string) (bool, error) {
	switch value, given := q[name]; {
	case !given || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	default:
		return false, lockapi.Invalid(name, "%s is %q; it is \"true\" or \"false\"", name, lockapi.Clip(value))
	}
}

// token is the grant that a release is for; 0 where any is meant.
func (q query) token() (uint64, error) {
	value, given := q[paramToken]
	if !given {
		return 0, nil
	}
	return wholeNumber(paramToken, value, 1, lockapi.MaxToken)
}

// wholeNumber reads a decimal number within least..most, without sign or leading
// zeros.
func wholeNumber(name, value string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < least || n > most || strconv.FormatUint(n, 10) != value {
		return 0, lockapi.Invalid(name, "%s is %q; it must be a whole number within %d..%d", name, lockapi.Clip(value), least, most)
	}
	return n, nil
}
