/**
 * Waits until a signal ends, also if it has ended already. A listener that is
 * added after the end would never be called.
 *
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export declare function until(signal: AbortSignal): Promise<void>;
