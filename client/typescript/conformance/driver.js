/**
 * The driver of the conformance suite for this client; its protocol is in
 * docs/writing-a-client.md.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, StoutError } from "../src/index.js";

/** @typedef {Record<string, any>} Fields */

/** @type {Map<string, Client>} */
const cells = new Map();
/** @type {Map<string, import("../src/index.js").Session>} */
const sessions = new Map();
/** @type {Map<string, import("../src/index.js").Held>} */
const holds = new Map();
/** @type {Map<string, AbortController>} */
const watches = new Map();

/** @param {Fields} line */
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** @template T @param {Map<string, T>} map @param {string} name @returns {T} */
function find(map, name) {
	const found = map.get(name);
	if (!found) throw new StoutError("invalid_argument", `there is no object named ${JSON.stringify(name)}`);
	return found;
}

/** @param {unknown} err */
function codeOf(err) {
	if (err instanceof StoutError) return err.code;
	return err instanceof Error && err.name === "TimeoutError" ? "no_master" : "internal";
}

/** @param {Fields} c */
const filesOf = (c) => (c.session ? find(sessions, c.session) : find(cells, c.cell)).files;

/** @param {Fields} c @param {AbortSignal} signal */
const conditions = (c, signal) => ({
	ifRevision: c.if_revision || undefined,
	while: c.while ? find(holds, c.while) : undefined,
	signal,
});

/** @param {Fields} c @param {AbortSignal} signal */
async function lock(c, signal) {
	const session = find(sessions, c.session);
	const options = { shared: c.mode === "shared", limit: c.limit || undefined, priority: c.priority, with: c.with };
	const held = await (c.op === "try_lock"
		? session.tryLock(c.path, { ...options, timeout: c.timeout_ms ?? 30_000, signal })
		: session.lock(c.path, { ...options, wait: c.wait_ms, signal: c.wait_ms === undefined && c.timeout_ms === undefined ? undefined : signal }));
	return taken(c, held);
}

/** Adds a hold, and reports its loss. @param {Fields} c @param {import("../src/index.js").Held} held */
function taken(c, held) {
	holds.set(c.as, held);
	const report = () => {
		const code = codeOf(held.signal.reason);
		if (code !== "unlocked" && code !== "session_closed") setImmediate(() => write({ report: "lost", hold: c.as, code }));
	};
	if (held.signal.aborted) report();
	else held.signal.addEventListener("abort", report);
	return { token: held.token, sequencer: held.sequencer, sequencers: held.sequencers };
}

/** @param {Fields} c @param {Client} cell @param {AbortController} end */
async function reportEvents(c, cell, end) {
	try {
		for await (const e of cell.watch({ after: c.after, prefixes: c.prefix ? [c.prefix] : [], signal: end.signal })) {
			if (end.signal.aborted) return;
			if (e.type === "compacted") write({ report: "compacted", watch: c.as, revision: e.revision });
			else write({ report: "event", watch: c.as, revision: e.revision, type: e.type, path: e.path ?? "" });
		}
	} catch (err) {
		if (!end.signal.aborted) write({ report: "ended", watch: c.as, code: codeOf(err) });
	}
}

/** @type {Record<string, (c: Fields, signal: AbortSignal) => Promise<Fields | void>>} */
const operations = {
	async connect(c) {
		const pem = (/** @type {string} */ name) => (c[name] ? readFileSync(c[name]) : undefined);
		const tls = c.ca ? { ca: pem("ca"), cert: pem("cert"), key: pem("key") } : undefined;
		const log = process.env.STOUT_DRIVER_LOG ? (/** @type {any[]} */ ...what) => console.error(Date.now(), ...what) : undefined;
		cells.set(c.as, new Client(c.urls, { tls, token: c.token || undefined, log }));
	},
	async open(c, signal) {
		const session = await find(cells, c.cell).openSession({ ttl: c.ttl_ms, name: c.name, signal });
		sessions.set(c.as, session);
		session.on("state", (state) => {
			if (session.error?.code !== "session_closed") setImmediate(() => write({ report: state, session: c.as }));
		});
		return { session: session.id, ttl_ms: session.ttl };
	},
	async state(c) {
		const { state, remaining } = find(sessions, c.session);
		return { state, remaining_ms: remaining };
	},
	close: (c, signal) => find(sessions, c.session).close({ signal }),
	lock,
	try_lock: lock,
	held: async (c) => ({ held: find(holds, c.hold).valid }),
	resume: async (c, signal) => taken(c, await find(holds, c.hold).resume({ signal })),
	await_priority: (c, signal) => find(holds, c.hold).awaitPriority({ signal }),
	unlock: (c, signal) => find(holds, c.hold).unlock({ signal }),
	async put(c, signal) {
		const options = { ...conditions(c, signal), ifAbsent: c.if_absent, ephemeral: c.ephemeral || undefined };
		const { revision, generation } = await filesOf(c).put(c.path, Buffer.from(c.content_base64 ?? "", "base64"), options);
		return { revision, generation };
	},
	async get(c, signal) {
		const { revision, generation, content } = await find(cells, c.cell).files.get(c.path, { signal });
		return { revision, generation, content_base64: content.toString("base64") };
	},
	delete: async (c, signal) => ({ deleted: (await filesOf(c).delete(c.path, conditions(c, signal))) > 0 }),
	async list(c, signal) {
		const files = [];
		for await (const { path, revision } of find(cells, c.cell).files.list(c.prefix, { signal })) files.push({ path, revision });
		return { files };
	},
	async watch(c) {
		const end = new AbortController();
		watches.set(c.as, end);
		const cell = find(cells, c.cell);
		setImmediate(() => reportEvents(c, cell, end));
	},
	unwatch: async (c) => find(watches, c.watch).abort(),
};

/** @param {Fields} c */
async function run(c) {
	const operation = operations[c.op];
	if (!operation) return void write({ id: c.id, error: { code: "unsupported", message: `unknown op ${c.op}` } });
	try {
		write({ id: c.id, ok: (await operation(c, AbortSignal.timeout(c.timeout_ms ?? 30_000))) ?? {} });
	} catch (err) {
		write({ id: c.id, error: { code: codeOf(err), message: String(err instanceof Error ? (err.stack ?? err) : err) } });
	}
}

for await (const line of createInterface({ input: process.stdin })) run(JSON.parse(line));
process.exit(0);
