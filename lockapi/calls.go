package lockapi

import (
	"cmp"
	"slices"
)

// Call is one call of the API as a value: a pointer to a type that is named
// after the call. Tags state where each field travels:
//
//	`path:"lock"`   in the path; the word selects the decoder
//	`query:"after"` in the query under that name; a required parameter has `need`
//	                with its description, a flag with one value has it in `only`
//	`header:"Name"` in a header
//
// A call embeds its JSON body. Structs embedded with `body:"-"` and fields with
// a tag from the list above are not part of the body. The body of a file is its
// Content. If a call has SetDefaults, it runs before the request is decoded. If
// a call has Validate, it passes before package master receives the call. If it
// has Waiting, the server may hold it. If it has Keyed, the cell recognizes a
// repetition.
type Call any

// Calls for sessions.
type (
	// OpenSession opens a session, or returns the session that was opened under
	// the same key. The answer is a Session.
	OpenSession struct {
		Key string `header:"Idempotency-Key"` // empty for no key
		SessionRequest
	}
	// KeepAlive extends a session. The answer is a Keepalive.
	KeepAlive struct {
		Session string `path:"id"`
		KeepaliveRequest
	}
	// KeepAliveAll extends several sessions of one caller. The answer is a
	// Keepalives.
	KeepAliveAll struct{ KeepalivesRequest }
	// CloseSession ends a session if it exists. It has no answer. If it is quiet,
	// and the session is the caller's own, a KeepAliveAll that waits for it and
	// others is not answered for that.
	CloseSession struct {
		Session string `path:"id"`
		Quiet   bool   `query:"quiet"`
	}
	// GetSession returns a SessionState, or session_not_found.
	GetSession struct {
		Session string `path:"id"`
	}
	// ListSessions returns a SessionList.
	ListSessions struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
)

// Calls for locks.
type (
	// AcquireLock requests a lock and may wait for it. The answer is a Grant.
	AcquireLock struct {
		Path string `path:"lock"`
		LockRequest
	}
	// ReleaseLock ends a hold or a wait. With a token it ends only that grant.
	// Forced means that the request does not come from the holder's program.
	// The answer is a Released.
	ReleaseLock struct {
		Path    string `path:"lock"`
		Session string `query:"session" need:"the id of the session that holds or waits"`
		Handle  string `query:"handle"`
		Token   uint64 `query:"token"` // 0 for any grant
		Forced  bool   `query:"by_force"`
	}
	// GetLock returns a Lock with the first positions of its queue.
	GetLock struct {
		Path    string `path:"lock"`
		Waiters int    `query:"waiters"`
	}
	// ListLocks returns a LockList, a page of the locks that are not free.
	ListLocks struct {
		Prefix string `query:"prefix"`
		After  string `query:"after"`
		Limit  int    `query:"limit"`
	}
	// CheckSequencer reports whether the grant of a sequencer is still held.
	// The answer is a SequencerCheck.
	CheckSequencer struct {
		Sequencer `query:"value" need:"a sequencer, mode:token:path"`
	}
	// FindDeadlocks finds sessions that wait for each other. The answer is a
	// Deadlocks.
	FindDeadlocks struct{}
)

// Calls for files.
type (
	// WriteFile writes a whole file. The answer is a FileStat. The names and
	// the order of the fields must not change: the digest of a keyed call
	// covers them.
	WriteFile struct {
		Path       string // for a sequential file, the path before the number
		Content    []byte
		Session    string  // session that the write is made for; empty for none
		Ephemeral  *bool   // whether the file is deleted when Session ends; nil keeps the present setting
		IfRevision *uint64 // write only if this is the file's revision
		IfAbsent   bool    // write only if the file does not exist
		Sequencers []Sequencer
		Key        string // idempotency key within Session
		Sequential bool   // append the revision of the creation to Path
		Tell       bool   // if the condition fails, the error includes the content
		// Query holds the query of the request. It is part of the digest, so
		// calls under one key that differ only here are distinguished.
		Query map[string]string
	}
	// DeleteFiles deletes a file, or all files below a directory. The answer is
	// a FilesDeleted. As in WriteFile, the names and the order of the fields
	// must not change.
	DeleteFiles struct {
		Path, Prefix string // exactly one is set
		Session      string
		IfRevision   *uint64
		Sequencers   []Sequencer
		Key          string
	}
	// GetFile returns a File with its content, or not_found.
	GetFile struct {
		Path string
	}
	// ListFiles returns a FileList.
	ListFiles struct {
		Prefix    string `query:"prefix"`
		Delimiter bool   `query:"delimiter" only:"/"` // group deeper paths by directory
		Content   bool   `query:"content"`
		After     string `query:"after"`
		Limit     int    `query:"limit"`
	}
	// Transact makes several changes atomically, or none. The answer is a
	// TransactionResult. As in WriteFile, the names and the order of the fields
	// must not change.
	Transact struct {
		Key string // idempotency key within the session
		Transaction
	}
	// GetHistory returns a History, the past events of a path that the replica
	// still has.
	GetHistory struct {
		Path  string `query:"path" need:"the path of the lock or file"`
		Limit int    `query:"limit"`
	}
)

// Calls for the cell and its members.
type (
	// ListMembers returns a Members with the health of each member.
	ListMembers struct{}
	// GetURLs returns a URLs, the base URLs of the replicas.
	GetURLs struct{}
	// AddMember adds a replica to the cell. The answer is a MemberChange.
	AddMember struct{ AddMemberRequest }
	// SetMember changes a member. The answer is a Member.
	SetMember struct {
		ID string `path:"member"`
		SetMemberRequest
	}
	// RemoveMember removes a member. The answer is a MemberRemoved.
	RemoveMember struct {
		ID                  string `path:"member"`
		RemoveMemberRequest `body:"-"`
	}
	// ReplaceMember replaces the data directory of a member. The answer is a
	// MemberChange.
	ReplaceMember struct {
		ID string `path:"member"`
		ReplaceMemberRequest
	}
	// TransferMastership makes another replica master. The answer is a
	// Transferred.
	TransferMastership struct{ TransferRequest }
	// GetRevision returns the present revision of the cell. GetBackup reads a
	// backup at that revision.
	GetRevision struct{}
	GetBackup   struct{}
)

// Calls for access control.
type (
	// PutRule sets or replaces the rule at a path. The answer is an AccessRule.
	PutRule struct {
		Path string `path:"rule"`
		AccessLists
	}
	// GetRule returns the AccessRule at a path, or not_found.
	GetRule struct {
		Path string `path:"rule"`
	}
	// DeleteRule deletes the rule at a path if it exists. It has no answer.
	DeleteRule struct {
		Path string `path:"rule"`
	}
	// DeleteRulesBelow deletes the rules below a directory but not the
	// directory's own rule. The answer is a RulesDeleted.
	DeleteRulesBelow struct {
		Prefix string `query:"prefix" need:"the directory below which to delete rules"`
	}
	// ListRules returns an AccessRuleList, a page of the rules that the caller
	// administers.
	ListRules struct {
		Prefix string `query:"prefix"`
		After  string `query:"after"`
		Limit  int    `query:"limit"`
	}
	// CheckAccess reports what a principal may do at a path. A nil Principal
	// means the caller. The answer is an AccessCheck.
	CheckAccess struct {
		Path      string  `query:"path" need:"the path to check"`
		Principal *string `query:"principal"`
	}
	// PutGroup creates a group or replaces its members. The answer is a Group.
	PutGroup struct {
		Name string `path:"group"`
		GroupMembers
	}
	// GetGroup returns a Group, or not_found.
	GetGroup struct {
		Name string `path:"group"`
	}
	// DeleteGroup deletes a group if it exists. It has no answer.
	DeleteGroup struct {
		Name string `path:"group"`
	}
	// ListGroups returns a GroupList.
	ListGroups struct {
		After string `query:"after"`
	}
	// PutQuota sets the quota of a principal or group. The answer is a Quota.
	PutQuota struct {
		Principal string `path:"quota"`
		QuotaLimits
	}
	// GetQuota returns a Quota, or not_found.
	GetQuota struct {
		Principal string `path:"quota"`
	}
	// DeleteQuota deletes the quota of a principal or group if it exists. It
	// has no answer.
	DeleteQuota struct {
		Principal string `path:"quota"`
	}
	// ListQuotas returns a QuotaList, a page of quotas.
	ListQuotas struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
	// PutCellAccess sets the observers and operators of the cell. The answer is
	// a CellAccess.
	PutCellAccess struct{ CellAccess }
	// GetCellAccess returns a CellAccess.
	GetCellAccess struct{}
	// CreateToken creates a token. The answer is a Token with its secret.
	CreateToken struct{ TokenRequest }
	// ListTokens returns a TokenList, a page of tokens without their secrets.
	ListTokens struct {
		After string `query:"after"`
		Limit int    `query:"limit"`
	}
	// RevokeToken revokes a token if it exists. It has no answer.
	RevokeToken struct {
		ID string `path:"id"`
	}
	// EnableAccess turns access control on. The answer is a Token of the root.
	EnableAccess struct{ EnableRequest }
	// DisableAccess turns access control off: every caller gets every right. It
	// has no answer.
	DisableAccess struct{ NoFields }
	// GetWhoAmI returns a WhoAmI: the caller's principal and, with Rights, its
	// rights in the cell as a whole.
	GetWhoAmI struct {
		Rights bool `query:"rights"`
	}
)

// SetDefaults sets the defaults of a request.
func (c *OpenSession) SetDefaults()  { c.SessionRequest = NewSessionRequest() }
func (c *AcquireLock) SetDefaults()  { c.LockRequest = NewLockRequest("") }
func (c *ListSessions) SetDefaults() { c.Limit = DefaultListLimit }
func (c *ListLocks) SetDefaults()    { c.Limit = DefaultListLimit }
func (c *ListFiles) SetDefaults()    { c.Limit = DefaultListLimit }
func (c *ListRules) SetDefaults()    { c.Limit = DefaultListLimit }
func (c *ListTokens) SetDefaults()   { c.Limit = DefaultListLimit }
func (c *ListQuotas) SetDefaults()   { c.Limit = DefaultListLimit }
func (c *GetHistory) SetDefaults()   { c.Limit = DefaultHistoryLimit }

// Validate reports the first invalid field, or nil.
func (c *OpenSession) Validate() error {
	return cmp.Or(c.SessionRequest.Validate(), ValidateKey(c.Key))
}

// Validate reports the first invalid field, or nil.
func (c *AcquireLock) Validate() error {
	if slices.Contains(c.With, c.Path) {
		return Invalid("with", "with has the path %q of the request", Clip(c.Path))
	}
	return c.LockRequest.Validate()
}

// Validate reports an invalid handle, or nil.
func (c *ReleaseLock) Validate() error { return ValidateHandle(c.Handle) }

// Validate reports an invalid prefix, or nil.
func (c *ListLocks) Validate() error { return validateListed(c.Prefix) }

// Validate reports an invalid prefix, or nil.
func (c *ListFiles) Validate() error { return validateListed(c.Prefix) }

// Validate reports an invalid path, or nil.
func (c *GetHistory) Validate() error { return ValidatePath(c.Path) }

// Waiting returns for how many ms the server may hold the call, and the body of
// the call.
func (r *KeepaliveRequest) Waiting() (waitMS *int64, body any)  { return &r.WaitMS, r }
func (r *KeepalivesRequest) Waiting() (waitMS *int64, body any) { return &r.WaitMS, r }
func (r *LockRequest) Waiting() (waitMS *int64, body any)       { return &r.WaitMS, r }

// Keyed reports whether the cell recognizes a repetition of the call.
func (c *WriteFile) Keyed() bool   { return c.Key != "" }
func (c *DeleteFiles) Keyed() bool { return c.Key != "" }
func (c *Transact) Keyed() bool    { return c.Key != "" }

// NoFields is the body of a call without fields.
type NoFields struct{}

// Validate reports an invalid prefix, or nil.
func (c *DeleteRulesBelow) Validate() error {
	if c.Prefix == "/" {
		return nil
	}
	return ValidatePrefix(c.Prefix)
}

// Validate reports an invalid prefix, or nil.
func (c *ListRules) Validate() error { return validateListed(c.Prefix) }

// Validate reports an invalid path or principal, or nil.
func (c *CheckAccess) Validate() error {
	if err := ValidateRulePath(c.Path); err != nil || c.Principal == nil {
		return err
	}
	return ValidatePrincipal(*c.Principal)
}

// validateListed rejects a prefix that no path can have. Otherwise such a list
// would be silently empty.
func validateListed(prefix string) error {
	if prefix != "" && prefix[0] != '/' {
		return Invalid("prefix", "prefix %q matches no path; a prefix must begin with /", Clip(prefix))
	}
	return nil
}
