package lockapi

import (
	"bytes"
	"encoding/json"
)

// RouteTransactions is the route of transactions.
const RouteTransactions = "/v1/transactions"

// Bounds of a transaction.
const (
	MaxTransactionParts = 128       // conditions and operations together
	MaxTransactionBytes = 512 << 10 // bytes of the body
)

// Transaction changes several files and locks atomically. If every condition
// holds, all operations of Then are done, otherwise all of Else. If one
// operation cannot be done, none is.
type Transaction struct {
	Session string      `json:"session,omitempty"` // session that owns the changes
	If      []Condition `json:"if,omitempty"`
	Then    []Operation `json:"then,omitempty"`
	Else    []Operation `json:"else,omitempty"`
}

// Condition checks one thing: the revision or existence of a file, that the
// grant of a sequencer is held, that a session exists, or that a lock is free.
type Condition struct {
	File      string  `json:"file,omitempty"`
	Revision  *uint64 `json:"revision,omitempty"` // required revision of File
	Exists    *bool   `json:"exists,omitempty"`   // whether File must exist
	Sequencer string  `json:"sequencer,omitempty"`
	Session   string  `json:"session,omitempty"`
	Lock      string  `json:"lock,omitempty"`
	State     string  `json:"state,omitempty"` // required state of Lock: StateFree
}

// Operation has exactly one of its fields set.
type Operation struct {
	Put              *WriteOperation   `json:"put,omitempty"`
	Create           *WriteOperation   `json:"create,omitempty"` // the file must not exist
	CreateSequential *WriteOperation   `json:"create_sequential,omitempty"`
	Delete           *FileOperation    `json:"delete,omitempty"`
	Get              *FileOperation    `json:"get,omitempty"`
	Acquire          *AcquireOperation `json:"acquire,omitempty"` // granted at once, or the transaction fails
	Release          *ReleaseOperation `json:"release,omitempty"`
}

// WriteOperation writes a whole file. Its content is in one of two fields.
type WriteOperation struct {
	Path          string  `json:"path"`
	Content       *string `json:"content,omitempty"`
	ContentBase64 *[]byte `json:"content_base64,omitempty"`
	Ephemeral     *bool   `json:"ephemeral,omitempty"` // nil keeps the file's owner
}

// FileOperation names a file.
type FileOperation struct {
	Path string `json:"path"`
}

// AcquireOperation acquires a lock.
type AcquireOperation struct {
	Path        string `json:"path"`
	Handle      string `json:"handle,omitempty"`
	Mode        Mode   `json:"mode,omitempty"` // empty means Exclusive
	Limit       int64  `json:"limit,omitempty"`
	LockDelayMS int64  `json:"lock_delay_ms,omitempty"`
}

// ReleaseOperation releases a lock. With a token it releases only that grant.
type ReleaseOperation struct {
	Path   string `json:"path"`
	Handle string `json:"handle,omitempty"`
	Token  uint64 `json:"token,omitempty"`
}

// TransactionResult is the result of a transaction. Revision is the last of its
// changes or, without changes, the revision at which the conditions were
// checked.
type TransactionResult struct {
	Succeeded bool              `json:"succeeded"` // whether the conditions held
	Revision  uint64            `json:"revision"`
	Results   []OperationResult `json:"results"` // in the order of the branch's operations
}

// OperationResult is the result of one operation. At most one of its fields is
// set; in JSON it is the value of that field. null means that the file of a get
// does not exist.
type OperationResult struct {
	File     *File // the file written (its stat) or read
	Grant    *Grant
	Deleted  *FileDeleted
	Released *Released
}

// FileDeleted reports whether the file existed.
type FileDeleted struct {
	Deleted  bool   `json:"deleted"`
	Revision uint64 `json:"revision,omitempty"`
}

// MarshalJSON writes the field that is set.
func (r OperationResult) MarshalJSON() ([]byte, error) {
	switch {
	case r.File != nil:
		return json.Marshal(r.File)
	case r.Grant != nil:
		return json.Marshal(r.Grant)
	case r.Deleted != nil:
		return json.Marshal(r.Deleted)
	case r.Released != nil:
		return json.Marshal(r.Released)
	}
	return []byte("null"), nil
}

// UnmarshalJSON recognizes the kind of a result by a field that only this kind
// has.
func (r *OperationResult) UnmarshalJSON(b []byte) error {
	*r = OperationResult{}
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var has struct{ Deleted, Released, Token, State json.RawMessage }
	if err := json.Unmarshal(b, &has); err != nil {
		return err
	}
	switch {
	case has.Deleted != nil:
		return json.Unmarshal(b, &r.Deleted)
	case has.Released != nil:
		return json.Unmarshal(b, &r.Released)
	case has.Token != nil, has.State != nil:
		return json.Unmarshal(b, &r.Grant)
	}
	return json.Unmarshal(b, &r.File)
}
