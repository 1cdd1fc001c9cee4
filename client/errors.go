package client

import (
	"errors"

	"github.com/stoutlock/stout/client/internal/call"
	"github.com/stoutlock/stout/lockapi"
)

// Errors of the contract. A call that the cell refused returns a
// *lockapi.Error, for which errors.Is holds with one of these; errors.As gives
// the details, such as the present holders.
const (
	// ErrInvalidArgument: the call was malformed or out of bounds.
	ErrInvalidArgument = lockapi.CodeInvalidArgument
	// ErrSessionNotFound: the session never was, was closed, or has expired.
	ErrSessionNotFound = lockapi.CodeSessionNotFound
	// ErrNotFound: no such object, or a URL that is not a replica's.
	ErrNotFound = lockapi.CodeNotFound
	// ErrUnauthenticated: the call needs a credential, and the client has none
	// or one that the cell does not know.
	ErrUnauthenticated = lockapi.CodeUnauthenticated
	// ErrPermissionDenied: the caller lacks the right; lockapi.Error has
	// Principal, Permission and Path.
	ErrPermissionDenied = lockapi.CodePermissionDenied
	// ErrConflict: the request does not fit the present holds or waits, for
	// example because it names another limit.
	ErrConflict = lockapi.CodeConflict
	// ErrPrecondition: a file does not meet the condition of the write or
	// transaction. errors.As gives its present stat in lockapi.Error.Current;
	// nil means no file.
	ErrPrecondition = lockapi.CodePrecondition
	// ErrNotHeld: the hold that guards a write has ended.
	ErrNotHeld = lockapi.CodeNotHeld
	// ErrCompacted: the requested events are no longer kept. Watch reports it as
	// Event.Compacted, not as an error.
	ErrCompacted = lockapi.CodeCompacted
	// ErrTooLarge: the request's body is over lockapi.MaxBodyBytes, or a file's
	// content over lockapi.MaxFileBytes.
	ErrTooLarge = lockapi.CodeTooLarge
	// ErrLockHeld: another session holds the lock, or is ahead in its queue.
	ErrLockHeld = lockapi.CodeLockHeld
	// ErrLockDelayed: the lock is free, but within its lock-delay.
	ErrLockDelayed = lockapi.CodeLockDelayed
	// ErrTooMany: a quota is used up; lockapi.Error.RetryAfter has the cell's
	// advice on when to retry. Calls that would use more return it at once;
	// releases are retried after that time.
	ErrTooMany = lockapi.CodeTooMany
	// ErrNoMaster: no master could be reached until the context ended.
	ErrNoMaster = lockapi.CodeNoMaster
	// ErrOutcomeUnknown: the call may or may not have taken effect. A call
	// returns it when one attempt got no answer and the next was refused, unless
	// the refusal settles the earlier attempt (lockapi.Code.Settles). If the
	// session of a write has ended in the meantime, the error is
	// ErrSessionExpired as well.
	ErrOutcomeUnknown = lockapi.CodeOutcomeUnknown
	// ErrInternal: the server failed outside the contract, or gave an answer
	// that failed a check.
	ErrInternal = lockapi.CodeInternal
)

// Errors of the client's own.
var (
	// ErrNoAnswer: no replica answered until the context ended. It comes with
	// ErrNoMaster or ErrOutcomeUnknown. Without it, replicas answered, but did
	// not know a master that did.
	ErrNoAnswer = call.ErrNoAnswer
	// ErrOtherCell reports that the configured replicas answer as a different cell
	// than before: for example, the cell was restored from a backup, or its
	// addresses were reused. The client's sessions, locks, tokens and revisions
	// belong to the former cell. To use the other one, make a new client, or set
	// Config.AnyCell.
	ErrOtherCell = call.ErrOtherCell
	// ErrSessionExpired: the session is over, because the cell reported it as
	// gone or because the grace period ran out without an answer from the cell.
	ErrSessionExpired = errors.New("stout: the session has expired")
	// ErrSessionClosed: the session was closed by this program.
	ErrSessionClosed = errors.New("stout: the session is closed")
	// ErrJeopardy: the session's local lease has ended without an answer from
	// the cell, so its locks and files may no longer be relied upon.
	ErrJeopardy = errors.New("stout: the session is in jeopardy: its lease has ended here")
	// ErrLockLost: the cell no longer counts the lock as held by this hold.
	ErrLockLost = errors.New("stout: the lock is lost: the cell no longer counts it as held by us")
	// ErrUnlocked: the hold was given up by Unlock.
	ErrUnlocked = errors.New("stout: the lock was released by Unlock")
)
