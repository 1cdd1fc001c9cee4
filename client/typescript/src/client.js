import { randomUUID } from "node:crypto";
import { Caller } from "./caller.js";
import { Clock } from "./clock.js";
import { invalid } from "./errors.js";
import { consistency, Files } from "./files.js";
import { check, readSession } from "./locks.js";
import { parseBase } from "./router.js";
import { Session } from "./session.js";
import { show } from "./util.js";
import * as verify from "./verify.js";
import { revision, Watch } from "./watch.js";

/**
 * @typedef {Pick<import("node:tls").SecureContextOptions, "ca" | "cert" | "key" | "passphrase" | "pfx"> & {servername?: string}} TLSOptions
 */

/**
 * @typedef {object} ClientOptions
 * @property {TLSOptions | (() => TLSOptions)} [tls] for https URLs: the CAs that verify the replicas, and the
 *   client's certificate. A function is called for each request; a new object makes new connections.
 * @property {string | (() => string | Promise<string>)} [token] the credential; a function is called for each attempt; if it
 *   throws, the call is rejected with unauthenticated
 * @property {number} [grace] ms for which a session in jeopardy tries to recover; default 45000
 * @property {boolean} [onlyURLs] call only the given replicas and the master that they name
 * @property {string} [userAgent]
 * @property {(level: "debug" | "info" | "warn", text: string, fields: Record<string, unknown>) => void} [log]
 * @property {Clock} [clock] for tests
 */

/** The highest ttl of a session, in ms. */
const MOST_TTL = 86_400_000;

/**
 * A client of one cell, to be shared by the whole program: its sessions and
 * calls share connections and the choice of replica.
 *
 * A call that may safely be repeated is repeated until it is answered or its
 * `signal` ends. When the signal ends, a call under way throws a StoutError with
 * the code no_master (it certainly had no effect) or outcome_unknown, and the
 * signal's reason as its cause; a wait in a queue throws that reason itself.
 */
export class Client {
	#caller;
	#grace;
	#seen = { tokens: 0, revision: 0 };

	/**
	 * @param {string | string[]} urls base URLs of any replicas, or host:port. One is enough to find the others; more
	 *   help when that replica is down at the start.
	 * @param {ClientOptions} [options]
	 */
	constructor(urls, options = {}) {
		const bases = [urls].flat().map((url) => parseBase(url, options.tls ? "https" : "http"));
		if (bases.length === 0) throw invalid("urls", "no URL given; name the base URL of at least one replica");
		this.#grace = options.grace ?? 45_000;
		check("grace", this.#grace, Infinity, " of ms");
		this.#caller = new Caller(bases, options, options.clock ?? new Clock());
		/** The cell's files. A change is made at most once; use a session's files for exactly once. */
		this.files = new Files(this.#caller, this.#seen);
	}

	/** The base URLs of the known replicas: the given ones, then those learned from the cell. */
	get urls() {
		return this.#caller.router.known.map((e) => e.base);
	}

	/** Closes idle connections and ends the search for replicas. Close the sessions first. */
	close() {
		this.#caller.close();
	}

	/**
	 * Opens a session and keeps it alive. If `signal` ends first, the cell may
	 * have an unused session, which expires after its ttl.
	 *
	 * @param {import("./session.js").SessionOptions} [options]
	 * @returns {Promise<Session>}
	 */
	async openSession({ ttl = 12_000, name = "", meta, signal } = {}) {
		if (!Number.isInteger(ttl) || ttl < 1000 || ttl > MOST_TTL) throw invalid("ttl", `ttl is ${show(ttl)}; it must be a whole number of ms within 1000..${MOST_TTL}`);
		/** @type {import("./caller.js").Call} */
		const q = {
			method: "POST",
			path: "/v1/sessions",
			body: Buffer.from(JSON.stringify({ ttl_ms: ttl, name, meta })),
			headers: { "idempotency-key": randomUUID() },
			check: verify.opened(ttl),
			settles: (code) => ["precondition_failed", "not_held", "conflict"].includes(code),
			signal,
		};
		const opened = await this.#caller.do(q);
		// Any of several attempts may have opened it: the lease counts from the first.
		const session = new Session(this.#caller, opened, q.firstSent ?? 0, this.#grace, this.#seen);
		try {
			await session.awaitSafe(signal);
			return session;
		} catch (err) {
			await session.close().catch(() => {});
			throw err;
		}
	}

	/**
	 * Reads the state of a lock.
	 *
	 * @param {string} path
	 * @param {import("./files.js").ReadOptions & {waiters?: number}} [options] `waiters`: how many of the queue to list
	 * @returns {Promise<import("./types.js").LockState>}
	 */
	async readLock(path, { stale = false, waiters, signal } = {}) {
		verify.checkPath(path);
		return this.#caller.do({ method: "GET", path: `/v1/locks${path}`, query: { ...consistency(stale), waiters: waiters === undefined ? undefined : String(waiters) }, stale, signal, check: verify.lockState(path) });
	}

	/**
	 * Reads a session with its holds and waits.
	 *
	 * @param {string} id
	 * @param {{signal?: AbortSignal}} [options]
	 */
	async readSession(id, { signal } = {}) {
		return readSession(this.#caller, id, signal);
	}

	/**
	 * Reports whether the very grant that a sequencer describes is held now. A
	 * resource that remembers the highest token seen does not need it.
	 *
	 * @param {string} value
	 * @param {import("./files.js").ReadOptions} [options]
	 * @returns {Promise<{valid: boolean, reason?: string}>}
	 */
	async checkSequencer(value, { stale = false, signal } = {}) {
		const check = (/** @type {any} */ c) => (typeof c.valid === "boolean" ? undefined : "no `valid`");
		return this.#caller.do({ method: "GET", path: "/v1/sequencers", query: { value, ...consistency(stale) }, stale, signal, check });
	}

	/**
	 * Returns the cell's revision. It includes all changes that were acknowledged
	 * before the call.
	 *
	 * @param {{signal?: AbortSignal}} [options]
	 */
	async revision({ signal } = {}) {
		const now = await revision(this.#caller, this.#seen.revision, signal);
		this.#seen.revision = Math.max(this.#seen.revision, now);
		return now;
	}

	/**
	 * Yields every change of the cell after a revision, in order, without gaps or
	 * repeats, until `signal` ends or the loop is left. It reads from any healthy
	 * replica, and moves to another when that one fails. A Gap (its `type` is
	 * compacted) takes the place of events that are no longer kept. Begin after
	 * the `asOf` of a read, and no change is missed. When `signal` ends, the loop
	 * throws its reason.
	 *
	 * @param {import("./watch.js").WatchOptions} [options]
	 * @returns {AsyncGenerator<import("./types.js").CellEvent | import("./types.js").Gap, void, void>}
	 */
	watch(options = {}) {
		return new Watch(this.#caller, options).run();
	}
}
