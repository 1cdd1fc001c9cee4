import { StoutError } from "./errors.js";
import { parseBase } from "./router.js";
import { link } from "./util.js";

// Delays until the client looks for replicas. Each is drawn from between half
// of it and all, so that the clients of a cell do not ask all at once.
const FIRST = 2000; // after the first answer
const USUAL = 60_000; // while there are answers and no keepalive names a revision
const SOON = 5000; // after a change of the members
const LEAST = 5000; // between two looks

/**
 * Follows the members of the cell: it asks the master for their URLs. It looks
 * only if there was an answer or a failure since the last look, so an unused
 * client makes no requests.
 */
export class Finder {
	#caller;
	#learns;
	#closed = new AbortController();
	/** @type {NodeJS.Timeout | undefined} */
	#timer;
	#due = 0;
	#looking = false;
	#last = -Infinity; // clock at the end of the last look
	#listed = false; // the master has listed the members
	#revision = 0; // of the members, in the latest list or keepalive
	#current = false; // the list has this revision
	#seen = -Infinity; // clock of the last keepalive with a revision

	/** @param {import("./caller.js").Caller} caller @param {boolean} learns */
	constructor(caller, learns) {
		this.#caller = caller;
		this.#learns = learns;
	}

	close() {
		this.#learns = false;
		this.#closed.abort();
		clearTimeout(this.#timer);
	}

	/** Records the members' revision in a keepalive's answer. @param {number | undefined} revision */
	revised(revision) {
		if (!revision) return;
		this.#seen = this.#caller.clock.now();
		if (this.#revision === revision) return;
		this.#revision = revision;
		this.#current = false;
		this.want(SOON);
	}

	/** Schedules a look, unless one is due sooner. @param {number} within */
	want(within) {
		const now = this.#caller.clock.now();
		if (!this.#learns || this.#looking) return;
		if (within === USUAL && (this.#timer || (this.#current && now - this.#seen < USUAL))) return;
		const first = this.#last === -Infinity;
		const most = first ? Math.min(within, FIRST) : within;
		const at = Math.max(now + (most / 2) * (1 + Math.random()), this.#last + LEAST);
		if (this.#timer && this.#due <= at) return;
		clearTimeout(this.#timer);
		this.#due = at;
		this.#timer = setTimeout(() => this.#look(), at - now).unref();
	}

	async #look() {
		this.#looking = true;
		await this.#ask().catch((err) => this.#caller.log("debug", "the members are not known", { error: String(err) }));
		this.#looking = false;
		this.#last = this.#caller.clock.now();
		this.#timer = undefined;
	}

	/**
	 * Asks the master. Its answer is no older than the question, so a lagging or
	 * removed replica cannot bring back an old list. Before the first such
	 * answer, lists of other replicas are used as well: the given replica may be
	 * cut off from the others.
	 */
	async #ask() {
		const { router } = this.#caller;
		const q = { method: "GET", path: "/v1/cell/urls", check: verify };
		const until = link(this.#closed.signal, AbortSignal.timeout(3000));
		try {
			const list = await this.#caller.do({ ...q, signal: until.signal });
			const learned = this.#believe(list);
			if (learned.length === 0) return;
			router.learn(learned);
			this.#listed = true;
			if (list.members_revision) [this.#revision, this.#current] = [list.members_revision, true];
		} catch (err) {
			if (this.#listed || !this.#learns || (err instanceof StoutError && err.problem)) throw err;
			for (const to of router.some(3)) {
				const stale = { ...q, query: { consistency: "stale" }, stale: true };
				const { value } = await this.#caller.attempt({ to, forward: false }, stale);
				if (value) router.learn([...router.known.map((e) => e.base), ...this.#believe(value)]);
			}
		} finally {
			until.free();
		}
	}

	/**
	 * Returns the bases in a list. It omits those that lead from https to http.
	 *
	 * @param {{cell_id: string, replicas: {id: string, url: string}[]}} list
	 */
	#believe(list) {
		const { router } = this.#caller;
		if (!this.#caller.isThis(list.cell_id)) return [];
		const secure = router.known[0].secure;
		return list.replicas.flatMap(({ url }) => {
			try {
				const base = parseBase(url, "none");
				return secure && !base.startsWith("https:") ? [] : [base];
			} catch {
				return [];
			}
		});
	}
}

/** @param {any} list */
const verify = (list) =>
	Array.isArray(list.replicas) && list.replicas.every((/** @type {any} */ r) => typeof r.url === "string") ? undefined : "no list of replicas";
