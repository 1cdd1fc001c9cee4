"""Tests of the pure parts. The conformance suite tests the rest on real cells."""

import _thread
import base64
import hashlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from email.message import Message
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import stout  # noqa: E402
from stout import _cell, _clock, _http, _session, _watch, errors  # noqa: E402


class LeaseTest(unittest.TestCase):
    def test_states_by_the_clock(self):
        for now, state, remaining in (
            (0, "safe", 10),
            (9.9, "safe", 0.1),
            (10, "jeopardy", 0),
            (54.9, "jeopardy", 0),
            (55, "expired", 0),
            (99, "expired", 0),
        ):
            lease = _session.Lease(0, 10, 45)
            lease.look(now)
            self.assertEqual((lease.state, round(lease.remaining(now), 3)), (state, remaining))

    def test_a_lease_is_never_shortened_or_revived(self):
        lease = _session.Lease(0, 10, 45)
        self.assertFalse(lease.extend(1, 9))
        self.assertEqual(lease.end, 10)
        lease.look(12)
        self.assertFalse(lease.extend(12, 11))  # an answer that came too late
        self.assertEqual(lease.state, "jeopardy")
        self.assertTrue(lease.extend(12, 20))
        self.assertEqual(lease.state, "safe")
        lease.look(70)
        self.assertFalse(lease.extend(70, 90))
        self.assertEqual(lease.state, "expired")


class PathTest(unittest.TestCase):
    def test_paths(self):
        for path, want in (("/a", "/a"), ("/a b/c%d", "/a%20b/c%25d"), ("/käse", "/k%C3%A4se"), ("/a?#", "/a%3F%23")):
            self.assertEqual(_http.path_of(path), want)
        for path in (
            "",
            "a",
            "/",
            "/a/",
            "//a",
            "/a//b",
            "/.",
            "/a/..",
            "/a\n",
            "/\x85",
            "/" + "x" * 256,
            "/a" * 33,
            "/\ud800",
        ):
            with self.assertRaises(stout.InvalidArgument, msg=repr(path)):
                _http.path_of(path)


class EndpointTest(unittest.TestCase):
    tls = _http.TLS(None, None, None)

    def test_urls(self):
        for url, base in (
            ("http://a:1", "http://a:1"),
            ("a:1", "http://a:1"),
            ("https://a/x/", "https://a/x"),
            ("http://[::1]:7", "http://[::1]:7"),
        ):
            self.assertEqual(_http.Endpoint(url, self.tls).base, base)
        for url in (
            "",
            "ftp://a",
            "http://",
            "http://a:x",
            "http://a:99999",
            "http://u:p@a",
            "http://a?x=1",
            "http://a#x",
            "http://[::1:7101",
        ):
            with self.assertRaises(stout.InvalidArgument, msg=url):
                _http.Endpoint(url, self.tls)

    def test_a_failed_replica_is_passed_over_until_it_answers(self):
        e = _http.Endpoint("http://a:1", self.tls)
        with mock.patch.object(e, "_probe"):
            self.assertFalse(e.is_bad())
            e.failed()
            self.assertTrue(e.is_bad())
            e.answered()
            self.assertFalse(e.is_bad())

    def test_the_lookup_of_a_name_is_bounded(self):
        end = threading.Event()
        self.addCleanup(end.set)
        with mock.patch.object(socket, "getaddrinfo", side_effect=lambda *_: end.wait() and []) as lookup:
            e = _http.Endpoint("http://name:1", self.tls)
            for _ in range(2):
                with self.assertRaisesRegex(_http.NoAnswer, "the lookup of 'name' took longer") as caught:
                    e.send("GET", "/", {}, None, 0.01, _http.Cut())
                self.assertFalse(caught.exception.sent)
            self.assertEqual(lookup.call_count, 2)

    def test_dead_addresses_leave_time_for_a_live_one(self):
        now, dialled = [100.0], []

        def dial(address, timeout):
            dialled.append(address[0])
            if address[0] != "10.0.0.4":
                now[0] += timeout
                raise TimeoutError("no answer")
            return mock.Mock()

        found = [(0, 0, 0, "", (f"10.0.0.{i}", 1)) for i in (1, 2, 3, 4)]
        with mock.patch.object(socket, "getaddrinfo", return_value=found), mock.patch.object(
            socket, "create_connection", side_effect=dial
        ), mock.patch.object(_clock, "now", lambda: now[0]):
            e = _http.Endpoint("http://name:1", self.tls)
            e._dial(("name", 1), 2.0)
            self.assertLess(now[0], 102.0)
            dialled.clear()
            e._dial(("name", 1), 2.0)  # the one that worked is first
            self.assertEqual(dialled, ["10.0.0.4"])

    def test_waiting_calls_end_when_their_replica_fails(self):
        e = _http.Endpoint("http://a:1", self.tls)
        ours, theirs = socket.socketpair()
        e._waiting.add(ours)
        e.failed()
        self.assertEqual(ours.recv(1), b"")
        ours.close()
        theirs.close()


class CellTest(unittest.TestCase):
    def test_learned_urls_never_leave_https(self):
        cell = stout.Cell("https://a:1")
        cell._learn((["https://a:1", "http://b:2", "https://c:3", "nonsense:x", "https://[::1:7101"], 7))
        self.assertEqual([e.base for e in cell.endpoints()], ["https://a:1", "https://c:3"])
        cell._learn((["https://d:4"], 8))
        self.assertEqual([e.base for e in cell.endpoints()], ["https://a:1", "https://d:4"])

    def test_an_unsettled_call_is_unknown_unless_the_refusal_settles_it(self):
        cell = stout.Cell("http://a:1")
        for method, unsettled, settles, code, want in (
            ("PUT", False, "", "permission_denied", "permission_denied"),
            ("PUT", True, "", "permission_denied", "outcome_unknown"),
            ("PUT", True, "conflict", "permission_denied", "outcome_unknown"),
            ("PUT", True, "conflict", "conflict", "conflict"),
            ("PUT", True, "*", "lock_held", "lock_held"),
            ("GET", True, "", "not_found", "not_found"),
        ):
            call = _cell.Call(method, "/x", settles=settles)
            call.unsettled = unsettled
            self.assertEqual(cell._outcome(call, errors.error(code, "")).code, want)

    def test_other_cells(self):
        cell = stout.Cell(["http://a:1", "http://b:2"])
        a, b = cell.endpoints()
        cell.check_cell(a, "one")
        cell.check_cell(b, "two", founded=False)
        with self.assertRaises(stout.OtherCell):
            cell.check_cell(b, "two")
        self.assertEqual(cell._strange, {"http://b:2"})
        cell.check_cell(a, "one")
        self.assertEqual(cell._strange, set())

    def test_files_must_match_their_checksum(self):
        content = b"x\xff"
        v = {
            "path": "/a",
            "revision": 3,
            "instance": 2,
            "generation": 1,
            "size": 2,
            "sha256": hashlib.sha256(content).hexdigest(),
            "content_base64": base64.b64encode(content).decode(),
        }
        self.assertEqual(_cell.file_of(v, 5).content, content)
        for wrong in (
            {"size": 3},
            {"sha256": "0" * 64},
            {"revision": 0},
            {"revision": "3"},
            {"revision": True},
            {"generation": 2**53},
            {"content_base64": "!"},
        ):
            with self.assertRaises(ValueError, msg=wrong):
                _cell.file_of({**v, **wrong}, 5)

    def test_a_token_that_cannot_be_had_ends_the_call(self):
        asked = []

        def token():
            asked.append(1)
            raise OSError("the disk is gone")

        cell = stout.Cell("http://127.0.0.1:1", token=token)
        for call in (
            lambda: cell.get("/a"),
            lambda: cell.put("/a", "x"),
            lambda: cell.session(),
            lambda: list(cell.watch(after=1)),
        ):
            asked.clear()
            with self.assertRaisesRegex(stout.Denied, "OSError: the disk is gone") as caught:
                call()
            self.assertIsInstance(caught.exception.__cause__, OSError)
            self.assertEqual(len(asked), 1)

    def test_a_token_that_was_exchanged_is_sent_again(self):
        tokens = iter(["old", "old", "new", "new", "new"])
        cell = stout.Cell("http://a:1", token=lambda: next(tokens))
        cell._look_at = float("inf")  # it has no list of members
        (at,) = cell.endpoints()
        sent = []

        def send(method, target, headers, *_):
            sent.append(headers["Authorization"])
            if headers["Authorization"] == "Bearer old":
                return _http.Answer(401, Message(), b'{"status":401,"code":"unauthenticated"}')
            return _http.Answer(200, Message(), b'{"revision":7}')

        with mock.patch.object(at, "send", side_effect=send):
            with self.assertRaises(stout.Denied):  # the function has no other one
                cell.revision()
            self.assertEqual(sent, ["Bearer old"])
            tokens = iter(["old", "new", "new", "new"])
            self.assertEqual(cell.revision(), 7)
            self.assertEqual(sent, ["Bearer old", "Bearer old", "Bearer new"])

    def test_an_invalid_token_is_refused_and_not_shown(self):
        for token in ("secret\n", " secret", "se cret", "secr\u00e9t", "", b"secret", 7):
            with self.assertRaises(stout.InvalidArgument, msg=repr(token)) as caught:
                stout.Cell("http://127.0.0.1:1", token=token)
            self.assertNotIn("secr", str(caught.exception))
            cell = stout.Cell("http://127.0.0.1:1", token=lambda: token)
            for call in (lambda: cell.get("/a"), lambda: cell.put("/a", "x"), lambda: list(cell.watch(after=1))):
                with self.assertRaises(stout.InvalidArgument, msg=repr(token)) as caught:
                    call()
                self.assertNotIn("secr", str(caught.exception))
        headers = stout.Cell("http://127.0.0.1:1", token=lambda: "stout_x-1").authorization()
        self.assertEqual(headers["Authorization"], "Bearer stout_x-1")
        self.assertNotIn("Authorization", stout.Cell("http://127.0.0.1:1", token=None).authorization())
        with self.assertRaises(stout.InvalidArgument):
            stout.Cell("http://127.0.0.1:1", token=lambda: None).get("/a")

    def test_invalid_arguments(self):
        cell = stout.Cell("http://127.0.0.1:1")
        for call, text in (
            (lambda: cell.put("/a", 5), "the content of type int must be bytes"),
            (lambda: cell.put("/a", True), "the content of type bool"),
            (lambda: cell.put("/a", ["a"]), "the content of type list"),
            (lambda: cell.put("/a", None), "the content of type NoneType"),
            (lambda: cell.put("/a", "\ud800"), "valid Unicode"),
            (lambda: cell.put("/a", "x", if_revision="5\n"), "if_revision is '5"),
            (lambda: cell.get(None), "the path None must be a string"),
            (lambda: cell.delete(7), "the path 7 must be a string"),
            (lambda: cell.session(ttl="10000"), "ttl is '10000'; it must be between 1 and 86400 seconds"),
            (lambda: cell.session(ttl=100000), "ttl is 100000; .* seconds"),
            (lambda: cell.session(ttl=float("nan")), "ttl is nan"),
            (lambda: stout.Cell("http://a:1", timeout="30"), "timeout is '30'; it must be at least 0 seconds"),
            (lambda: stout.Cell("http://a:1", grace=-1), "grace is -1"),
            (lambda: cell.watch(after="57"), "after is '57'; it must be an integer"),
            (lambda: cell.watch(after=-1), "after is -1"),
        ):
            with self.assertRaisesRegex(stout.InvalidArgument, text):
                call()
        for content in (b"ab", "ab", bytearray(b"ab"), memoryview(b"a b")[::2]):
            self.assertEqual(_cell._bytes(content), b"ab")

    def test_an_answer_that_is_not_json(self):
        cell = stout.Cell("http://a:1")
        call = _cell.Call("GET", "/v1/files/x?as=json", check=lambda v, a: v["path"])
        for body, text in (
            (b"<html>", "answered GET /v1/files/x with a body that is not JSON"),
            (b"{}", "an unexpected body: KeyError 'path'"),
        ):
            with self.assertRaisesRegex(stout.InternalError, text):
                cell._accept(cell.endpoints()[0], call, _http.Answer(200, Message(), body))

    def test_the_log_is_silent_unless_set_up(self):
        program = "import logging, stout; logging.getLogger('stout').warning('noise')"
        path = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(_cell.__file__))}
        out = subprocess.run([sys.executable, "-B", "-c", program], env=path, stderr=subprocess.PIPE, check=True)
        self.assertEqual(out.stderr, b"")


class ErrorTest(unittest.TestCase):
    def test_each_code_has_a_class(self):
        for code, group in (
            ("lock_delayed", stout.LockHeld),
            ("no_master", stout.Unavailable),
            ("session_not_found", stout.SessionEnded),
            ("jeopardy", stout.LockLost),
            ("not_held", stout.PreconditionFailed),
            ("new_code", stout.InternalError),
        ):
            e = errors.error(code, "why", {"x": 1}, 2.0)
            self.assertIs(type(e), group)
            again = e.again()
            self.assertEqual(
                (again.code, again.detail, again.fields, again.retry_after, str(again)),
                (code, "why", {"x": 1}, 2.0, code + ": why"),
            )


class BackoffTest(unittest.TestCase):
    def test_pauses_grow_to_a_second(self):
        pause = _clock.Backoff()
        all = [pause.next() for _ in range(20)]
        self.assertTrue(0.012 <= all[0] <= 0.025 and 0.5 <= all[-1] <= 1.0, all)
        pause.reset()
        self.assertLessEqual(pause.next(), 0.025)


def response(body):
    """Return an http.client response of a body."""
    ours, theirs = socket.socketpair()
    theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    theirs.close()
    out = _http._Response(_clock.now() + 60, ours)
    out.begin()
    ours.close()
    return out


class StreamTest(unittest.TestCase):
    def test_messages(self):
        body = b": comment\n\nid: 5\nevent: a\ndata: {}\n\nid:6\r\nevent:b\r\ndata: x\r\ndata:y\r\n\r\nid: 7\ndata: cut"
        stream = _http.Stream(response(body), 60, lambda: None, lambda e: _http.NoAnswer("a", e, True))
        self.assertEqual(stream.next(), ("5", "a", b"{}"))
        self.assertEqual(stream.next(), ("6", "b", b"x\ny"))
        with self.assertRaises(_http.NoAnswer):
            stream.next()
        stream.close()


class WatchTest(unittest.TestCase):
    def watch(self, urls=("http://a:1",), **filters):
        return stout.Cell(list(urls)).watch("/a/", after=10, **filters)

    def read(self, w, kind, **fields):
        fields.setdefault("type", kind)
        return w._read(w._cell.endpoints()[0], str(fields["revision"]), kind, _cell.encode(fields))

    def test_events_only_grow(self):
        w = self.watch()
        self.assertEqual(self.read(w, "lock_acquired", revision=12, path="/a/x").path, "/a/x")
        self.assertEqual(w.after, 12)
        self.assertIsNone(self.read(w, "bookmark", revision=12))
        self.assertEqual(self.read(w, "master_changed", revision=13).path, "")
        for kind, fields in (
            ("lock_acquired", {"revision": 13, "path": "/a/x"}),
            ("lock_acquired", {"revision": 14, "path": "/b"}),
            ("bookmark", {"revision": 12}),
            ("lock_acquired", {"revision": 14, "path": "/a/x", "type": "lock_released"}),
            ("file_changed", {"revision": 14, "path": "/a/x"}),
        ):
            with self.assertRaises(stout.InternalError, msg=fields):
                self.read(w, kind, **fields)
        self.assertEqual(w.after, 13)

    def test_a_gap_is_reported_when_no_replica_keeps_the_events(self):
        w = self.watch(["http://a:1", "http://b:2"])
        a, b = w._cell.endpoints()
        w._at = a
        self.assertIsNone(w._refused(a, errors.error("compacted", "", {"revision": 20, "oldest": 15})))
        w._at = b
        gap = w._refused(b, errors.error("compacted", "", {"revision": 18, "oldest": 16}))
        self.assertEqual((gap.type, gap.revision, w.after), ("compacted", 20, 20))

    def test_a_refusal_of_all_replicas_ends_the_watch(self):
        w = self.watch(["http://a:1", "http://b:2"])
        denied = errors.error("permission_denied", "")
        a, b = w._cell.endpoints()
        self.assertIsNone(w._refused(a, denied))
        with self.assertRaises(stout.Denied):
            w._refused(b, denied)

    def test_a_refused_credential_is_tried_again(self):
        w = self.watch()
        (at,) = w._cell.endpoints()
        denied = errors.error("unauthenticated", "")
        with mock.patch.object(w._cell, "revision", return_value=9) as revision:
            for _ in range(2):
                self.assertIsNone(w._refused(at, denied))
            with self.assertRaises(stout.Denied):
                w._refused(at, denied)
            self.assertEqual(revision.call_count, 2)
        w._reach(w.after)
        with mock.patch.object(w._cell, "revision", side_effect=denied), self.assertRaises(stout.Denied):
            w._refused(at, denied)

    def test_a_stream_that_ends_spares_other_calls(self):
        w = self.watch()
        (at,) = w._cell.endpoints()
        tries = iter([_http.NoAnswer("http://a:1", OSError("cut"), True), _http.CutOff()])
        stream = mock.patch.object(w, "_stream", side_effect=lambda _: (_ for _ in ()).throw(next(tries)))
        look = mock.patch.object(w._cell, "_look")
        with stream, look, mock.patch.object(at, "failed") as failed, mock.patch.object(w._cut, "pause"):
            self.assertEqual(list(w), [])
            failed.assert_not_called()

    def test_a_silent_replica_hides_no_gap(self):
        w = self.watch(["http://a:1", "http://b:2"])
        gone = errors.error("compacted", "", {"revision": 9, "oldest": 5})
        asked = []

        def stream(at):
            asked.append(at.base)
            if len(asked) > 9:
                raise _http.CutOff()
            raise _http.NoAnswer(at.base, OSError("silent"), True) if at.base == "http://a:1" else gone
            yield

        look, wait = mock.patch.object(w._cell, "_look"), mock.patch.object(w._cut, "pause")
        with mock.patch.object(w, "_stream", stream), look, wait:
            self.assertEqual([e.type for e in w][:1], ["compacted"])

    def test_close_ends_the_iteration(self):
        w = self.watch(["http://127.0.0.1:1"])
        threading.Timer(0.05, w.close).start()
        self.assertEqual(list(w), [])


class SessionTest(unittest.TestCase):
    """A session without threads, on a clock of its own."""

    def setUp(self):
        self.now = 100.0
        for patch in (
            mock.patch.object(_clock, "now", lambda: self.now),
            mock.patch.object(threading.Thread, "start", lambda _: None),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.cell = stout.Cell("http://a:1")
        self.session = _session.Session(self.cell, "id", "", 10.0, 3, 110.0)

    def acquisition(self, *paths):
        a = _session._Acquisition(paths, {"session": "id", "mode": "exclusive"}, 0)
        self.session._enter(a)
        return a

    def hold(self, *paths, token=7):
        paths = paths or ("/a",)
        return self.session._hold(self.acquisition(*paths), tuple(range(token, token + len(paths))), None)

    def keepalive(self, sent, held=0.0, ttl=10.0, epoch=3, events=()):
        return self.session._renewed(sent, _session._Keepalive(ttl, held, epoch, list(events), 0))

    def test_the_lease_counts_from_sending(self):
        held = self.hold()
        self.now = 108
        self.keepalive(sent=101, held=2)
        self.assertEqual(self.session.remaining, 5)
        self.keepalive(sent=101, held=99, ttl=99)  # clamped to the duration of the call, and the ttl
        self.assertEqual(self.session.remaining, 10)
        self.now = 118
        self.assertTrue(held.lost.is_set())
        self.assertEqual(held.lost.reason.code, "jeopardy")
        self.keepalive(sent=118)
        self.assertEqual(self.session.state, "safe")
        self.assertTrue(held.lost.is_set())
        self.now = 999
        self.assertEqual(self.session.state, "expired")
        with self.assertRaises(stout.SessionEnded):
            self.session.lock("/b")

    def test_an_older_epoch_is_refused(self):
        answer = {"ttl_ms": 10000, "held_ms": 0, "epoch": 2, "events": []}
        with self.assertRaises(ValueError):
            self.session._check_keepalive(answer, None)
        self.assertEqual(self.session._check_keepalive({**answer, "epoch": 3}, None).epoch, 3)

    def test_a_loss_ends_the_grant_with_that_token_only(self):
        held = self.hold(token=7)
        lost = (1, "lock_lost", "/a", held.handle, 6)
        self.keepalive(sent=100, events=[lost])
        self.assertFalse(held.lost.is_set())
        self.assertTrue(self.keepalive(sent=100, events=[(2, "lock_lost", "/a", held.handle, 7)]))
        self.assertEqual(held.lost.reason.code, "lock_lost")
        self.assertFalse(self.keepalive(sent=100, events=[lost]))  # no news
        with self.assertRaises(stout.LockLost):
            held.release()

    def test_a_priority_is_within_its_bounds(self):
        for priority in (-1, 101):
            with self.assertRaises(stout.InvalidArgument):
                self.session.lock("/a", priority=priority)
        self.assertEqual(self.session._known, {})

    def test_a_release_reports_a_hold_that_had_ended(self):
        for name, answer, ends, want in (
            ("held to the end", True, False, None),
            ("held, and the cell is down", stout.OutcomeUnknown("outcome_unknown", ""), False, stout.OutcomeUnknown),
            ("after a jeopardy that came back", True, True, stout.LockLost),
            (
                "after a jeopardy, and the cell is down",
                stout.OutcomeUnknown("outcome_unknown", ""),
                True,
                stout.LockLost,
            ),
        ):
            with self.subTest(name), mock.patch.object(self.cell, "do", side_effect=[answer, answer]) as do:
                self.keepalive(sent=self.now)
                held, outcome = self.hold(), None
                try:
                    with held:
                        if ends:
                            self.now += 11
                            self.assertTrue(held.lost.is_set())
                            self.keepalive(sent=self.now)
                except stout.StoutError as e:
                    outcome = type(e)
                self.assertIs(outcome, want)
                self.assertEqual(do.call_count, 1)  # released also if it was lost
                self.assertEqual(self.session._known, {})
                if want is stout.OutcomeUnknown:
                    with self.assertRaises(stout.OutcomeUnknown):  # no loss: this program released it
                        held.release()

    def test_an_interrupted_release_is_finished_later(self):
        held = self.hold()
        with mock.patch.object(self.cell, "do", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            held.release()
        self.assertEqual(self.session._known, {})
        released = []
        with mock.patch.object(self.cell, "do", lambda call, timeout: released.append(call.target)):
            self.session._settle({}, ([("/a", held.handle, 7, False)], []), 101.0)
        self.assertEqual(len(released), 1)
        with mock.patch.object(self.cell, "do", return_value=False):
            held.release()  # no loss: this program released it

    def test_an_interrupted_withdrawal_is_finished_later(self):
        a = self.acquisition("/a")
        with mock.patch.object(self.cell, "do", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.session._leave(a, None)
        self.assertEqual(self.session._known, {})

    def test_a_release_spares_the_hold_that_resumed_it(self):
        held = self.hold()
        self.now += 11
        self.assertTrue(held.lost.is_set())
        self.keepalive(sent=self.now)
        state = ([("/a", held.handle, held.token, False)], [])
        with mock.patch.object(self.cell, "do", side_effect=[state, True]) as do:
            resumed = held.resume()
            with self.assertRaises(stout.LockLost):
                held.release()
            self.assertEqual(do.call_count, 1)
            self.assertFalse(resumed.lost.is_set())
            resumed.release()
            self.assertEqual(do.call_count, 2)

    def test_a_hold_under_release_is_not_resumed(self):
        for ends in (True, False):
            with self.subTest(ends=ends):
                held, resumed = self.hold(), []
                if ends:
                    self.now += 11
                    self.assertTrue(held.lost.is_set())
                    self.keepalive(sent=self.now)

                def do(call, timeout):
                    if call.method == "DELETE":
                        with self.assertRaises(stout.LockLost):
                            resumed.append(held.resume())
                        return True
                    return [("/a", held.handle, held.token, False)], []

                with mock.patch.object(self.cell, "do", do):
                    if ends:
                        with self.assertRaisesRegex(stout.LockLost, "jeopardy"):
                            held.release()
                    else:
                        held.release()
                self.assertEqual(resumed, [])

    def test_a_hold_under_release_is_not_claimed_again(self):
        held, calls = self.hold(), []
        there = ([("/a", held.handle, held.token, True)], [])

        def do(call, timeout):
            calls.append(call.method)
            if len(calls) == 1:
                self.assertTrue(self.session._settle({held.handle: held}, there, 101.0))
            return True

        with mock.patch.object(self.cell, "do", do):
            held.release()
        self.assertEqual(calls, ["DELETE"])

    def test_calls_for_a_lock_are_bounded_without_a_cell(self):
        for call, most in (
            (lambda: self.session.lock("/b", wait=3), 5),
            (lambda: self.session.lock("/b", wait=0), 2),
            (lambda: self.session.try_lock("/b", timeout=4), 5),
            (lambda: self.session.try_lock("/b"), 32),
        ):

            def silent(_, at, call, within, left=None):
                self.now += within if left is None else min(within, left)
                raise _http.NoAnswer("http://a:1", "silent", True)

            self.keepalive(sent=self.now, ttl=10.0)
            self.session._lease.end = began = self.now
            self.session._lease.end += 100
            with mock.patch.object(stout.Cell, "attempt", silent), mock.patch.object(_http.Cut, "pause"):
                with self.assertRaises((stout.Unavailable, stout.OutcomeUnknown)):
                    call()
            self.assertLessEqual(self.now - began, most)
            self.assertEqual(self.session._known, {})
            self.assertTrue(self.session._overdue)  # the background looks for what was not withdrawn

    def test_invalid_arguments_of_a_lock(self):
        for call, text in (
            (lambda: self.session.lock("/a", wait=-1), "wait is -1; it must be at least 0 seconds"),
            (lambda: self.session.lock("/a", wait="3"), "wait is '3'"),
            (lambda: self.session.try_lock("/a", timeout=-0.5), "timeout is -0.5"),
            (lambda: self.session.lock(None), "the path None must be a string"),
            (lambda: self.session.lock("/a", lock_delay="5"), "lock_delay is '5'; it must be between 0 and 60 seconds"),
            (lambda: self.session.try_lock("/a", lock_delay=5000), "lock_delay is 5000"),
            (lambda: self.session.lock("/a", priority="1"), "priority is '1'; it must be an integer between 0 and 100"),
        ):
            with self.assertRaisesRegex(stout.InvalidArgument, text):
                call()
        self.assertEqual(self.session._known, {})

    def test_the_end_of_a_lease_has_its_cause(self):
        held = self.hold()
        refused = errors.error("unauthenticated", "the token is revoked")
        with mock.patch.object(self.session, "_keepalive", side_effect=refused), mock.patch.object(_http.Cut, "pause"):
            self.assertTrue(self.session._keep())
        self.now += 11
        cause = "unauthenticated: the token is revoked"
        with self.assertLogs("stout") as log:
            self.assertTrue(held.lost.is_set())
            self.assertEqual(held.lost.reason.code, "jeopardy")
            self.assertIn(cause, str(held.lost.reason))
            self.session._watch_clock()
            self.now += 60
            self.session._watch_clock()
        with self.assertRaisesRegex(stout.SessionEnded, cause):
            held.release()
        self.assertEqual([cause in line for line in log.output], [True, True])

    def test_a_listener_that_raises_hides_no_state(self):
        seen = []
        self.session.on_change(lambda state: 1 / 0)
        self.session.on_change(seen.append)
        self.now += 11
        self.assertEqual(self.session.state, "jeopardy")
        self.keepalive(sent=self.now)
        with self.assertLogs("stout") as log:
            self.assertTrue(self.session._watch_clock())
        self.assertEqual(seen, ["jeopardy", "safe"])
        self.assertEqual(sum("ZeroDivisionError" in line for line in log.output), 2)

    def test_a_loss_before_the_grant_arrives(self):
        a = self.acquisition("/a", "/b")
        self.keepalive(sent=100, events=[(1, "lock_lost", "/b", a.handle, 8)])
        self.assertTrue(self.session._hold(a, (7, 8), None).lost.is_set())

    def test_grants_of_several_locks_are_checked(self):
        check = self.session._acquire_call(self.acquisition("/a", "/b")).check
        claim = {"session": "id", "handle": self.session._prefix + "1", "mode": "exclusive"}
        part = {"path": "/b", "token": 8, "sequencer": "exclusive:8:/b"}
        right = {**claim, "path": "/a", "state": "held", "token": 7, "sequencer": "exclusive:7:/a", "with": [part]}
        self.assertEqual(check(right, None), (7, 8))
        self.assertEqual(check({**claim, "path": "/a", "state": "queued", "position": 1}, None), ())
        for wrong in (None, [], [part, part], [{**part, "path": "/c"}], [{**part, "token": 0}], [{**part, "token": 9}]):
            with self.assertRaises(ValueError, msg=wrong):
                check({**right, "with": wrong}, None)

    def test_several_locks_begin_anew_under_a_fresh_handle(self):
        asked, withdrawn = [], []

        def do(call, timeout):
            if call.method == "DELETE":
                withdrawn.append(call.target)
                return True
            call.renew()
            asked.append(json.loads(call.body)["handle"])
            if len(asked) == 1:
                raise errors.error("conflict", "one of the locks was released")
            return (7, 8)

        with mock.patch.object(self.cell, "do", do), mock.patch.object(_http.Cut, "pause"):
            held = self.session.lock("/a", "/b")
        first, second = asked
        self.assertNotEqual(first, second)
        self.assertEqual(withdrawn, [f"/v1/locks/{name}?session=id&handle={first}" for name in "ab"])
        self.assertEqual((held.handle, list(self.session._known)), (second, [second]))
        self.assertGreaterEqual(self.session._lost_since, 0)  # the first request may arrive again

    def test_the_loss_of_one_of_several_locks(self):
        held = self.hold("/a", "/b", "/c")
        self.assertEqual((held.path, held.token, held.tokens), ("/a", 7, (7, 8, 9)))
        self.assertEqual(held.sequencers, ("exclusive:7:/a", "exclusive:8:/b", "exclusive:9:/c"))
        self.keepalive(sent=100, events=[(1, "lock_lost", "/b", held.handle, 8)])
        self.assertEqual(held.lost.reason.code, "lock_lost")
        there = [("/a", held.handle, 7, True), ("/c", held.handle, 9, False)]
        with mock.patch.object(self.cell, "do", side_effect=[(there, []), True, False, True]) as do:
            with self.assertRaises(stout.LockLost):
                held.resume()
            self.assertTrue(self.session._settle({held.handle: held}, (there, []), 101.0))
            self.assertEqual(do.call_count, 1)  # the others are held until the release
            with self.assertRaises(stout.LockLost):
                held.release()
            self.assertEqual(do.call_count, 4)
        self.assertEqual(self.session._known, {})

    def test_several_locks_are_resumed_together(self):
        for tokens in ((7, 8), (7, 9), (7,)):
            held = self.hold("/a", "/b")
            self.now += 11
            self.assertTrue(held.lost.is_set())
            self.keepalive(sent=self.now)
            there = [(path, held.handle, token, False) for path, token in zip(held.paths, tokens)]
            with mock.patch.object(self.cell, "do", return_value=(there, [])):
                if tokens == held.tokens:
                    self.assertEqual(held.resume().sequencers, held.sequencers)
                else:
                    with self.assertRaisesRegex(stout.LockLost, "no longer counts /a and /b"):
                        held.resume()

    def test_a_release_of_several_locks_that_is_continued(self):
        down = stout.OutcomeUnknown("outcome_unknown", "")
        for answers, want in (([True, down, False, True], None), ([False, down, False, True], stout.LockLost)):
            held = self.hold("/a", "/b", "/c")
            with mock.patch.object(self.cell, "do", side_effect=answers):
                with self.assertRaises(stout.OutcomeUnknown):
                    held.release()
                outcome = None
                try:
                    held.release()
                except stout.StoutError as e:
                    outcome = type(e)
            self.assertIs(outcome, want)

    def test_holds_are_compared_with_the_cell(self):
        held = self.hold()
        released = []
        prefix = self.session._prefix
        orphans = [("/x", prefix + "77"), ("/y", "another-1")]
        with mock.patch.object(self.cell, "do", lambda call, timeout: released.append(call.target)):
            here = {held.handle: held}
            self.assertTrue(self.session._settle(here, ([("/a", held.handle, 7, False)], orphans), 101.0))
            self.assertFalse(held.lost.is_set())
            self.assertEqual(released, ["/v1/locks/x?session=id&handle=" + prefix + "77"])
            self.session._settle(here, ([], []), 101.0)
        self.assertEqual(held.lost.reason.code, "lock_lost")

    def test_a_look_requested_during_a_look_is_made(self):
        lost = self.hold()
        self.now += 11
        self.assertTrue(lost.lost.is_set())
        self.keepalive(sent=self.now)

        def release(call, timeout):
            if call.method == "GET":
                with self.assertRaises(stout.LockLost):
                    lost.release()  # a late request may get the lock again
                return [], []
            return True

        for request, due in (
            (release, (True, False)),
            (lambda *_: self.session._expect_orphans(at_once=True) or ([], []), (False, True)),
            (stout.Unavailable("no_master", ""), (True, True)),
            (lambda *_: ([], []), (False, False)),
        ):
            self.session._orphan = True
            with mock.patch.object(self.cell, "do", side_effect=request):
                self.session._reconcile()
            self.assertEqual((self.session._orphan, self.session._overdue), due)

    def test_writes_are_bounded(self):
        began = []

        def do(call, timeout):
            began.append(call)
            if len(began) == 1:
                for _ in range(_session._WINDOW - 1):
                    self.session.send(SimpleNamespace(), 1.0)
                self.now += 2
                with self.assertRaises(stout.Unavailable):
                    self.session.send(SimpleNamespace(), 0.0)

        with mock.patch.object(self.cell, "do", do):
            self.session.send(SimpleNamespace(), 1.0)
            self.session.send(SimpleNamespace(), 1.0)
        self.assertEqual(len(began), _session._WINDOW + 1)

    @unittest.skipUnless(hasattr(os, "fork"), "the system does not fork")
    def test_a_child_has_no_session(self):
        held = self.hold()
        lost = held.lost
        got, done = threading.Event(), threading.Event()

        def other():
            with self.session._cond:
                got.set()
                done.wait()

        _thread.start_new_thread(other, ())  # it has the lock at the fork
        got.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # it may hang
            ok = False
            try:
                self.session.lock("/b")
            except stout.SessionEnded:
                ok = True
            ok = ok and lost.is_set() and self.session.state == "expired" and self.session.remaining == 0
            self.session.close()
            os._exit(0 if ok else 1)
        done.set()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertFalse(lost.is_set())


class Server(http.server.BaseHTTPRequestHandler):
    """A replica with one file, which counts its connections."""

    protocol_version = "HTTP/1.1"
    connections = 0
    close_after = False  # closes a connection that is idle after an answer
    fail = 0  # how many requests are executed without an answer
    writes = 0

    def setup(self):
        type(self).connections += 1
        super().setup()

    def answer(self, content):
        stat = {
            "path": "/a",
            "revision": 5 + self.writes,
            "instance": 5,
            "generation": 1,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        body = _cell.encode({**stat, "content": content.decode()} if self.command == "GET" else stat)
        if type(self).fail:
            type(self).fail -= 1
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Stout-Revision", "9")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = type(self).close_after

    def do_GET(self):
        self.answer(b"x")

    def do_PUT(self):
        type(self).writes += 1
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_):
        pass


class ConnectionTest(unittest.TestCase):
    def setUp(self):
        self.handler = type("Handler", (Server,), {})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.cell = stout.Cell("http://127.0.0.1:%d" % server.server_port)
        self.cell._look_at = float("inf")  # it has no list of members
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(self.cell.close)

    def test_connections_are_kept(self):
        for _ in range(5):
            self.assertEqual(self.cell.get("/a").content, b"x")
        self.assertEqual(self.handler.connections, 1)

    def test_a_connection_that_the_replica_closed_is_not_used(self):
        self.handler.close_after = True
        for n in range(1, 4):
            self.cell.put("/a", "x")  # would be outcome_unknown, since it is sent once
            while _http._is_open(self.cell.endpoints()[0]._idle[-1][0].sock):
                pass
        self.assertEqual((self.handler.connections, self.handler.writes), (3, 3))

    def test_calls_succeed_without_a_thread_beside_them(self):
        self.cell.put("/a", "x")  # the server has a thread for the connection
        self.cell._look_at = 0.0  # the cell asks for the members
        bad = _http.Endpoint("http://a:1", EndpointTest.tls)
        bad.failures = 1  # it is probed
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("the main thread has ended")):
            self.assertEqual(self.cell.put("/a", "x").size, 1)
            self.assertFalse(bad.is_bad())  # the next call probes it
        with mock.patch.object(threading.Thread, "start") as start:
            self.assertTrue(bad.is_bad())
            self.cell._look_at = 0.0
            self.cell.get("/a")
            self.assertEqual(start.call_count, 2)

    def test_a_connection_that_was_idle_for_long_is_not_used(self):
        self.cell.put("/a", "x")
        slept = _clock.now() + 100  # the end of the connection did not arrive
        self.cell._look_at = float("inf")
        with mock.patch.object(_clock, "now", lambda: slept):
            self.cell.put("/a", "x")
        self.assertEqual(self.handler.connections, 2)

    def test_a_lost_answer_of_a_write_is_unknown(self):
        self.handler.fail = 1
        with self.assertRaises(stout.OutcomeUnknown):
            self.cell.put("/a", "x")
        self.assertEqual(self.handler.writes, 1)
        self.handler.fail = 2
        self.assertEqual(self.cell.get("/a").content, b"x")

    def drip(self, head):
        """Serve an answer that never ends, byte by byte, and return the URL."""
        server, closing = socket.create_server(("127.0.0.1", 0)), threading.Event()

        def serve():
            conn, _ = server.accept()
            with conn:
                conn.recv(1 << 16)
                conn.sendall(head)
                try:
                    while not closing.wait(0.01):
                        conn.sendall(b"x")
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        for step in (server.close, thread.join, closing.set):
            self.addCleanup(step)
        return "http://127.0.0.1:%d" % server.getsockname()[1]

    def test_a_replica_that_drips_is_passed_over(self):
        for head in (b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"):
            url = self.drip(head)
            cell = stout.Cell([url, self.cell.endpoints()[0].base])
            cell._look_at = float("inf")
            self.assertEqual(cell.get("/a").content, b"x")
            self.assertEqual([e.works for e in cell.endpoints()], [False, True])
            cell.close()

    def test_a_stream_that_drips_ends(self):
        url = self.drip(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 5\ndata: {}\n\n")
        stream = _http.Endpoint(url, EndpointTest.tls).stream("/", {}, 60.0, 0.1, _http.Cut())
        with self.assertRaises(_http.NoAnswer):
            while True:
                stream.next()
        stream.close()

    def test_the_body_of_a_request_is_sent_in_time(self):
        content = bytes(range(256)) * 300
        self.assertEqual(self.cell.put("/a", content).size, len(content))
        with self.assertRaises(TimeoutError):
            list(_http._pieces(mock.Mock(), content, _clock.now()))

    @unittest.skipUnless(hasattr(os, "fork"), "the system does not fork")
    @unittest.skipIf(sys.version_info >= (3, 12), "Python warns of a fork beside threads")
    def test_a_child_has_its_own_connections(self):
        self.cell.get("/a")
        child = os.fork()
        if child == 0:
            os._exit(0 if self.cell.get("/a").content == b"x" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.cell.get("/a")
        self.assertEqual(self.handler.connections, 2)


if __name__ == "__main__":
    unittest.main()
