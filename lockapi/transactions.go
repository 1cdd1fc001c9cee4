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
	MaxTransactionBytes = 512 << 10 // of the body
)

// Transaction is one change of several files and locks: if every condition
// holds all of Then happens, else all of Else; where one operation can't be
// done, none is.
type Transaction struct {
	Session string      `json:"session,omitempty"` // on whose behalf
	If      []Condition `json:"if,omitempty"`
	Then    []Operation `json:"then,omitempty"`
	Else    []Operation `json:"else,omitempty"`
}

// Condition is one of: a file's revision; whether a file exists; that the grant
// of a sequencer is held; that a session lives; that a lock is free.
type Condition struct {
	File      string  `json:"file,omitempty"`
	Revision  *uint64 `json:"revision,omitempty"` // of File
	Exists    *bool   `json:"exists,omitempty"`   // File
	Sequencer string  `json:"sequencer,omitempty"`
	Session   string  `json:"session,omitempty"`
	Lock      string  `json:"lock,omitempty"`
	State     string  `json:"state,omitempty"` // of Lock: StateFree
}

// Operation is one of its fields.
type Operation struct {
	Put              *WriteOperation   `json:"put,omitempty"`
	Create           *WriteOperation   `json:"create,omitempty"` // there must be none
	CreateSequential *WriteOperation   `json:"create_sequential,omitempty"`
	Delete           *FileOperation    `json:"delete,omitempty"`
	Get              *FileOperation    `json:"get,omitempty"`
	Acquire          *AcquireOperation `json:"acquire,omitempty"` // granted at once, or nothing happens
	Release          *ReleaseOperation `json:"release,omitempty"`
}

// WriteOperation writes a whole file. Its content is given in one of two ways.
type WriteOperation struct {
	Path          string  `json:"path"`
	Content       *string `json:"content,omitempty"`
	ContentBase64 *[]byte `json:"content_base64,omitempty"`
	Ephemeral     *bool   `json:"ephemeral,omitempty"` // nil leaves the owner as it is
}

// FileOperation names a file.
type FileOperation struct {
	Path string `json:"path"`
}

// AcquireOperation takes a lock.
type AcquireOperation struct {
	Path        string `json:"path"`
	Handle      string `json:"handle,omitempty"`
	Mode        Mode   `json:"mode,omitempty"` // empty stands for Exclusive
	Limit       int64  `json:"limit,omitempty"`
	LockDelayMS int64  `json:"lock_delay_ms,omitempty"`
}

// ReleaseOperation gives a lock back; with a token, only that very grant.
type ReleaseOperation struct {
	Path   string `json:"path"`
	Handle string `json:"handle,omitempty"`
	Token  uint64 `json:"token,omitempty"`
}

// TransactionResult is what a transaction came to. Revision is the last of its
// changes or, where nothing changed, the one that it was judged at.
type TransactionResult struct {
	Succeeded bool              `json:"succeeded"` // whether the conditions held
	Revision  uint64            `json:"revision"`
	Results   []OperationResult `json:"results"` // in the order of the branch taken
}

// OperationResult is what one operation came to: at most one of its fields is
// set. In JSON it is that field's value, or null: a file that was to be got is
// not there.
type OperationResult struct {
	File     *File // that was written (its stat) or got
	Grant    *Grant
	Deleted  *FileDeleted
	Released *Released
}

// FileDeleted says whether there was a file to delete.
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

// UnmarshalJSON tells the kinds of results apart by a field that only they
// have.
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
