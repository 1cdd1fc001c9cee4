"""The clock of the leases."""

from __future__ import annotations

import random
import time
from typing import Callable

# A clock that never steps and counts sleep. On Linux that is CLOCK_BOOTTIME; on
# macOS CLOCK_MONOTONIC counts sleep, which time.monotonic does not. Elsewhere
# the local lease may be longer than the cell's by the time of a sleep.
_ID = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def _boottime() -> float:
    assert _ID is not None
    return time.clock_gettime(_ID)


now: Callable[[], float] = time.monotonic if _ID is None else _boottime


class Backoff:
    """Pauses between attempts, from 25 ms to 1 s, each from the upper half of its range."""

    def __init__(self) -> None:
        self._last = 0.0

    def next(self) -> float:
        self._last = min(max(2 * self._last, 0.025), 1.0)
        return self._last * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._last = 0.0
