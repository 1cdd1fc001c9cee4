package audit

import (
	"time"

	"github.com/rs/zerolog"
)

// Record is one line. It has no field for a secret, a content, or any other
// text that a caller may choose freely, except the path of a node.
type Record struct {
	Principal, How string // the caller, and how that was proved
	Remote         string // host and port of the caller
	Via            string // name of the replica that claims to have forwarded the call; omitted without one
	Method, Route  string // Route is the path with the names of its variables
	Path           string // of the node that the call is about; omitted without one
	Status         int    // of the answer; 0 if the call is about to take effect
	Code           string // of a refusal
	Adopted        string // sessions that now belong to the principal because of the call, separated by spaces; omitted without one
	RequestID      string
	Epoch          uint64
	Revision       uint64 // of the cell, when the line was made

	// These are omitted in the line of a call.

	Event  string // what has happened, if not a call
	Member string // the replica that it is about
	Count  uint64 // of lines or denials without a line of their own
}

// Events of records that do not belong to a call. Package master names the
// master's.
const (
	Started    = "audit_started"      // this replica writes the log from now on
	Lost       = "audit_lost"         // Count lines before this one could not be written
	Suppressed = "denials_suppressed" // Count denials of Remote and, if known, Principal in one second, beyond those with lines
)

// timeForm always has all digits, so that lines sort.
const timeForm = "2006-01-02T15:04:05.000000Z"

func (r *Record) line(to *zerolog.Logger, now time.Time) {
	e := to.Log().Str("time", now.UTC().Format(timeForm))
	if r.Event != "" {
		e = e.Str("event", r.Event)
		if r.Member != "" {
			e = e.Str("member", r.Member)
		}
		if r.Count > 0 {
			e = e.Uint64("count", r.Count)
		}
	}
	e = e.Str("principal", r.Principal).Str("how", r.How).Str("remote", r.Remote)
	if r.Via != "" {
		e = e.Str("via", r.Via)
	}
	e = e.Str("method", r.Method).Str("route", r.Route)
	if r.Path != "" {
		e = e.Str("path", r.Path)
	}
	if r.Adopted != "" {
		e = e.Str("adopted", r.Adopted)
	}
	e.Int("status", r.Status).Str("code", r.Code).Str("request_id", r.RequestID).
		Uint64("epoch", r.Epoch).Uint64("revision", r.Revision).Send()
}
