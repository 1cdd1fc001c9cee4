/**
 * Objects of the contract keep the names of its JSON.
 *
 * @typedef {"exclusive" | "shared"} Mode
 */
export type Mode = "exclusive" | "shared";
export type Stat = {
    path: string;
    /**
     * of the last change
     */
    revision: number;
    /**
     * revision of the creation
     */
    instance: number;
    /**
     * counts the writes of this instance, from 1
     */
    generation: number;
    /**
     * in bytes
     */
    size: number;
    /**
     * hexadecimal
     */
    sha256: string;
    /**
     * of an ephemeral file
     */
    session?: string;
    /**
     * the last writer
     */
    principal?: string;
    created_at: string;
    modified_at: string;
};
export type File = Stat & {
    content?: Buffer;
    asOf: number;
};
export type Holder = {
    session: string;
    session_name: string;
    session_meta?: Record<string, string>;
    handle: string;
    mode: Mode;
    token: number;
    granted_at: string;
    lock_delay_ms?: number;
    principal?: string;
};
export type Waiter = {
    session: string;
    session_name: string;
    session_meta?: Record<string, string>;
    handle: string;
    mode: Mode;
    /**
     * 1 is next
     */
    position: number;
    since: string;
    waiting_ms: number;
    priority?: number;
    principal?: string;
    /**
     * how many locks it waits for together
     */
    set?: number;
};
export type LockState = {
    path: string;
    state: "free" | "held" | "delayed";
    mode?: Mode;
    limit: number;
    holders: Holder[];
    more_holders?: number;
    waiters: number;
    /**
     * as many as `waiters` of the read requested
     */
    queue?: Waiter[];
    delay_remaining_ms: number;
};
export type Claim = {
    path: string;
    handle: string;
    mode: Mode;
    /**
     * of a hold
     */
    token?: number;
    /**
     * of a hold
     */
    sequencer?: string;
    /**
     * for how long an unknown grant may be asked for
     */
    unclaimed_ms?: number;
    /**
     * in a queue; 1 is next
     */
    position?: number;
};
export type SessionState = {
    id: string;
    name: string;
    ttl_ms: number;
    epoch: number;
    created_at: string;
    meta: Record<string, string>;
    lease_remaining_ms?: number;
    holds: Claim[];
    waits: Claim[];
};
export type SessionEvent = {
    seq: number;
    type: "lock_granted" | "lock_withdrawn" | "lock_lost";
    path: string;
    handle: string;
    token?: number;
    /**
     * of a loss or withdrawal
     */
    reason?: string;
};
export type EventType = "file_created" | "file_changed" | "file_deleted" | "lock_acquired" | "lock_released" | "lock_contended" | "master_changed";
export type CellEvent = {
    revision: number;
    type: EventType;
    path?: string;
    reason?: string;
    content?: Buffer;
    session?: string;
    session_name?: string;
    handle?: string;
    mode?: Mode;
    token?: number;
    epoch?: number;
    master?: string;
} & Partial<Stat>;
export type Gap = {
    type: "compacted";
    oldest: number;
    revision: number;
};
/**
 * A file without its content.
 *
 * @typedef {object} Stat
 * @property {string} path
 * @property {number} revision of the last change
 * @property {number} instance revision of the creation
 * @property {number} generation counts the writes of this instance, from 1
 * @property {number} size in bytes
 * @property {string} sha256 hexadecimal
 * @property {string} [session] of an ephemeral file
 * @property {string} [principal] the last writer
 * @property {string} created_at
 * @property {string} modified_at
 */
/**
 * A file as a read returned it. `asOf` is the cell's revision of that read: a
 * watch after it misses no later change. `content` is undefined if it was not
 * requested or no longer exists.
 *
 * @typedef {Stat & {content?: Buffer, asOf: number}} File
 */
/**
 * @typedef {object} Holder
 * @property {string} session
 * @property {string} session_name
 * @property {Record<string, string>} [session_meta]
 * @property {string} handle
 * @property {Mode} mode
 * @property {number} token
 * @property {string} granted_at
 * @property {number} [lock_delay_ms]
 * @property {string} [principal]
 */
/**
 * @typedef {object} Waiter
 * @property {string} session
 * @property {string} session_name
 * @property {Record<string, string>} [session_meta]
 * @property {string} handle
 * @property {Mode} mode
 * @property {number} position 1 is next
 * @property {string} since
 * @property {number} waiting_ms
 * @property {number} [priority]
 * @property {string} [principal]
 * @property {number} [set] how many locks it waits for together
 */
/**
 * @typedef {object} LockState
 * @property {string} path
 * @property {"free" | "held" | "delayed"} state
 * @property {Mode} [mode]
 * @property {number} limit
 * @property {Holder[]} holders
 * @property {number} [more_holders]
 * @property {number} waiters
 * @property {Waiter[]} [queue] as many as `waiters` of the read requested
 * @property {number} delay_remaining_ms
 */
/**
 * A hold or a place in a queue, in the state of a session.
 *
 * @typedef {object} Claim
 * @property {string} path
 * @property {string} handle
 * @property {Mode} mode
 * @property {number} [token] of a hold
 * @property {string} [sequencer] of a hold
 * @property {number} [unclaimed_ms] for how long an unknown grant may be asked for
 * @property {number} [position] in a queue; 1 is next
 */
/**
 * @typedef {object} SessionState
 * @property {string} id
 * @property {string} name
 * @property {number} ttl_ms
 * @property {number} epoch
 * @property {string} created_at
 * @property {Record<string, string>} meta
 * @property {number} [lease_remaining_ms]
 * @property {Claim[]} holds
 * @property {Claim[]} waits
 */
/**
 * An event of a session: a place in a queue was granted or withdrawn, or a hold
 * was lost.
 *
 * @typedef {object} SessionEvent
 * @property {number} seq
 * @property {"lock_granted" | "lock_withdrawn" | "lock_lost"} type
 * @property {string} path
 * @property {string} handle
 * @property {number} [token]
 * @property {string} [reason] of a loss or withdrawal
 */
/** @typedef {"file_created" | "file_changed" | "file_deleted" | "lock_acquired" | "lock_released" | "lock_contended" | "master_changed"} EventType */
/**
 * A change of the cell. An event of a file has its stat, and its content if it
 * was requested; one of a lock has the hold.
 *
 * @typedef {{revision: number, type: EventType, path?: string, reason?: string, content?: Buffer,
 *   session?: string, session_name?: string, handle?: string, mode?: Mode, token?: number,
 *   epoch?: number, master?: string} & Partial<Stat>} CellEvent
 */
/**
 * A gap: no reachable replica keeps the next events, or the cell has not
 * reached the revision. Read the watched data again; the events after
 * `revision` follow.
 *
 * @typedef {{type: "compacted", oldest: number, revision: number}} Gap
 */
export {};
