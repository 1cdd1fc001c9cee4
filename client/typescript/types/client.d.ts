import { Clock } from "./clock.js";
import { Files } from "./files.js";
import { Session } from "./session.js";
export type TLSOptions = Pick<import("node:tls").SecureContextOptions, "ca" | "cert" | "key" | "passphrase" | "pfx"> & {
    servername?: string;
};
export type ClientOptions = {
    /**
     * for https URLs: the CAs that verify the replicas, and the
     * client's certificate. A function is called for each request; a new object makes new connections.
     */
    tls?: TLSOptions | (() => TLSOptions);
    /**
     * the credential; a function is called for each attempt; if it
     * throws, the call is rejected with unauthenticated
     */
    token?: string | (() => string | Promise<string>);
    /**
     * ms for which a session in jeopardy tries to recover; default 45000
     */
    grace?: number;
    /**
     * call only the given replicas and the master that they name
     */
    onlyURLs?: boolean;
    userAgent?: string;
    log?: (level: "debug" | "info" | "warn", text: string, fields: Record<string, unknown>) => void;
    /**
     * for tests
     */
    clock?: Clock;
};
/**
 * A client of one cell, to be shared by the whole program: its sessions and
 * calls share connections and the choice of replica.
 *
 * A call that may safely be repeated is repeated until it is answered or its
 * `signal` ends. When the signal ends, a call under way throws a StoutError with
 * the code no_master (it certainly had no effect) or outcome_unknown, and the
 * signal's reason as its cause; a wait in a queue throws that reason itself.
 */
export declare class Client {
    #private;
    /** The cell's files. A change is made at most once; use a session's files for exactly once. */
    files: Files;
    /**
     * @param {string | string[]} urls base URLs of any replicas, or host:port. One is enough to find the others; more
     *   help when that replica is down at the start.
     * @param {ClientOptions} [options]
     */
    constructor(urls: string | string[], options?: ClientOptions);
    /** The base URLs of the known replicas: the given ones, then those learned from the cell. */
    get urls(): string[];
    /** Closes idle connections and ends the search for replicas. Close the sessions first. */
    close(): void;
    /**
     * Opens a session and keeps it alive. If `signal` ends first, the cell may
     * have an unused session, which expires after its ttl.
     *
     * @param {import("./session.js").SessionOptions} [options]
     * @returns {Promise<Session>}
     */
    openSession({ ttl, name, meta, signal }?: import("./session.js").SessionOptions): Promise<Session>;
    /**
     * Reads the state of a lock.
     *
     * @param {string} path
     * @param {import("./files.js").ReadOptions & {waiters?: number}} [options] `waiters`: how many of the queue to list
     * @returns {Promise<import("./types.js").LockState>}
     */
    readLock(path: string, { stale, waiters, signal }?: import("./files.js").ReadOptions & {
        waiters?: number;
    }): Promise<import("./types.js").LockState>;
    /**
     * Reads a session with its holds and waits.
     *
     * @param {string} id
     * @param {{signal?: AbortSignal}} [options]
     */
    readSession(id: string, { signal }?: {
        signal?: AbortSignal;
    }): Promise<import("./types.js").SessionState>;
    /**
     * Reports whether the very grant that a sequencer describes is held now. A
     * resource that remembers the highest token seen does not need it.
     *
     * @param {string} value
     * @param {import("./files.js").ReadOptions} [options]
     * @returns {Promise<{valid: boolean, reason?: string}>}
     */
    checkSequencer(value: string, { stale, signal }?: import("./files.js").ReadOptions): Promise<{
        valid: boolean;
        reason?: string;
    }>;
    /**
     * Returns the cell's revision. It includes all changes that were acknowledged
     * before the call.
     *
     * @param {{signal?: AbortSignal}} [options]
     */
    revision({ signal }?: {
        signal?: AbortSignal;
    }): Promise<number>;
    /**
     * Yields every change of the cell after a revision, in order, without gaps or
     * repeats, until `signal` ends or the loop is left. It reads from any healthy
     * replica, and moves to another when that one fails. A Gap (its `type` is
     * compacted) takes the place of events that are no longer kept. Begin after
     * the `asOf` of a read, and no change is missed. When `signal` ends, the loop
     * throws its reason.
     *
     * @param {import("./watch.js").WatchOptions} [options]
     * @returns {AsyncGenerator<import("./types.js").CellEvent | import("./types.js").Gap, void, void>}
     */
    watch(options?: import("./watch.js").WatchOptions): AsyncGenerator<import("./types.js").CellEvent | import("./types.js").Gap, void, void>;
}
