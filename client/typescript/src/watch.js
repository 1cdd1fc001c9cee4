import { ForeignAnswer, has, invalid, NoAnswer, StoutError } from "./errors.js";
import { bytesOf } from "./files.js";
import { Backoff, clip, sleep } from "./util.js";
import * as verify from "./verify.js";

const MOST_SILENCE = 15_000; // on a stream: a bookmark comes every 10 s
const MOST_IDLE = 3; // bookmarks without an event, before the replica is asked whether it is ready
const FEW_BAD = 2; // useless answers that never end a watch
const MOST_MESSAGE = 4 << 20;

/**
 * @typedef {object} WatchOptions
 * @property {number} [after] the revision after which to begin; default: now
 * @property {string[]} [paths] only events of these nodes
 * @property {string[]} [prefixes] only events of nodes with paths that begin so
 * @property {import("./types.js").EventType[]} [types] only these types
 * @property {boolean} [contents] with the new content of a file, while it is the present one
 * @property {AbortSignal} [signal]
 */

/** Reports that a replica does not keep the next events. */
class Compacted extends Error {
	/** @param {{oldest: number, revision: number}} at */
	constructor(at) {
		super("compacted");
		this.at = at;
	}
}

/** One watch: its position, and the replica that it reads from. @internal */
export class Watch {
	#caller;
	#options;
	#after = 0;
	/** @type {import("./router.js").Endpoint} */
	#at;
	/** By replicas that do not keep the next events. @type {Map<string, {oldest: number, revision: number}>} */
	#compacted = new Map();
	#bad = new Set(); // replicas that gave a useless answer since the last event
	#times = 0; // how often

	/** @param {import("./caller.js").Caller} caller @param {WatchOptions} options */
	constructor(caller, options) {
		this.#caller = caller;
		this.#options = options;
		this.#at = caller.router.known[0];
		for (const path of options.paths ?? []) verify.checkPath(path);
		for (const prefix of options.prefixes ?? [])
			if (!prefix.startsWith("/")) throw invalid("prefix", `prefix ${clip(prefix)} does not begin with "/"`);
	}

	/**
	 * Yields events, from one replica after another. A stream that ends is
	 * resumed at another replica, after the last event or bookmark.
	 *
	 * @returns {AsyncGenerator<import("./types.js").CellEvent | import("./types.js").Gap, void, void>}
	 */
	async *run() {
		const { signal } = this.#options;
		const pause = new Backoff();
		this.#after = this.#options.after ?? (await revision(this.#caller, 0, signal));
		for (;;) {
			signal?.throwIfAborted();
			this.#at = this.#choose();
			const began = this.#caller.clock.now();
			let err;
			try {
				yield* this.#stream();
			} catch (e) {
				err = e;
			}
			signal?.throwIfAborted();
			const gap = await this.#classify(err);
			if (gap) yield gap;
			this.#caller.log("debug", "watch moves to another replica", { replica: this.#at.base, after: this.#after, error: String(err) });
			if (this.#caller.clock.now() - began > 1000) pause.last = 100; // only immediate failures lengthen it
			await sleep(pause.next(), signal);
		}
	}

	/** Any replica but the last one, rather one that does not fail. */
	#choose() {
		const { router } = this.#caller;
		const avoided = (/** @type {import("./router.js").Endpoint} */ e) => e === this.#at || this.#compacted.has(e.base) || this.#bad.has(e.base);
		const fit = router.known.filter((e) => e.given || e.works);
		const healthy = fit.filter((e) => !avoided(e) && !router.passesOver(e));
		const some = [healthy, fit.filter((e) => !avoided(e)), fit].find((list) => list.length > 0) ?? router.known;
		return some[Math.floor(Math.random() * some.length)];
	}

	/** Yields the events of one stream until it ends. */
	async *#stream() {
		const { paths, prefixes, types, contents, signal } = this.#options;
		const query = {
			after: String(this.#after),
			path: paths,
			prefix: prefixes,
			types: types?.join(","),
			content: contents ? "true" : undefined,
		};
		const q = { method: "GET", path: "/v1/events", query, any: true, stream: true };
		const { value, error } = await this.#caller.attempt({ to: this.#at, forward: true }, q, signal);
		if (error) throw error;
		/** @type {import("node:http").IncomingMessage | undefined} */
		const body = value?.stream;
		if (!body || !String(body.headers["content-type"]).startsWith("text/event-stream")) {
			body?.destroy();
			throw this.#lie("an answer that is not an event stream");
		}
		let idle = 0;
		try {
			const left = { ms: MOST_SILENCE };
			for await (const m of messages(timed(body, this.#at.base, left))) {
				left.ms = MOST_SILENCE;
				const event = this.#consume(m);
				idle = m.event === "bookmark" ? idle + 1 : 0;
				if (event) yield event;
				if (idle === MOST_IDLE) {
					idle = 0;
					await this.#checkReady();
				}
			}
		} finally {
			body.destroy();
		}
	}

	/** Throws if the replica reports that it is not ready: cut off from the others, it gets no events. */
	async #checkReady() {
		const { error } = await this.#caller.attempt({ to: this.#at, forward: true }, { method: "GET", path: "/readyz", any: true }, this.#options.signal);
		if (has(error, "no_master", "outcome_unknown") && error.problem) throw error;
	}

	/** Processes a message. It returns the event, unless it is a bookmark. @param {Message} m */
	#consume(m) {
		let data;
		try {
			data = JSON.parse(m.data);
		} catch (err) {
			throw this.#lie(`unexpected JSON: ${err}`);
		}
		if (data === null || typeof data !== "object") throw this.#lie(`${clip(m.data)} as an event`);
		if (m.event === "denied") throw new StoutError("unauthenticated", `${this.#at.base} reports that the caller may no longer watch`);
		if (!verify.isNumber(data.revision) || String(data.revision) !== m.id) throw this.#lie(`revision ${data.revision} under the id ${clip(m.id)}`);
		if (m.event === "compacted") throw new Compacted(data);
		if (m.event === "bookmark") {
			this.#caller.checkCellID(this.#at.base, data.cell);
			if (data.revision < this.#after) throw this.#lie(`a bookmark with revision ${data.revision} after revision ${this.#after}`);
			this.#reach(data.revision);
			this.#caller.router.want(60_000);
			return undefined;
		}
		if (data.type !== m.event) throw this.#lie(`${clip(m.event)} with the type ${clip(data.type)}`);
		if (data.revision <= this.#after) throw this.#lie(`an event with revision ${data.revision} after revision ${this.#after}; they only grow`);
		if (!this.#wants(data)) throw this.#lie(`${clip(data.type)} of ${clip(data.path)}, which was not requested`);
		const wrong = /^file_(created|changed)$/.test(data.type) && verify.stat(data);
		if (wrong) throw this.#lie(wrong);
		this.#reach(data.revision);
		const { content, content_base64, ...event } = data;
		const bytes = bytesOf({ content, content_base64 });
		return bytes ? { ...event, content: bytes } : event;
	}

	/** @param {any} e */
	#wants(e) {
		const { paths = [], prefixes = [], types = [] } = this.#options;
		if (e.type === "master_changed") return true;
		if (types.length > 0 && !types.includes(e.type)) return false;
		return paths.length + prefixes.length === 0 || paths.includes(e.path) || prefixes.some((p) => String(e.path).startsWith(p));
	}

	/** @param {number} revision */
	#reach(revision) {
		this.#after = revision;
		this.#compacted.clear();
		this.#bad.clear();
		this.#times = 0;
	}

	/** @param {string} text */
	#lie(text) {
		return new StoutError("internal", `${this.#at.base} sent a watcher ${text}`);
	}

	/**
	 * Decides what follows the end of a stream: it throws the error that ends the
	 * watch, or returns a gap if no replica keeps the next events.
	 *
	 * @param {unknown} err
	 */
	async #classify(err) {
		const { router } = this.#caller;
		let at = { oldest: 0, revision: 0 };
		if (has(err, "compacted")) err = new Compacted({ oldest: err.problem?.oldest ?? 0, revision: err.problem?.revision ?? 0 });
		if (err instanceof Compacted) {
			at = err.at;
			const keeps = at.oldest <= this.#after && this.#after <= at.revision;
			if (keeps || !(at.oldest <= at.revision)) return this.#useless(this.#lie(`events after ${this.#after} as compacted, though it keeps them`));
			this.#compacted.set(this.#at.base, at);
		} else if (err instanceof NoAnswer) {
			if (!err.sent) router.failed({ to: this.#at, forward: false });
			else router.want(5000);
		} else if (has(err, "other_cell", "internal", "too_many") || err instanceof ForeignAnswer) {
			return this.#useless(err);
		} else if (has(err, "unauthenticated", "permission_denied")) {
			// The rules of the replica may be old, and it checked the token with
			// which the stream began: the master decides.
			const now = await revision(this.#caller, 0, this.#options.signal).catch((e) => e);
			if (has(now, "unauthenticated", "permission_denied")) throw now;
			return this.#useless(err);
		} else if (err !== undefined && !has(err, "no_master", "outcome_unknown", "not_master")) {
			throw err;
		}
		if (this.#compacted.size === 0) return undefined;
		if (!this.#compacted.has(this.#at.base)) this.#compacted.set(this.#at.base, at); // it was asked, too
		if (!router.abandoned((e) => this.#compacted.has(e.base))) return undefined;
		for (const other of this.#compacted.values()) if (other.revision > at.revision) at = other;
		this.#after = at.revision;
		this.#compacted.clear();
		return /** @type {import("./types.js").Gap} */ ({ type: "compacted", oldest: at.oldest, revision: at.revision });
	}

	/** Counts a useless answer. The watch ends when there were a few, and every replica has given one. @param {unknown} err */
	#useless(err) {
		this.#bad.add(this.#at.base);
		if (++this.#times > FEW_BAD && this.#caller.router.abandoned((e) => this.#bad.has(e.base))) throw err;
		return undefined;
	}
}

/**
 * Returns the cell's revision. It includes all changes that were acknowledged
 * before the call.
 *
 * @internal
 * @param {import("./caller.js").Caller} caller
 * @param {number} since
 * @param {AbortSignal} [signal]
 * @returns {Promise<number>}
 */
export async function revision(caller, since, signal) {
	const check = (/** @type {any} */ list) => (verify.isNumber(list.revision) ? verify.date(list.revision, since) : `revision ${list.revision}`);
	const list = await caller.do({ method: "GET", path: "/v1/events", query: { limit: "1" }, check, signal });
	return list.revision;
}

/**
 * Yields the parts of a stream. It ends the stream when the waits for parts have
 * used up the time left, which the consumer renews with each whole message. The
 * time that the consumer needs does not count.
 *
 * @internal
 * @param {import("node:http").IncomingMessage} body
 * @param {string} base
 * @param {{ms: number}} [left]
 * @returns {AsyncGenerator<string, void, void>}
 */
export async function* timed(body, base, left = { ms: MOST_SILENCE }) {
	const parts = body.setEncoding("utf8")[Symbol.asyncIterator]();
	for (;;) {
		const began = performance.now();
		const timer = setTimeout(() => body.destroy(new Error("the replica is silent")), left.ms);
		let part;
		try {
			part = await parts.next();
			if (part.done) throw new Error("the stream ended");
		} catch (err) {
			throw new NoAnswer(base, err, true);
		} finally {
			clearTimeout(timer);
		}
		left.ms -= performance.now() - began;
		yield part.value;
	}
}

/** @internal @typedef {{id: string, event: string, data: string}} Message */

/**
 * Reads server-sent events.
 *
 * @internal
 * @param {AsyncIterable<string>} parts
 * @returns {AsyncGenerator<Message, void, void>}
 */
export async function* messages(parts) {
	let rest = "";
	let m = { id: "", event: "", data: "" };
	for await (const part of parts) {
		const lines = (rest + part).split(/\r?\n/);
		rest = /** @type {string} */ (lines.pop());
		if (rest.length + m.data.length > MOST_MESSAGE) throw new StoutError("internal", "the stream has a message that is too long to be an event");
		for (const line of lines) {
			if (line === "") {
				if (m.data) yield { ...m, data: m.data.slice(0, -1) };
				m = { id: "", event: "", data: "" };
				continue;
			}
			const [, name, value] = /** @type {RegExpMatchArray} */ (line.match(/^([^:]*):? ?(.*)$/s));
			if (name === "data") m.data += `${value}\n`;
			else if (name === "id" || name === "event") m[name] = value;
		}
	}
}
