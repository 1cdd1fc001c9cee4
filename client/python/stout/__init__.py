"""Client of Stout, a lock service: sessions, locks with fencing tokens, files, watches.

    cell = stout.Cell(["http://10.0.0.1:7101", "http://10.0.0.2:7101"])
    with cell.session(ttl=10) as session:
        with session.lock("/jobs/nightly") as held:
            work(held.token, until=held.lost)

A hold is good while `held.lost.is_set()` is false. The local lease ends before
the cell's, so it is set before another session gets the lock. See README.md.
"""

import logging

from ._cell import Cell, File
from ._session import EXPIRED, JEOPARDY, SAFE, Held, Lost, Session
from ._watch import Event, Watch
from .errors import (
    Conflict,
    Denied,
    InternalError,
    InvalidArgument,
    LockHeld,
    LockLost,
    NotFound,
    OtherCell,
    OutcomeUnknown,
    PreconditionFailed,
    SessionEnded,
    StoutError,
    TooMany,
    Unavailable,
)

logging.getLogger("stout").addHandler(logging.NullHandler())  # silent, unless the program sets up logging

__all__ = [
    "Cell",
    "Conflict",
    "Denied",
    "EXPIRED",
    "Event",
    "File",
    "Held",
    "InternalError",
    "InvalidArgument",
    "JEOPARDY",
    "LockHeld",
    "LockLost",
    "Lost",
    "NotFound",
    "OtherCell",
    "OutcomeUnknown",
    "PreconditionFailed",
    "SAFE",
    "Session",
    "SessionEnded",
    "StoutError",
    "TooMany",
    "Unavailable",
    "Watch",
]
