"""The cell: choice of replica, retries, checks of answers, and files."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union
from urllib.parse import quote, urlencode

from . import _clock
from ._http import TLS, Answer, Cut, CutOff, Endpoint, NoAnswer, path_of, start
from .errors import InternalError, InvalidArgument, NotFound, OtherCell, StoutError, error, is_code

if TYPE_CHECKING:
    from ._session import Held, Session
    from ._watch import Watch

MOST = 2**53 - 1  # tokens, revisions and epochs
_LOOK_EVERY = 60.0
_LEAST_PATIENCE, _MOST_PATIENCE = 1.0, 5.0  # with an answer, beyond the time that the call waits
_cells: "weakref.WeakSet[Cell]" = weakref.WeakSet()

Check = Callable[[Any, Answer], Any]


@dataclass(frozen=True)
class File:
    """A file. `content` is None unless it was requested."""

    path: str
    revision: int  # the last change
    instance: int  # the revision that created it
    generation: int  # 1, and one more with each write
    size: int
    sha256: str
    session: str = ""  # its owner, if it is ephemeral
    created_at: str = ""
    modified_at: str = ""
    content: Optional[bytes] = None
    as_of: int = 0  # the cell's revision at which it was read; watch after it


class Call:
    """One call of the API, with the record of its attempts."""

    def __init__(
        self,
        method: str,
        target: str,
        *,
        body: Optional[bytes] = None,
        headers: Optional[Dict[str, str]] = None,
        check: Optional[Check] = None,
        status: int = 0,
        once: bool = False,
        settles: str = "",
        stale: bool = False,
    ):
        self.method, self.target, self.body = method, target, body
        self.headers = headers or {}
        self.check, self.status = check, status
        self.once = once  # not sent again after it may have had an effect
        self.settles = settles  # refusals that settle earlier attempts; "*" is all
        self.stale = stale
        self.wait = 0.0  # how long the cell may hold it
        self.renew: Optional[Callable[[], None]] = None  # before each attempt
        self.cut = Cut()
        self.nonsense = 0  # answers that no healthy replica gives
        self.credential = ""  # of the last attempt
        self.refused = False  # a replica does not accept it
        self.closes = False  # and ends the connection
        self.renewed = False  # another one was sent
        self.unsettled = False  # an attempt may have had an effect, and got no answer
        self.first_sent = 0.0

    def sent(self, at: float) -> None:
        """Record an attempt that may have had an effect, without its answer."""
        self.first_sent = self.first_sent or at
        self.unsettled = True


class Cell:
    """A client of one cell. It is safe for use by many threads.

    `urls` are base URLs of replicas; one is enough while it answers. `ca`,
    `cert` and `key` are PEM files. `token` is a bearer token, or a function that
    returns the present one. `timeout` bounds each call that does not wait for a
    lock, in seconds. `grace` is how long a session in jeopardy tries to recover.
    """

    def __init__(
        self,
        urls: Union[str, Sequence[str]],
        *,
        ca: Optional[str] = None,
        cert: Optional[str] = None,
        key: Optional[str] = None,
        token: Union[str, Callable[[], str], None] = None,
        timeout: float = 30.0,
        grace: float = 45.0,
    ):
        self._tls = TLS(ca, cert, key)
        self._given = [Endpoint(u, self._tls) for u in ([urls] if isinstance(urls, str) else urls)]
        if not self._given:
            raise InvalidArgument("invalid_argument", "no URL is given; name at least one replica")
        self._secure = any(e.scheme == "https" for e in self._given)
        self._token = token if callable(token) or token is None else _token(token)
        self.timeout, self.grace = seconds("timeout", timeout), seconds("grace", grace)
        self._learned: List[Endpoint] = []
        self._current = self._given[0]
        self._id = ""
        self._strange: Set[str] = set()  # endpoints that answered as another cell
        self.tokens = High()
        self.seen = High()
        self._lock = threading.Lock()
        self._members_revision = 0
        self._look_at = 0.0
        self._took = 0.0  # the last answer that did not wait
        self._looking = False
        self._closed = False
        _cells.add(self)

    def __enter__(self) -> "Cell":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. It does not close sessions."""
        self._closed = True
        for e in self.endpoints():
            e.close()

    def _after_fork(self) -> None:
        """Forget what other threads of the parent process may have locked."""
        self._lock, self._tls.lock = threading.Lock(), threading.Lock()
        self.tokens.lock, self.seen.lock = threading.Lock(), threading.Lock()
        self._looking = False
        for e in self.endpoints():
            e.reset()

    # Choice of replica.

    def endpoints(self) -> List[Endpoint]:
        return self._given + self._learned

    def pick(self, avoid: Optional[Endpoint] = None) -> Endpoint:
        """Return the replica to ask: the present one, or the next that works."""
        with self._lock:
            if self._current is not avoid and not self._current.is_bad():
                return self._current
            known = self.endpoints()
            at = next((i for i, e in enumerate(known) if e is self._current), -1)
            turn = [known[(at + 1 + i) % len(known)] for i in range(len(known))]
            turn.sort(key=lambda e: (e is avoid, e.is_bad(), not e.works and e not in self._given))
            self._current = turn[0]
            return turn[0]

    def _find(self, url: str) -> Optional[Endpoint]:
        return next((e for e in self.endpoints() if e.base == url.rstrip("/")), None)

    def _follow(self, url: str) -> None:
        """Move to the master that an answer named, if it is known and works."""
        to = self._find(url) if url else None
        if to is not None and to is not self._current and not to.is_bad():
            self._current = to

    def members_revision(self, revision: Any) -> None:
        """Ask for the members when a keepalive reports another revision."""
        if isinstance(revision, int) and revision and revision != self._members_revision:
            self._members_revision = revision
            self._look(0.0)

    def _look(self, within: float) -> None:
        """Ask for the members in the background, at the first answer after `within`."""
        now = _clock.now()
        with self._lock:
            self._look_at = min(self._look_at, now + within)
            if self._looking or self._closed or now < self._look_at:
                return
            self._looking = True
        if not start(self._ask_members, "stout-members"):
            self._looking = False

    def _ask_members(self) -> None:
        try:
            self._learn(self.do(Call("GET", "/v1/cell/urls", check=_urls), timeout=3.0))
            next_look = _LOOK_EVERY
        except (StoutError, CutOff):
            next_look = 5.0
        with self._lock:
            self._looking = False
            self._look_at = _clock.now() + next_look

    def _learn(self, answer: Tuple[List[str], int]) -> None:
        urls, revision = answer
        learned: List[Endpoint] = []
        for url in urls[:32]:
            try:
                e = self._find(url) or Endpoint(url, self._tls)
            except InvalidArgument:
                continue
            if e not in self._given and (e.scheme == "https" or not self._secure):
                learned.append(e)
        with self._lock:
            gone = [e for e in self._learned if e not in learned]
            self._learned = learned
            self._members_revision = revision or self._members_revision
        for e in gone:
            e.close()

    # Calls.

    def do(self, call: Call, timeout: Optional[float] = None) -> Any:
        """Make a call, and repeat it while that is safe. None waits for ever."""
        end = None if timeout is None else _clock.now() + timeout
        pause, patience = _clock.Backoff(), min(max(4 * self._took, _LEAST_PATIENCE), _MOST_PATIENCE)
        avoid: Optional[Endpoint] = None
        last: Exception = error("no_master", "no attempt was made in time")
        while True:
            left = None if end is None else end - _clock.now()
            if left is not None and left <= 0:
                raise self._given_up(call, last)
            call.cut.begin()
            if call.renew is not None:
                call.renew()
            within = call.wait + (_MOST_PATIENCE if call.once or call.wait else patience)
            at = self.pick(avoid)
            avoid, advice = None, 0.0
            sent = _clock.now()
            try:
                return self.attempt(at, call, within, left)
            except NoAnswer as e:
                last = e
                if e.sent and call.once:
                    raise self._given_up(call, e) from e
                patience = min(2 * patience, _MOST_PATIENCE)
            except CutOff:
                raise
            except OtherCell as e:
                last, avoid = e, at
                if all(x.base in self._strange for x in self.endpoints()):
                    raise
            except StoutError as e:
                last = e
                if call.refused and self._renews(call, at):
                    continue
                if not self._repeats(call, e):
                    raise self._outcome(call, e)
                avoid, advice = at, e.retry_after if e.code == "too_many" else 0.0
            if call.wait and _clock.now() - sent > 1.0:
                pause.reset()  # it waited as intended
            wait = max(pause.next(), advice)
            call.cut.pause(wait if end is None else min(wait, end - _clock.now()))

    def _renews(self, call: Call, at: Endpoint) -> bool:
        """Report whether there is a newer credential than the refused one.

        A replica ends a connection whose certificate it no longer accepts.
        """
        if call.renewed:
            return False
        call.renewed, call.refused = True, False
        if at.scheme == "https" and call.closes:
            at.close()  # other connections have the old certificate, too
            return True
        return callable(self._token) and self.authorization().get("Authorization", "") != call.credential

    def _repeats(self, call: Call, e: StoutError) -> bool:
        """Report whether a refused call is sent again."""
        if e.code in ("no_master", "not_master"):
            return True
        if e.code == "outcome_unknown":
            return not call.once
        if e.fields.get("nonsense"):  # another replica may answer better
            call.nonsense += 1
            return not call.once and call.nonsense < len(self.endpoints())
        return e.code == "too_many" and call.method == "DELETE"

    def _given_up(self, call: Call, last: Exception) -> StoutError:
        if isinstance(last, OtherCell):
            return last
        code = "outcome_unknown" if call.unsettled and call.method != "GET" else "no_master"
        return error(code, f"{call.method} {call.target.partition('?')[0]}: no answer in time; last: {last}")

    def _outcome(self, call: Call, e: StoutError) -> StoutError:
        """Return the error of a call: unknown if an earlier attempt is open."""
        if call.unsettled and call.method != "GET" and e.code not in ("internal", "outcome_unknown"):
            if call.settles != "*" and e.code not in call.settles.split():
                unknown = error("outcome_unknown", f"an attempt got no answer, and the next was refused: {e}")
                unknown.__cause__ = e
                return unknown
        return e

    def attempt(self, at: Endpoint, call: Call, within: float, left: Optional[float] = None) -> Any:
        """Make one attempt. Raises StoutError, NoAnswer, CutOff or OtherCell.

        A replica that does not answer `within` the time is passed over, unless
        the caller had less time `left`.
        """
        headers = {"Accept": "application/json", **call.headers, **self.authorization()}
        call.credential = headers.get("Authorization", "")
        if call.body is not None:
            headers.setdefault("Content-Type", "application/json")
        sent = _clock.now()
        try:
            a = at.send(
                call.method,
                call.target,
                headers,
                call.body,
                within if left is None else min(within, left),
                call.cut,
                call.wait > 0,
            )
        except NoAnswer as e:
            if e.sent:
                call.sent(sent)
            if left is None or within <= left or _clock.now() - sent < left:
                at.failed()
                self._look(5.0)
            raise
        except CutOff:
            call.sent(sent)
            raise
        try:
            self.check_cell(at, a.header("Stout-Cell"), a.status < 300 or a.header("Stout-Epoch") != "0")
            if a.status >= 300:
                call.refused = a.status == 401
                call.closes = a.header("Connection").lower() == "close"
                raise self.refusal(at, a)
            out = self._accept(at, call, a)
        except StoutError as e:
            if e.code in ("outcome_unknown", "internal"):
                call.sent(sent)
            raise
        call.first_sent = call.first_sent or sent
        if not call.wait:
            self._took = _clock.now() - sent
        at.answered()
        self._follow(a.header("Stout-Master"))
        self._look(_LOOK_EVERY)
        return out

    def authorization(self) -> Dict[str, str]:
        if self._token is None:
            return {"User-Agent": "stout-python"}
        try:
            token = self._token() if callable(self._token) else self._token
        except Exception as e:
            raise error("unauthenticated", f"the function for the token raised {type(e).__name__}: {e}") from e
        return {"User-Agent": "stout-python", "Authorization": "Bearer " + _token(token)}

    def check_cell(self, at: Endpoint, cell: str, founded: bool = True) -> None:
        """Refuse the answer of another cell. One without a master may be founded anew."""
        if not cell or not founded:
            return
        with self._lock:
            self._id = self._id or cell
            if cell == self._id:
                self._strange.clear()
                return
            self._strange.add(at.base)
        raise OtherCell(
            "other_cell",
            f"{at.base} is a replica of the cell {cell[:64]!r}, and this client has spoken with {self._id!r}; to use the other cell, make a new client",
        )

    def refusal(self, at: Endpoint, a: Answer) -> StoutError:
        """Return the error of an answer that is not 2xx."""
        try:
            p = a.json()
            code = p["code"] if is_code(p["code"]) and p["status"] == a.status else ""
            detail = str(p.get("detail", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            p, code, detail = {}, "", ""
        if not code:  # a proxy's, which may have passed the call on
            code = "outcome_unknown" if a.status in (502, 503, 504) else "internal"
            p, detail = {"nonsense": True}, f"{at.base} answered {a.status}, which is not an answer of a replica"
        at.answered()
        if code not in ("no_master", "not_master", "outcome_unknown"):
            self._follow(a.header("Stout-Master"))
        elif code == "not_master":
            self._follow(str(p.get("master", "")))
        advice = a.header("Retry-After")
        return error(code, detail, p, float(advice) if advice.isdigit() else 0.0)

    def _accept(self, at: Endpoint, call: Call, a: Answer) -> Any:
        """Return the checked content of a successful answer."""
        try:
            if call.status and a.status != call.status or a.status >= 300:
                raise ValueError(f"the status {a.status}")
            if a.header("Stout-Stale") and not call.stale:
                raise ValueError("a possibly stale answer")
            if call.check is None:
                return None
            return call.check(a.json(), a)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            what = str(e) if isinstance(e, ValueError) else f"an unexpected body: {type(e).__name__} {e}"
            raise InternalError(
                "internal",
                f"{at.base} answered {call.method} {call.target.partition('?')[0]} with {what}",
                {"nonsense": True},
            ) from None

    # Sessions and watches.

    def session(
        self, ttl: float = 12.0, name: str = "", meta: Optional[Dict[str, str]] = None, timeout: Optional[float] = None
    ) -> "Session":
        """Open a session, which is kept alive in the background until `close`."""
        from ._session import open_session

        return open_session(self, ttl, name, meta, self.timeout if timeout is None else timeout)

    def watch(
        self,
        prefix: str = "/",
        *,
        after: Optional[int] = None,
        path: str = "",
        types: Sequence[str] = (),
        contents: bool = False,
    ) -> "Watch":
        """Iterate over the events after a revision (None: from now on), in order.

        `prefix` is a plain string; `path` selects one node instead. The Watch
        moves to another replica by itself, and ends on its `close`.
        """
        from ._watch import Watch

        return Watch(self, [prefix] if not path else [], [path] if path else [], after, types, contents)

    def revision(self, timeout: Optional[float] = None) -> int:
        """Return the cell's revision, which includes each change acknowledged before."""
        since = self.seen.value
        return self.seen.note(int(self._read("/v1/events?limit=1", lambda v, a: whole(v["revision"], since), timeout)))

    # Files.

    def get(self, path: str, timeout: Optional[float] = None) -> File:
        """Read a file, or raise NotFound."""
        since = self.seen.value

        def check(v: Any, a: Answer) -> File:
            f = file_of(v, as_of(a, since))
            if f.path != path or f.content is None or f.revision > f.as_of:
                raise ValueError(f"the file {f.path!r} of revision {f.revision}")
            return f

        f: File = self._read("/v1/files" + path_of(path) + "?as=json", check, timeout)
        self.seen.note(f.as_of)
        return f

    def list(self, prefix: str = "/", *, contents: bool = False, timeout: Optional[float] = None) -> Iterator[File]:
        """Iterate over the files at paths with a plain prefix, in the order of paths."""
        query = {"prefix": prefix, "limit": "1000", **({"content": "true"} if contents else {})}
        after = ""
        while True:
            since = self.seen.value

            def check(v: Any, a: Answer) -> Tuple[List[File], str]:
                found = [file_of(f, as_of(a, since)) for f in v["files"]]
                if any(not f.path.startswith(prefix) for f in found):
                    raise ValueError("a file outside of the prefix")
                next_page = v.get("next", "")
                if not isinstance(next_page, str) or next_page and next_page.encode() <= after.encode():
                    raise ValueError("a list that makes no progress")
                return found, next_page

            page, after = self._read(
                "/v1/files?" + urlencode({**query, **({"after": after} if after else {})}), check, timeout
            )
            yield from page
            if not after:
                return

    def put(
        self,
        path: str,
        content: Union[bytes, str],
        *,
        if_revision: Optional[int] = None,
        if_absent: bool = False,
        guard: Optional["Held"] = None,
        timeout: Optional[float] = None,
    ) -> File:
        """Write a whole file, at most once: a lost answer raises OutcomeUnknown.

        Session.put is repeated, and takes effect exactly once.
        """
        return self.write(None, "PUT", path, content, if_revision, if_absent, None, guard, timeout)

    def delete(
        self,
        path: str,
        *,
        if_revision: Optional[int] = None,
        guard: Optional["Held"] = None,
        timeout: Optional[float] = None,
    ) -> bool:
        """Delete a file, at most once, and report whether there was one."""
        return self.remove(None, path, if_revision, guard, timeout)

    def check_sequencer(self, sequencer: str, timeout: Optional[float] = None) -> bool:
        """Report whether the very grant that a sequencer describes is held now."""
        return bool(
            self._read("/v1/sequencers?value=" + quote(sequencer, safe=""), lambda v, a: v["valid"] is True, timeout)
        )

    def _read(self, target: str, check: Check, timeout: Optional[float]) -> Any:
        return self.do(Call("GET", target, check=check), self.timeout if timeout is None else timeout)

    def write(
        self,
        session: Optional["Session"],
        method: str,
        path: str,
        content: Union[bytes, str],
        if_revision: Optional[int],
        if_absent: bool,
        ephemeral: Optional[bool],
        guard: Optional["Held"],
        timeout: Optional[float],
    ) -> File:
        body = _bytes(content)
        since, digest = self.seen.value, hashlib.sha256(body).hexdigest()

        def check(v: Any, a: Answer) -> File:
            f = file_of(v, 0)
            right = f.path == path if method == "PUT" else f.path.startswith(path)
            if not right or f.sha256 != digest or f.size != len(body) or f.revision <= since:
                raise ValueError(f"the stat of {f.path!r} with {f.size} bytes, at revision {f.revision}")
            return f

        query = [("session", session.id)] if session else []
        if ephemeral is not None:
            query.append(("ephemeral", str(ephemeral).lower()))
        call = self._change(method, path, query, if_revision, if_absent, guard, check)
        call.body = body
        f: File = self._send(session, call, timeout)
        self.seen.note(f.revision)
        return f

    def remove(
        self,
        session: Optional["Session"],
        path: str,
        if_revision: Optional[int],
        guard: Optional["Held"],
        timeout: Optional[float],
    ) -> bool:
        def check(v: Any, a: Answer) -> bool:
            if v["deleted"] is True:
                self.seen.note(whole(v["revision"]))
            return v["deleted"] is True

        query = [("session", session.id)] if session else []
        call = self._change("DELETE", path, query, if_revision, False, guard, check)
        return bool(self._send(session, call, timeout))

    def _change(
        self,
        method: str,
        path: str,
        query: List[Tuple[str, str]],
        if_revision: Optional[int],
        if_absent: bool,
        guard: Optional["Held"],
        check: Check,
    ) -> Call:
        headers: Dict[str, str] = {}
        if if_revision is not None and if_absent:
            raise InvalidArgument("invalid_argument", "if_revision and if_absent contradict each other")
        if if_revision is not None:
            if isinstance(if_revision, bool) or not isinstance(if_revision, int):
                raise InvalidArgument("invalid_argument", f"if_revision is {if_revision!r}; it must be an integer")
            headers["If-Match"] = f'"{if_revision}"'
        if if_absent:
            headers["If-None-Match"] = "*"
        if guard is not None:
            if guard.lost.is_set():
                raise error("not_held", f"{guard.sequencer}: the guarding hold has ended here: {guard.lost.reason}")
            query += [("sequencer", sequencer) for sequencer in guard.sequencers]
        where = path_of(path) if method != "POST" else path_of(path + "0" * 16)[:-16]
        return Call(
            method, "/v1/files" + where + ("?" + urlencode(query) if query else ""), headers=headers, check=check
        )

    def _send(self, session: Optional["Session"], call: Call, timeout: Optional[float]) -> Any:
        timeout = self.timeout if timeout is None else timeout
        if session is None:
            call.once = True
            return self.do(call, timeout)
        call.headers["Idempotency-Key"] = secrets.token_hex(16)
        call.settles = "precondition_failed not_held conflict"
        return session.send(call, timeout)


class High:
    """The highest number of a series; later numbers are higher."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value = 0

    def note(self, n: int) -> int:
        with self.lock:
            self.value = max(self.value, n)
        return n


def whole(n: Any, least: int = 0) -> int:
    """Return a number of the API, or raise ValueError."""
    if not isinstance(n, int) or isinstance(n, bool) or not least <= n <= MOST:
        raise ValueError(f"the number {str(n)[:40]}, which must be within {least}..{MOST}")
    return n


def as_of(a: Answer, since: int) -> int:
    """Return an answer's revision, which never goes back."""
    return whole(int(a.header("Stout-Revision") or "-1"), since)


def file_of(v: Any, as_of: int) -> File:
    """Return the file that an answer describes."""
    content: Optional[bytes] = None
    if "content" in v:
        content = str(v["content"]).encode()
    elif "content_base64" in v:
        content = base64.b64decode(v["content_base64"], validate=True)
    f = File(
        path=str(v["path"]),
        revision=whole(v["revision"], 1),
        instance=whole(v["instance"], 1),
        generation=whole(v["generation"], 1),
        size=whole(v["size"]),
        sha256=str(v["sha256"]),
        session=str(v.get("session", "")),
        created_at=str(v.get("created_at", "")),
        modified_at=str(v.get("modified_at", "")),
        content=content,
        as_of=as_of,
    )
    if content is not None and (len(content) != f.size or hashlib.sha256(content).hexdigest() != f.sha256):
        raise ValueError(f"a content of {f.path!r} that does not match its checksum")
    return f


def _token(token: Any) -> str:
    """Return a token, or raise InvalidArgument without it."""
    if not isinstance(token, str):
        why = f"it is of type {type(token).__name__}, not str"
    elif not token:
        why = "it is empty"
    elif not re.fullmatch("[!-~]+", token):
        why = "it has a space, a line break, or another character that is not printable ASCII; strip() what a file has"
    else:
        return token
    raise InvalidArgument("invalid_argument", f"the access token is not valid: {why}", {"field": "token"})


def _bytes(content: Any) -> bytes:
    try:
        return content.encode() if isinstance(content, str) else bytes(memoryview(content))
    except (TypeError, UnicodeEncodeError):
        why = f"the content of type {type(content).__name__} must be bytes, or a str of valid Unicode"
    raise InvalidArgument("invalid_argument", why, {"field": "content"})


def seconds(name: str, value: Any, least: float = 0.0, most: float = float("inf")) -> float:
    """Return a time that the program gave, or raise InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        bounds = f"at least {least:g}" if most == float("inf") else f"between {least:g} and {most:g}"
        raise InvalidArgument("invalid_argument", f"{name} is {value!r}; it must be {bounds} seconds", {"field": name})
    return value


def integer(name: str, value: Any, most: int) -> int:
    """Return a number that the program gave, or raise InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        why = f"{name} is {value!r}; it must be an integer between 0 and {most}"
        raise InvalidArgument("invalid_argument", why, {"field": name})
    return value


def _urls(v: Any, _: Answer) -> Tuple[List[str], int]:
    return [str(r["url"]) for r in v["replicas"]], whole(v.get("members_revision", 0))


def encode(value: Dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _after_fork() -> None:
    for cell in list(_cells):
        cell._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Cell", "Call", "File", "NotFound"]
