package client

import (
	"errors"

	"github.com/stoutlock/stout/lockapi"
)

// Errors of the contract. A call that the cell refused returns a
// *lockapi.Error, for which errors.Is holds with one of these; errors.As gives
// the details, such as the holders that stood in the way.
const (
	// ErrInvalidArgument: the call was malformed or out of bounds.
	ErrInvalidArgument = lockapi.CodeInvalidArgument
	// ErrSessionNotFound: the session never was, was closed, or has expired.
	ErrSessionNotFound = lockapi.CodeSessionNotFound
	// ErrNotFound: no such object, or a URL that is not a replica's.
	ErrNotFound = lockapi.CodeNotFound
	// ErrUnauthenticated: the call is not one that anybody may make and the client
	// has no credential, or one that the cell does not know.
	ErrUnauthenticated = lockapi.CodeUnauthenticated
	// ErrPermissionDenied: who calls may not do that; lockapi.Error has Principal,
	// Permission and Path.
	ErrPermissionDenied = lockapi.CodePermissionDenied
	// ErrConflict: the request does not go together with what holds or waits
	// already, for instance another limit.
	ErrConflict = lockapi.CodeConflict
	// ErrPrecondition: a file is not as the write, or the transaction, wants it.
	// errors.As gives its present stat: lockapi.Error.Current, nil where there
	// is none.
	ErrPrecondition = lockapi.CodePrecondition
	// ErrNotHeld: a hold that was to guard a write is over.
	ErrNotHeld = lockapi.CodeNotHeld
	// ErrCompacted: the events that were asked for are not kept any more. Watch
	// tells it as Event.Compacted, not as an error.
	ErrCompacted = lockapi.CodeCompacted
	// ErrTooLarge: the request's body is over lockapi.MaxBodyBytes, or a file's
	// content over lockapi.MaxFileBytes.
	ErrTooLarge = lockapi.CodeTooLarge
	// ErrLockHeld: somebody else holds the lock, or is before us in its queue.
	ErrLockHeld = lockapi.CodeLockHeld
	// ErrLockDelayed: the lock is free, but within its lock-delay.
	ErrLockDelayed = lockapi.CodeLockDelayed
	// ErrTooMany: a quota is used up; lockapi.Error.RetryAfter has the cell's
	// advice for when to try again. Calls that ask for more return it at once;
	// releases are tried again.
	ErrTooMany = lockapi.CodeTooMany
	// ErrNoMaster: no master could be reached until the context ended.
	ErrNoMaster = lockapi.CodeNoMaster
	// ErrOutcomeUnknown: the call may or may not have taken effect. A call whose
	// attempt got no answer, and whose next attempt was refused, ends so, unless
	// the refusal settles the attempt before (lockapi.Code.Settles). A write by a
	// session that has ended meanwhile is ErrSessionExpired as well.
	ErrOutcomeUnknown = lockapi.CodeOutcomeUnknown
	// ErrBusy: another change of the members is not committed yet.
	ErrBusy = lockapi.CodeBusy
	// ErrUnsafe: after it the members that are well would have no majority.
	ErrUnsafe = lockapi.CodeUnsafe
	// ErrInternal: the server failed in a way that is not of the contract, or
	// gave an answer that is not to be believed.
	ErrInternal = lockapi.CodeInternal
)

// Errors of the client's own.
var (
	// ErrNoAnswer: no replica answered at all until the context ended. It comes
	// with ErrNoMaster or ErrOutcomeUnknown; without it, replicas did answer,
	// and none of them knew of a master that did.
	ErrNoAnswer = errors.New("no replica answered")
	// ErrSessionExpired: the session is over, because the cell said so or
	// because the grace period ran out without an answer from the cell.
	ErrSessionExpired = errors.New("stout: the session has expired")
	// ErrSessionClosed: the session was closed by this program.
	ErrSessionClosed = errors.New("stout: the session is closed")
	// ErrJeopardy: the session's local lease has ended without an answer from
	// the cell, so nothing that hangs on the session may be relied upon.
	ErrJeopardy = errors.New("stout: the session is in jeopardy: its lease has ended here")
	// ErrLockLost: the cell no longer counts the lock as held by this hold.
	ErrLockLost = errors.New("stout: the lock is lost: the cell no longer counts it as held by us")
	// ErrUnlocked: the hold was given up by Unlock.
	ErrUnlocked = errors.New("stout: the lock was released by Unlock")
)
