"""Sessions: the local lease, the keepalive, locks and their release."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple, Union
from urllib.parse import urlencode

from . import _clock
from ._cell import Call, Cell, File, encode, integer, seconds, whole
from ._http import Answer, Cut, CutOff, Endpoint, NoAnswer, path_of
from ._watch import Watch
from .errors import LockLost, SessionEnded, StoutError, Unavailable, error

_log = logging.getLogger("stout")

SAFE, JEOPARDY, EXPIRED = "safe", "jeopardy", "expired"
_LONG_POLL = 30.0
_LATE = 1.0  # for the cell's last answer, after the end of a wait
_SETTLE = 2.0  # a withdrawal, before it is left to the background
_RELEASE = 5.0  # the least time of a release
_LOST = 10.0  # each keepalive looks for orphans for so long after a lost request
_LOOK = 0.25  # how often await_priority looks whether the hold has ended
_HIGHEST = 100  # priority of a wait
_LONGEST_DELAY = 60  # in seconds
_WINDOW = 64  # half of the keyed answers that the cell remembers


class Lease:
    """The local lease: a session's state by the clock. The caller locks it."""

    def __init__(self, now: float, end: float, grace: float):
        self.end, self.grace = end, grace
        self.state = SAFE
        self.look(now)

    def look(self, now: float) -> bool:
        """Update the state by the clock, and report whether it has changed."""
        before = self.state
        if self.state == SAFE and now >= self.end:
            self.state = JEOPARDY
        if self.state == JEOPARDY and now >= self.end + self.grace:
            self.state = EXPIRED
        return self.state != before

    def extend(self, now: float, until: float) -> bool:
        """Move the end, never to an earlier instant, and end a jeopardy."""
        if self.state == EXPIRED or until <= self.end:
            return False
        self.end = until
        if self.state == JEOPARDY and now < until:
            self.state = SAFE
            return True
        return False

    def remaining(self, now: float) -> float:
        return max(self.end - now, 0.0) if self.state == SAFE else 0.0

    def wake_in(self, now: float) -> float:
        """Return how long until the state may change."""
        return self.end + (self.grace if self.state == JEOPARDY else 0.0) - now


class Lost:
    """The end of a hold, with the methods of a threading.Event.

    `reason` is the error, once it is set.
    """

    def __init__(self, session: "Session"):
        self._session = session
        self._event = threading.Event()
        self.reason: Optional[StoutError] = None

    def is_set(self) -> bool:
        self._session._look()
        return self.reason is not None

    def wait(self, timeout: Optional[float] = None) -> bool:
        end = None if timeout is None else _clock.now() + timeout
        while not self.is_set():
            left = 1.0 if end is None else min(end - _clock.now(), 1.0)
            if left <= 0:
                return False
            self._event.wait(left)
        return True

    def _end(self, reason: StoutError) -> None:
        if self.reason is None:
            self.reason = reason
            self._event.set()


class Held:
    """One hold of a lock, or of several.

    `lost.is_set()` reads the clock: while it is false, no other session has the
    lock, unless an operator has just released it by force. A hold that was lost
    stays lost. Send `token` with each request to the guarded resource. `paths`,
    `tokens` and `sequencers` are those of all locks, in the order of the request;
    `path`, `token` and `sequencer` of the first.
    """

    def __init__(self, session: "Session", a: "_Acquisition", tokens: Tuple[int, ...]):
        mode = a.request["mode"]
        self.session, self.handle, self.priority = session, a.handle, int(a.request.get("priority", 0))
        self.shared, self.paths, self.tokens = mode == "shared", a.paths, tokens
        self.sequencers: Tuple[str, ...] = tuple(f"{mode}:{token}:{path}" for path, token in zip(a.paths, tokens))
        self.path, self.token = a.paths[0], tokens[0]
        self.sequencer: str = self.sequencers[0]
        self.lost: Lost = Lost(session)
        self._release = threading.Lock()
        self._outcome: Union[None, bool, StoutError] = None
        self._grants = {(path, a.handle, token) for path, token in zip(a.paths, tokens)}
        self._left = list(zip(a.paths, tokens))  # not released yet
        self._unsettled = a.unsettled  # a request may yet arrive at the cell
        self._repeated = False  # an earlier call may have released what is left
        self._missed = False  # a lock that was released was not held

    @property
    def remaining(self) -> float:
        """How long the hold can be relied upon unless the lease is extended."""
        return 0.0 if self.lost.is_set() else self.session.remaining

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.release()
        except StoutError:
            if kind is None:
                raise

    def resume(self, timeout: Optional[float] = None) -> "Held":
        """Return a new hold of the same grant, once the session is safe after a jeopardy.

        The cell kept the lock, but this program could not know. Raises LockLost
        if the cell no longer has the grant, or SessionEnded. A hold that has not
        ended is returned unchanged.
        """
        return self.session._resume(self, self.session.cell.timeout if timeout is None else timeout)

    def await_priority(self, timeout: Optional[float] = None) -> bool:
        """Wait until the next wait in the lock's queue has a higher priority than this hold.

        The program can then end its work and release the lock, which that wait
        gets in the same step. A wait for several locks does not count: it may not
        get the others. Returns False after `timeout`, or when the hold has ended.
        """
        end = None if timeout is None else _clock.now() + timeout
        return self.session._await_priority(self, end)

    def release(self, timeout: float = _RELEASE) -> None:
        """Release the lock. Raises LockLost or SessionEnded if it was no longer held.

        A hold that ended in a jeopardy was no longer held, and is released as
        well. After another error the lock was held until the call, and the
        session keeps trying to release it in the background.
        """
        with self._release:
            if self._outcome is None:
                self._outcome = self.session._release(self, timeout)
            if isinstance(self._outcome, StoutError):
                raise self._outcome.again()


# Holds (path, handle, token, whether unclaimed) and waits of a session in the cell.
_State = Tuple[List[Tuple[str, str, int, bool]], List[Tuple[str, str]]]


class _Keepalive(NamedTuple):
    ttl: float
    held: float
    epoch: int
    events: List[Tuple[int, str, str, str, int]]
    members_revision: Any


class _Acquisition:
    """One handle's state at its locks, from the first request to the release."""

    def __init__(self, paths: Tuple[str, ...], request: Dict[str, Any], above: int):
        self.paths, self.request, self.above = paths, request, above
        self.handle = ""
        self.names = " and ".join(paths)
        self.cut = Cut()
        self.held: Optional[Held] = None
        self.anew = False  # a part of several locks was given back, to begin anew
        self.short = False  # one of several locks is lost; the others are held until the release
        self.leaving = False  # a release has begun
        self.lost_token = 0  # the highest token of a grant that the cell reports as lost
        self.unsettled = False  # a request may yet arrive at the cell
        self.resting = False  # the cell certainly has no part of it


def open_session(cell: Cell, ttl: float, name: str, meta: Optional[Dict[str, str]], timeout: float) -> "Session":
    """Open a session under a key, so that a repeated call opens it once."""
    ttl_ms = round(seconds("ttl", ttl, 1, 86400) * 1000)
    body = {"ttl_ms": ttl_ms, "name": name, **({"meta": meta} if meta else {})}

    def check(v: Any, _: Answer) -> Tuple[str, int]:
        if not re.fullmatch(r"[!-.0-~]{1,128}", v["id"]) or v["id"] in (".", "..") or v["ttl_ms"] != ttl_ms:
            raise ValueError(f"a session {str(v['id'])[:40]!r} with a ttl of {v['ttl_ms']} ms")
        return v["id"], whole(v["epoch"], 1)

    call = Call(
        "POST", "/v1/sessions", body=encode(body), headers={"Idempotency-Key": secrets.token_hex(16)}, check=check
    )
    end = _clock.now() + timeout
    id, epoch = cell.do(call, timeout)
    # Each attempt may have opened it, so the lease counts from the first one.
    session = Session(cell, id, name, ttl_ms / 1000, epoch, call.first_sent + ttl_ms / 1000)
    try:
        session._await_safe(end)
    except BaseException:
        session.close(timeout=_SETTLE)
        raise
    return session


class Session:
    """This program's lease on the cell, kept alive by a thread until `close`.

    `state` is "safe", "jeopardy" (the local lease has ended without an answer,
    and every hold with it) or "expired". It belongs to the process that opened
    it: in a child after a fork it is expired.
    """

    def __init__(self, cell: Cell, id: str, name: str, ttl: float, epoch: int, end: float):
        self.cell, self.id, self.name, self.ttl, self.epoch = cell, id, name, ttl, epoch
        now = _clock.now()
        self._pid = os.getpid()
        self._cond = threading.Condition(threading.RLock())  # guards the following
        self._lease = Lease(now, max(end, now), cell.grace)
        self._over: Optional[StoutError] = None
        self._prefix, self._serial = secrets.token_hex(6) + "-", 0
        self._known: Dict[str, _Acquisition] = {}
        self._listeners: List[Callable[[str], None]] = []
        self._writes: Deque[List[bool]] = deque()  # under way and unfinished ones behind the oldest
        self._news: Deque[str] = deque()

        self._poll = Cut()  # ends the keepalive under way
        self._overdue = False  # the cell's view of the session is to be compared at once
        self._new_master = False
        self._orphan = False  # look for orphans at the next keepalive
        self._lost_since = self._look_again = -1.0
        self._ack = 0
        self._failures = 0
        self._failure: Optional[Exception] = None  # of the last keepalive, unless it succeeded
        self._backoff = _clock.Backoff()
        self._asked: Optional[Endpoint] = None  # by the last keepalive
        for step in (self._watch_clock, self._keep):  # without the latter the session ends
            threading.Thread(target=_loop, args=(step,), name="stout-session", daemon=True).start()

    # State.

    @property
    def state(self) -> str:
        self._look()
        return self._lease.state

    @property
    def remaining(self) -> float:
        """The time left of the local lease, in seconds; 0 unless safe."""
        self._look()
        with self._cond:
            return self._lease.remaining(_clock.now())

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with each new state, from a thread of the session."""
        self._look()
        with self._cond:
            self._listeners.append(listener)

    def _look(self) -> None:
        """Read the clock, which may end the holds or the session."""
        if self._pid != os.getpid():
            self._forked()
            return
        with self._cond:
            if self._lease.look(_clock.now()):
                why = "no keepalive succeeded until the grace period was over" + self._because()
                self._changed(error("session_expired", why))

    def _forked(self) -> None:
        if self._over is None:
            self._cond = threading.Condition(threading.RLock())
            self._lease.state = EXPIRED
            self._over = error(
                "session_expired", "the session belongs to the process that opened it; this one was forked from it"
            )
            for a in self._known.values():
                if a.held is not None:
                    a.held.lost.reason = a.held.lost.reason or self._over

    def _changed(self, reason: StoutError) -> None:
        """Apply a change of state. The lock is held."""
        state = self._lease.state
        if state == JEOPARDY:
            why = "the local lease has ended without a successful keepalive" + self._because()
            self._end_holds(error("jeopardy", why))
            self._poll.cut()  # a call that waits is useless after a sleep
        elif state == EXPIRED:
            self._over = reason
            self._end_holds(reason)
            for a in self._known.values():
                a.cut.cut(final=True)
            self._known.clear()
            self._poll.cut(final=True)
        self._news.append(state)
        self._cond.notify_all()

    def _because(self) -> str:
        return f"; the last keepalive: {self._failure}" if self._failure else ""

    def _end_holds(self, reason: StoutError) -> None:
        for a in self._known.values():
            if a.held is not None:
                a.held.lost._end(reason)

    def _finish(self, reason: StoutError) -> StoutError:
        """End the session for a reason, and return the first such reason."""
        self._look()
        with self._cond:
            if self._over is None:
                self._lease.state = EXPIRED
                self._changed(reason)
            assert self._over is not None
            return self._over.again()

    def _expire(self) -> StoutError:
        return self._finish(error("session_expired", "the cell no longer knows the session"))

    def _check(self) -> None:
        self._look()
        if self._over is not None:
            raise self._over.again()

    def _await_safe(self, end: Optional[float]) -> None:
        while True:
            self._check()
            with self._cond:
                if self._lease.state == SAFE:
                    return
                left = None if end is None else end - _clock.now()
                if left is not None and left <= 0:
                    raise error("jeopardy", "the local lease of the session has ended" + self._because())
                self._cond.wait(1.0 if left is None else min(left, 1.0))

    def _watch_clock(self) -> bool:
        """Notice the end of the lease, and report states. False ends the thread."""
        self._look()
        with self._cond:
            if not self._news and self._lease.state != EXPIRED:
                self._cond.wait(min(max(self._lease.wake_in(_clock.now()), 0.001), 1.0))
            news = list(self._news)
            self._news.clear()
            listeners = list(self._listeners)
        for state in news:
            closed = self._over is not None and self._over.code == "session_closed"
            level = logging.INFO if state == SAFE or closed else logging.WARNING
            why = "" if state == SAFE else f": {self._over}" if state == EXPIRED else self._because()
            _log.log(level, "session %r is %s%s", self.name, state, why)
            for listener in listeners:
                try:
                    listener(state)
                except Exception:
                    _log.exception("a listener of session %r", self.name)
        return self._lease.state != EXPIRED or bool(self._news)

    # Keepalive.

    def _keep(self) -> bool:
        """Make one keepalive and what follows. False ends the thread.

        One call waits at the master, until a third of the lease is left. After a
        failure the next replica is asked to answer at once.
        """
        if self.state == EXPIRED:
            return False
        began, failures = _clock.now(), self._failures
        wait = 0.0
        try:
            self._poll.begin()
            with self._cond:
                if not failures and not self._overdue:
                    wait = min(max(self._lease.remaining(began) - self.ttl / 3, 0.0), _LONG_POLL)
            news = self._keepalive(wait, failures)
            self._failures, self._failure = 0, None
            self._backoff.reset()
            self._reconcile()
            if not failures or news:
                self._poll.pause(began + (0.025 if news else min(self.ttl / 20, 1.0)) - _clock.now())
        except CutOff:
            pass
        except (NoAnswer, StoutError) as e:
            if isinstance(e, StoutError) and e.code == "session_not_found":
                self._expire()
                return False
            self._failures, self._failure = self._failures + 1, e
            self._poll.pause(self._backoff.next())
        return self._over is None

    def _keepalive(self, wait: float, failures: int) -> bool:
        at = self.cell.pick(self._asked if failures else None)
        call = Call(
            "POST",
            f"/v1/sessions/{self.id}/keepalive",
            body=encode({"wait_ms": int(wait * 1000), "ack": self._ack}),
            check=self._check_keepalive,
        )
        call.wait, call.cut = wait, self._poll
        if wait:
            late = min(max(self.ttl / 12, 0.3), max(self.ttl / 8, 0.1), 2.0)
        else:
            late = min(max(self.ttl / 12, 0.2), 1.0) * 2 ** min(failures // len(self.cell.endpoints()), 4)
        self._asked = at
        sent = _clock.now()
        answer = self.cell.attempt(at, call, wait + min(late, 4.0))
        return self._renewed(sent, answer)

    def _check_keepalive(self, v: Any, _: Answer) -> "_Keepalive":
        events = [
            (whole(e["seq"]), str(e["type"]), str(e["path"]), str(e["handle"]), whole(e.get("token", 0)))
            for e in v["events"] or []
        ]
        members = v.get("members_revision", 0)
        return _Keepalive(
            whole(v["ttl_ms"], 1) / 1000, whole(v["held_ms"]) / 1000, whole(v["epoch"], self.epoch), events, members
        )

    def _renewed(self, sent: float, answer: "_Keepalive") -> bool:
        """Extend the lease, which runs for the ttl from the unknown moment of the answer.

        Sending plus the time for which the cell held the call is never later.
        """
        now = _clock.now()
        until = sent + min(answer.held, now - sent) + min(answer.ttl, self.ttl)
        with self._cond:
            if answer.epoch != self.epoch:
                self.epoch = answer.epoch
                self._new_master = True
                for a in self._known.values():
                    if a.held is None:
                        a.cut.cut()  # ask again at the new master
            self._look()
            if self._lease.extend(now, until):
                self._changed(error("session_expired", ""))
        self.cell.members_revision(answer.members_revision)
        news = any(e[0] > self._ack for e in answer.events)
        for seq, kind, path, handle, token in answer.events:
            self._ack = max(self._ack, seq)
            if handle.startswith(self._prefix):
                self._notice(kind, path, handle, token)
        return news

    def _notice(self, kind: str, path: str, handle: str, token: int) -> None:
        with self._cond:
            a = self._known.get(handle)
            if a is None or path not in a.paths:
                self._orphan = self._orphan or kind in ("lock_granted", "lock_lost")
            elif kind == "lock_lost":
                self._orphan = True  # a late request may have got the lock again
                a.lost_token = max(a.lost_token, token)
                self._lose(a, token)
            elif a.held is None and kind in ("lock_granted", "lock_withdrawn"):
                a.cut.cut()  # ask again, for the answer that counts

    def _lose(self, a: _Acquisition, token: int) -> None:
        """End the hold of a grant that the cell no longer knows. The lock is held.

        The grants of several locks are later than all former ones of the handle.
        """
        if a.held is not None and min(a.held.tokens) <= token:
            a.short = len(a.paths) > 1
            if not a.short:
                self._known.pop(a.handle, None)
            a.held.lost._end(error("lock_lost", f"the cell no longer counts {a.names} as held by this session"))

    # Comparison of the holds here with the cell's.

    def _expect_orphans(self, at_once: bool = False) -> None:
        """Look for what a lost request may still cause in the cell, however late."""
        with self._cond:
            self._lost_since = self._look_again = _clock.now()
            self._overdue = self._overdue or at_once
        if at_once:
            self._poll.cut()

    def _reconcile(self) -> None:
        now = _clock.now()
        with self._cond:
            lost = self._lost_since >= 0 and now >= self._look_again
            if not (self._new_master or self._orphan or self._overdue or lost):
                return
            self._new_master = self._orphan = self._overdue = False  # what is requested from now on stays due
            held = {a.handle: a.held for a in self._known.values() if a.held is not None}
        end = now + min(max(self.ttl / 6, 0.2), _SETTLE)
        done = False
        try:
            state = self.cell.do(Call("GET", "/v1/sessions/" + self.id, check=self._check_state), end - now)
            done = self._settle(held, state, end)
        except StoutError as e:
            if e.code == "session_not_found":
                raise
        finally:
            with self._cond:
                if not done:
                    self._orphan = self._overdue = True  # the next keepalive repeats it
                late = _clock.now() - self._lost_since
                if done and late >= _LOST:
                    self._look_again = _clock.now() + late

    def _check_state(self, v: Any, _: Answer) -> _State:
        if v["id"] != self.id:
            raise ValueError("the state of another session")
        holds = [
            (str(h["path"]), str(h["handle"]), whole(h["token"], 1), bool(h.get("unclaimed_ms")))
            for h in v.get("holds") or []
        ]
        return holds, [(str(w["path"]), str(w["handle"])) for w in v.get("waits") or []]

    def _settle(self, held: Dict[str, Held], state: _State, end: float) -> bool:
        """Process the session's state in the cell, read after `held`.

        Reports whether all of it was done by `end`.
        """
        holds, waits = state
        claims: List[_Acquisition] = []
        with self._cond:
            there = {h[:3] for h in holds}
            for handle, hold in held.items():
                a = self._known.get(handle)
                if a is not None and not hold._grants <= there:
                    self._lose(a, hold.token)
            ours = [(p, h) for p, h, _, _ in holds] + waits
            orphans = [(p, h) for p, h in ours if h.startswith(self._prefix) and h not in self._known]
            for _, handle, token, unclaimed in holds:
                a = self._known.get(handle)
                if unclaimed and a is not None:
                    if a.held is None:
                        a.cut.cut()  # the request is repeated
                    elif token in a.held.tokens and not a.short and not a.leaving and a not in claims:
                        claims.append(a)
        try:
            for a in claims:  # first: the cell revokes them after a short time
                self._reclaim(a, end - _clock.now())
            for path, handle in orphans:
                self.cell.do(self._release_call(path, handle, 0), end - _clock.now())
        except StoutError:
            return False
        return True

    def _reclaim(self, a: _Acquisition, timeout: float) -> None:
        """Ask for a held lock again, which shows the cell that the grant arrived."""
        held = a.held
        assert held is not None
        call = self._acquire_call(a)
        call.body = encode({**a.request, "wait_ms": 0, "queue": False})
        try:
            tokens = self.cell.do(call, timeout)
        except StoutError as e:
            if e.code not in ("lock_held", "lock_delayed", "conflict"):
                raise
            tokens = ()
        if tokens != held.tokens:
            with self._cond:
                self._lose(a, held.token)
        if call.unsettled or held.lost.is_set():
            self._expect_orphans()

    # Locks.

    def lock(
        self,
        path: str,
        *more: str,
        wait: Optional[float] = None,
        shared: bool = False,
        limit: int = 0,
        lock_delay: float = 0.0,
        priority: int = 0,
    ) -> Held:
        """Acquire a lock. Waits in its queue, for `wait` seconds (None: until granted).

        The call ends at most about a second after `wait`. After an error no
        request remains: what cannot be withdrawn at once is withdrawn in the
        background. `limit` makes it a semaphore. `priority`, from 0 to 100, puts
        the wait before waits of lower priority.

        With `more` paths it gets all locks at once or none, and waits for all in
        one queue position. So programs that name the same locks in different
        orders never wait for each other. The Held is one for all locks: it ends
        with the first loss, and `release` releases all.
        """
        end = None if wait is None else _clock.now() + (seconds("wait", wait) or _LATE)
        return self._lock((path, *more), end, wait == 0, shared, limit, lock_delay, priority)

    def try_lock(
        self,
        path: str,
        *more: str,
        shared: bool = False,
        limit: int = 0,
        lock_delay: float = 0.0,
        timeout: Optional[float] = None,
    ) -> Held:
        """Acquire a lock, or several, if available at once, or raise LockHeld."""
        end = _clock.now() + seconds("timeout", self.cell.timeout if timeout is None else timeout)
        return self._lock((path, *more), end, True, shared, limit, lock_delay, 0)

    def _lock(
        self,
        paths: Tuple[str, ...],
        end: Optional[float],
        now_only: bool,
        shared: bool,
        limit: int,
        lock_delay: float,
        priority: int,
    ) -> Held:
        for path in paths:
            path_of(path)
        last = None if end is None else end if now_only else end + _LATE
        integer("priority", priority, _HIGHEST)
        seconds("lock_delay", lock_delay, 0, _LONGEST_DELAY)
        self._check()  # in a child process it replaces the lock, which another thread may have had
        with self._cond:
            self._check()
            request = {
                "session": self.id,
                "mode": "shared" if shared or limit else "exclusive",
                "limit": limit,
                "lock_delay_ms": round(lock_delay * 1000),
                **({"priority": priority} if priority else {}),
                **({"with": paths[1:]} if paths[1:] else {}),
            }
            a = _Acquisition(paths, request, self.cell.tokens.value)
            self._enter(a)
        try:
            return self._hold(a, self._ask(a, end, last, now_only), last)
        except CutOff:
            self._leave(a, last)
            self._check()
            raise
        except StoutError as e:
            self._leave(a, last)
            raise self._explain(a, e, last) from e.__cause__
        except BaseException:  # KeyboardInterrupt, for example
            self._forget(a)
            self._expect_orphans(at_once=True)
            raise

    def _enter(self, a: _Acquisition) -> None:
        """Add an acquisition under a fresh handle, which replaces its present one."""
        with self._cond:
            self._known.pop(a.handle, None)
            self._serial += 1
            a.handle = a.request["handle"] = f"{self._prefix}{self._serial}"
            self._known[a.handle] = a

    def _acquire_call(self, a: _Acquisition) -> Call:
        def check(v: Any, _: Answer) -> Tuple[int, ...]:
            for name in ("session", "handle", "mode"):
                if v[name] != a.request[name]:
                    raise ValueError(f"a grant of another {name}")
            queued = v["state"] == "queued"
            parts = [v] if queued else [v, *(v.get("with") or [])]
            if tuple(p["path"] for p in parts) != (a.paths[:1] if queued else a.paths):
                raise ValueError("a grant of another path, or of another number of locks")
            if queued:
                return ()
            tokens = tuple(whole(p["token"], a.above + 1) for p in parts)
            if v["state"] != "held" or any(p["sequencer"] != f"{v['mode']}:{p['token']}:{p['path']}" for p in parts):
                raise ValueError(f"the state {str(v['state'])[:20]!r} and another sequencer")
            return tokens

        call = Call("PUT", "/v1/locks" + path_of(a.paths[0]), check=check, settles="*")
        call.cut = a.cut
        return call

    def _ask(self, a: _Acquisition, end: Optional[float], last: Optional[float], now_only: bool) -> Tuple[int, ...]:
        """Repeat the request until it is granted or refused, or the wait is over."""
        pause = _clock.Backoff()
        while True:
            call = self._acquire_call(a)

            def renew() -> None:
                left = _LONG_POLL if end is None else end - _clock.now()
                call.wait = 0.0 if now_only else min(max(left, 0.001), _LONG_POLL)
                call.body = encode({**a.request, "wait_ms": int(call.wait * 1000), "queue": not now_only})

            call.renew = renew
            began = _clock.now()
            try:
                tokens: Tuple[int, ...] = self.cell.do(call, None if last is None else last - began)
                if tokens:
                    return tokens
            except CutOff:
                self._check()
            except StoutError as e:
                a.resting = not (a.unsettled or call.unsettled) and e.code in (
                    "lock_held",
                    "lock_delayed",
                    "too_many",
                    "session_not_found",
                )
                if e.code == "session_not_found":
                    raise self._expire() from e
                if e.code != "conflict" or a.anew or len(a.paths) == 1:
                    raise
                # The answer with several grants was lost, and one has been released by force.
                # A late copy of a release here names no token, and would release the next grant.
                a.anew = True
                self._withdraw(a, last)
                self._enter(a)
                self._expect_orphans()
            finally:
                a.unsettled = a.unsettled or call.unsettled
            if end is not None and _clock.now() >= end:
                raise error("lock_held", f"{a.names} was not granted in time")
            if _clock.now() - began < min(call.wait, 1.0):
                a.cut.pause(pause.next())
            else:
                pause.reset()

    def _hold(self, a: _Acquisition, tokens: Tuple[int, ...], last: Optional[float]) -> Held:
        while True:
            self._await_safe(last)
            with self._cond:
                self._look()
                if self._lease.state != SAFE:
                    continue
                held = a.held = Held(self, a, tokens)
                self._lose(a, a.lost_token)
            self.cell.tokens.note(max(tokens))
            return held

    def _resume(self, held: Held, timeout: float) -> Held:
        end = _clock.now() + timeout
        while True:
            self._await_safe(end)
            if not held.lost.is_set():
                return held
            holds, _ = self.cell.do(Call("GET", "/v1/sessions/" + self.id, check=self._check_state), end - _clock.now())
            with self._cond:
                self._look()
                a = self._known.get(held.handle)
                if a is None or a.held is None or a.short or a.leaving or held._outcome is not None:
                    raise error("lock_lost", f"{held.path} was released, or the cell no longer has the grant")
                if not a.held.lost.is_set():
                    return a.held  # resumed by another thread
                if not held._grants <= {h[:3] for h in holds}:
                    self._lose(a, held.token)
                    raise error("lock_lost", f"the cell no longer counts {a.names} as held by this session")
                if self._lease.state == SAFE:
                    a.held = Held(self, a, held.tokens)
                    return a.held

    def _await_priority(self, held: Held, end: Optional[float]) -> bool:
        def left() -> float:
            left = self.cell.timeout if end is None else min(end - _clock.now(), self.cell.timeout)
            return 0.0 if held.lost.is_set() else max(left, 0.0)

        def is_next(path: str) -> bool:
            def check(v: Any, _: Answer) -> bool:
                if v["path"] != path:
                    raise ValueError("the state of another lock")
                return any(
                    whole(w.get("priority", 0)) > held.priority and not w.get("set") for w in v.get("queue") or []
                )

            return bool(self.cell.do(Call("GET", "/v1/locks" + path_of(path) + "?waiters=1", check=check), left()))

        pause = _clock.Backoff()
        while left():
            done = threading.Event()
            try:
                after = self.cell.revision(timeout=left())
                if any(map(is_next, held.paths)):
                    return True
                with Watch(self.cell, [], held.paths, after, ["lock_contended"], False) as watch:

                    def bound() -> None:
                        while left() and not done.wait(min(left(), _LOOK)):
                            pass
                        watch.close()

                    threading.Thread(target=bound, name="stout-priority", daemon=True).start()
                    for _ in watch:
                        if any(map(is_next, held.paths)):
                            return True
            except Unavailable:
                held.lost.wait(min(pause.next(), left()))
            finally:
                done.set()
        return False

    def _release_call(self, path: str, handle: str, token: int) -> Call:
        query = {"session": self.id, "handle": handle, **({"token": str(token)} if token else {})}
        return Call(
            "DELETE",
            "/v1/locks" + path_of(path) + "?" + urlencode(query),
            check=lambda v, a: bool(v["released"]),
            settles="*",
        )

    def _forget(self, a: _Acquisition) -> None:
        with self._cond:
            self._known.pop(a.handle, None)

    def _withdraw(self, a: _Acquisition, last: Optional[float]) -> None:
        end = _clock.now() + _time_to_settle(last)
        for path in a.paths:
            self.cell.do(self._release_call(path, a.handle, 0), end - _clock.now())

    def _leave(self, a: _Acquisition, last: Optional[float]) -> None:
        """Remove a request that was given up from the cell."""
        if not a.resting and self._over is None:
            try:
                self._withdraw(a, last)
            except BaseException as e:
                if not isinstance(e, StoutError) or e.code != "session_not_found":
                    self._forget(a)
                    self._expect_orphans(at_once=True)
                    if not isinstance(e, StoutError):
                        raise
                    return
        self._forget(a)
        if a.unsettled:
            self._expect_orphans()

    def _explain(self, a: _Acquisition, e: StoutError, last: Optional[float]) -> StoutError:
        """Return the error of a wait that is over, with the present holders."""
        if e.code != "lock_held" or e.fields.get("holders") is not None:
            return e
        lock: Dict[str, Any] = {}
        try:
            for path in a.paths:
                call = Call("GET", "/v1/locks" + path_of(path), check=lambda v, _: dict(v))
                lock = self.cell.do(call, _time_to_settle(last))
                if lock.get("holders") or lock.get("delay_remaining_ms"):
                    break
        except StoutError as unknown:
            return error("no_master", f"{e.detail}, and it is unknown whether it is held: {unknown}")
        return error(
            "lock_held",
            e.detail,
            {"holders": lock.get("holders") or [], "delay_remaining_ms": lock.get("delay_remaining_ms", 0)},
        )

    def _release(self, held: Held, timeout: float) -> Union[bool, StoutError]:
        """Release a hold. It ends here first, so that the work stops before."""
        end, repeated = _clock.now() + timeout, held._repeated
        self._look()
        with self._cond:
            was_lost = None if held._repeated else held.lost.reason
            held.lost._end(error("lock_lost", "the lock was released by this program"))
            if self._over is not None:
                return self._over
            a = self._known.get(held.handle)
            if not held._repeated and (a is None or a.held is not held):  # resume returned another hold
                if held._unsettled:
                    self._expect_orphans()
                return was_lost or error("lock_lost", "the lock was lost")
            if a is not None:
                a.leaving = True  # resume fails from now on
            if was_lost:
                self._known.pop(held.handle, None)
                self._orphan = True  # a late request may have got the lock again
        try:
            while held._left:
                path, token = held._left[0]
                call = self._release_call(path, held.handle, token)
                released = self.cell.do(call, end - _clock.now())
                held._missed = held._missed or not (released or call.unsettled or repeated)
                del held._left[0]
        except BaseException as e:  # KeyboardInterrupt, for example
            if isinstance(e, StoutError) and e.code == "session_not_found":
                return self._expire()
            held._repeated = True
            with self._cond:
                self._known.pop(held.handle, None)
            self._expect_orphans(at_once=True)
            if was_lost and isinstance(e, StoutError):
                return was_lost
            raise
        with self._cond:
            self._known.pop(held.handle, None)
        if held._unsettled:
            self._expect_orphans()
        if was_lost:
            return was_lost
        if not held._missed:
            return True
        return error("lock_lost", "the cell no longer counted the lock as held")

    # Files.

    def put(
        self,
        path: str,
        content: Union[bytes, str],
        *,
        if_revision: Optional[int] = None,
        if_absent: bool = False,
        ephemeral: Optional[bool] = None,
        guard: Optional[Held] = None,
        timeout: Optional[float] = None,
    ) -> File:
        """Write a whole file, exactly once.

        `ephemeral` makes the file end with the session; False makes it outlive
        it. With `guard` the write happens only while that hold lasts.
        """
        return self.cell.write(self, "PUT", path, content, if_revision, if_absent, ephemeral, guard, timeout)

    def create_sequential(
        self,
        prefix: str,
        content: Union[bytes, str],
        *,
        ephemeral: Optional[bool] = None,
        guard: Optional[Held] = None,
        timeout: Optional[float] = None,
    ) -> File:
        """Create a file named `prefix` and 16 digits, which grow, exactly once."""
        return self.cell.write(self, "POST", prefix, content, None, False, ephemeral, guard, timeout)

    def delete(
        self,
        path: str,
        *,
        if_revision: Optional[int] = None,
        guard: Optional[Held] = None,
        timeout: Optional[float] = None,
    ) -> bool:
        """Delete a file, exactly once, and report whether there was one."""
        return self.cell.remove(self, path, if_revision, guard, timeout)

    def send(self, call: Call, timeout: float) -> Any:
        """Make a keyed write.

        The cell remembers the answers to a bounded number of them, so a write
        waits while too many came after one that has no answer yet.
        """
        end = _clock.now() + timeout
        mine = [False]
        self._check()
        with self._cond:
            self._check()
            while len(self._writes) >= _WINDOW:
                if _clock.now() >= end:
                    raise error("no_master", "earlier writes of the session have no answer yet")
                self._cond.wait(end - _clock.now())
                self._check()
            self._writes.append(mine)
        try:
            return self.cell.do(call, end - _clock.now())
        except StoutError as e:
            if e.code == "session_not_found":
                raise self._expire() from e
            raise
        finally:
            with self._cond:
                mine[0] = True
                while self._writes and self._writes[0][0]:
                    self._writes.popleft()
                self._cond.notify_all()

    # End.

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except StoutError:
            if kind is None:
                raise

    def close(self, timeout: float = _RELEASE) -> None:
        """End the session here and in the cell, where its locks are free at once."""
        if self._pid != os.getpid():
            return
        reason = self._finish(error("session_closed", "the session was closed by this program"))
        if isinstance(reason, SessionEnded) and reason.code == "session_closed":
            self.cell.do(Call("DELETE", "/v1/sessions/" + self.id, status=204), timeout)


def _time_to_settle(last: Optional[float]) -> float:
    """Return the time for a withdrawal, at a call that ends about `last`."""
    return _SETTLE if last is None else min(max(last - _clock.now(), _LATE / 4), _SETTLE)


def _loop(step: Callable[[], bool]) -> None:
    while True:
        try:
            if not step():
                return
        except Exception:  # the session must continue
            _log.exception("a thread of a session")
            time.sleep(0.1)
