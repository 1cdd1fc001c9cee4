"""Errors: one class for each group of codes of the API, and of the client's own."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class StoutError(Exception):
    """A call that failed. `code` is stable, `detail` is for people.

    `fields` has the other fields of the cell's answer, such as `holders`.
    """

    def __init__(self, code: str, detail: str, fields: Optional[Dict[str, Any]] = None, retry_after: float = 0.0):
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail
        self.fields: Dict[str, Any] = fields or {}
        self.retry_after = retry_after

    def again(self) -> "StoutError":
        """Return an equal error, to be raised once more."""
        return type(self)(self.code, self.detail, self.fields, self.retry_after)


class InvalidArgument(StoutError):
    """The call was malformed, out of bounds or too large."""


class NotFound(StoutError):
    """There is no such file or object."""


class Conflict(StoutError):
    """The request does not fit the present state, for example by another limit."""


class PreconditionFailed(StoutError):
    """A condition of the write does not hold, or its guarding hold has ended."""


class Denied(StoutError):
    """The credential is missing or invalid, or it lacks the right."""


class LockHeld(StoutError):
    """The lock was not granted in time; `fields["holders"]` has its holders."""


class TooMany(StoutError):
    """A quota is used up; `retry_after` has the cell's advice in seconds."""


class Unavailable(StoutError):
    """No master could be reached in time. The call certainly had no effect."""


class OutcomeUnknown(StoutError):
    """The call may or may not have had an effect."""


class SessionEnded(StoutError):
    """The session has expired or was closed: `session_expired`, `session_closed`."""


class LockLost(StoutError):
    """The hold has ended: `lock_lost`, or `jeopardy` when the local lease ended."""


class OtherCell(StoutError):
    """Replicas of another cell answer at the given URLs."""


class InternalError(StoutError):
    """A replica failed, or its answer failed a check."""


_GROUPS: Dict[Type[StoutError], str] = {
    InvalidArgument: "invalid_argument too_large method_not_allowed",
    NotFound: "not_found compacted",
    Conflict: "conflict busy unsafe",
    PreconditionFailed: "precondition_failed not_held",
    Denied: "unauthenticated permission_denied cross_origin",
    LockHeld: "lock_held lock_delayed",
    TooMany: "too_many",
    Unavailable: "no_master not_master",
    OutcomeUnknown: "outcome_unknown",
    SessionEnded: "session_not_found session_expired session_closed",
    LockLost: "lock_lost jeopardy",
    OtherCell: "other_cell",
    InternalError: "internal",
}
_BY_CODE = {code: group for group, codes in _GROUPS.items() for code in codes.split()}


def is_code(code: Any) -> bool:
    """Report whether a code is part of the API."""
    return isinstance(code, str) and code in _BY_CODE


def error(code: str, detail: str, fields: Optional[Dict[str, Any]] = None, retry_after: float = 0.0) -> StoutError:
    """Return the error of a code, in the class of its group."""
    return _BY_CODE.get(code, InternalError)(code, detail, fields, retry_after)
