package history

import (
	"fmt"
	"strings"

	"github.com/stoutlock/stout/lockapi"
)

// Kind is the kind of an attempt.
type Kind string

// The kinds of calls that are recorded.
const (
	Acquire   Kind = "acquire"
	Release   Kind = "release"
	Read      Kind = "read"
	Sequencer Kind = "sequencer"
	Open      Kind = "open"
	Keepalive Kind = "keepalive"
	Close     Kind = "close"

	Write    Kind = "write" // of a file; sequential ones, too
	Delete   Kind = "delete"
	Get      Kind = "get"
	Transact Kind = "transaction"

	List        Kind = "list" // of all files below a directory
	DeleteBelow Kind = "delete below"

	KeyRead   Kind = "key read" // through the door for Consul's clients
	KeyChange Kind = "key change"
)

// Outcome is the result of an attempt.
type Outcome string

// The outcomes of attempts.
const (
	Done     Outcome = "done"      // granted, released, read, valid, opened, extended, closed
	Queued   Outcome = "queued"    // acquire: 202
	Refused  Outcome = "refused"   // acquire: lock_held or lock_delayed; files: precondition_failed; keys: false, or 409
	NotHeld  Outcome = "not held"  // files: a guard is not held
	Nothing  Outcome = "nothing"   // release: there was nothing to release; sequencer: not valid
	Gone     Outcome = "gone"      // the session has ended
	NoEffect Outcome = "no effect" // for certain: not delivered, no_master, not_master, too_many
	Unknown  Outcome = "unknown"   // the answer was lost, or outcome_unknown
	Wrong    Outcome = "wrong"     // an answer outside the contract, or one that these calls cannot get
)

// Attempt is one HTTP request and its answer. Call and Return are nanoseconds
// since the record began, on the machine's monotonic clock.
type Attempt struct {
	Client  string  `json:"client"`
	Kind    Kind    `json:"kind"`
	Outcome Outcome `json:"outcome"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return"`
	Host    string  `json:"host"` // of the replica, or the proxy, that was called

	Path    string       `json:"path,omitempty"`
	Session string       `json:"session,omitempty"`
	Handle  string       `json:"handle,omitempty"`
	Mode    lockapi.Mode `json:"mode,omitempty"`
	Limit   int64        `json:"limit,omitempty"`
	WaitMS  int64        `json:"wait_ms,omitempty"`
	Queue   bool         `json:"queue,omitempty"`
	DelayMS int64        `json:"lock_delay_ms,omitempty"`
	Key     string       `json:"key,omitempty"` // idempotency key of an open, or a write

	Files *FileCall `json:"files,omitempty"` // for the kinds about files
	Keys  *KeyCall  `json:"keys,omitempty"`  // for the kinds about keys
	// Deletes is set if the session that was opened deletes its keys. DelayMS is
	// their lock-delay. Delays is set if the end of a closed session leaves it.
	Deletes bool `json:"deletes,omitempty"`
	Delays  bool `json:"delays,omitempty"`

	// Token is what was granted, or what a release or a sequencer named.
	Token   uint64           `json:"token,omitempty"`
	State   string           `json:"state,omitempty"`
	Holders []lockapi.Holder `json:"holders,omitempty"` // of a read, and of a refusal
	TTLMS   int64            `json:"ttl_ms,omitempty"`
	HeldMS  int64            `json:"held_ms,omitempty"`
	Epoch   uint64           `json:"epoch,omitempty"`  // from the answer's header
	Detail  string           `json:"detail,omitempty"` // of an error
}

func (a *Attempt) who() string { return pair(a.Session, a.Handle) }

func pair(session, handle string) string { return session + "/" + handle }

// waits reports whether an acquire may have a queue position.
func (a *Attempt) waits() bool { return a.Kind == Acquire && (a.WaitMS > 0 || a.Queue) }

// reads reports whether a call changes nothing.
func (a *Attempt) reads() bool {
	return a.Kind == Read || a.Kind == Sequencer || a.Kind == Get || a.Kind == List || a.Kind == KeyRead
}

// String returns one line for a person to read.
func (a *Attempt) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.6f–%.6f %s %s %s", seconds(a.Call), seconds(a.Return), a.Client, a.Kind, a.Path)
	for _, f := range []struct {
		name  string
		value any
		show  bool
	}{
		{"session", a.Session, a.Session != ""}, {"handle", a.Handle, a.Handle != ""},
		{"mode", a.Mode, a.Mode == lockapi.Shared}, {"wait_ms", a.WaitMS, a.WaitMS != 0}, {"queue", a.Queue, a.Queue},
		{"token", a.Token, a.Token != 0},
	} {
		if f.show {
			fmt.Fprintf(&b, " %s=%v", f.name, f.value)
		}
	}
	if a.Keys != nil {
		fmt.Fprintf(&b, " %s", a.Keys)
	}
	fmt.Fprintf(&b, ": %s", a.Outcome)
	if a.Detail != "" {
		fmt.Fprintf(&b, " (%s)", a.Detail)
	}
	return b.String()
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
