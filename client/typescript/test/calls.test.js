import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { afterEach, test } from "node:test";
import { Client, StoutError, until } from "../src/index.js";

/**
 * @typedef {{method: string, path: string, query: URLSearchParams, headers: http.IncomingHttpHeaders, body: any}} Request
 * @typedef {{status?: number, body?: any, headers?: Record<string, string>, lost?: boolean, silent?: boolean, late?: number, open?: () => void}} Reply
 */

/** @type {(() => void)[]} */
const ends = [];
afterEach(() => ends.splice(0).forEach((end) => end()));

/** @param {unknown} err */
const codeOf = (err) => (err instanceof StoutError ? err.code : err);

/** @param {string} code @param {number} status */
const refuse = (code, status, more = {}) => /** @type {Reply} */ ({ status, body: { code, status, detail: "scripted", ...more } });

/**
 * Starts a replica that a function plays.
 *
 * @param {(q: Request) => Reply} play
 */
async function replica(play) {
	/** @type {Request[]} */
	const requests = [];
	const server = http.createServer((req, res) => {
		/** @type {Buffer[]} */
		const parts = [];
		req.on("data", (part) => parts.push(part));
		req.on("end", () => {
			const url = new URL(req.url ?? "", "http://replica");
			const text = Buffer.concat(parts).toString();
			const body = text.startsWith("{") ? JSON.parse(text) : text;
			const q = { method: String(req.method), path: decodeURIComponent(url.pathname), query: url.searchParams, headers: req.headers, body };
			requests.push(q);
			const reply = q.path === "/v1/cell/urls" ? refuse("permission_denied", 403) : play(q);
			if (reply.silent) return;
			if (reply.lost) return void req.socket.destroy();
			const headers = { "content-type": "application/json", "stout-cell": "cell", "stout-epoch": "1", "stout-revision": "9", ...reply.headers };
			if (reply.open) return void res.on("close", reply.open).writeHead(200, headers).flushHeaders();
			setTimeout(() => res.writeHead(reply.status ?? 200, headers).end(reply.body && JSON.stringify(reply.body)), reply.late ?? 0).unref();
		});
	});
	await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
	ends.push(() => (server.closeAllConnections(), server.close()));
	const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
	return { url: `http://127.0.0.1:${port}`, requests, server };
}

/** @param {{url: string}[]} replicas @param {import("../src/index.js").ClientOptions} [options] */
function connect(replicas, options) {
	const client = new Client(replicas.map((r) => r.url), options);
	const open = client.openSession.bind(client);
	client.openSession = async (options) => {
		const session = await open(options);
		ends.push(() => session.expire()); // else it would outlive a test that fails
		return session;
	};
	ends.push(() => client.close());
	return client;
}

/** A stat that fits a write. @param {Request} q @param {number} revision */
async function written(q, revision) {
	const { createHash } = await import("node:crypto");
	const sha256 = createHash("sha256").update(q.body).digest("hex");
	return { path: q.path.slice("/v1/files".length), revision, instance: revision, generation: 1, size: q.body.length, sha256 };
}

let tokens = 0;

/** Plays the opening of sessions and their keepalives. @param {Request} q @returns {Reply} */
function sessions(q) {
	if (q.path === "/v1/sessions") return { status: 201, body: { id: "S", name: "", ttl_ms: q.body.ttl_ms, epoch: 1, meta: {} } };
	if (q.path.endsWith("/keepalive")) return { late: q.body.wait_ms, body: { ttl_ms: 60_000, held_ms: q.body.wait_ms, epoch: 1, events: [] } };
	if (q.method === "PUT" && q.path.startsWith("/v1/locks")) {
		const { session, handle, mode } = q.body;
		const part = (/** @type {string} */ path) => ({ path, token: ++tokens, sequencer: `${mode}:${tokens}:${path}` });
		return { body: { ...part(q.path.slice("/v1/locks".length)), state: "held", session, handle, mode, with: q.body.with?.map(part) } };
	}
	return q.method === "DELETE" ? { body: { released: true } } : refuse("not_found", 404);
}

test("a hold ends by the clock, before any timer has fired", async () => {
	const clock = { at: 0, grain: 0, now: () => clock.at, before: () => clock.at };
	const cell = connect([await replica(sessions)], { clock: /** @type {any} */ (clock), grace: 10_000 });
	const session = await cell.openSession({ ttl: 60_000 });
	const held = await session.lock("/a");
	assert.equal(held.valid, true);
	assert.equal(held.remaining, 60_000);
	clock.at = 59_999;
	assert.equal(held.valid, true);
	clock.at = 60_000; // as after a sleep: no timer has fired, and no answer has come
	assert.equal(held.valid, false);
	assert.equal(held.signal.aborted, true);
	assert.equal(codeOf(held.error), "jeopardy");
	assert.equal(session.state, "jeopardy");
	assert.equal(session.remaining, 0);
	clock.at = 70_000;
	assert.equal(session.state, "expired");
	assert.equal(codeOf(session.signal.reason), "session_expired");
	await assert.rejects(held.unlock(), (err) => codeOf(err) === "session_expired");
	await assert.rejects(session.lock("/b"), (err) => codeOf(err) === "session_expired");
	await session.close();
});

/** @param {(handle: string, token: number) => object[]} holds that the cell has after the jeopardy */
async function resumed(holds) {
	const clock = { at: 0, grain: 0, now: () => clock.at, before: () => clock.at };
	let handle = "";
	let token = 0;
	const one = await replica((q) => {
		if (q.method === "PUT") handle = q.body.handle;
		if (q.method === "GET") return { body: { id: "S", holds: holds(handle, token), waits: [] } };
		return q.body.wait_ms === 0 ? { ...sessions(q), late: 0 } : sessions(q);
	});
	const session = await connect([one], { clock: /** @type {any} */ (clock) }).openSession({ ttl: 60_000 });
	const held = await session.lock("/a");
	token = held.token;
	/** @type {string[]} */
	const states = [];
	session.on("state", (state) => states.push(state));
	clock.at = 60_000;
	assert.equal(held.valid, false);
	const result = await held.resume().catch((err) => err);
	assert.deepEqual(states, ["jeopardy", "safe"]);
	assert.equal(held.valid, false);
	await session.close();
	return { held, result };
}

test("a hold is resumed after a jeopardy if the cell still has the grant", async () => {
	const { held, result } = await resumed((handle, token) => [{ path: "/a", handle, mode: "exclusive", token }]);
	assert.notEqual(result, held);
	assert.deepEqual([result.token, result.sequencer, codeOf(result.error)], [held.token, held.sequencer, "session_closed"]);
});

test("a hold is lost if the cell has another grant, or none", async () => {
	for (const holds of [[], [{ token: 1e6 }], [{ path: "/b" }]]) {
		const { result } = await resumed((handle, token) => holds.map((h) => ({ path: "/a", handle, mode: "exclusive", token, ...h })));
		assert.equal(codeOf(result), "lock_lost");
	}
});

test("withLock releases the lock, however the work ends", async () => {
	const one = await replica(sessions);
	const session = await connect([one]).openSession({ ttl: 60_000 });
	const releases = () => one.requests.filter((q) => q.method === "DELETE" && q.query.get("token") === String(tokens)).length;
	assert.equal(await session.withLock("/a", (held) => held.token), tokens);
	assert.equal(releases(), 1);
	const failure = new Error("of the work");
	await assert.rejects(session.withLock("/a", () => Promise.reject(failure)), (err) => err === failure);
	assert.equal(releases(), 1);
	const end = new AbortController();
	const work = session.withLock(
		"/a",
		async (held, signal) => {
			end.abort(failure);
			return [held.valid, signal.aborted, signal.reason];
		},
		{ signal: end.signal },
	);
	assert.deepEqual(await work, [true, true, failure]); // the hold outlives the signal, until its release
	assert.equal(releases(), 1);
	await session.close();
});

for (const resumes of [true, false])
	test(`withLock after a jeopardy that the work ${resumes ? "resumed" : "did not resume"}`, async () => {
		const clock = { at: 0, grain: 0, now: () => clock.at, before: () => clock.at };
		let handle = "";
		const one = await replica((q) => {
			if (q.method === "PUT") handle = q.body.handle;
			if (q.method === "GET") return { body: { id: "S", holds: [{ path: "/a", handle, mode: "exclusive", token: tokens }], waits: [] } };
			return q.body.wait_ms === 0 ? { ...sessions(q), late: 0 } : sessions(q);
		});
		const session = await connect([one], { clock: /** @type {any} */ (clock) }).openSession({ ttl: 60_000 });
		const work = session.withLock("/a", async (held, signal) => {
			clock.at = 60_000;
			assert.equal(held.valid, false);
			await until(signal);
			if (resumes) await held.resume();
			return "result";
		});
		if (resumes) assert.equal(await work, "result");
		else await assert.rejects(work, (err) => codeOf(err) === "jeopardy");
		assert.equal(one.requests.filter((q) => q.method === "DELETE").length, 1);
		await session.close();
	});

test("until returns at the end of a signal, also of one that has ended", async () => {
	const end = new AbortController();
	let over = false;
	const waits = until(end.signal).then(() => (over = true));
	await new Promise(setImmediate);
	assert.equal(over, false);
	end.abort();
	await waits;
	await until(end.signal);
});

for (const options of [{ wait: 0, timeout: 50 }, { wait: 50 }])
	test(`a lock with ${JSON.stringify(options)} while the cell does not answer`, async () => {
		let cut = false;
		const one = await replica((q) => (cut ? { silent: true } : sessions(q)));
		const session = await connect([one]).openSession({ ttl: 60_000 });
		cut = true;
		await assert.rejects(session.lock("/a", options), (err) => codeOf(err) === "no_master");
		// Further calls would only delay the answer.
		assert.deepEqual(one.requests.filter((q) => q.path === "/v1/locks/a").map((q) => q.method), ["PUT", "DELETE"]);
		cut = false;
	});

test("several locks begin anew under a fresh handle", async () => {
	let asked = 0;
	const one = await replica((q) => (q.method === "PUT" && ++asked === 1 ? refuse("conflict", 409) : sessions(q)));
	const session = await connect([one]).openSession({ ttl: 60_000 });
	const held = await session.lock("/a", { with: "/b" });
	const [first, second] = one.requests.filter((q) => q.method === "PUT").map((q) => q.body.handle);
	assert.notEqual(first, second);
	const withdrawn = one.requests.filter((q) => q.method === "DELETE").map((q) => [q.path, q.query.get("handle")]);
	assert.deepEqual(withdrawn, [["/v1/locks/a", first], ["/v1/locks/b", first]]);
	assert.deepEqual([held.handle, [...session.locks.byHandle.keys()]], [second, [second]]);
	await session.close();
});

test("a lost answer to the release of one lock hides no loss of another", async () => {
	let releases = 0;
	const one = await replica((q) => {
		if (q.method !== "DELETE" || !q.path.startsWith("/v1/locks")) return sessions(q);
		if (++releases > 1) return { body: { released: false } };
		session.locks.askAgain(); // as after a change of master
		return { silent: true };
	});
	const session = await connect([one]).openSession({ ttl: 60_000 });
	const held = await session.lock("/a", { with: "/b" });
	await assert.rejects(held.unlock(), (err) => codeOf(err) === "lock_lost");
	assert.equal(releases, 3);
	await session.close();
});

test("a look that is requested during a look is made at once", async () => {
	let looks = 0;
	/** @type {(wait: number) => void} */
	let kept = () => {};
	const next = new Promise((resolve) => (kept = resolve));
	const one = await replica((q) => {
		if (q.path === "/v1/sessions/S") {
			if (++looks === 1) session.reconciler.lookNow(); // as after a release without an answer
			return { body: { id: "S", holds: [], waits: [] } };
		}
		if (looks > 0 && q.path.endsWith("/keepalive")) kept(q.body.wait_ms);
		return sessions(q);
	});
	const session = await connect([one]).openSession({ ttl: 60_000 });
	session.reconciler.lookNow();
	assert.equal(await next, 0);
	await session.close();
});

test("a further unlock, and resume, end with the session if no replica answers", async () => {
	const clock = { at: 0, grain: 0, now: () => clock.at, before: () => clock.at };
	let refused = false;
	const one = await replica((q) => {
		if (q.method === "DELETE" && !refused) {
			refused = true;
			return refuse("permission_denied", 403);
		}
		if (q.method === "DELETE" || (resuming && q.method === "GET")) {
			setImmediate(() => session.expire());
			return { silent: true };
		}
		return q.body.wait_ms === 0 ? { ...sessions(q), late: 0 } : sessions(q);
	});
	const cell = connect([one], { clock: /** @type {any} */ (clock) });
	let resuming = false;
	let session = await cell.openSession({ ttl: 60_000 });
	const held = await session.lock("/a");
	await assert.rejects(held.unlock(), (err) => codeOf(err) === "permission_denied");
	await assert.rejects(held.unlock(), (err) => codeOf(err) === "session_expired");
	session = await cell.openSession({ ttl: 60_000 });
	const other = await session.lock("/b");
	clock.at = 60_000;
	assert.equal(other.valid, false);
	resuming = true;
	await assert.rejects(other.resume(), (err) => codeOf(err) === "session_expired");
});

test("at most 64 writes of a session are under way", async () => {
	const one = await replica((q) => (q.path.startsWith("/v1/files") ? { silent: true } : q.method === "GET" ? { body: { path: "/a", state: "free", holders: [] } } : sessions(q)));
	const cell = connect([one]);
	const session = await cell.openSession({ ttl: 60_000 });
	const writes = () => one.requests.filter((q) => q.path.startsWith("/v1/files")).length;
	const end = new AbortController();
	const all = Array.from({ length: 80 }, (_, i) => session.files.put(`/${i}`, "", { signal: end.signal }).catch(codeOf));
	while (writes() < 64) await cell.readLock("/a");
	await cell.readLock("/a");
	assert.equal(writes(), 64);
	const reason = new Error("enough");
	end.abort(reason);
	const outcomes = await Promise.all(all);
	assert.equal(outcomes.filter((code) => code === "outcome_unknown").length, 64);
	assert.equal(outcomes.filter((code) => code === reason).length, 16);
	await session.close();
});

test("the lease counts from before the first attempt to open the session", async () => {
	const clock = { at: 1000, grain: 0, now: () => clock.at, before: () => clock.at };
	let tries = 0;
	const one = await replica((q) => {
		if (q.path !== "/v1/sessions") return sessions(q);
		clock.at += 500;
		return ++tries < 3 ? { lost: true } : sessions(q);
	});
	const session = await connect([one], { clock: /** @type {any} */ (clock) }).openSession({ ttl: 60_000 });
	assert.equal(session.remaining, 60_000 - 1500);
	const keys = one.requests.filter((q) => q.path === "/v1/sessions").map((q) => q.headers["idempotency-key"]);
	assert.deepEqual([keys.length, new Set(keys).size], [3, 1]);
	await session.close();
});

test("a write without a session is not repeated after a lost answer", async () => {
	let tries = 0;
	const one = await replica(() => (++tries === 1 ? { lost: true } : refuse("conflict", 409)));
	await assert.rejects(connect([one]).files.put("/a", "x"), (err) => codeOf(err) === "outcome_unknown");
	assert.equal(one.requests.length, 1);
});

test("a connection that was idle for long is not used", async () => {
	const clock = { at: 1000, grain: 0, now: () => clock.at, before: () => clock.at };
	const one = await replica(() => refuse("conflict", 409));
	const { files } = connect([one], { clock: /** @type {any} */ (clock) });
	for (let n = 1; n <= 3; n++) {
		await assert.rejects(files.put("/a", "x"), (err) => codeOf(err) === "conflict");
		assert.equal(one.requests.length, n);
		await new Promise(setImmediate);
		one.server.closeIdleConnections(); // the client does not know it yet
		clock.at += 61_000;
	}
});

test("a write without a session is repeated while it certainly had no effect", async () => {
	let tries = 0;
	const one = await replica(() => (++tries < 3 ? refuse("no_master", 503) : refuse("precondition_failed", 412, { current: null })));
	const err = await connect([one]).files.put("/a", "x", { ifRevision: 5 }).catch((err) => err);
	assert.equal(codeOf(err), "precondition_failed");
	assert.equal(err.problem.current, null);
	assert.deepEqual(one.requests.map((q) => q.headers["if-match"]), Array(3).fill('"5"'));
});

for (const [refusal, status, code] of /** @type {const} */ ([
	["permission_denied", 403, "outcome_unknown"],
	["precondition_failed", 412, "precondition_failed"],
	["conflict", 409, "conflict"],
]))
	test(`a session's write: a lost answer, then ${refusal}`, async () => {
		let tries = 0;
		const one = await replica((q) => (q.path.startsWith("/v1/files") ? (++tries === 1 ? { lost: true } : refuse(refusal, status)) : sessions(q)));
		const session = await connect([one]).openSession({ ttl: 60_000 });
		await assert.rejects(session.files.put("/a", "x"), (err) => codeOf(err) === code);
		const writes = one.requests.filter((q) => q.path === "/v1/files/a");
		assert.equal(new Set(writes.map((q) => q.headers["idempotency-key"])).size, 1);
		assert.ok(writes[0].headers["idempotency-key"] && writes[0].query.get("session") === "S");
		await session.close();
	});

test("a silent replica does not cost a time-out", async () => {
	const silent = await replica(() => ({ silent: true }));
	const other = await replica(() => ({ body: { path: "/a", state: "free", holders: [] } }));
	const cell = connect([silent, other]);
	assert.equal((await cell.readLock("/a", { signal: AbortSignal.timeout(60_000) })).state, "free");
	assert.deepEqual([silent.requests.length, other.requests.length], [1, 1]);
	assert.equal(silent.requests[0].headers["stout-forward"], "never");
	assert.equal(other.requests[0].headers["stout-forward"], undefined);
	await cell.readLock("/a");
	assert.equal(silent.requests.length, 1);
});

test("a waiter leaves a silent replica when a keepalive notices it", async () => {
	const hangs = await replica((q) => (q.path === "/v1/sessions" ? sessions(q) : { silent: true }));
	const other = await replica((q) => (q.body.wait_ms === 0 ? { ...sessions(q), late: 0 } : sessions(q)));
	const session = await connect([hangs, other]).openSession({ ttl: 2000 });
	const began = performance.now();
	const held = await session.lock("/a");
	const asked = [...hangs.requests, ...other.requests].filter((q) => q.method === "PUT");
	assert.equal(new Set(asked.map((q) => q.body.handle)).size, 1);
	assert.equal(asked[0].body.wait_ms, 30_000);
	assert.ok(performance.now() - began < 25_000, `it took ${performance.now() - began} ms`);
	await held.unlock();
	await session.close();
});

test("only the cell that answered first is believed", async () => {
	let cell = "first";
	const one = await replica(() => ({ body: { path: "/a", state: "free", holders: [] }, headers: { "stout-cell": cell } }));
	const client = connect([one]);
	await client.readLock("/a");
	cell = "second";
	await assert.rejects(client.readLock("/a"), (err) => codeOf(err) === "other_cell");
});

test("a page of a web server is not an answer", async () => {
	const one = await replica(() => ({ status: 404, body: { error: "no such page" } }));
	await assert.rejects(connect([one]).readLock("/a"), (err) => codeOf(err) === "internal" && /base URL/.test(String(err)));
	const two = await replica(() => ({ body: { path: "/other", state: "free", holders: [] } }));
	await assert.rejects(connect([two]).readLock("/a"), (err) => codeOf(err) === "internal" && /\/other/.test(String(err)));
	const three = await replica(() => ({ body: null }));
	await assert.rejects(connect([three]).readLock("/a"), (err) => codeOf(err) === "internal");
});

for (const status of [200, 301, 404, 407, 502])
	test(`a server that answers a page with the status ${status} is passed over`, async () => {
		const page = await replica(() => ({ status, body: "It works!", headers: { "content-type": "text/html", "stout-cell": "" } }));
		const good = await replica((q) => (q.path === "/v1/locks/a" && q.method === "GET" ? { body: { path: "/a", state: "free", holders: [] } } : sessions(q)));
		assert.equal((await connect([page, good]).readLock("/a")).state, "free");
		const session = await connect([page, good]).openSession({ ttl: 60_000 });
		assert.deepEqual([page.requests.length, page.requests[1].path], [2, "/v1/sessions"]);
		await session.close();
		if (status !== 502) await assert.rejects(connect([page]).openSession(), (err) => codeOf(err) === "internal");
	});

test("a call goes around a server that answers pages at the master's URL", async () => {
	const page = await replica(() => ({ status: 404, body: "no page", headers: { "stout-cell": "" } }));
	const other = await replica((q) => (q.headers["stout-forward"] ? refuse("not_master", 421, { master: page.url }) : sessions(q)));
	const session = await connect([page, other]).openSession({ ttl: 60_000 });
	await session.close();
	const wrong = await replica((q) => (q.path === "/v1/sessions" ? { body: [] } : sessions(q)));
	await assert.rejects(connect([wrong, other]).openSession(), (err) => codeOf(err) === "internal");
});

test("a server that answers pages does not hide that the replicas have no master", async () => {
	const page = await replica(() => ({ status: 404, body: "no page", headers: { "stout-cell": "" } }));
	let tries = 0;
	const good = await replica((q) => (++tries < 3 ? refuse("no_master", 503) : sessions(q)));
	const session = await connect([page, good]).openSession({ ttl: 60_000 });
	assert.ok(tries >= 3);
	await session.close();
});

test("a new token is used when the old one is refused", async () => {
	const one = await replica((q) => (q.headers.authorization === "Bearer new" ? { body: { path: "/a", state: "free", holders: [] } } : refuse("unauthenticated", 401)));
	let token = "old";
	const client = connect([one], {
		token: () => {
			const now = token;
			token = "new";
			return now;
		},
	});
	assert.equal((await client.readLock("/a")).state, "free");
	await assert.rejects(connect([one], { token: "old" }).readLock("/a"), (err) => codeOf(err) === "unauthenticated");
});

test("a token that cannot be read is reported at once", async () => {
	const one = await replica(sessions);
	const cause = new Error("no such file");
	const err = await connect([one], { token: () => Promise.reject(cause) }).openSession().catch((err) => err);
	assert.deepEqual([codeOf(err), err.cause, one.requests.length], ["unauthenticated", cause, 0]);
	assert.match(err.message, /no such file/);
});

test("an invalid token is refused before any call, and not shown", async () => {
	const one = await replica(sessions);
	const refused = (/** @type {any} */ err) => codeOf(err) === "invalid_argument" && /access token/.test(err.message) && !/secr/.test(String(err.stack));
	for (const token of /** @type {any[]} */ (["secret\n", " secret", "secr\u00e9t", "", 7, undefined])) {
		if (token !== undefined) assert.throws(() => new Client(one.url, { token }), refused, String(token));
		const cell = connect([one], { token: async () => token });
		await assert.rejects(cell.readLock("/a"), refused, String(token));
		await assert.rejects(cell.files.put("/a", "x"), refused, String(token));
		await assert.rejects(cell.watch({ after: 1 }).next(), refused, String(token));
	}
	assert.equal(one.requests.length, 0);
	await (await connect([one], { token: "stout_x-1" }).openSession({ ttl: 60_000 })).close();
	assert.equal(one.requests[0].headers.authorization, "Bearer stout_x-1");
});

test("a token function that never answers ends no call late", async () => {
	const one = await replica(sessions);
	let asked = 0;
	let hangs = true;
	const client = connect([one], { token: () => (++asked, hangs ? new Promise(() => {}) : "t") });
	const began = performance.now();
	await assert.rejects(client.openSession({ signal: AbortSignal.timeout(100) }));
	assert.ok(performance.now() - began < 4000);
	assert.equal(one.requests.length, 0);
	hangs = false;
	const session = await client.openSession({ ttl: 60_000 });
	hangs = true;
	await assert.rejects(session.lock("/a", { signal: AbortSignal.timeout(100) }));
	hangs = false;
	await session.close();
	assert.ok(asked > 3);
});

test("a stream from another cell is not left open", async () => {
	let closed = () => {};
	const ended = new Promise((resolve) => (closed = () => resolve(undefined)));
	const one = await replica((q) =>
		q.query.has("limit") || !q.path.startsWith("/v1/events")
			? { body: { revision: 9, events: [] } }
			: { open: closed, headers: { "content-type": "text/event-stream", "stout-cell": "another" } },
	);
	const client = connect([one]);
	await client.revision();
	const next = client.watch({ after: 9 })[Symbol.asyncIterator]().next();
	await assert.rejects(next, (err) => codeOf(err) === "other_cell");
	await ended;
});

test("the end of a hold names unauthenticated after its token was revoked", async () => {
	const clock = { at: 0, grain: 0, now: () => clock.at, before: () => clock.at };
	let revoked = false;
	const one = await replica((q) => (revoked ? refuse("unauthenticated", 401) : q.path.endsWith("/keepalive") ? { ...sessions(q), late: 0 } : sessions(q)));
	const session = await connect([one], { clock: /** @type {any} */ (clock) }).openSession({ ttl: 1000 });
	const held = await session.lock("/a");
	revoked = true;
	const failed = one.requests.length + 2;
	while (one.requests.length < failed) await new Promise((resolve) => setTimeout(resolve, 5));
	/** @type {any} */
	const told = once(session, "state");
	clock.at = 100_000;
	const { error } = held;
	assert.deepEqual([codeOf(error), codeOf(error?.cause)], ["jeopardy", "unauthenticated"]);
	assert.match(String(error), /unauthenticated/);
	assert.deepEqual(await told, ["jeopardy", error]);
	clock.at = 200_000;
	assert.deepEqual([codeOf(session.error), codeOf(session.error?.cause)], ["session_expired", "unauthenticated"]);
});

test("a revision that goes back is refused", async () => {
	let revision = 9;
	const one = await replica(() => ({ body: { files: [] }, headers: { "stout-revision": String(revision) } }));
	const { files } = connect([one]);
	for await (const _ of files.list("/")) assert.fail();
	revision = 8;
	await assert.rejects(files.list("/").next(), (err) => codeOf(err) === "internal");
	assert.equal((await files.list("/", { stale: true }).next()).done, true);
});

test("a list that goes back, or leaves its prefix, is refused", async () => {
	const stat = { revision: 5, instance: 5, generation: 1 };
	for (const pages of [[["/a/1", "/b"]], [["/a/2", "/a/1"]], [["/a/1"], ["/a/1"]], [["/a/\u{10000}", "/a/\uffff"]]]) {
		let n = 0;
		const one = await replica(() => {
			const paths = pages[n++];
			return { body: { files: paths.map((path) => ({ ...stat, path })), next: n < pages.length ? paths.at(-1) : undefined } };
		});
		const all = async () => {
			for await (const file of connect([one]).files.list("/a/")) assert.ok(file.path);
		};
		await assert.rejects(all(), (err) => codeOf(err) === "internal", String(pages));
	}
});

test("the end of a signal", async () => {
	const one = await replica((q) => (q.path === "/v1/files/lost" ? { silent: true } : refuse("no_master", 503)));
	const { files } = connect([one]);
	const reason = new Error("enough");
	const outcome = async (/** @type {string} */ path, sent = 1) => {
		const end = new AbortController();
		const call = files.put(path, "x", { signal: end.signal }).catch((err) => err);
		while (one.requests.filter((q) => q.path === `/v1/files${path}`).length < sent) await new Promise(setImmediate);
		end.abort(reason);
		return call;
	};
	const lost = await outcome("/lost");
	assert.deepEqual([codeOf(lost), lost.cause], ["outcome_unknown", reason]);
	// The second attempt has begun, so its outcome is open as well.
	assert.equal(codeOf(await outcome("/refused", 2)), "outcome_unknown");
	const early = await files.put("/never", "x", { signal: AbortSignal.abort(reason) }).catch((err) => err);
	assert.equal(early, reason);
});

test("options out of bounds are refused before any call", async () => {
	const one = await replica(sessions);
	const cell = connect([one]);
	const session = await cell.openSession({ ttl: 60_000 });
	const before = one.requests.length;
	for (const bad of [
		() => session.lock("no-slash"), () => session.lock("/a", { limit: -1 }), () => session.lock("/a", { wait: NaN }),
		() => session.lock("/a", { priority: 101 }), () => session.lock("/a", { priority: -1 }),
		() => session.lock("/a", { lockDelay: 60_001 }), () => cell.openSession({ ttl: 999 }), () => session.files.put("/a", "", { ifRevision: 0 }),
		() => cell.files.put("/a", "", { ephemeral: true }), () => cell.files.put("/a", "", { ifAbsent: true, ifRevision: 1 }),
		() => cell.files.deleteBelow("/a"), async () => cell.watch({ prefixes: ["a"] }), async () => new Client([]),
		.../** @type {any[]} */ (["45000", NaN, -1]).map((grace) => async () => new Client(one.url, { grace })),
	]) await assert.rejects(bad, (err) => codeOf(err) === "invalid_argument", String(bad)); // prettier-ignore
	await assert.rejects(cell.files.put("/a", Buffer.alloc((256 << 10) + 1)), (err) => codeOf(err) === "too_large");
	assert.equal(one.requests.filter((q) => !q.path.endsWith("/keepalive")).length, one.requests.slice(0, before).filter((q) => !q.path.endsWith("/keepalive")).length);
	await session.close();
});

test("a refusal of an option names the value and the unit", async () => {
	const session = await connect([await replica(sessions)]).openSession({ ttl: 60_000 });
	const wrong = (/** @type {any} */ value) => value;
	for (const [call, text] of /** @type {[() => Promise<unknown>, string][]} */ ([
		[() => session.files.put("/a", "", { while: wrong(3) }), "while is 3; it must be a hold, as lock returns it, or a list of holds"],
		[() => session.files.delete("/a", { while: wrong([null]) }), "while is null; it must be a hold, as lock returns it, or a list of holds"],
		[() => connect([{ url: "http://localhost:1" }]).openSession({ ttl: wrong("10000") }), "ttl is '10000', a string; it must be a whole number of ms within 1000..86400000"],
		[() => session.lock("/a", { wait: wrong("5") }), "wait is '5', a string; it must be a whole number of ms from 0 up"],
		[() => session.lock("/a", { lockDelay: -1 }), "lockDelay is -1; it must be a whole number of ms within 0..60000"],
		[() => session.lock(wrong(3)), "path is 3; it must be a string"],
	])) await assert.rejects(call, { code: "invalid_argument", message: `invalid_argument: ${text}` }); // prettier-ignore
	await session.close();
});

test("a refusal has the caller's stack", async () => {
	let refuses = false;
	const one = await replica((q) => (refuses && !q.path.endsWith("/keepalive") ? refuse("permission_denied", 403) : sessions(q)));
	const cell = connect([one]);
	const session = await cell.openSession({ ttl: 60_000 });
	const held = await session.lock("/b");
	refuses = true;
	const calls = [() => cell.files.get("/a"), () => cell.openSession(), () => session.lock("/a"), () => session.withLock("/a", () => {}), () => held.unlock()];
	for (const call of calls) {
		async function myProgram() {
			await call();
		}
		await assert.rejects(myProgram(), (/** @type {Error} */ err) => codeOf(err) === "permission_denied" && /myProgram/.test(String(err.stack)), String(call));
	}
	refuses = false;
	await session.close();
});

test("a write is checked against what was written", async () => {
	const stats = [{ size: 2 }, { path: "/b" }, { generation: 2 }];
	for (const wrong of stats) {
		const good = await written({ method: "", path: "/v1/files/a", query: new URLSearchParams(), headers: {}, body: "x" }, 5);
		const one = await replica(() => ({ body: { ...good, ...wrong } }));
		await assert.rejects(connect([one]).files.put("/a", "x"), (err) => codeOf(err) === "internal");
	}
});
