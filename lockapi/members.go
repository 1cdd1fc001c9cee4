package lockapi

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What a member does in the replicated log.
const (
	SuffrageVoter    = "voter"    // it counts towards majorities
	SuffrageNonvoter = "nonvoter" // it gets the log and has no vote
)

// Members is who makes up a cell.
type Members struct {
	CellID  string   `json:"cell_id"`
	Members []Member `json:"members"`
	// Tolerates is how many more of the members that are well now may fail with
	// the cell going on; 0 also where there is no majority as it is.
	Tolerates int `json:"tolerates"`
}

// Member is one member of a cell: a name and a data directory. A directory that
// was wiped is another one. While one directory takes another's place, both are
// listed under the one id.
type Member struct {
	ID           string `json:"id"`
	Directory    string `json:"directory"`
	RaftAddr     string `json:"raft_addr"`
	URL          string `json:"url"`
	Suffrage     string `json:"suffrage"`
	Role         string `json:"role"` // RoleMaster or RoleReplica; whether it votes is its Suffrage
	Healthy      bool   `json:"healthy"`
	AppliedIndex uint64 `json:"applied_index"`
	// Behind is how many entries the replica that answers has applied and this
	// one has not: the master, but for a stale read.
	Behind uint64 `json:"behind"`
	// Version is the release that it runs; empty where it does not answer.
	Version string    `json:"version"`
	Since   time.Time `json:"since"` // when it became a member, by its master's clock
}

// ReplaceMemberRequest puts another data directory in a member's place.
type ReplaceMemberRequest struct {
	// Directory is the id of the new one, as /readyz of its replica shows it.
	Directory string `json:"directory"`
	// InPlaceOf is the directory that the member has now, the last one that the list of
	// members shows for its id. Where that is another one the request is refused as a
	// conflict: it was made before a newer change. Empty for whichever it is.
	InPlaceOf string `json:"in_place_of,omitempty"`
	// Force overrides the judgement that too few of the members are well. It
	// travels in the query.
	Force bool `json:"-" query:"force"`
}

// AddMemberRequest has a replica become a member of the cell.
type AddMemberRequest struct {
	// ID and Directory are the name of the replica and its data directory, as its
	// /readyz shows them.
	ID        string `json:"id"`
	Directory string `json:"directory"`
	RaftAddr  string `json:"raft_addr"` // host:port at which the other replicas reach it
	URL       string `json:"url"`       // base URL of its API
	// Suffrage is SuffrageNonvoter for a replica that is to have no vote. Any other
	// has one as soon as it has caught up.
	Suffrage string `json:"suffrage,omitempty"`
}

// SetMemberRequest changes where a member is reached, or whether it votes. What
// is nil stays as it is.
type SetMemberRequest struct {
	RaftAddr *string `json:"raft_addr,omitempty"`
	URL      *string `json:"url,omitempty"`
	Suffrage *string `json:"suffrage,omitempty"`
	// Force overrides the judgement that too few of the members would be well, where
	// one is to lose its vote. It travels in the query.
	Force bool `json:"-" query:"force"`
}

// RemoveMemberRequest says how a member is to be removed.
type RemoveMemberRequest struct {
	// Directory is the directory that the member has now, as ReplaceMemberRequest's
	// InPlaceOf. Empty for whichever it is.
	Directory string `query:"directory"`
	// Force overrides the judgement that too few of the others are well.
	Force bool `query:"force"`
}

// MemberChange is a change of the members that has begun.
type MemberChange struct {
	ID        string `json:"id"`
	Directory string `json:"directory"`
}

// MemberRemoved says that a member is none any more.
type MemberRemoved struct {
	ID      string `json:"id"`
	Removed bool   `json:"removed"`
}

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
func (r *ReplaceMemberRequest) Validate() error {
	if err := ValidateDirectory(r.Directory); err != nil || r.InPlaceOf == "" {
		return err
	}
	return validateDirectory("in_place_of", r.InPlaceOf)
}

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
func (r *RemoveMemberRequest) Validate() error {
	if r.Directory == "" {
		return nil
	}
	return ValidateDirectory(r.Directory)
}

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
func (r *AddMemberRequest) Validate() error {
	if err := ValidateMemberID(r.ID); err != nil {
		return err
	}
	if err := ValidateDirectory(r.Directory); err != nil {
		return err
	}
	if err := ValidateRaftAddr(r.RaftAddr); err != nil {
		return err
	}
	if err := ValidateMemberURL(r.URL); err != nil {
		return err
	}
	if r.Suffrage == "" {
		return nil
	}
	return validateSuffrage(r.Suffrage)
}

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
func (r *SetMemberRequest) Validate() error {
	if r.RaftAddr == nil && r.URL == nil && r.Suffrage == nil {
		return Invalid("raft_addr", "nothing is to be changed; give raft_addr, url or suffrage")
	}
	if r.RaftAddr != nil {
		if err := ValidateRaftAddr(*r.RaftAddr); err != nil {
			return err
		}
	}
	if r.URL != nil {
		if err := ValidateMemberURL(*r.URL); err != nil {
			return err
		}
	}
	if r.Suffrage != nil {
		return validateSuffrage(*r.Suffrage)
	}
	return nil
}

func validateSuffrage(s string) error {
	if s != SuffrageVoter && s != SuffrageNonvoter {
		return Invalid("suffrage", "suffrage is %q; it is %s or %s", Clip(s), SuffrageVoter, SuffrageNonvoter)
	}
	return nil
}

// ValidateMemberID reports what is wrong with the name of a member, or nil.
func ValidateMemberID(id string) error {
	if !memberID.MatchString(id) {
		return Invalid("id", "id is %q; the name of a replica is 1 to %d of A-Z a-z 0-9 . _ -, beginning with a letter or a digit", Clip(id), MaxMemberIDBytes)
	}
	return nil
}

var memberID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// maxAddressBytes bounds an address of a member; no name of a host is longer.
const maxAddressBytes = 512

// ValidateRaftAddr reports what is wrong with the address at which replicas reach
// each other, or nil.
func ValidateRaftAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || bad != nil || n == 0 || len(addr) > maxAddressBytes || strings.ContainsAny(addr, "@ \t\r\n/\x00"):
		return Invalid("raft_addr", "raft_addr is %q; it is host:port, as the other replicas dial it", Clip(addr))
	case everyInterface(host):
		return Invalid("raft_addr", "raft_addr is %q; the other replicas must be able to dial it, so it needs a host", Clip(addr))
	}
	return nil
}

// ValidateMemberURL reports what is wrong with the base URL of a member's API, or
// nil.
func ValidateMemberURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || len(raw) > maxAddressBytes ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return Invalid("url", "url is %q; it is http:// or https:// with a host and a port, and nothing more", Clip(raw))
	case everyInterface(u.Hostname()):
		return Invalid("url", "url is %q; clients must be able to dial it, so it needs a host", Clip(raw))
	}
	return nil
}

// everyInterface reports whether a host stands for all of a machine's
// addresses, so that nobody else can dial it.
func everyInterface(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// URLs is where the replicas of a cell are called. It is for clients, so that they
// find the cell when those that they were given are gone: how the members are, and
// where they reach each other, it does not tell.
type URLs struct {
	CellID   string       `json:"cell_id"`
	Replicas []ReplicaURL `json:"replicas"` // those without a vote, too
}

// ReplicaURL is the base URL of a replica's API.
type ReplicaURL struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Joining is what a replica is told that is to become a member: where to ask for
// more.
type Joining struct {
	CellID   string   `json:"cell_id"`
	Replicas []Joined `json:"replicas"`
}

// Joined is a member as other replicas reach it.
type Joined struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft_addr"`
}

// MaxMembers bounds the members of a cell. Each entry of the log goes to all of
// them, and waits for a majority of those that vote.
const MaxMembers = 15

// MaxMemberIDBytes bounds the name of a member.
const MaxMemberIDBytes = 64

// DirectoryDigits is how long the id of a data directory is.
const DirectoryDigits = 16

// ValidateDirectory reports what is wrong with the id of a data directory, or
// nil.
func ValidateDirectory(id string) error { return validateDirectory("directory", id) }

func validateDirectory(field, id string) error {
	if len(id) != DirectoryDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return Invalid(field, "%s is %q; it is %d hexadecimal digits in small letters, as /readyz of the replica tells them",
			field, Clip(id), DirectoryDigits)
	}
	return nil
}
