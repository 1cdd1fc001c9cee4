package lockapi

import "time"

// Call is one call of the API as a value: a pointer to one of the types whose names
// say what the call does. Tags say where each field travels:
//
//	`path:"lock"`   in the path; the word says how it is read there
//	`query:"after"` in the query, by that name; `need` says what it is, where it
//	                has to be given
//	`header:"Name"` in a header
//
// A call embeds its JSON body; a struct that it embeds with `body:"-"`, and fields with
// one of the tags above, are not part of that. The body of a file is its Content.
// Package master receives a call after its Validate has passed, if it has one. A call
// with a SetDefaults gets its defaults before it is read.
type Call any

// The calls about sessions.
type (
	// OpenSession opens a session, or finds the one that was opened under the key. The
	// answer is a Session.
	OpenSession struct {
		Key string `header:"Idempotency-Key"` // empty for none
		SessionRequest
	}
	// KeepAlive extends a session. The answer is a Keepalive.
	KeepAlive struct {
		Session string `path:"id"`
		KeepaliveRequest
	}
	// KeepAliveAll extends sessions of one caller. The answer is a Keepalives.
	KeepAliveAll struct{ KeepalivesRequest }
	// CloseSession ends a session, if it is there. It has no answer.
	CloseSession struct {
		Session string `path:"id"`
	}
	// GetSession reads a SessionState, or session_not_found.
	GetSession struct {
		Session string `path:"id"`
	}
	// ListSessions reads a page of sessions: a SessionList.
	ListSessions struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
)

// The calls about locks.
type (
	// AcquireLock asks for a lock, and may wait for it. The answer is a Grant.
	AcquireLock struct {
		Path string `path:"lock"`
		LockRequest
	}
	// ReleaseLock ends a hold or a wait: with a token that very grant only. Forced says
	// that somebody else than the holder's program asks for it. The answer is a
	// Released.
	ReleaseLock struct {
		Path    string `path:"lock"`
		Session string `query:"session" need:"the id of the session that holds or waits"`
		Handle  string `query:"handle"`
		Token   uint64 `query:"token"` // 0 for any
		Forced  bool   `query:"by_force"`
	}
	// GetLock reads a Lock with the first positions in its queue.
	GetLock struct {
		Path    string `path:"lock"`
		Waiters int    `query:"waiters"`
	}
	// ListLocks reads a page of the locks that are not free: a LockList.
	ListLocks struct {
		Prefix string `query:"prefix"`
		After  string `query:"after"`
		Limit  int    `query:"limit"`
	}
	// CheckSequencer asks whether the grant of a sequencer is held: a SequencerCheck.
	CheckSequencer struct {
		Sequencer `query:"value" need:"a sequencer, mode:token:path"`
	}
	// FindDeadlocks finds sessions that wait for each other: Deadlocks.
	FindDeadlocks struct{}
)

// The calls about files.
type (
	// WriteFile writes a whole file. The answer is a FileStat. How the fields are
	// called and ordered is fixed: the digest of a call under a key is made of them.
	WriteFile struct {
		Path       string // of a sequential file what stands before its number
		Content    []byte
		Session    string  // the session that the write is for; empty for none
		Ephemeral  *bool   // the file is to end with Session, or is not; nil leaves that as it is
		IfRevision *uint64 // only if that is its revision
		IfAbsent   bool    // only if there is none
		Sequencers []Sequencer
		Key        string // of idempotency, within Session
		Sequential bool   // the revision that makes it is put behind Path
		Tell       bool   // where the condition does not hold the error has the file's content
		// Query is the request's, which tells it from another call under its key also
		// where it asks for nothing else.
		Query map[string]string
	}
	// DeleteFiles deletes a file, or those below a directory. The answer is a
	// FilesDeleted. How the fields are called and ordered is fixed, as in WriteFile.
	DeleteFiles struct {
		Path, Prefix string // one of them
		Session      string
		IfRevision   *uint64
		Sequencers   []Sequencer
		Key          string
	}
	// GetFile reads a File with its content, or not_found.
	GetFile struct {
		Path string
	}
	// ListFiles reads a page of files: a FileList.
	ListFiles struct {
		Prefix, After string
		Delimiter     bool // roll up what lies deeper than the prefix
		Content       bool
		Limit         int
	}
	// Transact does several things at one moment, or none of them. The answer is a
	// TransactionResult. How the fields are called and ordered is fixed, as in
	// WriteFile.
	Transact struct {
		Key string // of idempotency, within the session
		Transaction
	}
	// GetHistory reads what a replica remembers of a path: a History.
	GetHistory struct {
		Path  string `query:"path" need:"the path whose history is asked for"`
		Limit int    `query:"limit"`
	}
)

// The calls about the cell and its members.
type (
	// ListMembers reads the members and their health: Members.
	ListMembers struct{}
	// GetURLs reads where the members are called: URLs.
	GetURLs struct{}
	// AddMember has a replica become a member. The answer is a MemberChange.
	AddMember struct{ AddMemberRequest }
	// SetMember changes a member, and reads it: a Member.
	SetMember struct {
		ID string `path:"member"`
		SetMemberRequest
	}
	// RemoveMember takes a member out. The answer is a MemberRemoved.
	RemoveMember struct {
		ID                  string `path:"member"`
		RemoveMemberRequest `body:"-"`
	}
	// ReplaceMember has another directory take the place of a member's. The answer is a
	// MemberChange.
	ReplaceMember struct {
		ID string `path:"member"`
		ReplaceMemberRequest
	}
	// TransferMastership hands mastership over. The answer is a Transferred.
	TransferMastership struct{ TransferRequest }
	// GetRevision reads the cell's present revision. A backup of it is what GetBackup
	// reads.
	GetRevision struct{}
	GetBackup   struct{}
)

// The calls about access.
type (
	// PutRule puts a rule at a path, in place of the one there. The answer is an
	// AccessRule.
	PutRule struct {
		Path string `path:"rule"`
		AccessLists
	}
	// GetRule reads the rule at a path: an AccessRule, or not_found.
	GetRule struct {
		Path string `path:"rule"`
	}
	// DeleteRule deletes the rule at a path, if there is one. It has no answer.
	DeleteRule struct {
		Path string `path:"rule"`
	}
	// DeleteRulesBelow deletes the rules below a directory, and not the one at it.
	// The answer is a RulesDeleted.
	DeleteRulesBelow struct {
		Prefix string `query:"prefix" need:"the directory below which rules are to be deleted"`
	}
	// ListRules reads a page of the rules that the caller administers: an
	// AccessRuleList.
	ListRules struct {
		Prefix string `query:"prefix"`
		After  string `query:"after"`
		Limit  int    `query:"limit"`
	}
	// CheckAccess asks what a principal may do at a path, or the caller where
	// Principal is nil. The answer is an AccessCheck.
	CheckAccess struct {
		Path      string  `query:"path" need:"the path that is asked about"`
		Principal *string `query:"principal"`
	}
	// PutGroup makes a group, or gives it other members. The answer is a Group.
	PutGroup struct {
		Name string `path:"group"`
		GroupMembers
	}
	// GetGroup reads a Group, or not_found.
	GetGroup struct {
		Name string `path:"group"`
	}
	// DeleteGroup deletes a group, if there is one. It has no answer.
	DeleteGroup struct {
		Name string `path:"group"`
	}
	// ListGroups reads a page of groups: a GroupList.
	ListGroups struct {
		After string `query:"after"`
	}
	// PutCellAccess sets the cell's lists of observers and operators. The answer is a
	// CellAccess.
	PutCellAccess struct{ CellAccess }
	// GetCellAccess reads the cell's lists of observers and operators: a CellAccess.
	GetCellAccess struct{}
	// CreateToken makes a token. The answer is a Token with its secret.
	CreateToken struct{ TokenRequest }
	// ListTokens reads a page of tokens without their secrets: a TokenList.
	ListTokens struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
	// RevokeToken ends a token, if it is there. It has no answer.
	RevokeToken struct {
		ID string `path:"id"`
	}
	// EnableAccess has callers judged from now on. The answer is a Token of the root.
	EnableAccess struct{ EnableRequest }
	// DisableAccess lets every caller do everything. It has no answer.
	DisableAccess struct{ NoFields }
	// GetWhoAmI reads the caller's principal and, with Rights, its rights in the cell as
	// a whole: a WhoAmI.
	GetWhoAmI struct {
		Rights bool `query:"rights"`
	}
)

// SetDefaults sets what a request that says nothing asks for.
func (c *OpenSession) SetDefaults()  { c.SessionRequest = NewSessionRequest() }
func (c *AcquireLock) SetDefaults()  { c.LockRequest = NewLockRequest("") }
func (c *ListSessions) SetDefaults() { c.Limit = DefaultListLimit }
func (c *ListLocks) SetDefaults()    { c.Limit = DefaultListLimit }
func (c *ListRules) SetDefaults()    { c.Limit = DefaultListLimit }
func (c *ListTokens) SetDefaults()   { c.Limit = DefaultListLimit }
func (c *GetHistory) SetDefaults()   { c.Limit = DefaultHistoryLimit }

// Validate reports what is wrong with the call, or nil.
func (c *OpenSession) Validate() error {
	if err := c.SessionRequest.Validate(); err != nil {
		return err
	}
	return ValidateKey(c.Key)
}

// Validate reports what is wrong with the handle, or nil.
func (c *ReleaseLock) Validate() error { return ValidateHandle(c.Handle) }

// Validate reports what is wrong with the prefix, or nil.
func (c *ListLocks) Validate() error { return validateListed(c.Prefix) }

// Validate reports what is wrong with the prefix, or nil.
func (c *ListFiles) Validate() error { return validateListed(c.Prefix) }

// Validate reports what is wrong with the path, or nil.
func (c *GetHistory) Validate() error { return ValidatePath(c.Path) }

// Wait is for how long the call may be held.
func (r *KeepaliveRequest) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// Wait is how long the call may be held.
func (r *KeepalivesRequest) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// Wait is for how long the call may be held.
func (r *LockRequest) Wait() time.Duration { return time.Duration(r.WaitMS) * time.Millisecond }

// Keyed reports whether the cell knows the call again when it is sent once more.
func (c *WriteFile) Keyed() bool   { return c.Key != "" }
func (c *DeleteFiles) Keyed() bool { return c.Key != "" }
func (c *Transact) Keyed() bool    { return c.Key != "" }

// NoFields is the body of a call that has none.
type NoFields struct{}

// Validate reports what is wrong with the prefix, or nil.
func (c *DeleteRulesBelow) Validate() error {
	if c.Prefix == "/" {
		return nil
	}
	return ValidatePrefix(c.Prefix)
}

// Validate reports what is wrong with the prefix, or nil.
func (c *ListRules) Validate() error { return validateListed(c.Prefix) }

// Validate reports what is wrong with the path or the principal, or nil.
func (c *CheckAccess) Validate() error {
	if err := ValidateRulePath(c.Path); err != nil || c.Principal == nil {
		return err
	}
	return ValidatePrincipal(*c.Principal)
}

// validateListed refuses the prefix of a list that no path can have, which would name
// nothing in silence.
func validateListed(prefix string) error {
	if prefix != "" && prefix[0] != '/' {
		return Invalid("prefix", "prefix %q begins no path: paths begin with /", Clip(prefix))
	}
	return nil
}
