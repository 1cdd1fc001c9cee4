package lockapi

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Code names one kind of failure. It is the stable part of an error: programs
// branch on it, people read the detail. A Code is itself an error, so that
// errors.Is(err, lockapi.CodeSessionNotFound) holds on both sides of the wire.
type Code string

// The codes of the contract. CodeNoMaster, CodeNotMaster, CodeLockHeld,
// CodeLockDelayed, CodeTooMany, CodeUnauthenticated, CodePermissionDenied, CodeUnsafe and CodeBusy say that the call
// certainly had no effect;
// CodeOutcomeUnknown says that it may have had, and may be sent again.
const (
	CodeInvalidArgument  Code = "invalid_argument"
	CodeSessionNotFound  Code = "session_not_found"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeConflict         Code = "conflict"
	CodeUnsafe           Code = "unsafe" // a change of the members after which too few would be well
	CodeBusy             Code = "busy"   // another change of the members is not committed yet
	CodeCrossOrigin      Code = "cross_origin"
	CodeUnauthenticated  Code = "unauthenticated"   // nobody known asks, or the credential is bad
	CodePermissionDenied Code = "permission_denied" // to who asks
	CodeTooLarge         Code = "too_large"
	CodePrecondition     Code = "precondition_failed" // of a file or a transaction
	CodeNotHeld          Code = "not_held"            // the grant that guards a write
	CodeCompacted        Code = "compacted"           // events that are not kept any more
	CodeNotMaster        Code = "not_master"
	CodeLockHeld         Code = "lock_held"
	CodeLockDelayed      Code = "lock_delayed"
	CodeTooMany          Code = "too_many"
	CodeNoMaster         Code = "no_master"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeInternal         Code = "internal"
)

// codes is the one table between codes, statuses and titles.
var codes = map[Code]struct {
	status int
	title  string
}{
	CodeInvalidArgument:  {http.StatusBadRequest, "Invalid argument"},
	CodeSessionNotFound:  {http.StatusNotFound, "Session not found"},
	CodeNotFound:         {http.StatusNotFound, "Not found"},
	CodeMethodNotAllowed: {http.StatusMethodNotAllowed, "Method not allowed"},
	CodeConflict:         {http.StatusConflict, "Conflict"},
	CodeUnsafe:           {http.StatusConflict, "Unsafe"},
	CodeBusy:             {http.StatusConflict, "Busy"},
	CodeCrossOrigin:      {http.StatusForbidden, "Cross origin"},
	CodeUnauthenticated:  {http.StatusUnauthorized, "Unauthenticated"},
	CodePermissionDenied: {http.StatusForbidden, "Permission denied"},
	CodePrecondition:     {http.StatusPreconditionFailed, "Precondition failed"},
	CodeNotHeld:          {http.StatusPreconditionFailed, "Not held"},
	CodeCompacted:        {http.StatusGone, "Compacted"},
	CodeTooLarge:         {http.StatusRequestEntityTooLarge, "Too large"},
	CodeNotMaster:        {http.StatusMisdirectedRequest, "Not the master"},
	CodeLockHeld:         {http.StatusLocked, "Locked"},
	CodeLockDelayed:      {http.StatusLocked, "Lock delayed"},
	CodeTooMany:          {http.StatusTooManyRequests, "Too many"},
	CodeNoMaster:         {http.StatusServiceUnavailable, "No master"},
	CodeOutcomeUnknown:   {http.StatusServiceUnavailable, "Outcome unknown"},
	CodeInternal:         {http.StatusInternalServerError, "Internal error"},
}

// Error makes a Code usable as a target of errors.Is.
func (c Code) Error() string { return string(c) }

// Status is the HTTP status that goes with the code; 500 for a code that is
// not of the contract.
func (c Code) Status() int {
	if e, ok := codes[c]; ok {
		return e.status
	}
	return http.StatusInternalServerError
}

// Title is the short human name of the code, as in the problem document.
func (c Code) Title() string {
	if e, ok := codes[c]; ok {
		return e.title
	}
	return string(c)
}

// Valid reports whether the code is one of the contract.
func (c Code) Valid() bool {
	_, ok := codes[c]
	return ok
}

// Settles reports whether a keyed write that is refused with the code had no
// effect in any attempt, and will have none. The cell gives these answers by
// what it remembers under the key: an attempt that took effect would have been
// answered again, and one that is still under way will be answered the same.
// Any other refusal is of its own attempt alone. Rights, sessions and quotas
// may have changed since the one before, so where that got no answer the
// outcome of the write is unknown.
func (c Code) Settles() bool {
	return c == CodePrecondition || c == CodeNotHeld || c == CodeConflict
}

// Codes lists every code of the contract, in no particular order.
func Codes() []Code {
	out := make([]Code, 0, len(codes))
	for c := range codes {
		out = append(out, c)
	}
	return out
}

// Error is a failed call: an RFC 9457 problem document with the fields that
// the code brings along. Servers make them with Errorf; clients get them by
// unmarshalling a reply's body.
type Error struct {
	Code   Code
	Detail string
	// Field names the offending field, parameter or header of an
	// invalid_argument.
	Field string
	// Holders are the holders that stood in the way of a lock_held. Each was a
	// holder at some moment during the call. Of more than MaxRefusalHolders the
	// first ones are shown, and MoreHolders counts the others.
	Holders     []Holder
	MoreHolders int
	// DelayRemainingMS is what is left of the lock-delay, in a lock_delayed and
	// in a lock_held whose lock is delayed too. Zero means none.
	DelayRemainingMS int64
	// Master is the base URL of the master's API in a not_master.
	Master string
	// Directory is the id of the data directory of the replica that answers,
	// where that is not ready; Command is then what an operator types to make
	// the directory a member's, where that is what it waits for.
	Directory, Command string
	// Current is the file as it is, in a precondition_failed, with its content
	// where the write asked for that; nil where there is none. Sequencer is the
	// guard of a not_held.
	Current   *File
	Sequencer string
	// Concealed says that the caller may not read there: a precondition_failed
	// then has no Current, not even null, which would tell that there is none.
	Concealed bool
	// Operation is the number, from 0, of the operation of a transaction's
	// branch that can't be done; nil where it is not of one.
	Operation *int
	// Compacted is what a compacted tells of the events that are kept.
	Compacted
	// Principal is who was denied Permission at Path, in a permission_denied. Path
	// is empty for what is of the cell as a whole.
	Principal, Permission, Path string
	// Replayed says that it is an earlier answer to the same keyed write, given
	// again. It travels as a header.
	Replayed bool
	// RetryAfter is the server's advice, in whole seconds, for when to try
	// again; zero where there is none. It travels as a header, not in the body.
	RetryAfter int
}

// Errorf makes an error of the given code with a formatted detail, which ends
// at MaxDetailBytes.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: cut(fmt.Sprintf(format, args...), MaxDetailBytes)}
}

// Invalid makes an invalid_argument that blames the named field, which is
// clipped.
func Invalid(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalidArgument, format, args...)
	e.Field = Clip(field)
	return e
}

// Error is one line for a person: the detail, behind the code.
func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Detail
}

// Is reports whether target is this error's Code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Problem is the wire form of an Error.
type Problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Code             Code     `json:"code"`
	Detail           string   `json:"detail"`
	Field            string   `json:"field,omitempty"`
	Holders          []Holder `json:"holders,omitempty"`
	MoreHolders      int      `json:"more_holders,omitempty"`
	DelayRemainingMS int64    `json:"delay_remaining_ms,omitempty"`
	Master           string   `json:"master,omitempty"`
	Directory        string   `json:"directory,omitempty"`
	Command          string   `json:"command,omitempty"`

	Current   *json.RawMessage `json:"current,omitempty"` // a File or null
	Sequencer string           `json:"sequencer,omitempty"`
	Operation *int             `json:"operation,omitempty"`

	Principal  string `json:"principal,omitempty"`
	Permission string `json:"permission,omitempty"`
	Path       string `json:"path,omitempty"`
	*Compacted
}

// Problem is the error in its wire form.
func (e *Error) Problem() *Problem {
	p := &Problem{
		Type: "about:blank", Title: e.Code.Title(), Status: e.Code.Status(),
		Code: e.Code, Detail: e.Detail, Field: e.Field,
		Holders: e.Holders, MoreHolders: e.MoreHolders, DelayRemainingMS: e.DelayRemainingMS, Master: e.Master,
		Directory: e.Directory, Command: e.Command, Sequencer: e.Sequencer, Operation: e.Operation,
		Principal: e.Principal, Permission: e.Permission, Path: e.Path,
	}
	if e.Code == CodeCompacted {
		p.Compacted = &e.Compacted
	}
	if e.Code == CodePrecondition && !e.Concealed {
		current, _ := json.Marshal(e.Current) // strings, numbers and times
		p.Current = (*json.RawMessage)(&current)
	}
	return p
}

// Err is the error that a problem document describes. Title and status are not
// kept: they follow from the code.
func (p *Problem) Err() *Error {
	e := &Error{
		Code: p.Code, Detail: p.Detail, Field: p.Field, Holders: p.Holders, MoreHolders: p.MoreHolders,
		DelayRemainingMS: p.DelayRemainingMS, Master: p.Master,
		Directory: p.Directory, Command: p.Command, Sequencer: p.Sequencer, Operation: p.Operation,
		Principal: p.Principal, Permission: p.Permission, Path: p.Path,
	}
	if p.Compacted != nil {
		e.Compacted = *p.Compacted
	}
	if p.Current != nil {
		_ = json.Unmarshal(*p.Current, &e.Current) // what can't be read is as good as none
	}
	return e
}

// MarshalJSON writes the problem document.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(e.Problem()) }

// UnmarshalJSON reads a problem document. RetryAfter stays as it is.
func (e *Error) UnmarshalJSON(b []byte) error {
	var p Problem
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	retry := e.RetryAfter
	*e = *p.Err()
	e.RetryAfter = retry
	return nil
}
