import { setMaxListeners } from "node:events";
import { inspect } from "node:util";

/** The largest number that the contract uses for tokens and revisions. */
export const MOST = Number.MAX_SAFE_INTEGER;

/** A value of an argument, for an error. @param {unknown} value */
export const show = (value) => inspect(value, { depth: 0, maxStringLength: 80, maxArrayLength: 3 }) + (typeof value === "string" ? ", a string" : "");

/** @param {unknown} text a value of an answer, for an error */
export const clip = (text) => JSON.stringify(String(text).slice(0, 80));

/**
 * Calls a function when a signal ends. Many calls may share a caller's signal.
 *
 * @param {AbortSignal | undefined} signal
 * @param {() => void} f
 */
export function listen(signal, f) {
	if (!signal) return;
	setMaxListeners(0, signal);
	signal.addEventListener("abort", f);
}

/**
 * Pauses, but no longer than until a signal ends.
 *
 * @param {number} ms
 * @param {...(AbortSignal | undefined)} signals
 * @returns {Promise<void>}
 */
export function sleep(ms, ...signals) {
	return new Promise((resolve) => {
		const done = () => {
			clearTimeout(timer);
			for (const s of signals) s?.removeEventListener("abort", done);
			resolve();
		};
		const timer = setTimeout(done, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
		for (const s of signals) listen(s, done);
		if (signals.some((s) => s?.aborted)) done();
	});
}

/**
 * A signal that ends with others, or by `abort`. `free` detaches it from them.
 *
 * @typedef {{signal: AbortSignal, abort: (reason: unknown) => void, free: () => void}} Linked
 */

/** @param {...(AbortSignal | undefined)} signals @returns {Linked} */
export function link(...signals) {
	const c = new AbortController();
	const end = () => c.abort(signals.find((s) => s?.aborted)?.reason);
	for (const s of signals) listen(s, end);
	if (signals.some((s) => s?.aborted)) end();
	return {
		signal: c.signal,
		abort: (reason) => c.abort(reason),
		free: () => signals.forEach((s) => s?.removeEventListener("abort", end)),
	};
}

/**
 * The pauses between attempts: they double from 25 ms to 1 s, each drawn from
 * the upper half of its range. A Retry-After is in whole seconds, and a
 * fail-over is faster.
 */
export class Backoff {
	last = 0;
	next() {
		this.last = Math.min(Math.max(2 * this.last, 25), 1000);
		return this.last / 2 + (Math.random() * this.last) / 2;
	}
}

/** A release goes on for so long after its signal has ended. */
const RELEASE_TIME = 5000;

/**
 * A signal for cleanup: it ends with the given one, but not within
 * RELEASE_TIME.
 *
 * @param {AbortSignal} [signal]
 * @returns {Linked}
 */
export function outlast(signal) {
	const c = new AbortController();
	/** @type {NodeJS.Timeout | undefined} */
	let timer;
	const least = performance.now() + RELEASE_TIME;
	const end = () => {
		timer = setTimeout(() => c.abort(signal?.reason), Math.max(least - performance.now(), 0));
	};
	if (signal?.aborted) end();
	else listen(signal, end);
	return {
		signal: c.signal,
		abort: (reason) => c.abort(reason),
		free: () => {
			clearTimeout(timer);
			signal?.removeEventListener("abort", end);
		},
	};
}
