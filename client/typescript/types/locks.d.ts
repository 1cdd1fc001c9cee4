import { StoutError } from "./errors.js";
export type LockOptions = {
    /**
     * hold it together with any number of shared holders
     */
    shared?: boolean;
    /**
     * a semaphore: shared, with at most so many holders; all name the same limit
     */
    limit?: number;
    /**
     * ms for which nobody gets the lock if this hold's session expires
     */
    lockDelay?: number;
    /**
     * further locks, in the same mode: all are granted at once or none, after one wait
     */
    with?: string | string[];
    /**
     * from 0 to 100: waits before those of lower priority; default 0
     */
    priority?: number;
    /**
     * give up after so many ms, with lock_held; default: wait until `signal` ends
     */
    wait?: number;
    /**
     * ms until the cell must have answered a call with `wait: 0`; default 10000
     */
    timeout?: number;
    /**
     * bounds the waiting
     */
    signal?: AbortSignal;
};
/**
 * One hold of a lock, or of several. It is good until `signal` ends, and stays
 * ended, also when the session becomes safe again; `resume` returns a new one for
 * the same grant. Always call `unlock`.
 *
 * JavaScript's timers fire late: a listener of `signal` runs only when other
 * code has returned to the event loop. Long computations check `valid`, which
 * reads the clock, before each step that needs the lock.
 */
export declare class Held {
    #private;
    path: string;
    /** All paths: `path`, then those in `with`. */
    paths: string[];
    mode: import("./types.js").Mode;
    handle: string;
    /** The fencing token: the protected resource refuses a lower one than it has seen. */
    token: number;
    /** The fencing tokens of all paths. */
    tokens: number[];
    /** The grants of all paths as text, mode:token:path, that others can check. */
    sequencers: string[];
    /** The first of them. */
    sequencer: string;
    /** When the lock was granted, by the master's clock. */
    grantedAt: Date | undefined;
    /**
     * Ends when the hold can no longer be relied upon; `reason` has the StoutError.
     *
     * @returns {AbortSignal}
     */
    get signal(): AbortSignal;
    /**
     * Why the hold has ended: jeopardy, lock_lost, session_expired, session_closed or
     * unlocked. The `cause` of a jeopardy is the error of the last keepalive, if any.
     */
    get error(): StoutError | undefined;
    /** Reports, by the clock, whether the hold can be relied upon at this instant. */
    get valid(): boolean;
    /** How long the hold can be relied upon unless the lease is extended, in ms. */
    get remaining(): number;
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
    awaitPriority({ signal }?: {
        signal?: AbortSignal;
    }): Promise<void>;
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
    unlock({ signal }?: {
        signal?: AbortSignal;
    }): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
    /**
     * Returns a new Held for the same grant after a jeopardy, with the same token,
     * or throws lock_lost. It waits until the session is safe. The caller decides
     * whether interrupted work may go on.
     *
     * @param {{signal?: AbortSignal}} [options]
     * @returns {Promise<Held>}
     */
    resume({ signal }?: {
        signal?: AbortSignal;
    }): Promise<Held>;
}
