import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { Clock } from "../src/clock.js";
import { StoutError } from "../src/errors.js";
import { parseBase, Router } from "../src/router.js";
import { Backoff, outlast } from "../src/util.js";
import * as verify from "../src/verify.js";
import { messages, timed } from "../src/watch.js";

/** @param {string} code */
const code = (code) => (/** @type {unknown} */ err) => err instanceof StoutError && err.code === code;

for (const grain of [10, 1000])
	test(`the clock counts sleep by a clock of ${grain} ms`, () => {
		let mono = 1000;
		let real = 50_123; // since boot, asleep or awake
		const clock = new Clock(() => mono, () => Math.floor(real / grain) * grain);
		const pass = (/** @type {number} */ awake, asleep = 0) => {
			mono += awake;
			real += awake + asleep;
		};
		for (let i = 0; i < 100; i++) {
			clock.now();
			pass(0.7);
		}
		assert.equal(clock.grain, grain);
		const sent = clock.before();
		const began = real;
		for (const [awake, asleep] of [[3, 0], [0.1, 9_000], [5, 0.3], [2, 60_000]]) {
			pass(awake, asleep);
			assert.ok(clock.now() - sent >= real - began, `${clock.now() - sent} ms counted of ${real - began}`);
			assert.ok(clock.now() - sent <= real - began + 2 * clock.grain);
		}
	});

test("the clock never goes back", () => {
	let mono = 0;
	let boot = 100;
	const clock = new Clock(() => mono, () => boot);
	let last = clock.now();
	for (const next of [90, 500, 20, 501]) {
		mono += 1;
		boot = next;
		assert.ok(clock.now() >= last);
		last = clock.now();
	}
});

test("a pause between the two readings hides no later sleep", () => {
	let at = 0;
	let slept = 0;
	let pause = 60_000;
	const clock = new Clock(
		() => at,
		() => {
			const boot = at + slept;
			at += pause; // as if the process were stopped here
			pause = 0;
			return boot;
		},
	);
	const before = clock.now();
	slept = 30_000;
	assert.ok(clock.now() >= before + 30_000);
});

test("the clock of this system runs", () => {
	const clock = new Clock();
	const sent = clock.before();
	assert.ok(sent <= clock.now());
	assert.ok(clock.now() - sent < 60_000);
});

test("base URLs", () => {
	const good = { "localhost:7101": "http://localhost:7101", "https://h/": "https://h", "http://h:80/a/b/": "http://h/a/b", "http://[::1]:7": "http://[::1]:7" };
	for (const [text, base] of Object.entries(good)) assert.equal(parseBase(text, "http"), base);
	for (const text of ["", "localhost", "/a", "ftp://h", "http://u:p@h", "http://h?x=1", "http://h#x", "http://", "http://h:99999"])
		assert.throws(() => parseBase(text, "http"), code("invalid_argument"), text);
});

test("paths", () => {
	for (const path of ["/a", "/a/b c/%é", `/${"x".repeat(255)}`, "/a".repeat(32)]) verify.checkPath(path);
	for (const path of ["", "a", "/", "/a//b", "/a/", "/.", "/a/..", "/a\n", "/\u0085", `/${"x".repeat(256)}`, "/a".repeat(33), "/\ud800"])
		assert.throws(() => verify.checkPath(path), code("invalid_argument"), JSON.stringify(path));
});

test("answers that do not fit are refused", () => {
	const req = { session: "S", handle: "h", mode: "exclusive", queue: false };
	const right = { path: "/a", state: "held", session: "S", handle: "h", mode: "exclusive", token: 7, sequencer: "exclusive:7:/a" };
	assert.equal(verify.grant(req, ["/a"], 6)(right), undefined);
	for (const wrong of [
		{ path: "/b" }, { session: "T" }, { handle: "i" }, { mode: "shared" }, { state: "queued" }, { state: "free" },
		{ token: 0 }, { token: 6, sequencer: "exclusive:6:/a" }, { token: 2 ** 53 }, { token: "7" }, { sequencer: "exclusive:8:/a" },
	]) assert.ok(verify.grant(req, ["/a"], 6)({ ...right, ...wrong }), JSON.stringify(wrong)); // prettier-ignore
	assert.equal(verify.grant({ ...req, queue: true }, ["/a"], 6)({ ...right, state: "queued" }), undefined);

	const part = { path: "/b", token: 8, sequencer: "exclusive:8:/b" };
	const both = verify.grant(req, ["/a", "/b"], 6);
	assert.equal(both({ ...right, with: [part] }), undefined);
	for (const wrong of [undefined, [], [part, part], [{ ...part, path: "/c" }], [{ ...part, token: 6, sequencer: "exclusive:6:/b" }], [{ ...part, token: 9 }]])
		assert.ok(both({ ...right, with: wrong }), JSON.stringify(wrong));
	assert.equal(verify.grant({ ...req, queue: true }, ["/a", "/b"], 6)({ ...right, state: "queued" }), undefined);

	const kept = { ttl_ms: 12_000, held_ms: 0, epoch: 3, events: [] };
	assert.equal(verify.keepalive(3)(kept), undefined);
	for (const wrong of [{ epoch: 2 }, { epoch: 0 }, { ttl_ms: 0 }, { held_ms: -1 }, { events: null }])
		assert.ok(verify.keepalive(3)({ ...kept, ...wrong }), JSON.stringify(wrong));

	const opened = { id: "4Q2M", ttl_ms: 12_000, epoch: 1 };
	assert.equal(verify.opened(12_000)(opened), undefined);
	for (const wrong of [{ id: "" }, { id: "a/b" }, { id: ".." }, { id: "é" }, { ttl_ms: 24_000 }, { epoch: 0 }])
		assert.ok(verify.opened(12_000)({ ...opened, ...wrong }), JSON.stringify(wrong));

	const stat = { revision: 9, instance: 4, generation: 2 };
	assert.equal(verify.stat(stat), undefined);
	for (const wrong of [{ instance: 10 }, { instance: 0 }, { generation: 1 }, { generation: 0 }, { revision: 4 }])
		assert.ok(verify.stat({ ...stat, ...wrong }), JSON.stringify(wrong));
	assert.ok(verify.date(4, 5));
	assert.equal(verify.date(5, 5), undefined);
	assert.ok(verify.content({ size: 1, sha256: "0".repeat(64) }, Buffer.from("a")));
});

test("pauses grow, and stay within their bounds", () => {
	const pause = new Backoff();
	let most = 25;
	for (let i = 0; i < 12; i++) {
		const ms = pause.next();
		assert.ok(ms >= most / 2 && ms <= most, `${ms} within ${most}`);
		most = Math.min(2 * most, 1000);
	}
});

test("messages of a stream, however it is divided", async () => {
	const text = 'id: 5\nevent: file_changed\ndata: {"a":\ndata: 1}\n\n: comment\n\nid:6\r\nevent:bookmark\r\ndata:x:y\r\n\r\nid: 7\ndata: lost';
	for (const size of [1, 2, 3, 7, 1000]) {
		const parts = async function* () {
			for (let i = 0; i < text.length; i += size) yield text.slice(i, i + size);
		};
		const got = [];
		for await (const m of messages(parts())) got.push(m);
		assert.deepEqual(got, [
			{ id: "5", event: "file_changed", data: '{"a":\n1}' },
			{ id: "6", event: "bookmark", data: "x:y" },
		]);
	}
});

/** @param {string[]} bases */
function routing(bases) {
	const time = { now: 0 };
	const router = new Router(bases, new Clock(() => time.now, null));
	/** @type {string[]} */
	const probed = [];
	router.probe = async (to) => probed.push(to.base) > 0;
	return { router, time, probed };
}

test("a slow consumer does not end its stream, a silent replica does", async (t) => {
	t.mock.timers.enable({ apis: ["setTimeout"] });
	const body = new PassThrough();
	const parts = timed(/** @type {any} */ (body), "http://r1");
	body.write("a");
	assert.equal((await parts.next()).value, "a");
	t.mock.timers.tick(3_600_000); // the consumer works
	body.write("b");
	assert.equal((await parts.next()).value, "b");
	const next = parts.next();
	t.mock.timers.tick(15_000);
	await assert.rejects(next, /silent/);
});

test("a replica that sends no whole message is silent", async (t) => {
	t.mock.timers.enable({ apis: ["setTimeout"] });
	let at = 0;
	t.mock.method(performance, "now", () => at);
	const pass = (/** @type {number} */ ms) => ((at += ms), t.mock.timers.tick(ms));
	const body = new PassThrough();
	const left = { ms: 15_000 };
	const parts = timed(/** @type {any} */ (body), "http://r1", left);
	for (const text of [": a proxy", " is alive", "\n\n"]) {
		const next = parts.next();
		pass(4000);
		body.write(text);
		assert.equal((await next).value, text);
		pass(3_600_000); // the consumer works
	}
	const next = parts.next();
	pass(3000);
	await assert.rejects(next, /silent/);
});

test("calls follow the master, and go around one that fails", async () => {
	const { router, time, probed } = routing(["http://a", "http://b"]);
	const first = router.current;
	router.redirected(first, "http://b");
	assert.deepEqual([router.current.to.base, router.current.forward], ["http://b", false]);

	router.failed(router.current);
	assert.equal(router.current.to.base, "http://a");
	// a still names b, which cannot be reached from here: a forwards.
	const via = router.redirected(router.current, "http://b");
	assert.deepEqual([via?.to.base, via?.forward], ["http://a", true]);
	router.answered(router.current, "http://b");
	assert.equal(router.current.to.base, "http://a");

	time.now = 999;
	router.answered(router.current, "http://b");
	assert.deepEqual(probed, []);
	time.now = 1000;
	router.answered(router.current, "http://b");
	assert.deepEqual(probed, ["http://b"]);
	router.absolve(router.known[1]);
	router.answered(router.current, "http://b");
	assert.equal(router.current.to.base, "http://b");
});

test("a failing replica is probed at growing intervals", async () => {
	const { router, time, probed } = routing(["http://a", "http://b"]);
	const r = { to: router.known[0], forward: false };
	for (const pause of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
		router.failed(r);
		router.failed(r); // of another call: counts once
		probed.length = 0;
		time.now += pause - 1;
		router.passesOver(r.to);
		assert.deepEqual(probed, []);
		time.now += 1;
		router.passesOver(r.to);
		assert.deepEqual(probed, ["http://a"]);
		await new Promise(setImmediate);
	}
});

test("a master's URL does not lead from https to http", () => {
	const { router } = routing(["https://a", "https://b"]);
	const via = router.redirected(router.current, "http://b");
	assert.deepEqual([via?.to.base, via?.forward], ["https://a", true]);
	router.answered({ to: router.known[0], forward: false }, "http://evil");
	assert.equal(router.known.some((e) => e.base === "http://evil"), false);
});

test("learned replicas come after given ones, and change with the list", () => {
	const { router } = routing(["http://a"]);
	router.learn(["http://b", "http://a", "http://c", "http://b"]);
	assert.deepEqual(router.known.map((e) => e.base), ["http://a", "http://b", "http://c"]);
	const b = router.known[1];
	router.learn(["http://d", "http://b"]);
	assert.deepEqual(router.known.map((e) => e.base), ["http://a", "http://d", "http://b"]);
	assert.equal(router.known[2], b);
	// One that never answered comes last.
	router.failed(router.current);
	b.works = true;
	assert.equal(router.next((e) => e.given), b);
});

test("a step of the system's time does not lengthen a release", (t) => {
	t.mock.timers.enable({ apis: ["setTimeout"] });
	const now = t.mock.method(Date, "now", () => 1e12);
	const end = new AbortController();
	const until = outlast(end.signal);
	now.mock.mockImplementation(() => 1e12 - 3_600_000);
	end.abort();
	assert.equal(until.signal.aborted, false);
	t.mock.timers.tick(5000);
	assert.equal(until.signal.aborted, true);
	until.free();
});
