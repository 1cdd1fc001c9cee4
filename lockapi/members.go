package lockapi

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kinds of members in Raft.
const (
	SuffrageVoter    = "voter"    // counts toward majorities
	SuffrageNonvoter = "nonvoter" // receives the log but has no vote
)

// Members is the membership of a cell.
type Members struct {
	CellID  string   `json:"cell_id"`
	Members []Member `json:"members"`
	// Tolerates is how many more of the healthy members may fail without
	// stopping the cell. It is also 0 if there is no majority now.
	Tolerates int `json:"tolerates"`
}

// Member is one member of a cell: a name and a data directory. A wiped
// directory is a new directory. While one directory replaces another, both are
// listed under the same id.
type Member struct {
	ID           string `json:"id"`
	Directory    string `json:"directory"`
	RaftAddr     string `json:"raft_addr"`
	URL          string `json:"url"`
	Suffrage     string `json:"suffrage"`
	Role         string `json:"role"` // RoleMaster or RoleReplica; Suffrage has the vote
	Healthy      bool   `json:"healthy"`
	AppliedIndex uint64 `json:"applied_index"`
	// Behind counts the entries that the answering replica has applied and this
	// member has not. The master answers, except in a stale read.
	Behind uint64 `json:"behind"`
	// Version is the release that the member runs; empty if it does not answer.
	Version string    `json:"version"`
	Since   time.Time `json:"since"` // when it became a member, by the master's clock
}

// ReplaceMemberRequest replaces the data directory of a member.
type ReplaceMemberRequest struct {
	// Directory is the id of the new directory, as its replica's /readyz shows
	// it.
	Directory string `json:"directory"`
	// InPlaceOf is the present directory of the member, the last one listed for
	// its id. If the member has another directory, the request is refused with
	// conflict, since it predates a newer change. Empty means any directory.
	InPlaceOf string `json:"in_place_of,omitempty"`
	// Force permits the change even with too few healthy members. It travels in
	// the query.
	Force bool `json:"-" query:"force"`
}

// AddMemberRequest adds a replica to the cell.
type AddMemberRequest struct {
	// ID and Directory are the replica's name and data directory, as its
	// /readyz shows them.
	ID        string `json:"id"`
	Directory string `json:"directory"`
	RaftAddr  string `json:"raft_addr"` // host:port for the other replicas
	URL       string `json:"url"`       // base URL of its API
	// Suffrage is SuffrageNonvoter for a replica without a vote. Any other
	// replica gets a vote as soon as it has caught up.
	Suffrage string `json:"suffrage,omitempty"`
}

// SetMemberRequest changes a member's addresses or vote. Nil fields keep their
// values.
type SetMemberRequest struct {
	RaftAddr *string `json:"raft_addr,omitempty"`
	URL      *string `json:"url,omitempty"`
	Suffrage *string `json:"suffrage,omitempty"`
	// Force permits the removal of a vote even if too few healthy members
	// remain. It travels in the query.
	Force bool `json:"-" query:"force"`
}

// RemoveMemberRequest has the options of a removal.
type RemoveMemberRequest struct {
	// Directory is the present directory of the member, as in
	// ReplaceMemberRequest.InPlaceOf. Empty means any directory.
	Directory string `query:"directory"`
	// Force permits the removal even if too few of the others are healthy.
	Force bool `query:"force"`
}

// MemberChange reports that a change of the members has begun.
type MemberChange struct {
	ID        string `json:"id"`
	Directory string `json:"directory"`
}

// MemberRemoved reports that a member was removed.
type MemberRemoved struct {
	ID      string `json:"id"`
	Removed bool   `json:"removed"`
}

// Validate reports the first invalid field as an invalid_argument, or nil.
func (r *ReplaceMemberRequest) Validate() error {
	if err := ValidateDirectory(r.Directory); err != nil || r.InPlaceOf == "" {
		return err
	}
	return validateDirectory("in_place_of", r.InPlaceOf)
}

// Validate reports the first invalid field as an invalid_argument, or nil.
func (r *RemoveMemberRequest) Validate() error {
	if r.Directory == "" {
		return nil
	}
	return ValidateDirectory(r.Directory)
}

// Validate reports the first invalid field as an invalid_argument, or nil.
func (r *AddMemberRequest) Validate() error {
	err := cmp.Or(ValidateMemberID(r.ID), ValidateDirectory(r.Directory), ValidateRaftAddr(r.RaftAddr), ValidateMemberURL(r.URL))
	if err != nil || r.Suffrage == "" {
		return err
	}
	return validateSuffrage(r.Suffrage)
}

// Validate reports the first invalid field as an invalid_argument, or nil.
func (r *SetMemberRequest) Validate() error {
	if r.RaftAddr == nil && r.URL == nil && r.Suffrage == nil {
		return Invalid("raft_addr", "the request changes nothing; give raft_addr, url or suffrage")
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
		return Invalid("suffrage", "suffrage is %q; it must be %s or %s", Clip(s), SuffrageVoter, SuffrageNonvoter)
	}
	return nil
}

// ValidateMemberID reports an invalid name of a member, or nil.
func ValidateMemberID(id string) error {
	if !memberID.MatchString(id) {
		return Invalid("id", "id is %q; the name of a replica must be 1 to %d characters of A-Z a-z 0-9 . _ - and begin with a letter or a digit", Clip(id), MaxMemberIDBytes)
	}
	return nil
}

var memberID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// maxAddressBytes bounds the address of a member. Host names are shorter.
const maxAddressBytes = 512

// ValidateRaftAddr reports an invalid address for traffic between replicas, or
// nil.
func ValidateRaftAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || bad != nil || n == 0 || len(addr) > maxAddressBytes || strings.ContainsAny(addr, "@ \t\r\n/\x00"):
		return Invalid("raft_addr", "raft_addr is %q; it must be host:port, as the other replicas dial it", Clip(addr))
	case everyInterface(host):
		return Invalid("raft_addr", "raft_addr is %q; the other replicas must be able to dial it, so it needs a host", Clip(addr))
	}
	return nil
}

// ValidateMemberURL reports an invalid base URL of a member's API, or nil.
func ValidateMemberURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || len(raw) > maxAddressBytes ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return Invalid("url", "url is %q; it must be http:// or https:// with a host and a port, and nothing more", Clip(raw))
	case everyInterface(u.Hostname()):
		return Invalid("url", "url is %q; clients must be able to dial it, so it needs a host", Clip(raw))
	}
	return nil
}

// everyInterface reports whether a host means all addresses of a machine. Other
// machines cannot dial such a host.
func everyInterface(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// URLs has the base URLs of a cell's replicas. Clients use it to find the cell
// when the URLs in their configuration no longer work. It shows neither the
// health of the members nor their addresses for Raft.
type URLs struct {
	CellID   string       `json:"cell_id"`
	Replicas []ReplicaURL `json:"replicas"` // including members without a vote
	// MembersRevision belongs to this list. Keepalives have another one after a change.
	MembersRevision uint64 `json:"members_revision,omitempty"`
}

// ReplicaURL is the base URL of a replica's API.
type ReplicaURL struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Joining is the answer to a replica that is to become a member: the cell's id
// and the members that it can contact.
type Joining struct {
	CellID   string   `json:"cell_id"`
	Replicas []Joined `json:"replicas"`
}

// Joined is a member as other replicas dial it.
type Joined struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft_addr"`
}

// MaxMembers bounds the members of a cell. Each log entry goes to all members
// and waits for a majority of the voters.
const MaxMembers = 15

// MaxMemberIDBytes bounds the name of a member.
const MaxMemberIDBytes = 64

// DirectoryDigits is the length of the id of a data directory.
const DirectoryDigits = 16

// ValidateDirectory reports an invalid id of a data directory, or nil.
func ValidateDirectory(id string) error { return validateDirectory("directory", id) }

func validateDirectory(field, id string) error {
	if len(id) != DirectoryDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return Invalid(field, "%s is %q; it must be %d hexadecimal digits in lower case, as the replica's /readyz shows them",
			field, Clip(id), DirectoryDigits)
	}
	return nil
}
