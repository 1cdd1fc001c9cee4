import { EventEmitter } from "node:events";
import { CUT, has, own } from "./errors.js";
import { Files } from "./files.js";
import { Locks } from "./locks.js";
import { Reconciler } from "./reconcile.js";
import { Backoff, link, outlast, sleep } from "./util.js";
import * as verify from "./verify.js";

const LONG_POLL = 30_000; // a keepalive waits no longer, for middleboxes
const WAKE_EVERY = 1000; // timers stand still while the machine sleeps

/**
 * How far a session can be relied upon. In jeopardy the local lease has ended,
 * and it is unknown whether the session lives. Expired is the end.
 *
 * @typedef {"safe" | "jeopardy" | "expired"} State
 */

/**
 * @typedef {object} SessionOptions
 * @property {number} [ttl] ms that the session lives without a keepalive; default 12000
 * @property {string} [name] for operators
 * @property {Record<string, string>} [meta] up to 16 pairs for operators
 * @property {AbortSignal} [signal] bounds the opening
 */

/**
 * This program's lease on the cell, kept alive in the background until `close`
 * or its end. It emits `state` with each new State and, unless that is safe, the
 * StoutError that explains it; and `event` with each SessionEvent.
 *
 * The client counts a local lease: the ttl from the moment before a keepalive
 * was sent, plus the time for which the cell held it. It ends before the cell's
 * own. JavaScript's timers and events fire late, and not at all while other
 * code runs. Therefore `state`, `remaining` and everything of a hold read the
 * clock each time.
 *
 * @extends {EventEmitter<{state: [State, import("./errors.js").StoutError?], event: [import("./types.js").SessionEvent]}>}
 */
export class Session extends EventEmitter {
	#caller;
	#end; // clock at the end of the local lease
	/** @type {State} */
	#state = "safe";
	/** @type {import("./errors.js").StoutError | undefined} */
	#error;
	#grace;
	#over = new AbortController();
	#changed = new AbortController(); // ends at the next change of state
	/** @type {NodeJS.Timeout | undefined} */
	#timer;
	#epoch;
	#ack = 0;
	/** Why the last keepalive failed, unless another was answered since. @type {unknown} */
	#failure;
	#overdue = false;
	/** The keepalive under way. @type {{cut: () => void, long: boolean} | undefined} */
	#poll;
	#kept;
	#reconciler;
	/** @internal */
	locks;

	/**
	 * @internal
	 * @param {import("./caller.js").Caller} caller
	 * @param {import("./types.js").SessionState} opened
	 * @param {number} sent clock before the first call that may have opened it
	 * @param {number} grace
	 * @param {{tokens: number, revision: number}} seen
	 */
	constructor(caller, opened, sent, grace, seen) {
		super();
		this.#caller = caller;
		this.#grace = grace;
		this.#epoch = opened.epoch;
		/** A caller that knows the id can act for the session: log it with care. */
		this.id = opened.id;
		this.name = opened.name;
		/** How long the session lives without a keepalive, in ms. */
		this.ttl = opened.ttl_ms;
		this.#end = sent + this.ttl;
		this.locks = new Locks(this, caller, seen);
		this.#reconciler = new Reconciler(this, caller);
		/** The cell's files. Each change is made exactly once. */
		this.files = new Files(caller, seen, this);
		this.#wake();
		this.#kept = this.#keep();
	}

	/** The term of office of the master that answered last. */
	get epoch() {
		return this.#epoch;
	}

	/** The state at this instant, by the clock. */
	get state() {
		this.#look();
		return this.#state;
	}

	/** How long the local lease lasts unless it is extended, in ms; 0 unless safe. */
	get remaining() {
		return this.state === "safe" ? Math.max(this.#end - this.#caller.clock.now(), 0) : 0;
	}

	/** Why the session is over: session_expired or session_closed; else undefined. */
	get error() {
		this.#look();
		return this.#error;
	}

	/** Ends when the session is over. @returns {AbortSignal} */
	get signal() {
		this.#look();
		return this.#over.signal;
	}

	/**
	 * Acquires a lock. It waits in the lock's queue until the lock is granted,
	 * `signal` ends, or `wait` is over. `signal` bounds the waiting only, not the
	 * hold. After an error no request remains: it has left the queue, and
	 * released a grant that came in the meantime, or the session does so as soon
	 * as it can.
	 *
	 * With `with` it gets all locks at once or none, and waits for all in one place.
	 * So callers that name the same locks in different orders never wait for each
	 * other. The Held is one for all locks: it ends with the first loss, and
	 * `unlock` releases all.
	 *
	 * @param {string} path
	 * @param {import("./locks.js").LockOptions} [options]
	 * @returns {Promise<import("./locks.js").Held>}
	 */
	async lock(path, options = {}) {
		return this.locks.acquire(path, options);
	}

	/**
	 * Acquires a lock if it is free now. Otherwise it throws lock_held, with the
	 * holders, or lock_delayed. If the cell does not answer within `timeout`, it
	 * throws no_master.
	 *
	 * @param {string} path
	 * @param {Omit<import("./locks.js").LockOptions, "wait">} [options]
	 */
	async tryLock(path, options = {}) {
		return this.lock(path, { ...options, wait: 0 });
	}

	/**
	 * Acquires a lock, calls `work`, and releases the lock when `work` has ended,
	 * however it ends. The signal that `work` gets ends with the hold, and with
	 * `options.signal`. An error of `work` goes before the others. If the hold
	 * ended before its release, as in a jeopardy, withLock throws the reason.
	 *
	 * @template T
	 * @param {string} path
	 * @param {(held: import("./locks.js").Held, signal: AbortSignal) => T | Promise<T>} work
	 * @param {import("./locks.js").LockOptions} [options]
	 * @returns {Promise<T>}
	 */
	async withLock(path, work, options = {}) {
		const held = await this.lock(path, options);
		const under = link(options.signal, held.signal);
		let result;
		try {
			result = await work(held, under.signal);
		} catch (err) {
			await held.unlock({ signal: options.signal }).catch(() => {});
			throw err;
		} finally {
			under.free();
		}
		const { error } = held.newest;
		await held.unlock({ signal: options.signal });
		if (has(error, "jeopardy")) throw error;
		return result;
	}

	/**
	 * Ends the session here and in the cell, where its locks are free at once. It
	 * tries for five seconds, or until `signal` ends if that is later. If the
	 * cell cannot be reached it throws, and the session expires there after its
	 * ttl.
	 *
	 * @param {{signal?: AbortSignal}} [options]
	 */
	async close({ signal } = {}) {
		const reason = this.finish(own("session_closed"));
		await this.#kept;
		if (has(reason, "session_expired")) return;
		const until = outlast(signal ?? AbortSignal.abort());
		try {
			await this.#caller.do({ method: "DELETE", path: `/v1/sessions/${this.id}`, signal: until.signal });
		} finally {
			until.free();
		}
	}

	async [Symbol.asyncDispose]() {
		await this.close();
	}

	/** @internal @param {import("./errors.js").StoutError} reason @returns the first such reason */
	finish(reason) {
		this.#look();
		if (this.#state !== "expired") this.#become("expired", reason);
		return /** @type {import("./errors.js").StoutError} */ (this.#error);
	}

	/** Ends the session as the cell no longer knows it. @internal */
	expire() {
		return this.finish(own("session_expired"));
	}

	/** Waits until the session is safe. @internal @param {AbortSignal} [signal] */
	async awaitSafe(signal) {
		while (this.state !== "safe") {
			if (this.#error) throw this.#error;
			if (signal?.aborted) throw signal.reason;
			await sleep(WAKE_EVERY, signal, this.#changed.signal);
		}
	}

	/** Makes the next keepalive at once. @internal */
	hurry() {
		this.#poll?.cut();
	}

	/** Updates the state by the clock. */
	#look() {
		const now = this.#caller.clock.now();
		if (this.#state === "safe" && now >= this.#end) this.#become("jeopardy");
		if (this.#state === "jeopardy" && now >= this.#end + this.#grace) this.#become("expired", own("session_expired", this.#failure));
	}

	/** @param {State} state @param {import("./errors.js").StoutError} [reason] */
	#become(state, reason) {
		this.#state = state;
		this.#error = reason;
		const why = state === "safe" ? undefined : (reason ?? own("jeopardy", this.#failure));
		this.#caller.log(state === "jeopardy" ? "warn" : "info", `session ${state}`, { session: this.name, epoch: this.#epoch });
		if (state === "jeopardy") {
			this.locks.endHolds(/** @type {import("./errors.js").StoutError} */ (why));
			if (this.#poll?.long) this.#poll.cut(); // the machine slept: the waiting call is useless
		}
		if (reason) {
			clearTimeout(this.#timer);
			this.locks.end(reason);
			this.#over.abort(reason);
		}
		this.#changed.abort();
		this.#changed = new AbortController();
		queueMicrotask(() => this.emit("state", state, why)); // a listener's error must not stop the lease
	}

	#wake() {
		this.#look();
		if (this.#state === "expired") return;
		const due = this.#end + (this.#state === "jeopardy" ? this.#grace : 0);
		const left = Math.max(due - this.#caller.clock.now(), 1);
		this.#timer = setTimeout(() => this.#wake(), Math.min(left, WAKE_EVERY)).unref();
	}

	/** @param {number} until */
	#extend(until) {
		this.#look();
		if (this.#state === "expired" || until <= this.#end) return;
		this.#end = until;
		if (this.#state === "jeopardy" && this.#caller.clock.now() < until) this.#become("safe");
	}

	/**
	 * Keeps the session alive until it is over. One call always waits at the
	 * master, which answers when a third of the lease is left. After a failure
	 * the next replica is asked to answer at once, with a short bound.
	 */
	async #keep() {
		const pause = new Backoff();
		const over = this.#over.signal;
		for (let failures = 0; !over.aborted; ) {
			const began = this.#caller.clock.now();
			let news = false;
			try {
				news = await this.#keepalive(failures);
			} catch (err) {
				if (over.aborted) return;
				if (err === CUT) continue;
				if (has(err, "session_not_found")) return void this.expire();
				this.#failure = err;
				this.#caller.log("debug", "keepalive failed", { session: this.name, error: String(err) });
				failures++;
				await sleep(pause.next(), over); // no Retry-After: the lease runs out
				continue;
			}
			await this.#reconciler.run();
			// An answer that came too soon is followed by a pause.
			const rest = news ? 25 : failures === 0 ? Math.min(this.ttl / 20, 1000) : 0;
			await sleep(began + rest - this.#caller.clock.now(), over);
			failures = 0;
			pause.last = 0;
		}
	}

	/** Makes a keepalive, following redirects. It returns whether there were new events. @param {number} failures */
	async #keepalive(failures) {
		let to = undefined;
		for (let hops = 0; ; hops++) {
			/** @type {{news?: boolean, next?: import("./caller.js").Route, error?: unknown}} */
			const { news, next, error } = await this.#ask(failures, to);
			if (!error) return news === true;
			if (!next || hops === 3) throw error;
			to = next;
		}
	}

	/** @param {number} failures @param {import("./caller.js").Route} [to] */
	async #ask(failures, to) {
		const caller = this.#caller;
		const cut = link(this.#over.signal);
		const poll = { cut: () => cut.abort(CUT), long: true };
		this.#poll = poll;
		const idle = failures === 0 && !this.#reconciler.overdue;
		const wait = idle ? Math.floor(Math.min(Math.max(this.remaining - this.ttl / 3, 0), LONG_POLL)) : 0;
		poll.long = wait > 0;
		const r = to ?? caller.router.current;
		/** @type {import("./caller.js").Call} */
		const q = {
			method: "POST",
			path: `/v1/sessions/${this.id}/keepalive`,
			body: Buffer.from(JSON.stringify({ wait_ms: wait, ack: this.#ack })),
			wait,
			late: this.#answerTime(r, wait, failures),
			check: verify.keepalive(this.#epoch),
			overdue: this.#overdue,
		};
		const sent = caller.clock.before();
		const now = caller.clock.now();
		const urgent = failures > 0 && this.remaining > 0 && this.remaining < this.ttl * 0.3 && now - r.to.heard > (q.late ?? 0);
		/** @type {import("./caller.js").Result & {to?: import("./caller.js").Route}} */
		const { value, error, to: by } = await (urgent ? caller.urgent(q, cut.signal) : caller.attempt(r, q, cut.signal));
		this.#overdue = q.overdue === true;
		cut.free();
		if (!error) {
			if (by) caller.router.current = by;
			return { news: this.#renewed(sent, value) };
		}
		if (cut.signal.aborted) throw CUT;
		if (urgent) throw error;
		const { to: next } = caller.classify(r, q, error, cut.signal);
		return { next, error };
	}

	/**
	 * Bounds how late an answer may be before the replica counts as unreachable.
	 * It leaves time for other replicas, and grows with failures and on slow
	 * ways.
	 *
	 * @param {import("./caller.js").Route} r
	 * @param {number} wait
	 * @param {number} failures
	 */
	#answerTime(r, wait, failures) {
		const some = this.ttl / 12;
		if (wait > 0) return Math.min(Math.max(some, r.to.patience()), Math.max(this.ttl / 8, 100), 2000);
		const base = Math.min(Math.max(some, 200), 1000);
		return Math.min(base * 2 ** Math.min(Math.floor(failures / this.#caller.router.known.length), 4), 4000);
	}

	/**
	 * Processes a keepalive's answer. The lease runs ttl from the moment of the
	 * answer, which is unknown here; the sending plus the time held is never
	 * later. An answer cannot lengthen the lease beyond that.
	 *
	 * @param {number} sent
	 * @param {{ttl_ms: number, held_ms: number, epoch: number, events: import("./types.js").SessionEvent[], members_revision?: number}} answer
	 */
	#renewed(sent, answer) {
		this.#failure = undefined;
		const held = Math.min(answer.held_ms, this.#caller.clock.now() - sent);
		if (answer.epoch !== this.#epoch) {
			this.#epoch = answer.epoch;
			this.#reconciler.newMaster = true;
			this.locks.askAgain();
		}
		this.#caller.finder.revised(answer.members_revision);
		this.#extend(sent + held + Math.min(answer.ttl_ms, this.ttl));
		let news = false;
		for (const e of answer.events) {
			if (!verify.isNumber(e.seq, 1)) continue; // it cannot be acknowledged
			if (e.seq > this.#ack) {
				news = true;
				this.#ack = e.seq;
				queueMicrotask(() => this.emit("event", e));
			}
			if (this.locks.notice(e)) this.#reconciler.expectOrphan();
		}
		return news;
	}

	/** @internal */
	get reconciler() {
		return this.#reconciler;
	}
}
