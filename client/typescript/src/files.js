import { randomUUID } from "node:crypto";
import { has, invalid, StoutError } from "./errors.js";
import { show, sleep } from "./util.js";
import * as verify from "./verify.js";

const MOST_BYTES = 256 << 10; // content of a file

/** Half of the keyed answers that the cell remembers of a session. */
const WINDOW = 64;

/** Codes with which a keyed write had no effect in any attempt. @param {string} code */
const settles = (code) => ["precondition_failed", "not_held", "conflict"].includes(code);

/**
 * @typedef {object} DeleteOptions
 * @property {number} [ifRevision] only if the file has this revision, else precondition_failed
 * @property {import("./locks.js").Held | import("./locks.js").Held[]} [while] only while the cell counts these holds as held, else not_held
 * @property {AbortSignal} [signal]
 */

/**
 * @typedef {DeleteOptions & {ifAbsent?: boolean, ephemeral?: boolean, returnCurrent?: boolean}} WriteOptions
 *   `ifAbsent`: only if the file does not exist. `ephemeral`: the file ends with
 *   the session (false: it outlives it). `returnCurrent`: a precondition_failed
 *   has the present file with its content.
 */

/**
 * @typedef {object} ReadOptions
 * @property {boolean} [stale] any replica may answer from its own state, perhaps out of date
 * @property {AbortSignal} [signal]
 */

/**
 * The files of a cell. With a session, each change is made exactly once: it has
 * an idempotency key, under which it is repeated until it is answered. Without
 * a session it is sent once, and throws outcome_unknown if no answer came.
 */
export class Files {
	#caller;
	#seen;
	#session;
	/** The numbers of the writes under way, in order. @type {Set<number>} */
	#under = new Set();
	#next = 0;

	/** @internal @param {import("./caller.js").Caller} caller @param {{revision: number}} seen @param {import("./session.js").Session} [session] */
	constructor(caller, seen, session) {
		this.#caller = caller;
		this.#seen = seen;
		this.#session = session;
	}

	/**
	 * Reads a file. A missing one is a not_found.
	 *
	 * @param {string} path
	 * @param {ReadOptions} [options]
	 * @returns {Promise<import("./types.js").File & {content: Buffer}>}
	 */
	async get(path, { stale = false, signal } = {}) {
		verify.checkPath(path);
		const since = stale ? 0 : this.#seen.revision;
		let asOf = 0;
		const file = await this.#caller.do({
			method: "GET",
			path: `/v1/files${path}`,
			query: { as: "json", ...consistency(stale) },
			stale,
			signal,
			check: (f, headers) => {
				asOf = Number(headers["stout-revision"]);
				if (f.path !== path) return `the file ${JSON.stringify(f.path)}`;
				if (!verify.isNumber(asOf)) return "no revision in the header Stout-Revision";
				return verify.stat(f) ?? verify.date(asOf, Math.max(since, f.revision)) ?? verify.content(f, bytesOf(f) ?? Buffer.alloc(0));
			},
		});
		if (!stale) this.#note(asOf);
		return { ...fileOf(file, asOf), content: bytesOf(file) ?? Buffer.alloc(0) };
	}

	/**
	 * Yields the files whose paths begin with a plain string, in bytewise order.
	 * Each page is a consistent view of its own, at the revision `asOf`.
	 *
	 * @param {string} [prefix]
	 * @param {ReadOptions & {contents?: boolean}} [options]
	 * @returns {AsyncGenerator<import("./types.js").File, void, void>}
	 */
	async *list(prefix = "", { stale = false, contents = false, signal } = {}) {
		for (let after = /** @type {string | undefined} */ (undefined); ; ) {
			const since = stale ? 0 : this.#seen.revision;
			let asOf = 0;
			const page = await this.#caller.do({
				method: "GET",
				path: "/v1/files",
				query: { prefix: prefix || undefined, after, limit: "1000", content: contents ? "true" : undefined, ...consistency(stale) },
				stale,
				signal,
				check: (p, headers) => {
					asOf = Number(headers["stout-revision"]);
					if (!Array.isArray(p.files) || !verify.isNumber(asOf)) return "no files, or no revision";
					let last = after ?? "";
					for (const f of p.files) {
						if (!f.path.startsWith(prefix) || !isLater(f.path, last)) return `the file ${JSON.stringify(f.path)} after ${JSON.stringify(last)}`;
						const bytes = bytesOf(f);
						const wrong = verify.stat(f) ?? (bytes && verify.content(f, bytes));
						if (wrong) return wrong;
						last = f.path;
					}
					if (p.next !== undefined && !isLater(p.next, after ?? "")) return `the next page after ${JSON.stringify(p.next)}`;
					return verify.date(asOf, since);
				},
			});
			if (!stale) this.#note(asOf);
			for (const f of page.files) yield fileOf(f, asOf);
			if (!page.next) return;
			after = page.next;
		}
	}

	/**
	 * Writes a whole file, and returns its stat.
	 *
	 * @param {string} path
	 * @param {string | Uint8Array} content
	 * @param {WriteOptions} [options]
	 * @returns {Promise<import("./types.js").Stat>}
	 */
	async put(path, content, options = {}) {
		verify.checkPath(path);
		return this.#write("PUT", path, content, options);
	}

	/**
	 * Creates a file with a name that begins with `prefix` and ends with 16
	 * digits: the revision that creates it.
	 *
	 * @param {string} prefix
	 * @param {string | Uint8Array} content
	 * @param {{ephemeral?: boolean, while?: DeleteOptions["while"], signal?: AbortSignal}} [options]
	 * @returns {Promise<import("./types.js").Stat>}
	 */
	async createSequential(prefix, content, options = {}) {
		verify.checkPath(`${prefix}${"0".repeat(16)}`);
		return this.#write("POST", prefix, content, options);
	}

	/**
	 * Deletes a file. It returns the revision of that, or 0 if there was none.
	 *
	 * @param {string} path
	 * @param {DeleteOptions} [options]
	 * @returns {Promise<number>}
	 */
	async delete(path, options = {}) {
		verify.checkPath(path);
		const { revision } = await this.#remove(`/v1/files${path}`, {}, options);
		return revision;
	}

	/**
	 * Deletes the files below a directory, at most 10000, as one change. `dir`
	 * ends in "/". It returns their number and the last revision.
	 *
	 * @param {string} dir
	 * @param {Omit<DeleteOptions, "ifRevision">} [options]
	 */
	async deleteBelow(dir, options = {}) {
		if (!dir.endsWith("/")) throw invalid("prefix", `directory ${JSON.stringify(dir)} does not end in "/"`);
		verify.checkPath(dir.slice(0, -1));
		const { deleted, revision } = await this.#remove("/v1/files", { prefix: dir }, options);
		return { deleted: Number(deleted), revision };
	}

	/**
	 * Makes several changes as one: if all conditions hold, those of `then`, else
	 * those of `else`. Conditions, operations and results are the contract's. For a
	 * hold, give a condition for each of its `sequencers`.
	 *
	 * @param {{if?: object[], then?: object[], else?: object[]}} transaction
	 * @param {{signal?: AbortSignal}} [options]
	 * @returns {Promise<{succeeded: boolean, revision: number, results: any[]}>}
	 */
	async transaction(transaction, { signal } = {}) {
		const body = Buffer.from(JSON.stringify({ session: this.#session?.id, ...transaction }));
		const check = (/** @type {any} */ t) =>
			typeof t.succeeded === "boolean" && verify.isNumber(t.revision) && Array.isArray(t.results) ? undefined : "no result of a transaction";
		const out = await this.#send({ method: "POST", path: "/v1/transactions", body, check, signal });
		this.#note(out.revision);
		return out;
	}

	/** @param {"PUT" | "POST"} method @param {string} path @param {string | Uint8Array} content @param {WriteOptions} o */
	async #write(method, path, content, o) {
		const body = Buffer.from(content); // a copy: a late attempt may still read it
		if (body.length > MOST_BYTES) throw new StoutError("too_large", `the content has ${body.length} bytes; a file has at most ${MOST_BYTES}`);
		if (o.ifAbsent && o.ifRevision !== undefined) throw invalid("If-None-Match", "ifRevision and ifAbsent contradict each other");
		if (o.ephemeral && !this.#session) throw invalid("ephemeral", "an ephemeral file ends with a session: use the files of a session");
		const since = this.#seen.revision;
		/** @type {Record<string, string>} */
		const headers = { "content-type": "application/octet-stream", ...ifMatch(o.ifRevision) };
		if (o.ifAbsent) headers["if-none-match"] = "*";
		const query = { ...this.#guards(o.while), ephemeral: o.ephemeral === undefined ? undefined : String(o.ephemeral) };
		const current = o.returnCurrent ? { as: "json", content: "true" } : {};
		const out = await this.#send({
			method,
			path: `/v1/files${path}`,
			query: { ...query, ...current },
			headers,
			body,
			signal: o.signal,
			check: (s) => {
				const name = method === "POST" ? path + String(s.revision).padStart(16, "0") : path;
				if (s.path !== name) return `the writing of ${JSON.stringify(s.path)} at revision ${s.revision}`;
				if ((o.ifAbsent || method === "POST") && s.generation !== 1) return `generation ${s.generation} of a file that was to be created`;
				return verify.stat(s) ?? verify.date(s.revision, since + 1) ?? verify.content(s, body);
			},
		});
		this.#note(out.revision);
		return out;
	}

	/** @param {string} path @param {Record<string, string>} query @param {DeleteOptions} o */
	async #remove(path, query, o) {
		const since = this.#seen.revision;
		const out = await this.#send({
			method: "DELETE",
			path,
			query: { ...query, ...this.#guards(o.while) },
			headers: ifMatch(o.ifRevision),
			signal: o.signal,
			check: (d) => {
				if (typeof d.deleted !== (query.prefix ? "number" : "boolean")) return `\`deleted\` as ${JSON.stringify(d.deleted)}`;
				if (d.deleted) return verify.isNumber(d.revision, 1) ? verify.date(d.revision, since + 1) : `revision ${d.revision}`;
				return undefined;
			},
		});
		if (out.deleted) this.#note(out.revision);
		return { deleted: out.deleted, revision: out.deleted ? out.revision : 0 };
	}

	/**
	 * Sends a change. A keyed one waits while too many later answers could make
	 * the cell forget its own.
	 *
	 * @param {import("./caller.js").Call} q
	 */
	async #send(q) {
		const session = this.#session;
		if (!session) return this.#caller.do({ ...q, once: true });
		if (session.error) throw session.error;
		while (this.#under.size > 0 && this.#next - Math.min(...this.#under) >= WINDOW) {
			await sleep(10, q.signal);
			q.signal?.throwIfAborted();
		}
		const place = this.#next++;
		this.#under.add(place);
		const keyed = { ...q, query: q.path === "/v1/transactions" ? q.query : { ...q.query, session: session.id } };
		try {
			return await this.#caller.do({ ...keyed, headers: { ...q.headers, "idempotency-key": randomUUID() }, settles });
		} catch (err) {
			if (has(err, "session_not_found")) throw session.expire();
			if (has(err, "outcome_unknown") && has(err.cause, "session_not_found")) session.expire();
			throw err;
		} finally {
			this.#under.delete(place);
		}
	}

	/** @param {DeleteOptions["while"]} holds */
	#guards(holds) {
		const all = holds === undefined ? [] : [holds].flat();
		for (const h of all)
			if (typeof h?.sequencer !== "string") throw invalid("while", `while is ${show(h)}; it must be a hold, as lock returns it, or a list of holds`);
			else if (!h.valid) throw new StoutError("not_held", `${h.sequencer}: the hold has ended here`, { cause: h.error });
		return { sequencer: all.flatMap((h) => h.sequencers) };
	}

	/** @param {number} revision */
	#note(revision) {
		this.#seen.revision = Math.max(this.#seen.revision, revision);
	}
}

/** Reports whether a path comes after another, bytewise. @param {string} path @param {string} than */
const isLater = (path, than) => Buffer.compare(Buffer.from(path), Buffer.from(than)) > 0;

/** @internal @param {boolean} stale */
export const consistency = (stale) => (stale ? { consistency: "stale" } : {});

/** @param {number | undefined} revision @returns {Record<string, string>} */
function ifMatch(revision) {
	if (revision === undefined) return {};
	if (!verify.isNumber(revision, 1)) throw invalid("If-Match", `ifRevision is ${show(revision)}; it must be a whole number of at least 1`);
	return { "if-match": `"${revision}"` };
}

/** @internal @param {{content?: string, content_base64?: string}} f */
export function bytesOf(f) {
	if (f.content !== undefined) return Buffer.from(f.content);
	return f.content_base64 === undefined ? undefined : Buffer.from(f.content_base64, "base64");
}

/** @param {any} f a file of the contract @param {number} asOf @returns {import("./types.js").File} */
function fileOf({ content, content_base64, ...stat }, asOf) {
	const bytes = bytesOf({ content, content_base64 });
	return bytes ? { ...stat, content: bytes, asOf } : { ...stat, asOf };
}
