import { randomBytes } from "node:crypto";
import { CUT, has, invalid, own, StoutError } from "./errors.js";
import { Backoff, link, outlast, show, sleep } from "./util.js";
import * as verify from "./verify.js";
import { revision, Watch } from "./watch.js";

const LONG_POLL = 30_000;
const SETTLE_TIME = 2000; // an attempt to withdraw a request, before it is left to the background
const WAIT_SLACK = 500; // how long after `wait` the answer may come
const LEAVE_TIME = 1000; // the same as SETTLE_TIME, after `wait`
const TRY_TIME = 10_000; // default of `timeout`
const LATE_ANSWER = 200; // how long after an event the waiting call's own answer may come

/** Ends `lock` after `wait`. */
const WAIT_OVER = new Error("the wait is over");
/** The same, when the cell has not answered the last call. */
const UNHEARD = new Error("the wait is over, and the cell has not answered");

/**
 * @typedef {object} LockOptions
 * @property {boolean} [shared] hold it together with any number of shared holders
 * @property {number} [limit] a semaphore: shared, with at most so many holders; all name the same limit
 * @property {number} [lockDelay] ms for which nobody gets the lock if this hold's session expires
 * @property {string | string[]} [with] further locks, in the same mode: all are granted at once or none, after one wait
 * @property {number} [priority] from 0 to 100: waits before those of lower priority; default 0
 * @property {number} [wait] give up after so many ms, with lock_held; default: wait until `signal` ends
 * @property {number} [timeout] ms until the cell must have answered a call with `wait: 0`; default 10000
 * @property {AbortSignal} [signal] bounds the waiting
 */

/**
 * The locks of one session: its waits, holds and releases, by handle. A handle
 * is never used again, so a late request cannot be mistaken for a newer hold's.
 *
 * @internal
 */
export class Locks {
	#prefix = `${randomBytes(9).toString("base64url")}-`;
	#serial = 0;
	/** @type {Map<string, Acquisition>} */
	byHandle = new Map();
	/** @type {StoutError | undefined} */
	over;

	/**
	 * @param {import("./session.js").Session} session
	 * @param {import("./caller.js").Caller} caller
	 * @param {{tokens: number}} seen
	 */
	constructor(session, caller, seen) {
		this.session = session;
		this.caller = caller;
		this.seen = seen;
	}

	/** @param {string} path @param {LockOptions} options */
	async acquire(path, options) {
		const paths = [path, options.with ?? []].flat();
		paths.forEach(verify.checkPath);
		check("limit", options.limit, 1_000_000);
		check("lockDelay", options.lockDelay, 60_000, " of ms");
		check("priority", options.priority, 100);
		check("wait", options.wait, Infinity, " of ms");
		check("timeout", options.timeout, Infinity, " of ms");
		options.signal?.throwIfAborted();
		if (this.session.error) throw this.session.error;
		const a = new Acquisition(this, paths, options);
		this.enter(a);
		try {
			return await a.obtain();
		} catch (err) {
			await a.leave();
			throw await a.explain(err);
		}
	}

	/** Adds an acquisition under a fresh handle, which replaces its present one. @param {Acquisition} a */
	enter(a) {
		this.byHandle.delete(a.handle);
		a.handle = a.req.handle = this.#prefix + (++this.#serial).toString(36);
		this.byHandle.set(a.handle, a);
	}

	/** Ends the signals of all holds. @param {StoutError} reason */
	endHolds(reason) {
		for (const a of this.byHandle.values()) if (a.phase === "holding") a.held?.end(reason);
	}

	/** Ends all holds and calls, as the session is over. @param {StoutError} reason */
	end(reason) {
		this.endHolds(reason);
		this.over = reason;
		for (const a of this.byHandle.values()) a.cut?.();
		this.byHandle.clear();
	}

	/**
	 * Cuts off the calls under way, so that they are repeated at the new master;
	 * places in queues are kept. A release may have arrived, and gets time for
	 * its answer: after a cut it would be unknown whether it found the lock held.
	 */
	askAgain() {
		for (const a of this.byHandle.values()) {
			if (a.phase === "leaving" && a.cut) setTimeout(a.cut, LATE_ANSWER);
			else a.cut?.();
		}
	}

	/**
	 * Processes an event of the session. It returns whether to look for orphans.
	 *
	 * @param {import("./types.js").SessionEvent} e
	 */
	notice(e) {
		if (!this.isOurs(e.handle)) return false;
		const a = this.byHandle.get(e.handle);
		const known = a?.paths.includes(e.path) ? a : undefined;
		switch (e.type) {
			case "lock_granted":
			case "lock_withdrawn":
				// A hint only: the answer to the request decides. The waiting call is
				// about to be answered, unless its replica is gone.
				if (known?.phase === "waiting" && known.cut) setTimeout(known.cut, LATE_ANSWER);
				return e.type === "lock_granted" && !a;
			case "lock_lost":
				if (!known) return false;
				known.lost = Math.max(known.lost, e.token ?? 0);
				known.lose(e.token ?? 0);
				return true; // a late request may have got the lock again
			default:
				return false;
		}
	}

	/** @param {string} handle */
	isOurs(handle) {
		return typeof handle === "string" && handle.startsWith(this.#prefix);
	}
}

/** @internal @param {string} name @param {number | undefined} n @param {number} most @param {string} [unit] */
export function check(name, n, most, unit = "") {
	if (n !== undefined && !(n >= 0 && n <= most && (n === Infinity || Number.isInteger(n))))
		throw invalid(name, `${name} is ${show(n)}; it must be a whole number${unit} ${most === Infinity ? "from 0 up" : `within 0..${most}`}`);
}

/** One handle, from the first request to the end of the release. @internal */
export class Acquisition {
	/** @type {"waiting" | "holding" | "leaving" | "gone"} */
	phase = "waiting";
	/** Of the grants, in the order of the paths. @type {number[]} */
	tokens = [];
	short = false; // one of several locks is lost; the others are held until unlock
	lost = 0; // the highest token of a grant that the cell reports as lost
	/** The newest view of the hold. @type {Held | undefined} */
	held;
	/** Ends the call under way. @type {(() => void) | undefined} */
	cut;
	unsettled = false; // a request may yet arrive at the cell, and be granted
	resting = false; // certainly, the cell has no part of it
	/** @type {unknown} */
	withdrawn; // why a withdrawal failed
	anew = false; // a part of several locks was given back, to begin anew
	/**
	 * `done` of the locks are released; `missed`: one of those was not held;
	 * `repeated`: an earlier call may have released the next one; `abandoned`: the
	 * reconciler may have released the rest.
	 *
	 * @type {{done: number, missed: boolean, repeated: boolean, abandoned: boolean, outcome?: Promise<void>}}
	 */
	release = { done: 0, missed: false, repeated: false, abandoned: false };
	handle = "";

	/** @param {Locks} locks @param {string[]} paths @param {LockOptions} options */
	constructor(locks, paths, options) {
		this.locks = locks;
		this.session = locks.session;
		this.paths = paths;
		this.names = paths.join(" and ");
		this.options = options;
		this.above = locks.seen.tokens;
		/** @type {import("./types.js").Mode} */
		this.mode = options.shared || options.limit ? "shared" : "exclusive";
		this.req = {
			session: this.session.id,
			handle: "",
			mode: this.mode,
			limit: options.limit ?? 0,
			wait_ms: 0,
			queue: false,
			lock_delay_ms: options.lockDelay ?? 0,
			priority: options.priority || undefined,
			with: paths.length > 1 ? paths.slice(1) : undefined,
		};
	}

	/** Waits for a grant, and then until the session is safe, both within `wait`. */
	async obtain() {
		const { wait = Infinity, timeout = TRY_TIME, signal } = this.options;
		const ends = link(signal);
		const bound = (/** @type {number} */ ms) => setTimeout(() => ends.abort(WAIT_OVER), Math.min(ms, 2 ** 31 - 1));
		/** @type {NodeJS.Timeout | undefined} */
		let timer;
		try {
			if (wait < Infinity) timer = bound(wait === 0 ? timeout : wait + WAIT_SLACK);
			const grant = await this.#askUntilGranted(ends.signal, wait);
			try {
				return await this.#hold(ends.signal, grant);
			} catch (err) {
				this.resting = false;
				throw err;
			}
		} finally {
			clearTimeout(timer);
			ends.free();
		}
	}

	/** @param {AbortSignal} signal @param {number} most */
	async #askUntilGranted(signal, most) {
		const { clock } = this.locks.caller;
		const end = clock.now() + most;
		const pause = new Backoff();
		let over = WAIT_OVER;
		for (;;) {
			const wait = Math.floor(Math.max(Math.min(LONG_POLL, end - clock.now()), 0));
			if ((most > 0 && wait === 0) || signal.reason === WAIT_OVER) throw over;
			signal.throwIfAborted();
			this.req.wait_ms = wait;
			this.req.queue = wait > 0;
			const asked = clock.now();
			try {
				const grant = await this.#ask(signal);
				over = WAIT_OVER;
				if (grant.state === "held") return grant;
				if (clock.now() - asked < wait) await sleep(pause.next(), signal); // it came too soon
				else pause.last = 0;
			} catch (err) {
				if (has(err, "session_not_found")) throw this.session.expire();
				if (has(err, "conflict") && (await this.#beginAnew())) {
					await sleep(pause.next(), signal);
					continue;
				}
				if (err !== CUT) throw err;
				if (this.session.error) throw this.session.error;
				over = UNHEARD;
			}
		}
	}

	/**
	 * Gives back what is left of several locks, once: the answer that granted them
	 * was lost, and another caller has released one since. What follows needs a
	 * fresh handle: a late copy of a release here names no token, and would release
	 * the next grant.
	 */
	async #beginAnew() {
		if (this.paths.length === 1 || this.anew) return false;
		this.anew = true;
		try {
			await this.withdraw();
		} catch {
			return false;
		}
		this.locks.enter(this);
		this.session.reconciler.expectOrphans();
		return true;
	}

	/** Makes one call for the lock, repeated until it is answered. @param {AbortSignal} signal */
	async #ask(signal) {
		if (this.locks.over) throw CUT;
		const { clock } = this.locks.caller;
		const cut = new AbortController();
		this.cut = () => cut.abort(CUT);
		const q = this.call();
		q.signal = signal;
		q.cut = cut.signal;
		const over = clock.now() + (q.wait ?? 0);
		if (this.req.queue)
			// A proxy may end each attempt early. The last one must be answered when
			// the wait is over.
			q.renew = () => {
				q.wait = this.req.wait_ms = Math.floor(Math.min(q.wait ?? 0, Math.max(over - clock.now(), 1)));
				q.body = Buffer.from(JSON.stringify(this.req));
			};
		const settle = this.#withdrawAtEnd(signal, this.cut);
		let grant;
		let err;
		try {
			grant = await this.locks.caller.do(q);
		} catch (e) {
			err = e === WAIT_OVER || (e instanceof StoutError && e.cause === WAIT_OVER) ? UNHEARD : e;
		}
		await settle();
		this.cut = undefined;
		if (!err && signal.aborted) err = signal.reason; // the withdrawal may have released the grant
		this.unsettled ||= q.unsettled === true;
		this.resting = !this.unsettled && leavesNothing(err);
		if (has(err, "lock_held") && signal.aborted) err = signal.reason; // our own withdrawal
		if (err) throw err;
		return grant;
	}

	/**
	 * Leaves the queue as soon as the signal ends, while the waiting call is still
	 * under way. The answer to that call then shows which came first. If the call
	 * were cut off instead, the withdrawal could overtake it, and the grant come
	 * later.
	 *
	 * @param {AbortSignal} signal
	 * @param {() => void} cut
	 */
	#withdrawAtEnd(signal, cut) {
		/** @type {Promise<void> | undefined} */
		let work;
		const answered = new AbortController();
		const withdraw = () => {
			work = this.withdraw(signal.reason === WAIT_OVER ? LEAVE_TIME : SETTLE_TIME).then(
				() => sleep(LATE_ANSWER, answered.signal),
				(err) => {
					this.withdrawn = err;
				},
			).then(cut);
		};
		if (signal.aborted) withdraw();
		else signal.addEventListener("abort", withdraw);
		return async () => {
			answered.abort();
			signal.removeEventListener("abort", withdraw);
			await work;
		};
	}

	/** The call that requests the lock. @returns {import("./caller.js").Call} */
	call(req = this.req) {
		return {
			method: "PUT",
			path: `/v1/locks${this.paths[0]}`,
			body: Buffer.from(JSON.stringify(req)),
			wait: req.wait_ms,
			check: verify.grant({ ...req }, this.paths, this.above),
			settles: () => true, // the session finds and releases what remains
		};
	}

	/** Releases the grants or the place, within a time. */
	async withdraw(within = SETTLE_TIME) {
		const signal = AbortSignal.timeout(within);
		for (const path of this.paths) await this.locks.caller.do({ ...releaseCall(this.session.id, path, this.handle), signal });
	}

	/** Makes a Held of a grant, once the session is safe. @param {AbortSignal} signal @param {any} grant */
	async #hold(signal, grant) {
		for (;;) {
			signal.throwIfAborted();
			if (this.session.state === "safe") break;
			await this.session.awaitSafe(signal).catch((err) => {
				throw err === WAIT_OVER ? new StoutError("jeopardy", `lock ${this.names}: granted, and given back: the session's lease has ended here`) : err;
			});
		}
		this.phase = "holding";
		this.tokens = [grant, ...(grant.with ?? [])].map((part) => part.token);
		this.held = new Held(this, grant.granted_at);
		const { seen } = this.locks;
		seen.tokens = Math.max(seen.tokens, ...this.tokens);
		if (Math.min(...this.tokens) <= this.lost) this.lose(this.tokens[0]); // they are later than all former ones of the handle
		return this.held;
	}

	/** Removes the acquisition from the cell. */
	async leave() {
		if (this.resting || this.session.error) return this.forget();
		if (!this.withdrawn) {
			try {
				await this.withdraw();
				return this.forget();
			} catch (err) {
				if (has(err, "session_not_found")) return this.forget();
			}
		}
		this.abandon();
	}

	/** Ends an acquisition that the cell no longer has. */
	forget() {
		this.#remove();
		if (this.unsettled) this.session.reconciler.expectOrphans();
	}

	/** Leaves what remains in the cell to the reconciler. */
	abandon() {
		this.#remove();
		this.session.reconciler.lookNow();
	}

	#remove() {
		this.phase = "gone";
		this.locks.byHandle.delete(this.handle);
	}

	/** Reports whether the cell has each of the grants. @param {Map<number, import("./types.js").Claim>} there the session's holds, by token */
	isIn(there) {
		return this.paths.every((path, i) => {
			const h = there.get(this.tokens[i]);
			return h?.handle === this.handle && h.path === path;
		});
	}

	/** Ends the hold of a grant that the cell no longer knows. @param {number} token */
	lose(token) {
		if (this.phase !== "holding" || this.short || !this.tokens.includes(token)) return;
		this.locks.caller.log("warn", "lock lost", { session: this.session.name, path: this.names, token });
		this.short = this.paths.length > 1;
		if (!this.short) this.#remove();
		this.held?.end(own("lock_lost"));
	}

	/** Converts the reason why `lock` gave up into its error. @param {unknown} err */
	async explain(err) {
		if (err !== WAIT_OVER && err !== UNHEARD) return err;
		const { wait = 0, timeout = TRY_TIME } = this.options;
		const within = wait === 0 ? timeout : wait;
		let state = /** @type {import("./types.js").LockState} */ ({});
		let isTaken = false;
		try {
			if (this.withdrawn) throw this.withdrawn; // the cell does not answer
			const signal = AbortSignal.timeout(SETTLE_TIME);
			for (const path of this.paths) {
				state = await this.locks.caller.do({ method: "GET", path: `/v1/locks${path}`, check: verify.lockState(path), signal });
				if ((isTaken = state.holders.length > 0 || state.delay_remaining_ms > 0)) break;
			}
		} catch (cause) {
			return new StoutError("no_master", `${this.names} was not granted within ${within} ms, and it is unknown whether it is held`, { cause });
		}
		if (err === UNHEARD && !isTaken)
			return new StoutError("no_master", `${this.names} was not granted within ${within} ms, though it is free: the cell did not answer in time`);
		const { path, holders, delay_remaining_ms } = state;
		const detail = `${path} was not granted within ${within} ms`;
		return new StoutError("lock_held", detail, { problem: { code: "lock_held", detail, holders, delay_remaining_ms } });
	}
}

/** Reports whether an answer left neither a grant nor a place. @internal @param {unknown} err */
export const leavesNothing = (err) => has(err, "lock_held", "lock_delayed", "too_many", "session_not_found");

/**
 * The call that ends a hold or a place in a queue.
 *
 * @internal
 * @param {string} session
 * @param {string} path
 * @param {string} handle
 * @param {number} [token]
 * @returns {import("./caller.js").Call}
 */
export const releaseCall = (session, path, handle, token) => ({
	method: "DELETE",
	path: `/v1/locks${path}`,
	query: { session, handle, token: token ? String(token) : undefined },
	check: (/** @type {any} */ answer) => (typeof answer.released === "boolean" ? undefined : "no `released`"),
	settles: () => true,
});

/**
 * One hold of a lock, or of several. It is good until `signal` ends, and stays
 * ended, also when the session becomes safe again; `resume` returns a new one for
 * the same grant. Always call `unlock`.
 *
 * JavaScript's timers fire late: a listener of `signal` runs only when other
 * code has returned to the event loop. Long computations check `valid`, which
 * reads the clock, before each step that needs the lock.
 */
export class Held {
	#a;
	#controller = new AbortController();

	/** @internal @param {Acquisition} a @param {string} [grantedAt] */
	constructor(a, grantedAt) {
		this.#a = a;
		this.path = a.paths[0];
		/** All paths: `path`, then those in `with`. */
		this.paths = a.paths;
		this.mode = a.mode;
		this.handle = a.handle;
		/** The fencing token: the protected resource refuses a lower one than it has seen. */
		this.token = a.tokens[0];
		/** The fencing tokens of all paths. */
		this.tokens = a.tokens;
		/** The grants of all paths as text, mode:token:path, that others can check. */
		this.sequencers = a.paths.map((path, i) => `${a.mode}:${a.tokens[i]}:${path}`);
		/** The first of them. */
		this.sequencer = this.sequencers[0];
		/** When the lock was granted, by the master's clock. */
		this.grantedAt = grantedAt === undefined ? undefined : new Date(grantedAt);
	}

	/**
	 * Ends when the hold can no longer be relied upon; `reason` has the StoutError.
	 *
	 * @returns {AbortSignal}
	 */
	get signal() {
		this.#a.session.state; // reads the clock, which may end the hold
		return this.#controller.signal;
	}

	/**
	 * Why the hold has ended: jeopardy, lock_lost, session_expired, session_closed or
	 * unlocked. The `cause` of a jeopardy is the error of the last keepalive, if any.
	 */
	get error() {
		return /** @type {StoutError | undefined} */ (this.signal.aborted ? this.signal.reason : undefined);
	}

	/** Reports, by the clock, whether the hold can be relied upon at this instant. */
	get valid() {
		return this.error === undefined;
	}

	/** How long the hold can be relied upon unless the lease is extended, in ms. */
	get remaining() {
		const left = this.#a.session.remaining;
		return this.valid ? left : 0;
	}

	/**
	 * Waits until the next wait in the lock's queue has a higher priority than this
	 * hold. The program can then end its work and unlock, and that wait gets the
	 * lock in the same step. A wait for several locks does not count: it may not
	 * get the others. It throws `error` when the hold ends, and the reason of
	 * `signal` when that ends.
	 *
	 * @param {{signal?: AbortSignal}} [options]
	 * @returns {Promise<void>}
	 */
	async awaitPriority({ signal } = {}) {
		const { paths, options, locks } = this.#a;
		const ends = link(signal, this.signal);
		const isNext = async () => {
			for (const path of paths) {
				/** @type {import("./types.js").LockState} */
				const { queue = [] } = await locks.caller.do({ method: "GET", path: `/v1/locks${path}`, query: { waiters: "1" }, signal: ends.signal, check: verify.lockState(path) });
				if (queue.some((w) => (w.priority ?? 0) > (options.priority ?? 0) && !w.set)) return true;
			}
			return false;
		};
		try {
			ends.signal.throwIfAborted();
			const after = await revision(locks.caller, 0, ends.signal);
			if (await isNext()) return;
			const watch = new Watch(locks.caller, { after, paths, types: ["lock_contended"], signal: ends.signal });
			for await (const _ of watch.run()) if (await isNext()) return;
		} catch (err) {
			throw ends.signal.aborted ? ends.signal.reason : err;
		} finally {
			ends.free();
		}
	}

	/** The view of the same grant that `resume` returned last. @internal @returns {Held} */
	get newest() {
		return this.#a.held ?? this;
	}

	/** @internal @param {StoutError} reason */
	end(reason) {
		if (!this.#controller.signal.aborted) this.#controller.abort(reason);
	}

	/**
	 * Releases the lock. It ends `signal` first. It tries until `signal` of the
	 * options ends, but at least for five seconds. It may be called again.
	 *
	 * It throws lock_lost, session_expired or session_closed if there was no hold
	 * left to release. After another error the session keeps trying in the
	 * background. If an attempt got no answer and the next finds no hold, the
	 * first is assumed to have released it.
	 *
	 * @param {{signal?: AbortSignal}} [options]
	 * @returns {Promise<void>}
	 */
	unlock({ signal } = {}) {
		const { release } = this.#a;
		release.outcome ??= this.#release(signal).catch((err) => {
			if (!has(err, "lock_lost", "session_expired", "session_closed")) release.outcome = undefined; // not settled
			throw err;
		});
		return release.outcome;
	}

	/** @param {AbortSignal} [signal] */
	async #release(signal) {
		const a = this.#a;
		const { release } = a;
		const until = outlast(signal);
		try {
			for (;;) {
				a.session.state; // reads the clock, which may end the hold for a reason of its own
				a.held?.end(own("unlocked"));
				if (a.locks.over) throw a.locks.over;
				if (a.phase === "gone" && !release.abandoned) {
					a.forget();
					throw own("lock_lost");
				}
				a.phase = "leaving";
				a.locks.byHandle.set(a.handle, a); // again, after abandon: the session's end cuts the call off
				const cut = link(until.signal);
				a.cut = () => cut.abort(CUT);
				try {
					for (; release.done < a.paths.length; release.done++) await this.#releaseOne(release.done, cut.signal);
					a.forget();
					if (release.missed) throw own("lock_lost");
					return;
				} catch (err) {
					if (err === CUT) continue; // a new master, or the session is over
					if (has(err, "session_not_found")) throw a.session.expire();
					if (has(err, "lock_lost")) throw err;
					release.abandoned = true;
					a.abandon();
					throw err;
				} finally {
					a.cut = undefined;
					cut.free();
				}
			}
		} finally {
			until.free();
		}
	}

	/** Releases one of the locks, and records whether it was held. @param {number} i @param {AbortSignal} signal */
	async #releaseOne(i, signal) {
		const a = this.#a;
		const { release } = a;
		const q = { ...releaseCall(a.session.id, a.paths[i], a.handle, a.tokens[i]), signal };
		try {
			const { released } = await a.locks.caller.do(q);
			release.missed ||= !(released || q.unsettled || release.repeated || release.abandoned);
			release.repeated = false;
		} catch (err) {
			release.repeated ||= q.unsettled === true;
			throw err;
		}
	}

	async [Symbol.asyncDispose]() {
		await this.unlock();
	}

	/**
	 * Returns a new Held for the same grant after a jeopardy, with the same token,
	 * or throws lock_lost. It waits until the session is safe. The caller decides
	 * whether interrupted work may go on.
	 *
	 * @param {{signal?: AbortSignal}} [options]
	 * @returns {Promise<Held>}
	 */
	async resume({ signal } = {}) {
		const a = this.#a;
		const { session } = a;
		for (;;) {
			await session.awaitSafe(signal);
			if (a.locks.over) throw a.locks.over;
			const reason = a.held?.error;
			if (has(reason, "unlocked")) throw reason;
			if (a.phase !== "holding" || a.short) throw own("lock_lost");
			if (!reason && a.held) return a.held;
			const ends = link(signal, session.signal);
			const state = await readSession(a.locks.caller, session.id, ends.signal)
				.catch((err) => {
					throw has(err, "session_not_found") ? session.expire() : (a.locks.over ?? err);
				})
				.finally(ends.free);
			if (session.state !== "safe" || a.phase !== "holding" || a.short || !a.held?.error) continue;
			if (a.isIn(byToken(state.holds))) return (a.held = new Held(a, this.grantedAt?.toISOString()));
			a.lose(a.tokens[0]);
			session.reconciler.expectOrphan(); // the handle may have another grant
		}
	}
}

/** @internal @param {import("./types.js").Claim[]} holds */
export const byToken = (holds) => new Map(holds.map((h) => [h.token ?? 0, h]));

/**
 * @internal
 * @param {import("./caller.js").Caller} caller
 * @param {string} id
 * @param {AbortSignal} [signal]
 * @returns {Promise<import("./types.js").SessionState>}
 */
export const readSession = (caller, id, signal) =>
	caller.do({ method: "GET", path: `/v1/sessions/${id}`, check: verify.sessionState(id), signal });
