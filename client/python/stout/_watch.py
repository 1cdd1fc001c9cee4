"""Watches: a stream of events that moves from replica to replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple
from urllib.parse import urlencode

from . import _clock
from ._cell import MOST, Cell, File, file_of, integer, whole
from ._http import Cut, CutOff, Endpoint, NoAnswer, Stream, decode
from .errors import InternalError, InvalidArgument, OtherCell, StoutError, Unavailable, error

_BEGIN = 5.0  # until a stream begins
_SILENCE = 15.0  # a bookmark comes every 10 s
_MOST_RENEWALS = 2
_MOST_IDLE = 2  # bookmarks without an event, before the replica is asked if it is ready


@dataclass(frozen=True)
class Event:
    """A change of a file, a lock or the master.

    The type `compacted` is a gap: events up to `revision` are no longer kept.
    Read again what matters; the events after it follow. `fields` is the
    cell's message.
    """

    revision: int
    type: str
    path: str
    fields: Dict[str, Any]
    file: Optional[File] = None  # in file_created and file_changed


class Watch:
    """An iterator over events, in order, without gaps or repeats."""

    def __init__(
        self,
        cell: Cell,
        prefixes: Sequence[str],
        paths: Sequence[str],
        after: Optional[int],
        types: Sequence[str],
        contents: bool,
    ):
        if any(not p.startswith("/") for p in [*prefixes, *paths]):
            raise InvalidArgument("invalid_argument", f"{[*prefixes, *paths]} must start with '/'")
        self._cell = cell
        self._prefixes, self._paths, self._types = tuple(prefixes), set(paths), set(types)
        self._query: List[Tuple[str, str]] = [("prefix", p) for p in prefixes if p != "/"] + [
            ("path", p) for p in paths
        ]
        if types:
            self._query.append(("types", ",".join(types)))
        if contents:
            self._query.append(("content", "true"))
        self._after = cell.revision() if after is None else integer("after", after, MOST)
        self._cut = Cut()
        self._at: Optional[Endpoint] = None
        self._compacted: Dict[str, int] = {}  # revisions of replicas that do not keep the next events
        self._renewals = 0  # tries with another credential since the last event
        self._silent: Set[str] = set()  # replicas with streams that failed
        self._useless: Set[str] = set()  # replicas with answers that failed a check or were refusals

    @property
    def after(self) -> int:
        """All events up to this revision were yielded."""
        return self._after

    def close(self) -> None:
        """End the iteration, from any thread."""
        self._cut.cut(final=True)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        pause = _clock.Backoff()
        try:
            while True:
                self._cut.begin()
                self._at = at = self._choose()
                began = _clock.now()
                try:
                    yield from self._stream(at)
                except NoAnswer as e:
                    self._silent.add(at.base)
                    if e.sent:  # only this stream may have failed
                        self._cell._look(5.0)
                    else:
                        at.failed()
                    gap = self._missed()
                except StoutError as e:
                    gap = self._refused(at, e)
                if gap is not None:
                    yield gap
                if _clock.now() - began > 1.0:
                    pause.reset()
                self._cut.pause(pause.next())
        except CutOff:
            return

    def _choose(self) -> Endpoint:
        """Return the next replica, in turn; the ones that failed come last."""
        known = self._cell.endpoints()
        at = next((i for i, e in enumerate(known) if e is self._at), -1)
        turn = [known[(at + 1 + i) % len(known)] for i in range(len(known))]
        return min(
            turn, key=lambda e: (e.base in self._compacted or e.base in self._useless, self._fails(e), e is self._at)
        )

    def _fails(self, at: Endpoint) -> bool:
        return at.base in self._silent or at.is_bad()

    def _stream(self, at: Endpoint) -> Iterator[Event]:
        cell = self._cell
        headers = {"Accept": "text/event-stream", **cell.authorization()}
        stream = at.stream(
            "/v1/events?" + urlencode([("after", str(self._after)), *self._query]), headers, _BEGIN, _SILENCE, self._cut
        )
        if not isinstance(stream, Stream):
            cell.check_cell(at, stream.header("Stout-Cell"), stream.header("Stout-Epoch") != "0")
            raise cell.refusal(at, stream)
        try:
            cell.check_cell(at, str(stream.headers.get("Stout-Cell", "")))
            idle = 0
            while True:
                id, kind, data = stream.next()
                event = self._read(at, id, kind, data)
                at.answered()
                idle = idle + 1 if event is None else 0
                if event is not None:
                    yield event
                elif idle % _MOST_IDLE == 0:
                    self._check_ready(at)
        finally:
            stream.close()

    def _read(self, at: Endpoint, id: str, kind: str, data: bytes) -> Optional[Event]:
        """Return the event of a message, None for a bookmark."""
        try:
            v = decode(data)
            revision = whole(v["revision"])
            if str(revision) != id:
                raise ValueError(f"revision {revision} under the id {id[:20]!r}")
            if kind == "compacted":
                raise error("compacted", "the events are no longer kept", v)
            if kind == "denied":
                raise error("unauthenticated", f"{at.base} reports that the caller may no longer watch")
            if kind == "bookmark":
                self._cell.check_cell(at, str(v.get("cell", "")))
                self._reach(whole(revision, self._after))
                return None
            whole(revision, self._after + 1)
            path = str(v.get("path", ""))
            if v["type"] != kind or not self._wanted(kind, path):
                raise ValueError(f"{kind[:40]} of {path[:100]!r}, which was not requested")
            file = file_of(v, revision) if kind in ("file_created", "file_changed") else None
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise InternalError("internal", f"{at.base} sent a watcher {e}", {"nonsense": True}) from None
        self._reach(revision)
        return Event(revision, kind, path, v, file)

    def _wanted(self, kind: str, path: str) -> bool:
        if kind == "master_changed":
            return True
        if self._types and kind not in self._types:
            return False
        return path in self._paths or path.startswith(self._prefixes)

    def _reach(self, revision: int) -> None:
        self._after = revision
        self._compacted.clear()
        self._useless.clear()
        self._silent.clear()
        self._renewals = 0

    def _check_ready(self, at: Endpoint) -> None:
        """Leave a replica that is cut off from the others, which gets no events."""
        if at.send("GET", "/readyz", self._cell.authorization(), None, _BEGIN, Cut()).status == 503:
            raise error("no_master", f"{at.base} is not ready")

    def _refused(self, at: Endpoint, e: StoutError) -> Optional[Event]:
        """Process a refusal: return the gap to yield, or raise what ends the watch."""
        if e.code == "compacted":
            try:
                return self._missed(whole(e.fields.get("revision")), whole(e.fields.get("oldest")))
            except ValueError as wrong:
                e = InternalError("internal", f"{at.base} sent a watcher {wrong}")
        if e.code in ("no_master", "not_master", "outcome_unknown", "too_many"):
            self._cut.pause(e.retry_after if e.code == "too_many" else 0.0)
            return self._missed()
        if e.code == "unauthenticated" and e.__cause__ is None and self._renewals < _MOST_RENEWALS:
            self._renewals += 1
            try:
                self._cell.revision()  # with the present credential
                return None
            except Unavailable:
                return None
            except StoutError as again:
                e = again
        if isinstance(e, OtherCell) or e.code in ("unauthenticated", "permission_denied", "internal", "not_found"):
            self._useless.add(at.base)
            if all(x.base in self._useless or self._fails(x) for x in self._cell.endpoints()):
                raise e
            return None
        raise e

    def _missed(self, revision: int = -1, oldest: int = 0) -> Optional[Event]:
        """Record that a replica does not keep the next events, or has failed.

        When all have been asked, the gap is reported.
        """
        assert self._at is not None
        if revision >= 0:
            self._compacted[self._at.base] = revision
        if not self._compacted or not all(e.base in self._compacted or self._fails(e) for e in self._cell.endpoints()):
            return None
        revision = max(self._compacted.values())
        self._compacted.clear()
        self._after = revision
        return Event(revision, "compacted", "", {"revision": revision, "oldest": oldest})
