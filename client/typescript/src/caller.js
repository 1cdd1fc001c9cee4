import { CUT, ForeignAnswer, has, invalid, messageOf, NoAnswer, NoToken, StoutError } from "./errors.js";
import { Finder } from "./finder.js";
import { Connections } from "./http.js";
import { keyOf, Router } from "./router.js";
import { Backoff, clip, link, listen, sleep } from "./util.js";

const ANSWER_TIME = 5000; // until an answer, beyond the time that the call waits
const MOST_HOPS = 3; // redirects in a row that are followed without a pause
const MOST_ABSENCE = 30_000; // of replicas that are silent while another cell answers

/** HTTP status of each code: another pair is not an answer of a replica. */
const statusOf = /** @type {Record<string, number>} */ ({
	invalid_argument: 400, session_not_found: 404, not_found: 404, method_not_allowed: 405, conflict: 409, unsafe: 409,
	busy: 409, cross_origin: 403, unauthenticated: 401, permission_denied: 403, precondition_failed: 412, not_held: 412,
	compacted: 410, too_large: 413, not_master: 421, lock_held: 423, lock_delayed: 423, too_many: 429, no_master: 503,
	outcome_unknown: 503, internal: 500,
}); // prettier-ignore

/**
 * One call of the API, with the record of its attempts.
 *
 * @typedef {object} Call
 * @property {string} method
 * @property {string} path not escaped
 * @property {Record<string, string | string[] | undefined>} [query]
 * @property {Buffer} [body]
 * @property {Record<string, string>} [headers]
 * @property {number} [wait] how long the server may hold it on purpose, in ms
 * @property {number} [late] how late its answer may be
 * @property {boolean} [once] it is not sent again after it may have taken effect
 * @property {boolean} [any] any replica may answer from its own state
 * @property {boolean} [stale] the answer may be out of date
 * @property {boolean} [stream] the answer is a stream
 * @property {AbortSignal} [signal] the caller's
 * @property {AbortSignal} [cut] ends attempts instead of `signal`
 * @property {() => void} [renew] called before each further attempt
 * @property {(code: string) => boolean} [settles] which refusals settle earlier attempts
 * @property {(value: any, headers: import("node:http").IncomingHttpHeaders) => string | undefined} [check] describes what is wrong with an answer
 * @property {boolean} [answered] by a replica, with any answer
 * @property {boolean} [unsettled] an attempt may have taken effect, and its answer is missing
 * @property {number} [firstSent] clock before the first attempt that may have taken effect
 * @property {Set<string>} [strays] bases that gave an answer of no replica
 * @property {boolean} [overdue] the last answer was late, but the master answered other calls
 */

/** @typedef {import("./router.js").Route} Route */
/** @typedef {{value?: any, error?: unknown}} Result */
/** @typedef {{next: "giveUp" | "retry" | "redirect", to?: Route}} Verdict */

/** An answer that a healthy replica never gives. @param {unknown} err */
const isNonsense = (err) => err instanceof ForeignAnswer || has(err, "internal");

/** @param {unknown} err */
const isAnswer = (err) => err === undefined || (!(err instanceof NoAnswer) && !(err instanceof ForeignAnswer));

/** @param {unknown} err of an attempt */
const mayHaveTakenEffect = (err) =>
	err === undefined || (err instanceof NoAnswer ? err.sent : has(err, "outcome_unknown", "internal"));

/**
 * Makes calls to replicas that it chooses. It repeats a call while that is
 * safe, and asks another replica if one is silent.
 */
export class Caller {
	#connections;
	#token;
	#agent;
	#cell = ""; // id of the cell of the first answer
	#strange = new Set(); // bases that answered as another cell since this one last answered
	#strangeSince = 0;

	/**
	 * @param {string[]} bases
	 * @param {import("./client.js").ClientOptions} options
	 * @param {import("./clock.js").Clock} clock
	 */
	constructor(bases, options, clock) {
		this.clock = clock;
		/** @type {NonNullable<import("./client.js").ClientOptions["log"]>} */
		this.log = (...what) => {
			try {
				options.log?.(...what);
			} catch {} // a log must not end a lease or a call
		};
		this.#token = options.token ?? undefined;
		if (typeof this.#token !== "function" && this.#token !== undefined) checkToken(this.#token);
		this.#agent = options.userAgent ?? "stout-client-typescript";
		this.#connections = new Connections(options.tls, clock);
		this.router = new Router(bases, clock);
		this.finder = new Finder(this, !options.onlyURLs && new Set(bases.map((b) => b.split(":")[0])).size === 1);
		this.router.want = (within) => this.finder.want(within);
		this.router.probe = async (to) => {
			const r = { to, forward: true };
			const { error } = await this.attempt(r, { method: "GET", path: "/readyz", any: true, late: 3000 });
			if (isAnswer(error) || error instanceof ForeignAnswer) this.router.absolve(to);
			else this.router.failed(r);
			return !to.failing;
		};
	}

	close() {
		this.finder.close();
		this.#connections.close();
	}

	/**
	 * Makes a call, and repeats it while that is safe, until it is answered or
	 * its signal ends.
	 *
	 * @param {Call} q
	 * @returns {Promise<any>}
	 */
	async do(q) {
		const pause = new Backoff();
		const under = q.cut ?? q.signal;
		let last;
		for (let hops = 0; ; ) {
			if (q.signal?.aborted && q.signal.reason !== CUT) throw givenUp(q, last);
			if (under?.aborted) throw CUT;
			const began = this.clock.now();
			const r = this.router.current;
			const { value, error, next } = await this.#hedged(r, q, under);
			if (!error) return value;
			if (next === "giveUp") throw here(outcome(q, error));
			last = error;
			this.log("debug", "attempt failed", { method: q.method, path: q.path, replica: r.to.base, error: String(error) });
			q.renew?.();
			if (q.wait && this.clock.now() - began >= 1000) pause.last = 0; // it waited as intended
			if (next === "redirect" && ++hops <= MOST_HOPS) continue;
			hops = 0;
			await sleep(Math.max(pause.next(), retryAfter(error)), q.signal, q.cut);
		}
	}

	/**
	 * Makes an attempt of a call over a route. If the replica is silent, it asks
	 * the next one as well, and then one after another, which may forward the
	 * call. The first conclusive answer wins. A replica that hangs accepts
	 * connections; a call that only waits for it never reaches a healthy one.
	 *
	 * @param {Route} first
	 * @param {Call} q
	 * @param {AbortSignal} [under]
	 * @returns {Promise<Result & {next?: Verdict["next"]}>}
	 */
	#hedged(first, q, under) {
		const cut = link(under);
		/** @type {Map<string, {r: Route, sent: number}>} */
		const asked = new Map();
		const pause = new Backoff();
		/** @type {NodeJS.Timeout | undefined} */
		let timer;
		return new Promise((resolve) => {
			let ended = false;
			const end = (/** @type {Result & {next?: Verdict["next"]}} */ result) => {
				ended = true;
				clearTimeout(timer);
				for (const { sent } of asked.values()) note(q, true, true, sent); // these may take effect
				cut.free();
				cut.abort(CUT);
				resolve(result);
			};
			const launch = (/** @type {Route} */ r) => {
				const sent = this.clock.before();
				asked.set(keyOf(r), { r, sent });
				this.attempt(r, q, cut.signal).then((result) => {
					asked.delete(keyOf(r));
					if (!ended) settle(r, result);
				});
				arm(r.to.patience());
			};
			const settle = (/** @type {Route} */ r, /** @type {Result} */ result) => {
				if (!result.error) {
					const silent = asked.get(keyOf(first));
					if (r !== first && silent) this.#surpassed(first, silent.sent, r, q);
					return end(result);
				}
				const { next, to } = this.classify(r, q, result.error, under);
				const conclusive = next === "giveUp" && !(isNonsense(result.error) && asked.size > 0);
				if (conclusive || asked.size === 0) return end({ ...result, next });
				if (to && !asked.has(keyOf(to))) return launch(to);
				arm(pause.next());
			};
			const arm = (/** @type {number} */ ms) => {
				clearTimeout(timer);
				if (!q.once && !q.stream && this.router.known.length > 1) timer = setTimeout(look, ms);
			};
			const look = () => {
				const held = Math.max(...[...asked.values()].map(({ r, sent }) => this.#holdOff(r, sent, q.wait ?? 0)));
				if (held > 0) return arm(Math.min(held, 5000));
				const to = this.router.next((e) => [...asked.values()].some(({ r }) => r.to === e));
				if (to) launch({ to, forward: true });
			};
			launch(first);
		});
	}

	/**
	 * Makes other calls go to a replica that answered before the first, which is
	 * passed over if it was silent to all of them.
	 *
	 * @param {Route} first
	 * @param {number} sent
	 * @param {Route} r
	 * @param {Call} q
	 */
	#surpassed(first, sent, r, q) {
		if (q.any || q.stale) return;
		if (keyOf(this.router.current) === keyOf(first)) this.router.current = r;
		if (first.to.heard <= sent) this.router.failed(first);
	}

	/**
	 * Returns how long not to ask another replica besides one: 0 if that fails,
	 * or is silent without a reason. A master that has answered other calls since
	 * is only busy. A call that is meant to wait gets its full time.
	 *
	 * @param {Route} r
	 * @param {number} sent
	 * @param {number} wait
	 */
	#holdOff(r, sent, wait) {
		const now = this.clock.now();
		const { heard } = r.to;
		const patience = r.to.patience();
		const due = sent + wait;
		if (wait > 0 && r.to.failing) return 0;
		if (heard > sent && now < due) return due - now + patience;
		if (heard > sent && now < heard + patience) return patience;
		return wait > 0 && heard > -Infinity ? Math.max(due + patience - now, 0) : 0;
	}

	/**
	 * Decides what follows a failed attempt, and updates the choice of replica.
	 *
	 * @param {Route} r
	 * @param {Call} q
	 * @param {unknown} err
	 * @param {AbortSignal} [under] the attempt's
	 * @returns {Verdict}
	 */
	classify(r, q, err, under) {
		if (has(err, "other_cell")) {
			this.router.failed(r);
			return { next: this.#isLeft() ? "giveUp" : "retry" };
		}
		if (err instanceof NoToken) return { next: "retry" }; // no replica is to blame
		if (err instanceof NoAnswer) {
			if (under?.aborted) return { next: "retry" }; // the replica is not to blame
			if (!q.overdue) this.router.failed(r);
			return { next: q.once && q.unsettled ? "giveUp" : "retry" };
		}
		switch (err instanceof StoutError ? err.code : "") {
			case "not_master": {
				let to = this.router.redirected(r, /** @type {StoutError} */ (err).problem?.master);
				if (to && q.strays?.has(to.to.base)) this.router.current = to = { to: r.to, forward: true };
				return to ? { next: "redirect", to } : { next: "retry" };
			}
			case "no_master":
				this.router.skip(r);
				return { next: "retry" };
			case "too_many": // another request adds to the load; a release frees a quota
				if (q.method === "DELETE") return { next: "retry" };
				break;
			case "outcome_unknown":
				this.router.skip(r);
				return { next: q.once ? "giveUp" : "retry" };
		}
		if (isNonsense(err)) this.router.skip(r);
		return { next: err instanceof ForeignAnswer && !q.once && this.#hasOther(r, q) ? "retry" : "giveUp" };
	}

	/**
	 * Reports whether a URL is left that has not failed, and has not given this
	 * call an answer of no replica.
	 *
	 * @param {Route} r gave such an answer
	 * @param {Call} q
	 */
	#hasOther(r, q) {
		const strays = (q.strays ??= new Set()).add(r.to.base);
		return this.router.known.some((e) => !e.failing && !strays.has(e.base));
	}

	/**
	 * Sends a call once, and records what it may have done. It never rejects.
	 *
	 * @param {Route} r
	 * @param {Call} q
	 * @param {AbortSignal} [signal]
	 * @returns {Promise<Result>}
	 */
	async attempt(r, q, signal) {
		const sent = this.clock.before();
		const late = q.late ?? ANSWER_TIME;
		/** @type {Result} */
		let result;
		try {
			result = { value: await this.#exchange(r, q, (q.wait ?? 0) + late, sent, signal) };
		} catch (error) {
			result = { error };
		}
		const err = result.error;
		// A master that has answered another call since is busy, not gone. The
		// second time in a row it counts as silent.
		q.overdue = !q.overdue && err instanceof NoAnswer && err.late && this.clock.now() - r.to.heard < late;
		q.answered ||= isAnswer(err);
		note(q, mayHaveTakenEffect(err), err !== undefined, sent);
		return result;
	}

	/**
	 * Sends a call to several replicas at once, each of which may forward it, for
	 * a caller without time to try one after another. The call must be repeatable
	 * any number of times.
	 *
	 * @param {Call} q
	 * @param {AbortSignal} signal
	 * @returns {Promise<Result & {to?: Route}>}
	 */
	async urgent(q, signal) {
		const cut = link(signal);
		try {
			return await new Promise((resolve) => {
				let failure = /** @type {unknown} */ (undefined);
				const routes = this.router.some(3).map((to) => ({ to, forward: true }));
				let left = routes.length;
				for (const to of routes)
					this.attempt(to, q, cut.signal).then(({ value, error }) => {
						if (!error || has(error, "session_not_found")) return resolve({ value, error, to });
						this.classify(to, q, error, cut.signal);
						if (!failure || isAnswer(error)) failure = error;
						if (--left === 0) resolve({ error: failure });
					});
			});
		} finally {
			cut.free();
			cut.abort(CUT);
		}
	}

	/**
	 * Makes one HTTP exchange and checks its answer.
	 *
	 * @param {Route} r
	 * @param {Call} q
	 * @param {number} within
	 * @param {number} sent
	 * @param {AbortSignal} [signal]
	 */
	async #exchange(r, q, within, sent, signal) {
		const send = async (/** @type {string | undefined} */ token) => {
			/** @type {Record<string, string>} */
			const headers = { accept: q.stream ? "text/event-stream" : "application/json", "user-agent": this.#agent, ...q.headers };
			if (q.body) headers["content-type"] ??= "application/json";
			if (!r.forward && !q.any) headers["stout-forward"] = "never";
			if (token) headers.authorization = `Bearer ${token}`;
			const url = new URL(r.to.base + q.path.split("/").map(encodeURIComponent).join("/"));
			for (const [name, values] of Object.entries(q.query ?? {}))
				for (const value of [values ?? []].flat()) url.searchParams.append(name, value);
			const signals = q.wait || q.stream ? [signal, r.to.quiet.signal] : [signal];
			const call = { method: q.method, headers, body: q.body, within: left(), stream: q.stream, signals };
			return this.#connections.send(r.to.base, url, call);
		};
		const end = this.clock.now() + within;
		const left = () => Math.max(end - this.clock.now(), 1);
		const token = q.path === "/readyz" ? undefined : await this.#credential(r.to.base, within, signal);
		let a = await send(token);
		if (a.status === 401 && token) {
			// The token may have expired on its way, or while the call waited.
			const next = await this.#credential(r.to.base, left(), signal);
			if (next !== token) a = await send(next);
		}
		try {
			this.#checkCell(r, q, a);
		} catch (err) {
			a.stream?.destroy();
			throw err;
		}
		if (a.status >= 300) throw this.#refusal(r, a);
		if (a.stream) {
			this.router.answered(r, header(a, "stout-master"));
			return a;
		}
		const wrong = (/** @type {string} */ text) =>
			new (header(a, "stout-cell") ? StoutError : ForeignAnswer)("internal", `${r.to.base} answered ${q.method} ${q.path} with ${text}`);
		if (header(a, "stout-stale") && !q.stale && !q.any) throw wrong("a possibly stale answer, which the call does not allow");
		let value;
		if (q.check) {
			let text;
			try {
				value = JSON.parse(a.body.toString());
				text = q.check(value, a.headers);
			} catch (err) {
				text = `unexpected JSON: ${err}`;
			}
			if (text) throw wrong(text);
		}
		this.router.answered(r, header(a, "stout-master"));
		if (!q.any && !header(a, "stout-stale")) {
			r.to.heard = this.clock.now();
			if (!q.wait) r.to.took = r.to.heard - sent;
		}
		return value;
	}

	/**
	 * Returns the token of an attempt. A token function is the caller's code, and
	 * may never answer.
	 *
	 * @param {string} base
	 * @param {number} within
	 * @param {AbortSignal} [signal]
	 */
	async #credential(base, within, signal) {
		if (typeof this.#token !== "function") return this.#token;
		const token = this.#token;
		const cut = new AbortController();
		const bound = new Promise((_, reject) => {
			const fail = (/** @type {string} */ why) => reject(new NoToken(base, new Error(why), false));
			const timer = setTimeout(() => fail(`the token function has not answered within ${Math.round(within)} ms`), within);
			const ended = () => fail("the call was ended here");
			listen(signal, ended);
			if (signal?.aborted) ended();
			listen(cut.signal, () => {
				clearTimeout(timer);
				signal?.removeEventListener("abort", ended);
			});
		});
		let now;
		try {
			now = await Promise.race([(async () => token())(), bound]);
		} catch (err) {
			if (err instanceof NoToken) throw err;
			throw new StoutError("unauthenticated", `the token could not be read: ${messageOf(err)}`, { cause: err });
		} finally {
			cut.abort();
		}
		return checkToken(now);
	}

	/**
	 * Refuses the answer of another cell's replica. It passes answers about a
	 * replica itself, and refusals of a cell that has had no master yet.
	 *
	 * @param {Route} r
	 * @param {Call} q
	 * @param {import("./http.js").Answer} a
	 */
	#checkCell(r, q, a) {
		if (["/readyz", "/v1/cell", "/v1/replica"].includes(q.path)) return;
		if (a.status >= 300 && header(a, "stout-epoch") === "0") return;
		this.checkCellID(r.to.base, header(a, "stout-cell"));
	}

	/** @param {string} base @param {string | undefined} id */
	checkCellID(base, id) {
		if (!id) return;
		this.#cell ||= id;
		if (this.#cell === id) return this.#strange.clear();
		if (this.#strange.size === 0) this.#strangeSince = this.clock.now();
		this.#strange.add(base);
		throw new StoutError("other_cell", `${base} is a replica of the cell with id ${id}, and this client has spoken with the one with id ${this.#cell}: was it restored from a backup, or has another its address? To accept it make a new client`);
	}

	/** Reports whether an id is this cell's. @param {string} id */
	isThis(id) {
		return !this.#cell || this.#cell === id;
	}

	/** Reports whether no replica is left that might belong to this cell. */
	#isLeft() {
		const long = this.clock.now() - this.#strangeSince > MOST_ABSENCE;
		return this.router.abandoned((e) => this.#strange.has(e.base) || (e.failing && long));
	}

	/**
	 * Decodes an answer other than 2xx. One that is not a problem document of the
	 * contract comes from a proxy, which may have passed the call on.
	 *
	 * @param {Route} r
	 * @param {import("./http.js").Answer} a
	 */
	#refusal(r, a) {
		/** @type {import("./errors.js").Problem | undefined} */
		let problem;
		try {
			problem = JSON.parse(a.body.toString());
		} catch {}
		if (!problem || statusOf[problem.code] !== a.status) {
			const code = [502, 503, 504].includes(a.status) ? "outcome_unknown" : "internal";
			return new ForeignAnswer(code, `${r.to.base} answered ${a.status} ${clip(a.body)}, which is not an answer of a replica; check the base URL`);
		}
		if (!["not_master", "no_master", "outcome_unknown"].includes(problem.code)) this.router.answered(r, header(a, "stout-master"));
		const seconds = Number.parseInt(header(a, "retry-after") ?? "", 10);
		const retryAfter = seconds > 0 ? Math.min(seconds, 86_400) : 0;
		return new StoutError(problem.code, String(problem.detail), { problem, retryAfter });
	}
}

/** @param {import("./http.js").Answer} a @param {string} name */
const header = (a, name) => /** @type {string | undefined} */ (a.headers[name]);

/**
 * How long a used-up quota asks to wait, in ms. Other advice is in whole seconds,
 * and a fail-over is faster.
 *
 * @param {unknown} err
 */
const retryAfter = (err) => (has(err, "too_many") ? err.retryAfter * 1000 : 0);

/** Returns a token, or throws an error without it. @param {unknown} token */
function checkToken(token) {
	let why = "it has a space, a line break or another character that is not printable ASCII; trim() what a file has";
	if (typeof token !== "string") why = `it is of type ${typeof token}, not a string`;
	else if (token === "") why = "it is empty; without a credential leave out the option";
	else if (/^[!-~]+$/.test(token)) return token;
	throw invalid("token", `the access token is not valid: ${why}`);
}

/** Records an attempt in a call. @param {Call} q @param {boolean} effective @param {boolean} failed @param {number} sent */
function note(q, effective, failed, sent) {
	if (!effective) return;
	q.firstSent = Math.min(q.firstSent ?? Infinity, sent);
	q.unsettled ||= failed;
}

/**
 * The error of a call after the end of its signal: the signal's own reason if
 * no attempt failed, else whether the call may have taken effect.
 *
 * @param {Call} q
 * @param {unknown} last the error of the last attempt
 */
function givenUp(q, last) {
	const cause = q.signal?.reason;
	if (!last) return cause;
	const code = q.unsettled && q.method !== "GET" ? "outcome_unknown" : "no_master";
	const silent = q.answered ? "" : ", no replica answered";
	return new StoutError(code, `${q.method} ${q.path}${silent}: ${cause} (last attempt: ${last})`, { cause });
}

/** Gives an error the stack of the program's call instead of the attempt's. @param {any} err */
function here(err) {
	Error.captureStackTrace(err, here);
	return err;
}

/** The error that the caller gets for the last attempt's. @param {Call} q @param {unknown} err */
function outcome(q, err) {
	if (err instanceof NoAnswer)
		return new StoutError("outcome_unknown", `${q.method} ${q.path}: ${err.message}`, { cause: err });
	if (!(err instanceof StoutError) || !q.unsettled || q.method === "GET") return err;
	if (["outcome_unknown", "internal"].includes(err.code) || q.settles?.(err.code)) return err;
	const detail = `${q.method} ${q.path} may have taken effect: an attempt got no answer; the next was refused: ${err.message}`;
	return new StoutError("outcome_unknown", detail, { retryAfter: err.retryAfter, cause: err });
}
