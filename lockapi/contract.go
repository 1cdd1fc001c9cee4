package lockapi

import (
	"strings"
	"unicode/utf8"
)

// Header names of the contract.
const (
	HeaderEpoch          = "Stout-Epoch"      // reply: the master's epoch
	HeaderMaster         = "Stout-Master"     // reply: base URL of the master's API, if known
	HeaderCell           = "Stout-Cell"       // reply: the cell's id
	HeaderRequestID      = "Stout-Request-Id" // reply: id of the call in the audit log, if it is logged
	HeaderStale          = "Stout-Stale"      // reply: "true" if the answer may be out of date
	HeaderForward        = "Stout-Forward"    // request: "never" asks for 421 instead of forwarding
	HeaderIdempotencyKey = "Idempotency-Key"  // request: lets the request that opens a session be repeated
	ForwardNever         = "never"
	ConsistencyStale     = "stale" // value of the query parameter consistency
	ConsistencyLinear    = "linearizable"
)

// Routes of the contract. A lock's path follows RouteLocks directly.
const (
	RouteSessions   = "/v1/sessions"
	RouteKeepalives = "/v1/keepalives"
	RouteLocks      = "/v1/locks"
	RouteSequencers = "/v1/sequencers"
	RouteCell       = "/v1/cell"
	RouteReplica    = "/v1/replica"
	RouteMembers    = "/v1/members"
	RouteJoin       = "/v1/join"
	RouteTransfer   = "/v1/cell/transfer"
	RouteURLs       = "/v1/cell/urls"
	RouteOpenAPI    = "/v1/openapi.yaml"
	RouteLive       = "/livez"
	RouteReady      = "/readyz"
	RouteMetrics    = "/metrics"
	RoutePage       = "/ui/" // web page; its files are below
)

// Bounds and defaults of requests.
const (
	MaxBodyBytes           = 64 << 10
	DefaultTTLMS           = 12_000
	MinTTLMS               = 1_000
	MaxTTLMS               = 86_400_000
	MaxNameBytes           = 128
	MaxMetaPairs           = 16
	MaxHandleBytes         = 64
	MaxWaitMS              = 600_000
	MaxLockDelayMS         = 60_000
	MaxLimit               = 1_000_000
	MaxPriority            = 100
	MaxIdempotencyKeyBytes = 128
	DefaultListLimit       = 100
	MaxListLimit           = 1_000
	MaxWaiters             = 1_000 // queue positions in one reply
)

// Bounds of replies. If metadata does not fit, it is omitted for whole
// sessions; reading the session returns it.
const (
	MaxHolders        = 10_000   // holders of a lock in a reply
	MaxReplyMeta      = 64 << 10 // bytes of metadata, as JSON, for all holders and waiters in a reply
	MaxRefusalHolders = 100      // holders in a lock_held
	MaxRefusalMeta    = 4 << 10  // bytes of metadata in a lock_held
	PageBytes         = 1 << 20  // a page ends with the item that brings it to this size
)

// ValidateKey reports an invalid idempotency key, or nil.
func ValidateKey(key string) error {
	if len(key) > MaxIdempotencyKeyBytes {
		return Invalid(HeaderIdempotencyKey, "the key has %d bytes; at most %d are allowed", len(key), MaxIdempotencyKeyBytes)
	}
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return Invalid(HeaderIdempotencyKey, "the key must be valid UTF-8 without NUL")
	}
	return nil
}

func within(field string, value, low, high int64) error {
	if value < low || value > high {
		return Invalid(field, "%s is %d; it must be within %d..%d", field, value, low, high)
	}
	return nil
}
