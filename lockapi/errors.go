package lockapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// Code names one kind of failure. It is the stable part of an error: programs
// branch on the code, people read the detail. A Code is itself an error, so
// errors.Is(err, lockapi.CodeSessionNotFound) works in the server and in the
// client.
type Code string

// The codes of the contract. CodeNoMaster, CodeNotMaster, CodeLockHeld,
// CodeLockDelayed, CodeTooMany, CodeUnauthenticated, CodePermissionDenied,
// CodeUnsafe and CodeBusy guarantee that the call had no effect. After
// CodeOutcomeUnknown the call may have had an effect, and it may be sent again.
const (
	CodeInvalidArgument  Code = "invalid_argument"
	CodeSessionNotFound  Code = "session_not_found"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeConflict         Code = "conflict"
	CodeUnsafe           Code = "unsafe" // the change would leave too few healthy members
	CodeBusy             Code = "busy"   // another change of the members is not committed yet
	CodeCrossOrigin      Code = "cross_origin"
	CodeUnauthenticated  Code = "unauthenticated"   // the credential is missing or invalid
	CodePermissionDenied Code = "permission_denied" // the caller lacks the right
	CodeTooLarge         Code = "too_large"
	CodePrecondition     Code = "precondition_failed" // a condition of a file or a transaction failed
	CodeNotHeld          Code = "not_held"            // the grant that guards a write is not held
	CodeCompacted        Code = "compacted"           // the events are no longer kept
	CodeNotMaster        Code = "not_master"
	CodeLockHeld         Code = "lock_held"
	CodeLockDelayed      Code = "lock_delayed"
	CodeTooMany          Code = "too_many"
	CodeNoMaster         Code = "no_master"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeInternal         Code = "internal"
)

// codes maps each code to its status and title.
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

// Error lets a Code be a target of errors.Is.
func (c Code) Error() string { return string(c) }

// Status returns the HTTP status of the code, or 500 for an unknown code.
func (c Code) Status() int {
	if e, ok := codes[c]; ok {
		return e.status
	}
	return http.StatusInternalServerError
}

// Title returns the short name of the code for people, as in the problem
// document.
func (c Code) Title() string {
	if e, ok := codes[c]; ok {
		return e.title
	}
	return string(c)
}

// Valid reports whether the code is part of the contract.
func (c Code) Valid() bool {
	_, ok := codes[c]
	return ok
}

// Settles reports whether a keyed write that is refused with the code had no
// effect in any attempt, and will have none. The cell derives these answers
// from its record of the key. If an attempt had taken effect, the cell would
// have repeated that answer; an attempt still under way will get the same
// refusal.
//
// Any other refusal describes its own attempt only. Rights, sessions and quotas
// may have changed since the attempt before. If that one got no answer, the
// outcome of the write is unknown.
func (c Code) Settles() bool {
	return c == CodePrecondition || c == CodeNotHeld || c == CodeConflict
}

// Codes returns all codes of the contract, in no particular order.
func Codes() []Code { return slices.Collect(maps.Keys(codes)) }

// Error is a failed call: an RFC 9457 problem document with the fields of its
// code. Servers create it with Errorf; clients unmarshal it from the body of a
// reply.
type Error struct {
	Code   Code
	Detail string
	// Field names the invalid field, parameter or header in an
	// invalid_argument.
	Field string
	// Holders, in a lock_held, are the holders that blocked the request. Each
	// held the lock at some moment during the call. At most MaxRefusalHolders
	// are listed, the first ones; MoreHolders counts the others.
	Holders     []Holder
	MoreHolders int
	// DelayRemainingMS is the remaining lock-delay in a lock_delayed, and in a
	// lock_held if the lock is delayed too. Zero means no delay.
	DelayRemainingMS int64
	// Master is the base URL of the master's API in a not_master.
	Master string
	// Directory is the id of the answering replica's data directory if the
	// replica is not ready. If it waits to become a member, Command is the
	// command that the operator must run.
	Directory, Command string
	// Current is the present file in a precondition_failed, with its content if
	// the write asked for it; nil if there is no file. Sequencer is the guard
	// that failed in a not_held.
	Current   *File
	Sequencer string
	// Concealed means that the caller may not read the file. A
	// precondition_failed then omits Current entirely: null would reveal that
	// there is no file.
	Concealed bool
	// Operation is the index, from 0, of the operation that failed in a
	// transaction's branch; nil if the error is not about an operation.
	Operation *int
	// Compacted holds the fields of a compacted error.
	Compacted
	// Principal lacks Permission at Path, in a permission_denied. Path is empty
	// for a permission in the cell as a whole.
	Principal, Permission, Path string
	// Quota is what is used up in a too_many: the name of a setting, of a
	// limit of one principal, or of a fixed bound. Used is counted against
	// Limit. Principal has a limit of its own, and is empty otherwise.
	Quota       string
	Limit, Used int64
	// Replayed means that this repeats the earlier answer to the same keyed
	// write. It travels as a header.
	Replayed bool
	// RetryAfter is the server's advice when to retry, in whole seconds; zero
	// for no advice. It travels as a header, not in the body.
	RetryAfter int
}

// Errorf returns an error with the code and a formatted detail, cut at
// MaxDetailBytes.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: cut(fmt.Sprintf(format, args...), MaxDetailBytes)}
}

// TooMany returns a too_many for the named quota.
func TooMany(quota string, used, limit int64, format string, args ...any) *Error {
	e := Errorf(CodeTooMany, format, args...)
	e.Quota, e.Used, e.Limit = quota, used, limit
	return e
}

// Invalid returns an invalid_argument for the named field. The name is clipped.
func Invalid(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalidArgument, format, args...)
	e.Field = Clip(field)
	return e
}

// Error returns the code and the detail in one line.
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

	Quota string `json:"quota,omitempty"`
	Limit *int64 `json:"limit,omitempty"` // both are present with Quota
	Used  *int64 `json:"used,omitempty"`
	*Compacted
}

// Problem returns the wire form of the error.
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
	if e.Quota != "" {
		p.Quota, p.Limit, p.Used = e.Quota, &e.Limit, &e.Used
	}
	if e.Code == CodePrecondition && !e.Concealed {
		current, _ := json.Marshal(e.Current) // cannot fail: strings, numbers and times
		p.Current = (*json.RawMessage)(&current)
	}
	return p
}

// Err returns the error that a problem document describes. Title and status are
// dropped, since they follow from the code.
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
	if e.Quota = p.Quota; p.Limit != nil && p.Used != nil {
		e.Limit, e.Used = *p.Limit, *p.Used
	}
	if p.Current != nil {
		_ = json.Unmarshal(*p.Current, &e.Current) // unreadable counts as missing
	}
	return e
}

// MarshalJSON writes the problem document.
func (e *Error) MarshalJSON() ([]byte, error) { return json.Marshal(e.Problem()) }

// UnmarshalJSON reads a problem document. RetryAfter keeps its value.
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
