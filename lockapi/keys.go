package lockapi

// Bounds of keys.
const (
	MaxKeyBytes      = 512 << 10 // content of a key, in bytes
	MaxKeyOperations = 128       // operations of one ChangeKeys
	MaxKeysBytes     = 8 << 20   // paths and contents of one ListKeys, in bytes
)

// Calls for keys. A key is a file together with the lock at its path. These
// calls have no route of the API: they are what Consul's clients need. See
// docs/consul.md.
type (
	// ChangeKeys changes and reads keys, all or none. The answer is a
	// KeysChanged.
	ChangeKeys struct{ Operations []KeyOperation }
	// GetKey returns a list with the key at a path, or an empty one.
	GetKey struct{ Path string }
	// ListKeys returns the keys with paths that have a prefix, as far as the
	// caller may read them. With Names it leaves out the contents.
	ListKeys struct {
		Prefix string
		Names  bool
	}
	// EndSession ends a session if it exists, and leaves the lock-delays of its
	// holds, as if it had expired. It has no answer.
	EndSession struct{ Session string }
)

// KeyVerb is what an operation of ChangeKeys does. The words are Consul's.
type KeyVerb string

// The verbs.
const (
	KeySet            KeyVerb = "set"
	KeyCAS            KeyVerb = "cas" // Index 0: the key must not exist
	KeyLock           KeyVerb = "lock"
	KeyUnlock         KeyVerb = "unlock"
	KeyGet            KeyVerb = "get"
	KeyGetOrEmpty     KeyVerb = "get-or-empty"
	KeyGetTree        KeyVerb = "get-tree"
	KeyCheckIndex     KeyVerb = "check-index"
	KeyCheckSession   KeyVerb = "check-session"
	KeyCheckNotExists KeyVerb = "check-not-exists"
	KeyDelete         KeyVerb = "delete"
	KeyDeleteCAS      KeyVerb = "delete-cas"
	KeyDeleteTree     KeyVerb = "delete-tree"
)

// KeyOperation is one operation of ChangeKeys.
type KeyOperation struct {
	Verb    KeyVerb
	Path    string // for trees, a prefix of paths
	Content []byte
	Flags   uint64
	Index   uint64
	Session string
}

// Key is a key as it is. Content must not be changed.
type Key struct {
	Path                     string
	Content                  []byte
	Flags                    uint64
	Locks                    uint64 // how often it was locked by a ChangeKeys
	CreateIndex, ModifyIndex uint64 // revisions
	Session                  string // that holds the lock; empty for none
	// Locked reports that Session acquired the lock by a ChangeKeys: since
	// ModifyIndex nothing has changed.
	Locked bool
}

// KeysChanged is the result of ChangeKeys. If there are failures, nothing was
// changed and there are no results.
type KeysChanged struct {
	Results  [][]Key // of each operation
	Failures []KeyFailure
}

// KeyFailure is why an operation failed.
type KeyFailure struct {
	Operation   int
	Why         KeyReason
	ModifyIndex uint64 // of the key after the operations before; 0 if it does not exist
	Session     string // of the key
}

// KeyReason is the reason of a KeyFailure.
type KeyReason uint8

// The reasons.
const (
	KeyCondition KeyReason = iota // the condition of the verb does not hold
	KeyMissing                    // the key does not exist
	KeyNoSession                  // the session does not exist
	KeyHeld                       // the lock is held or waited for
	KeyDelayed                    // the lock is in its lock-delay
	KeyNotHeld                    // the session does not hold the lock by a KeyLock
	KeyTooLarge                   // the operations read or delete too much
)

// Names in the metadata of sessions that hold keys.
const (
	MetaKeyDelay    = "consul-lock-delay" // a duration as in Go; DefaultKeyDelay without it
	MetaKeyBehavior = "consul-behavior"   // KeysReleased, the default, or KeysDeleted
	KeysReleased    = "release"
	KeysDeleted     = "delete"
	DefaultKeyDelay = "15s"
)
