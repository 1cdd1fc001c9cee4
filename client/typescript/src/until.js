import { listen } from "./util.js";

/**
 * Waits until a signal ends, also if it has ended already. A listener that is
 * added after the end would never be called.
 *
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function until(signal) {
	return new Promise((resolve) => {
		listen(signal, resolve);
		if (signal.aborted) resolve();
	});
}
