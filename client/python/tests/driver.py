"""The driver of the Python client for the conformance suite (docs/writing-a-client.md)."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from typing import Any, Callable, Dict

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import stout  # noqa: E402

Command = Dict[str, Any]
objects: Dict[str, Any] = {}
writing = threading.Lock()


def write(line: Dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def connect(c: Command) -> Command:
    objects[c["as"]] = stout.Cell(
        c["urls"], ca=c.get("ca"), cert=c.get("cert"), key=c.get("key"), token=c.get("token") or None
    )
    return {}


def timeout(c: Command) -> float:
    return float(c.get("timeout_ms", 30000)) / 1000


def open_session(c: Command) -> Command:
    name = c["as"]
    s = objects[c["cell"]].session(ttl=c.get("ttl_ms", 12000) / 1000, name=c.get("name", ""), timeout=timeout(c))
    objects[name] = s

    def changed(state: str) -> None:
        if state != stout.EXPIRED or s._over.code != "session_closed":
            write({"report": state, "session": name})

    c["then"] = lambda: s.on_change(changed)
    return {"session": s.id, "ttl_ms": round(s.ttl * 1000)}


def state(c: Command) -> Command:
    s = objects[c["session"]]
    remaining = s.remaining  # it is 0 unless the state is safe
    return {"state": s.state if remaining == 0 else stout.SAFE, "remaining_ms": remaining * 1000}


def close(c: Command) -> Command:
    objects[c["session"]].close(timeout=timeout(c))
    return {}


def lock(c: Command) -> Command:
    s = objects[c["session"]]
    mode: Command = {"shared": c.get("mode") == "shared", "limit": c.get("limit", 0)}
    if c["op"] == "try_lock":
        return taken(c, s.try_lock(c["path"], *c.get("with", ()), timeout=timeout(c), **mode))
    wait = c["wait_ms"] / 1000 if "wait_ms" in c else None
    return taken(c, s.lock(c["path"], *c.get("with", ()), wait=wait, priority=c.get("priority", 0), **mode))


def taken(c: Command, held: stout.Held) -> Command:
    name = c["as"]
    objects[name] = held
    held.released = False

    def report() -> None:
        held.lost.wait()
        code = held.lost.reason.code
        if not held.released and code != "session_closed":
            write({"report": "lost", "hold": name, "code": code})

    c["then"] = lambda: threading.Thread(target=report, daemon=True).start()
    return {"token": held.token, "sequencer": held.sequencer, "sequencers": held.sequencers}


def held(c: Command) -> Command:
    return {"held": not objects[c["hold"]].lost.is_set()}


def resume(c: Command) -> Command:
    return taken(c, objects[c["hold"]].resume(timeout=timeout(c)))


def await_priority(c: Command) -> Command:
    if not objects[c["hold"]].await_priority(timeout=timeout(c)):
        raise stout.StoutError("no_master", "no wait of a higher priority came in time, or the hold has ended")
    return {}


def unlock(c: Command) -> Command:
    h = objects[c["hold"]]
    h.released = not h.lost.is_set()
    h.release(timeout=timeout(c))
    return {}


def options(c: Command) -> Command:
    out: Command = {"timeout": timeout(c)}
    for ours, theirs in (("if_revision", "if_revision"), ("if_absent", "if_absent"), ("ephemeral", "ephemeral")):
        if c.get(theirs):
            out[ours] = c[theirs]
    if c.get("while"):
        out["guard"] = objects[c["while"]]
    return out


def put(c: Command) -> Command:
    f = objects[c.get("session") or c["cell"]].put(
        c["path"], base64.b64decode(c.get("content_base64", "")), **options(c)
    )
    return {"revision": f.revision, "generation": f.generation}


def get(c: Command) -> Command:
    f = objects[c["cell"]].get(c["path"], timeout=timeout(c))
    return {"revision": f.revision, "generation": f.generation, "content_base64": base64.b64encode(f.content).decode()}


def delete(c: Command) -> Command:
    return {"deleted": objects[c.get("session") or c["cell"]].delete(c["path"], **options(c))}


def list_files(c: Command) -> Command:
    return {
        "files": [
            {"path": f.path, "revision": f.revision} for f in objects[c["cell"]].list(c["prefix"], timeout=timeout(c))
        ]
    }


def watch(c: Command) -> Command:
    name = c["as"]
    w = objects[name] = objects[c["cell"]].watch(c["prefix"], after=c["after"])

    def report() -> None:
        try:
            for e in w:
                if e.type == "compacted":
                    write({"report": "compacted", "watch": name, "revision": e.revision})
                else:
                    write({"report": "event", "watch": name, "revision": e.revision, "type": e.type, "path": e.path})
        except stout.StoutError as e:
            write({"report": "ended", "watch": name, "code": e.code})

    c["then"] = lambda: threading.Thread(target=report, daemon=True).start()
    return {}


def unwatch(c: Command) -> Command:
    objects[c["watch"]].close()
    return {}


operations: Dict[str, Callable[[Command], Command]] = {
    "connect": connect,
    "open": open_session,
    "state": state,
    "close": close,
    "lock": lock,
    "try_lock": lock,
    "held": held,
    "resume": resume,
    "await_priority": await_priority,
    "unlock": unlock,
    "put": put,
    "get": get,
    "delete": delete,
    "list": list_files,
    "watch": watch,
    "unwatch": unwatch,
}


def serve(c: Command) -> None:
    answer: Command = {"id": c["id"]}
    try:
        if c["op"] not in operations:
            raise stout.StoutError("unsupported", f"the driver does not know {c['op']}")
        answer["ok"] = operations[c["op"]](c)
    except stout.StoutError as e:
        answer["error"] = {"code": e.code, "message": str(e)}
    except Exception as e:  # the suite shows it
        answer["error"] = {"code": "driver_failed", "message": repr(e)}
    write(answer)
    if "then" in c:
        c["then"]()


def main() -> None:
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()


if __name__ == "__main__":
    main()
