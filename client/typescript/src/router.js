import { invalid } from "./errors.js";

/** The base URL of one replica's API, and what the client knows of it. */
export class Endpoint {
	works = false; // it has answered since its last failure
	heard = -Infinity; // clock when it last answered as the master
	took = 0; // duration of an answer that did not wait
	failing = false; // it is passed over until it answers a probe
	until = 0; // clock of the first probe
	penalty = 0; // the present pause before a probe
	probing = false;
	quiet = new AbortController(); // ends the waiting calls there, when it fails

	/** @param {string} base @param {boolean} given by the caller */
	constructor(base, given) {
		this.base = base;
		this.given = given;
		this.secure = base.startsWith("https:");
	}

	/** How long it may be silent before another replica is asked as well. */
	patience() {
		return Math.min(Math.max(300, 2 * this.took), 2000);
	}
}

/**
 * Parses a base URL, or host:port.
 *
 * @param {string} text
 * @param {string} scheme of host:port
 */
export function parseBase(text, scheme) {
	const full = /^[^/]+:\d+$/.test(text) ? `${scheme}://${text}` : text;
	const url = URL.canParse(full) ? new URL(full) : undefined;
	if (!url || !/^https?:$/.test(url.protocol) || !url.hostname || url.username || url.search || url.hash)
		throw invalid("url", `URL ${JSON.stringify(text)} is not the base URL of a replica, such as http://localhost:7101`);
	return url.origin + url.pathname.replace(/\/+$/, "");
}

/**
 * The way of a call: a replica, which may be asked to forward the call to the
 * master.
 *
 * @typedef {{to: Endpoint, forward: boolean}} Route
 */

/** @param {Route} r */
export const keyOf = (r) => (r.forward ? "forward " : "direct ") + r.to.base;

/**
 * Chooses the replica to call: the master if it is known and answers, else the
 * known replicas in turn. All calls of a client share one choice, so that one
 * of them finds the new master for all.
 */
export class Router {
	/** @type {Route} */
	current;
	/** Called with the latest time at which to look for replicas. @type {(within: number) => void} */
	want = () => {};
	/** Asks an endpoint whether it answers. @type {(to: Endpoint) => Promise<boolean>} */
	probe = async () => false;
	#last = 0;

	/** @param {string[]} given bases @param {import("./clock.js").Clock} clock */
	constructor(given, clock) {
		this.clock = clock;
		this.known = [...new Set(given)].map((base) => new Endpoint(base, true));
		this.given = this.known.length;
		this.current = { to: this.known[0], forward: false };
	}

	/** Replaces the learned endpoints. @param {string[]} bases */
	learn(bases) {
		const was = this.known;
		const given = was.slice(0, this.given);
		const learned = bases.filter((base, i) => bases.indexOf(base) === i && !given.some((e) => e.base === base)).slice(0, 32);
		this.known = [...given, ...learned.map((base) => this.#find(base) ?? new Endpoint(base, false))];
	}

	/** Adds a learned endpoint. @param {Endpoint} e */
	add(e) {
		if (!this.#find(e.base) && this.known.length < this.given + 32) this.known = [...this.known, e];
	}

	/** @param {string} base */
	#find(base) {
		return this.known.find((e) => e.base === base) ?? (this.current.to.base === base ? this.current.to : undefined);
	}

	/** @param {Route} r */
	#isCurrent(r) {
		return keyOf(this.current) === keyOf(r);
	}

	/** Records that a route works, and the master that its answer named. @param {Route} r @param {string} [master] */
	answered(r, master) {
		this.absolve(r.to);
		if (!r.to.works) {
			r.to.works = true;
			this.add(r.to);
		}
		this.want(60_000);
		if (!master || !this.#isCurrent(r)) return;
		const to = this.#resolve(r, master);
		if (to && to !== r.to) {
			this.current = { to, forward: false };
			this.want(5000);
		}
	}

	/**
	 * Moves to the master that a replica named, or makes that replica forward if
	 * the master cannot be reached. It returns the route, if there is one.
	 *
	 * @param {Route} r
	 * @param {string} [master]
	 */
	redirected(r, master) {
		if (!master || r.forward) {
			this.skip(r);
			return undefined;
		}
		r.to.works = true;
		this.want(5000);
		const to = this.#resolve(r, master);
		const next = to && to !== r.to ? { to, forward: false } : { to: r.to, forward: true };
		if (this.#isCurrent(r)) this.current = next;
		return next;
	}

	/**
	 * Returns the endpoint of a master's URL. A URL that leads from https to http
	 * is not followed, as a private request must not travel in plain text. Nor is
	 * that of an endpoint that fails: the link to it may be dead while the
	 * replicas' own links are healthy.
	 *
	 * @param {Route} r
	 * @param {string} master
	 */
	#resolve(r, master) {
		let base;
		try {
			base = parseBase(master, "none");
		} catch {
			return undefined;
		}
		const to = this.#find(base) ?? new Endpoint(base, false);
		if ((r.to.secure && !to.secure && !to.given) || this.passesOver(to)) return undefined;
		return to;
	}

	/**
	 * Returns the most promising endpoint, in turn: one that works rather than a
	 * learned one that never answered, and that rather than one that fails.
	 *
	 * @param {(e: Endpoint) => boolean} leftOut
	 */
	next(leftOut) {
		let best = -1;
		let lowest = Infinity;
		for (let n = 1; n <= this.known.length; n++) {
			const i = (this.#last + n) % this.known.length;
			const e = this.known[i];
			if (leftOut(e)) continue;
			const rank = (e.given || e.works ? 0 : 1) + (this.passesOver(e) ? 2 : 0);
			if (rank < lowest) [best, lowest] = [i, rank];
		}
		if (best < 0) return undefined;
		if (lowest >= 2) this.want(1000);
		this.#last = best;
		return this.known[best];
	}

	/** Up to n endpoints, the most promising first. @param {number} n */
	some(n) {
		/** @type {Endpoint[]} */
		const out = [];
		for (let e; out.length < n && (e = this.next((e) => out.includes(e))); ) out.push(e);
		return out;
	}

	/** Moves on from a replica that knows no master. @param {Route} r */
	skip(r) {
		if (!this.#isCurrent(r)) return;
		this.current = { to: this.next((e) => e === r.to) ?? r.to, forward: false };
	}

	/** Moves on from an endpoint that did not answer, and passes it over. @param {Route} r */
	failed(r) {
		const e = r.to;
		const now = this.clock.now();
		e.works = false;
		this.want(5000);
		if (!e.failing || now >= e.until) {
			e.penalty = Math.min(Math.max(2 * e.penalty, 1000), 60_000);
			e.until = now + e.penalty;
			e.failing = true;
			e.quiet.abort();
			e.quiet = new AbortController();
		}
		this.skip(r);
	}

	/** Ends the penalty of an endpoint that has answered. @param {Endpoint} e */
	absolve(e) {
		const now = this.clock.now();
		if (e.failing) {
			// During the pause an answer has no effect: it may be a short one on a
			// link that loses long ones.
			if (now < e.until) return;
			e.failing = false;
			e.until = now;
		} else if (e.penalty > 0 && now - e.until > 60_000) {
			e.penalty = 0;
		}
	}

	/** Reports whether an endpoint fails. It starts the probe that is due. @param {Endpoint} e */
	passesOver(e) {
		if (e.failing && this.clock.now() >= e.until && !e.probing) {
			e.probing = true;
			this.probe(e).finally(() => (e.probing = false));
		}
		return e.failing;
	}

	/**
	 * Reports whether no replica is left: `gone` holds for each given one, and
	 * each learned one is gone or fails.
	 *
	 * @param {(e: Endpoint) => boolean} gone
	 */
	abandoned(gone) {
		return this.known.every((e) => gone(e) || (!e.given && e.failing));
	}
}
