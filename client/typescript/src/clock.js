import { uptime } from "node:os";

const isLinux = process.platform === "linux";

/**
 * The clock of the leases, in milliseconds. It never goes back and, on Linux,
 * counts the time for which the machine sleeps.
 *
 * Node's own clock stops during a sleep on Linux (CLOCK_MONOTONIC). The uptime
 * of the system does not (CLOCK_BOOTTIME), but it is coarse. The clock is
 * Node's, moved forward by the largest lead of the uptime seen so far. A sleep
 * appears as a jump of that lead. On macOS and Windows, Node's clock counts
 * sleep by itself. Elsewhere the system decides. A machine that is paused
 * together with all its clocks is not detected, here or in any client.
 */
export class Clock {
	#mono;
	#boot;
	#lead = -Infinity;
	#fine = false;

	/**
	 * @param {() => number} [mono] a fine clock, in milliseconds
	 * @param {(() => number) | null} [boot] a coarse clock that counts sleep, if the fine one does not
	 */
	constructor(mono = () => performance.now(), boot = isLinux ? () => uptime() * 1000 : null) {
		this.#mono = mono;
		this.#boot = boot;
	}

	/**
	 * How far `now` may lag after a sleep: the resolution of the coarse clock. It
	 * is 10 ms, and a second where the system rounds, as some containers do.
	 */
	get grain() {
		if (!this.#boot) return 0;
		return this.#fine ? 10 : 1000;
	}

	/** The present time. Leases end by it. */
	now() {
		// In this order: after a pause in between, the lead would be too small, which
		// does no harm, and not too large, which would hide a later sleep.
		const boot = this.#boot?.();
		const at = this.#mono();
		if (boot === undefined) return at;
		this.#fine ||= boot % 1000 !== 0;
		this.#lead = Math.max(this.#lead, boot - at);
		return at + this.#lead;
	}

	/** A time that is certainly not after the present. Leases begin by it. */
	before() {
		return this.now() - this.grain;
	}
}
