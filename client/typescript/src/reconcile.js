import { has } from "./errors.js";
import { byToken, leavesNothing, readSession, releaseCall } from "./locks.js";
import { checkPath } from "./verify.js";

/** How long each keepalive looks for what a lost request may leave in the cell. */
const LOST_TIME = 10_000;

/**
 * Compares the local holds with the cell's when there is reason to: a new master
 * is in office, or a request's outcome is unknown. Holds that the cell does not
 * know are lost. Grants and places that this session does not know are released.
 * A grant that the cell may revoke, as it does not know that the client has it,
 * is requested again. The next keepalive repeats a comparison that fails.
 */
export class Reconciler {
	newMaster = false;
	overdue = false; // look now: the last look failed, or lookNow was called
	#once = false; // look at the next keepalive
	#lost = false; // a request was lost, and may arrive late
	#since = 0; // clock of the last one
	#again = 0; // clock of the next look
	#session;
	#caller;

	/** @param {import("./session.js").Session} session @param {import("./caller.js").Caller} caller */
	constructor(session, caller) {
		this.#session = session;
		this.#caller = caller;
	}

	/**
	 * Looks at each keepalive for LOST_TIME, and then each time that twice as much
	 * time has passed: a request may arrive arbitrarily late.
	 */
	expectOrphans() {
		this.#lost = true;
		this.#since = this.#again = this.#caller.clock.now();
	}

	/** Looks at the next keepalive. */
	expectOrphan() {
		this.#once = true;
	}

	/** Looks at once. */
	lookNow() {
		this.expectOrphans();
		this.overdue = true;
		this.#session.hurry();
	}

	/** Compares, if there is reason to. */
	async run() {
		const { clock } = this.#caller;
		if (!this.newMaster && !this.#once && !(this.#lost && clock.now() >= this.#again)) return;
		this.overdue = this.#once = false; // a look that is requested from now on stays due
		let done = false;
		// Read before asking: a grant or release in between must not count as lost.
		const held = [...this.#session.locks.byHandle.values()].filter((a) => a.phase === "holding");
		const signal = AbortSignal.timeout(Math.ceil(Math.min(Math.max(this.#session.ttl / 6, 200), 2000)));
		try {
			const state = await readSession(this.#caller, this.#session.id, signal);
			done = await this.#settle(held, state, signal);
		} catch (err) {
			if (has(err, "session_not_found")) this.#session.expire();
			else this.#caller.log("debug", "reconciling failed", { session: this.#session.name, error: String(err) });
		}
		if (!done) this.overdue = this.#once = true;
		const late = clock.now() - this.#since;
		if (done && late >= LOST_TIME) this.#again = clock.now() + late;
	}

	/**
	 * Processes the session's state in the cell. It returns whether all calls that
	 * follow are done.
	 *
	 * @param {import("./locks.js").Acquisition[]} held
	 * @param {import("./types.js").SessionState} state
	 * @param {AbortSignal} signal
	 */
	async #settle(held, state, signal) {
		this.newMaster = false;
		const { locks } = this.#session;
		const orphans = [...state.holds, ...state.waits].filter((c) => locks.isOurs(c.handle) && !locks.byHandle.has(c.handle));
		const there = byToken(state.holds);
		for (const a of held) {
			if (locks.byHandle.get(a.handle) !== a || a.isIn(there)) continue;
			a.lose(a.tokens[0]);
			orphans.push(...state.holds.filter((h) => h.handle === a.handle && !a.tokens.includes(h.token ?? 0)));
		}
		/** @type {Set<import("./locks.js").Acquisition>} */
		const unclaimed = new Set();
		for (const h of state.holds) {
			const a = h.unclaimed_ms ? locks.byHandle.get(h.handle) : undefined;
			if (a?.phase === "waiting") a.cut?.(); // the request is repeated
			else if (a?.phase === "holding" && !a.short && a.tokens.includes(h.token ?? 0)) unclaimed.add(a);
		}
		for (const a of unclaimed) if (!(await this.#reclaim(a, signal))) return false; // first: the cell revokes them soon
		for (const { path, handle } of orphans) {
			checkPath(path);
			await this.#caller.do({ ...releaseCall(this.#session.id, path, handle), signal });
		}
		return true;
	}

	/**
	 * Requests a held lock again, which makes the grant this client's own. It
	 * returns whether there was an answer.
	 *
	 * @param {import("./locks.js").Acquisition} a
	 * @param {AbortSignal} signal
	 */
	async #reclaim(a, signal) {
		const [token] = a.tokens;
		const q = { ...a.call({ ...a.req, wait_ms: 0, queue: false }), signal };
		let answered = true;
		try {
			const grant = await this.#caller.do(q);
			if (grant.token !== token) a.lose(token); // it had been revoked before
		} catch (err) {
			if (has(err, "session_not_found")) this.#session.expire();
			answered = leavesNothing(err) || has(err, "conflict"); // of several locks one is lost
			if (answered) a.lose(token);
		}
		if (q.unsettled || a.phase !== "holding") this.expectOrphans(); // it may have been granted since
		return answered;
	}
}
