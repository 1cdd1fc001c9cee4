package lockapi

import (
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
	// Force overrides the judgement that too few of the members are well. It
	// travels in the query.
	Force bool `json:"-"`
}

// MemberChange is a change of the members that has begun.
type MemberChange struct {
	ID        string `json:"id"`
	Directory string `json:"directory"`
}

// Validate reports the first field that is out of bounds as an
// invalid_argument, or nil.
func (r *ReplaceMemberRequest) Validate() error { return ValidateDirectory(r.Directory) }

// MaxMemberIDBytes bounds the name of a member.
const MaxMemberIDBytes = 64

// DirectoryDigits is how long the id of a data directory is.
const DirectoryDigits = 16

// ValidateDirectory reports what is wrong with the id of a data directory, or
// nil.
func ValidateDirectory(id string) error {
	if len(id) != DirectoryDigits || strings.Trim(id, "0123456789abcdef") != "" {
		return Invalid("directory", "directory is %q; it is %d hexadecimal digits in small letters, as /readyz of the replica tells them",
			Clip(id), DirectoryDigits)
	}
	return nil
}
