package lockapi

// Roles of a replica.
const (
	RoleMaster   = "master"
	RoleReplica  = "replica"
	RoleNonvoter = "nonvoter"
	RoleNone     = "none" // the replica's directory is not a member yet
)

// Cell is the state of a cell. The counts come from the master and are absent
// without one.
type Cell struct {
	Cell     string     `json:"cell"`
	Epoch    uint64     `json:"epoch"`
	Master   *MasterRef `json:"master"`
	Lease    Lease      `json:"lease"`
	Replicas []Replica  `json:"replicas"`
	Sessions *int       `json:"sessions,omitempty"`
	Locks    *int       `json:"locks,omitempty"`
	Waiters  *int       `json:"waiters,omitempty"`
	Files    *int       `json:"files,omitempty"`
	Access   bool       `json:"access"` // whether access control is on
	// Level determines which releases can run in the cell: only releases that know this level. The master raises it to the highest level that all members know;
	// see docs/operations.md, Upgrades.
	Level uint64 `json:"level"`

	ContentBytes *int64 `json:"content_bytes,omitempty"` // of all files
}

// MasterRef names the master.
type MasterRef struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Lease is the master's lease.
type Lease struct {
	Held         bool  `json:"held"`
	TermMS       int64 `json:"term_ms"`
	RemainingMS  int64 `json:"remaining_ms"`
	RenewedAgoMS int64 `json:"renewed_ago_ms"`
}

// Replica is one member of the cell. Directory, Version and UptimeMS are
// present only in the replica's own answer at RouteReplica.
type Replica struct {
	ID            string   `json:"id"`
	URL           string   `json:"url"`
	RaftAddr      string   `json:"raft_addr"`
	Role          string   `json:"role"`
	Healthy       bool     `json:"healthy"`
	LastContactMS int64    `json:"last_contact_ms"`
	AppliedIndex  uint64   `json:"applied_index"`
	Promise       *Promise `json:"promise"`
	Directory     string   `json:"directory,omitempty"`
	Version       string   `json:"version,omitempty"`
	UptimeMS      *int64   `json:"uptime_ms,omitempty"`
	// Fault is why the replica does not follow the master, as far as the master
	// knows.
	Fault string `json:"fault,omitempty"`
	// Unreached lists the members that do not answer this replica's calls.
	Unreached []string `json:"unreached,omitempty"`
}

// Promise is a replica's promise to accept no master other than the one named,
// and its remaining time.
type Promise struct {
	To          string `json:"to"`
	RemainingMS int64  `json:"remaining_ms"`
}

// TransferRequest makes another replica master: any suitable one if To is
// empty.
type TransferRequest struct {
	To string `json:"to"`
}

// Transferred names the master after a transfer.
type Transferred struct {
	Master string `json:"master"`
}
