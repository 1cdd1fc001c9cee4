import { EventEmitter } from "node:events";
import { Files } from "./files.js";
export type State = "safe" | "jeopardy" | "expired";
export type SessionOptions = {
    /**
     * ms that the session lives without a keepalive; default 12000
     */
    ttl?: number;
    /**
     * for operators
     */
    name?: string;
    /**
     * up to 16 pairs for operators
     */
    meta?: Record<string, string>;
    /**
     * bounds the opening
     */
    signal?: AbortSignal;
};
/**
 * How far a session can be relied upon. In jeopardy the local lease has ended,
 * and it is unknown whether the session lives. Expired is the end.
 *
 * @typedef {"safe" | "jeopardy" | "expired"} State
 */
/**
 * @typedef {object} SessionOptions
 * @property {number} [ttl] ms that the session lives without a keepalive; default 12000
 * @property {string} [name] for operators
 * @property {Record<string, string>} [meta] up to 16 pairs for operators
 * @property {AbortSignal} [signal] bounds the opening
 */
/**
 * This program's lease on the cell, kept alive in the background until `close`
 * or its end. It emits `state` with each new State and, unless that is safe, the
 * StoutError that explains it; and `event` with each SessionEvent.
 *
 * The client counts a local lease: the ttl from the moment before a keepalive
 * was sent, plus the time for which the cell held it. It ends before the cell's
 * own. JavaScript's timers and events fire late, and not at all while other
 * code runs. Therefore `state`, `remaining` and everything of a hold read the
 * clock each time.
 *
 * @extends {EventEmitter<{state: [State, import("./errors.js").StoutError?], event: [import("./types.js").SessionEvent]}>}
 */
export declare class Session extends EventEmitter<{
    state: [State, import("./errors.js").StoutError?];
    event: [import("./types.js").SessionEvent];
}> {
    #private;
    /** A caller that knows the id can act for the session: log it with care. */
    id: string;
    name: string;
    /** How long the session lives without a keepalive, in ms. */
    ttl: number;
    /** The cell's files. Each change is made exactly once. */
    files: Files;
    /** The term of office of the master that answered last. */
    get epoch(): number;
    /** The state at this instant, by the clock. */
    get state(): State;
    /** How long the local lease lasts unless it is extended, in ms; 0 unless safe. */
    get remaining(): number;
    /** Why the session is over: session_expired or session_closed; else undefined. */
    get error(): import("./errors.js").StoutError | undefined;
    /** Ends when the session is over. @returns {AbortSignal} */
    get signal(): AbortSignal;
    /**
     * Acquires a lock. It waits in the lock's queue until the lock is granted,
     * `signal` ends, or `wait` is over. `signal` bounds the waiting only, not the
     * hold. After an error no request remains: it has left the queue, and
     * released a grant that came in the meantime, or the session does so as soon
     * as it can.
     *
     * With `with` it gets all locks at once or none, and waits for all in one place.
     * So callers that name the same locks in different orders never wait for each
     * other. The Held is one for all locks: it ends with the first loss, and
     * `unlock` releases all.
     *
     * @param {string} path
     * @param {import("./locks.js").LockOptions} [options]
     * @returns {Promise<import("./locks.js").Held>}
     */
    lock(path: string, options?: import("./locks.js").LockOptions): Promise<import("./locks.js").Held>;
    /**
     * Acquires a lock if it is free now. Otherwise it throws lock_held, with the
     * holders, or lock_delayed. If the cell does not answer within `timeout`, it
     * throws no_master.
     *
     * @param {string} path
     * @param {Omit<import("./locks.js").LockOptions, "wait">} [options]
     */
    tryLock(path: string, options?: Omit<import("./locks.js").LockOptions, "wait">): Promise<import("./locks.js").Held>;
    /**
     * Acquires a lock, calls `work`, and releases the lock when `work` has ended,
     * however it ends. The signal that `work` gets ends with the hold, and with
     * `options.signal`. An error of `work` goes before the others. If the hold
     * ended before its release, as in a jeopardy, withLock throws the reason.
     *
     * @template T
     * @param {string} path
     * @param {(held: import("./locks.js").Held, signal: AbortSignal) => T | Promise<T>} work
     * @param {import("./locks.js").LockOptions} [options]
     * @returns {Promise<T>}
     */
    withLock<T>(path: string, work: (held: import("./locks.js").Held, signal: AbortSignal) => T | Promise<T>, options?: import("./locks.js").LockOptions): Promise<T>;
    /**
     * Ends the session here and in the cell, where its locks are free at once. It
     * tries for five seconds, or until `signal` ends if that is later. If the
     * cell cannot be reached it throws, and the session expires there after its
     * ttl.
     *
     * @param {{signal?: AbortSignal}} [options]
     */
    close({ signal }?: {
        signal?: AbortSignal;
    }): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
