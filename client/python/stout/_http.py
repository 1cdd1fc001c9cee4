"""Connections to replicas: one attempt of a call, and streams of events."""

from __future__ import annotations

import functools
import http.client
import io
import json
import os
import re
import socket
import ssl
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateResult
from email.message import Message
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple, Union
from urllib.parse import quote, urlsplit

from . import _clock
from .errors import InvalidArgument

DIAL_TIME = 2.0
_MOST_ANSWER = 64 << 20
_MOST_IDLE = 8
_IDLE_TIME = 90.0  # a replica keeps idle connections for longer
_PIECE = 16 << 10  # of a body: at most one TLS record


class NoAnswer(Exception):
    """An attempt without an answer; `sent` is false if it certainly had no effect."""

    def __init__(self, base: str, why: object, sent: bool):
        super().__init__(f"{base}: {why or type(why).__name__}")
        self.sent = sent


class CutOff(Exception):
    """The call was ended by another thread of this program."""


class Cut:
    """Ends the call that uses it, from any thread.

    Once `final`, later calls end at once as well.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may cut
        self._sock: Optional[socket.socket] = None
        self._hit = threading.Event()
        self._final = False

    @property
    def hit(self) -> bool:
        return self._hit.is_set()

    def cut(self, final: bool = False) -> None:
        with self._lock:
            self._final = self._final or final
            self._hit.set()
            if self._sock is not None:
                shut(self._sock)

    def begin(self) -> None:
        """Forget an earlier cut that was not final."""
        with self._lock:
            if self._final:
                raise CutOff
            self._hit.clear()

    def pause(self, seconds: float) -> None:
        """Sleep, or until the cut."""
        self._hit.wait(max(seconds, 0.0))

    def enter(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self._hit.is_set():
                shut(sock)

    def leave(self) -> bool:
        """Let go of the socket, and report whether it was cut."""
        with self._lock:
            self._sock = None
            return self._hit.is_set()


def shut(sock: socket.socket) -> None:
    """End a socket that another thread may be reading.

    SSLSocket.shutdown would make that thread read undecrypted bytes.
    """
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        pass


def start(target: Callable[..., None], name: str, *args: Any) -> bool:
    """Run a function in a thread.

    Returns False if there can be no thread: the main thread has ended (Python
    3.12), or the program has too many.
    """
    try:
        threading.Thread(target=target, args=args, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _is_open(sock: socket.socket) -> bool:
    """Report whether an idle connection has neither data nor an end to read."""
    sock.settimeout(0)
    try:
        socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return True
    except OSError:
        pass
    return False


class _Timed(io.RawIOBase):
    """Reads a socket until an instant, even if the bytes arrive one by one."""

    def __init__(self, until: float, sock: socket.socket, file: io.BufferedReader):
        super().__init__()
        self.until, self._sock, self._file = until, sock, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(_left(self.until))
        return self._file.raw.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response that must be read until an instant."""

    def __init__(self, until: float, sock: socket.socket, *args: Any, **options: Any):
        super().__init__(sock, *args, **options)
        self.timed = _Timed(until, sock, self.fp)
        self.fp = io.BufferedReader(self.timed)


def _left(until: float) -> float:
    """Return the time left until an instant, or raise TimeoutError."""
    left = until - _clock.now()
    if left <= 0:
        raise TimeoutError("the answer was not complete in time")
    return left


def _pieces(sock: socket.socket, body: bytes, until: float) -> Iterator[bytes]:
    """Return the body in pieces, which together are sent until an instant."""
    for at in range(0, len(body), _PIECE):
        sock.settimeout(_left(until))
        yield body[at : at + _PIECE]


def _read(resp: http.client.HTTPResponse) -> bytes:
    if resp.length is not None and resp.length > _MOST_ANSWER:
        raise ValueError(f"an answer of {resp.length} bytes")
    return resp.read()


def decode(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise ValueError("a body that is not JSON") from None


class Answer:
    """The answer to an attempt."""

    def __init__(self, status: int, headers: Message, body: bytes):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return decode(self.body)

    def header(self, name: str) -> str:
        return self.headers.get(name, "") or ""


class TLS:
    """The TLS configuration. Changed files apply to new connections."""

    def __init__(self, ca: Optional[str], cert: Optional[str], key: Optional[str]):
        self._files = (ca, cert, key)
        self.lock = threading.Lock()
        self._stamp: Tuple[float, ...] = ()
        self._context: Optional[ssl.SSLContext] = None
        if ca or cert:
            self.context()

    def context(self) -> ssl.SSLContext:
        ca, cert, key = self._files
        with self.lock:
            stamp = tuple(os.stat(f).st_mtime for f in self._files if f)
            if self._context is None or stamp != self._stamp:
                made = ssl.create_default_context(cafile=ca)
                made.minimum_version = ssl.TLSVersion.TLSv1_2
                if cert:
                    made.load_cert_chain(cert, key)
                self._context, self._stamp = made, stamp
            return self._context


class Endpoint:
    """The base URL of one replica, with its connections and its record."""

    def __init__(self, url: str, tls: TLS):
        parts, port = urlsplit(""), None
        try:
            parts = urlsplit(url if "://" in url else "http://" + url)
            port = parts.port
        except ValueError:
            port = -1
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or port == -1
            or parts.username is not None
            or parts.query
            or parts.fragment
        ):
            raise InvalidArgument(
                "invalid_argument", f"{url!r} is not a base URL; write http://host:port or https://host:port"
            )
        self.scheme, self.host = parts.scheme, parts.hostname
        self.port = port or {"http": 80, "https": 443}[self.scheme]
        self.path = parts.path.rstrip("/")
        self.base = f"{self.scheme}://{parts.netloc}{self.path}"
        self.tls = tls
        self.works = False  # it has answered since its last failure
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []  # and since when
        self.failures = 0
        self.probe_at = 0.0
        self.reset()

    def reset(self) -> None:
        """Forget all connections, as in a child process after a fork."""
        for conn, _ in self._idle:
            conn.close()  # here only
        self._lock = threading.Lock()
        self._probing = False
        self._idle = []
        self._waiting: Set[socket.socket] = set()
        self._lookup: Optional["Future[List[Any]]"] = None  # of the name, under way
        self._worked: Any = None  # the address of the last connection

    def failed(self) -> None:
        """Pass the replica over until it answers, and end the calls that wait there."""
        with self._lock:
            now = _clock.now()
            self.works = False
            if now >= self.probe_at:
                self.failures += 1
                self.probe_at = now + min(2.0 ** (self.failures - 1), 60.0)
            for sock in self._waiting:
                shut(sock)

    def answered(self) -> None:
        if not self.works:
            self.works, self.failures, self.probe_at = True, 0, 0.0

    def is_bad(self) -> bool:
        """Report whether it has failed and not answered since; probe it at times."""
        if self.works or not self.failures:
            return False
        with self._lock:
            due = _clock.now() >= self.probe_at and not self._probing
            self._probing = self._probing or due
        if due and not start(self._probe, "stout-probe"):
            self._probing = False
            return False  # the next call probes it
        return True

    def _probe(self) -> None:
        try:
            self.send("GET", "/readyz", {}, None, 3.0, Cut())
            self.answered()
        except (NoAnswer, CutOff):
            self.failed()
        finally:
            self._probing = False

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for conn, _ in idle:
            conn.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                conn, since = self._idle.pop() if self._idle else (None, 0.0)
            if conn is None:
                break
            if _clock.now() - since < _IDLE_TIME and _is_open(conn.sock):
                return conn
            conn.close()  # the replica has closed it, or may have: the end is lost if the machine slept
        if self.scheme == "https":
            conn = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls.context())
        else:
            conn = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        conn.auto_open = 0  # http.client would repeat a request on a new connection
        setattr(conn, "_create_connection", self._dial)
        conn.connect()
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return conn

    def _dial(self, address: Tuple[str, int], timeout: float, *more: Any) -> socket.socket:
        """Connect to the first address of the host that accepts.

        A thread looks the name up, since getaddrinfo has no bound of its own.
        """
        until = _clock.now() + timeout
        lookup = self._lookup
        if lookup is None:
            lookup = self._lookup = Future()
            if not start(self._look_up, "stout-lookup", lookup):
                self._look_up(lookup)
        try:
            found = lookup.result(timeout)
        except LateResult:
            self._lookup = None  # the next call looks again
            raise TimeoutError(f"the lookup of {self.host!r} took longer than {timeout:.1f} s") from None
        why: Exception = OSError(f"{self.host} has no address")
        found = sorted(found, key=lambda one: bool(one[-1] != self._worked))
        for i, (*_, to) in enumerate(found):
            left = max(until - _clock.now(), 0.01) / (len(found) - i)  # the others get their share
            try:
                host, _ = socket.getnameinfo(to, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
                sock = socket.create_connection((host, self.port), left)
            except OSError as e:
                why = e
            else:
                self._worked = to
                sock.settimeout(timeout)
                return sock
        raise why

    def _look_up(self, lookup: "Future[List[Any]]") -> None:
        try:
            lookup.set_result(socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_STREAM))
        except Exception as e:  # of the waiting calls
            lookup.set_exception(e)
        self._lookup = None

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        timeout: float,
        cut: Cut,
        waits: bool = False,
    ) -> Answer:
        """Make one attempt. The answer must arrive within `timeout`."""
        conn, sock, resp = self._begin(method, target, headers, body, timeout, cut, waits)
        keep = False
        try:
            data = _read(resp)
            keep = not resp.will_close and resp.isclosed()
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise self._failure(e, cut) from e
        finally:
            self._end(conn, sock, cut, keep)
        return Answer(resp.status, resp.headers, data)

    def _begin(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        timeout: float,
        cut: Cut,
        waits: bool,
    ) -> Tuple[http.client.HTTPConnection, socket.socket, _Response]:
        until = _clock.now() + timeout
        try:
            conn = self._connection(min(timeout, DIAL_TIME))
        except (OSError, ValueError) as e:
            raise NoAnswer(self.base, e, False) from e
        sock: socket.socket = conn.sock
        begun = False
        try:
            cut.enter(sock)
            if waits:
                with self._lock:
                    self._waiting.add(sock)
            sock.settimeout(max(until - _clock.now(), 0.01))
            pieces = None if body is None else _pieces(sock, body, until)
            length = {} if body is None else {"Content-Length": str(len(body))}
            conn.request(method, self.path + target, body=pieces, headers={**headers, **length})
            setattr(conn, "response_class", functools.partial(_Response, until))
            resp = conn.getresponse()
            assert isinstance(resp, _Response)
            begun = True
            return conn, sock, resp
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise self._failure(e, cut) from e
        finally:
            if not begun:
                self._end(conn, sock, cut, False)

    def _failure(self, e: Exception, cut: Cut) -> Exception:
        return CutOff() if cut.hit else NoAnswer(self.base, e, True)

    def _end(self, conn: http.client.HTTPConnection, sock: socket.socket, cut: Cut, keep: bool) -> None:
        hit = cut.leave()
        with self._lock:
            self._waiting.discard(sock)
            if keep and not hit and len(self._idle) < _MOST_IDLE:
                self._idle.append((conn, _clock.now()))
                return
        conn.close()

    def stream(
        self, target: str, headers: Mapping[str, str], timeout: float, silence: float, cut: Cut
    ) -> Union[Answer, "Stream"]:
        """Begin a stream of events, or return the answer that refuses it."""
        conn, sock, resp = self._begin("GET", target, headers, None, timeout, cut, True)
        kind = resp.headers.get("Content-Type", "") or ""
        if resp.status == 200 and kind.startswith("text/event-stream"):
            return Stream(resp, silence, lambda: self._end(conn, sock, cut, False), lambda e: self._failure(e, cut))
        try:
            data = _read(resp)
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise self._failure(e, cut) from e
        finally:
            self._end(conn, sock, cut, False)
        return Answer(resp.status, resp.headers, data)


class Stream:
    """Server-sent events."""

    _MOST = 4 << 20

    def __init__(
        self, resp: _Response, silence: float, end: Callable[[], None], failure: Callable[[Exception], Exception]
    ):
        self.headers = resp.headers
        self._resp, self._silence, self._end, self._failure = resp, silence, end, failure

    def close(self) -> None:
        self._end()
        self._resp.close()

    def next(self) -> Tuple[str, str, bytes]:
        """Return the next message with data: its id, event and data.

        The whole message must come within the silence.
        """
        self._resp.timed.until = _clock.now() + self._silence
        found: Dict[str, str] = {}
        data: List[bytes] = []
        size = 0
        while True:
            try:
                line = self._resp.readline(self._MOST + 1)
            except (OSError, http.client.HTTPException, ValueError) as e:
                raise self._failure(e) from e
            size += len(line)
            if not line.endswith(b"\n") or size > self._MOST:
                raise self._failure(OSError("the stream ended"))
            line = line.rstrip(b"\r\n")
            if not line:
                if data:
                    return found.get("id", ""), found.get("event", ""), b"\n".join(data)
                found, size = {}, 0
                continue
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"data":
                data.append(value)
            else:
                found[name.decode("ascii", "replace")] = value.decode("utf-8", "replace")


def path_of(path: str) -> str:
    """Return a path in the form for a URL, or raise InvalidArgument."""
    if not isinstance(path, str):
        raise InvalidArgument("invalid_argument", f"the path {path!r} must be a string", {"field": "path"})
    why = ""
    segments = path.split("/")[1:]
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(
            "invalid_argument", f"the path {path!r} is not valid Unicode", {"field": "path"}
        ) from None
    if not path.startswith("/"):
        why = "it must start with '/'"
    elif size > 1024 or len(segments) > 32 or any(len(s.encode()) > 255 for s in segments):
        why = "at most 1024 bytes, 32 segments and 255 bytes a segment are allowed"
    elif any(s in ("", ".", "..") for s in segments):
        why = "a segment is empty, '.' or '..'"
    elif re.search(r"[\x00-\x1f\x7f-\x9f]", path):
        why = "it has a control character"
    if why:
        raise InvalidArgument("invalid_argument", f"the path {path!r}: {why}", {"field": "path"})
    return quote(path, safe="/")
