export type DeleteOptions = {
    /**
     * only if the file has this revision, else precondition_failed
     */
    ifRevision?: number;
    /**
     * only while the cell counts these holds as held, else not_held
     */
    while?: import("./locks.js").Held | import("./locks.js").Held[];
    signal?: AbortSignal;
};
export type WriteOptions = DeleteOptions & {
    ifAbsent?: boolean;
    ephemeral?: boolean;
    returnCurrent?: boolean;
};
export type ReadOptions = {
    /**
     * any replica may answer from its own state, perhaps out of date
     */
    stale?: boolean;
    signal?: AbortSignal;
};
/**
 * @typedef {object} DeleteOptions
 * @property {number} [ifRevision] only if the file has this revision, else precondition_failed
 * @property {import("./locks.js").Held | import("./locks.js").Held[]} [while] only while the cell counts these holds as held, else not_held
 * @property {AbortSignal} [signal]
 */
/**
 * @typedef {DeleteOptions & {ifAbsent?: boolean, ephemeral?: boolean, returnCurrent?: boolean}} WriteOptions
 *   `ifAbsent`: only if the file does not exist. `ephemeral`: the file ends with
 *   the session (false: it outlives it). `returnCurrent`: a precondition_failed
 *   has the present file with its content.
 */
/**
 * @typedef {object} ReadOptions
 * @property {boolean} [stale] any replica may answer from its own state, perhaps out of date
 * @property {AbortSignal} [signal]
 */
/**
 * The files of a cell. With a session, each change is made exactly once: it has
 * an idempotency key, under which it is repeated until it is answered. Without
 * a session it is sent once, and throws outcome_unknown if no answer came.
 */
export declare class Files {
    #private;
    /**
     * Reads a file. A missing one is a not_found.
     *
     * @param {string} path
     * @param {ReadOptions} [options]
     * @returns {Promise<import("./types.js").File & {content: Buffer}>}
     */
    get(path: string, { stale, signal }?: ReadOptions): Promise<import("./types.js").File & {
        content: Buffer;
    }>;
    /**
     * Yields the files whose paths begin with a plain string, in bytewise order.
     * Each page is a consistent view of its own, at the revision `asOf`.
     *
     * @param {string} [prefix]
     * @param {ReadOptions & {contents?: boolean}} [options]
     * @returns {AsyncGenerator<import("./types.js").File, void, void>}
     */
    list(prefix?: string, { stale, contents, signal }?: ReadOptions & {
        contents?: boolean;
    }): AsyncGenerator<import("./types.js").File, void, void>;
    /**
     * Writes a whole file, and returns its stat.
     *
     * @param {string} path
     * @param {string | Uint8Array} content
     * @param {WriteOptions} [options]
     * @returns {Promise<import("./types.js").Stat>}
     */
    put(path: string, content: string | Uint8Array, options?: WriteOptions): Promise<import("./types.js").Stat>;
    /**
     * Creates a file with a name that begins with `prefix` and ends with 16
     * digits: the revision that creates it.
     *
     * @param {string} prefix
     * @param {string | Uint8Array} content
     * @param {{ephemeral?: boolean, while?: DeleteOptions["while"], signal?: AbortSignal}} [options]
     * @returns {Promise<import("./types.js").Stat>}
     */
    createSequential(prefix: string, content: string | Uint8Array, options?: {
        ephemeral?: boolean;
        while?: DeleteOptions["while"];
        signal?: AbortSignal;
    }): Promise<import("./types.js").Stat>;
    /**
     * Deletes a file. It returns the revision of that, or 0 if there was none.
     *
     * @param {string} path
     * @param {DeleteOptions} [options]
     * @returns {Promise<number>}
     */
    delete(path: string, options?: DeleteOptions): Promise<number>;
    /**
     * Deletes the files below a directory, at most 10000, as one change. `dir`
     * ends in "/". It returns their number and the last revision.
     *
     * @param {string} dir
     * @param {Omit<DeleteOptions, "ifRevision">} [options]
     */
    deleteBelow(dir: string, options?: Omit<DeleteOptions, "ifRevision">): Promise<{
        deleted: number;
        revision: any;
    }>;
    /**
     * Makes several changes as one: if all conditions hold, those of `then`, else
     * those of `else`. Conditions, operations and results are the contract's. For a
     * hold, give a condition for each of its `sequencers`.
     *
     * @param {{if?: object[], then?: object[], else?: object[]}} transaction
     * @param {{signal?: AbortSignal}} [options]
     * @returns {Promise<{succeeded: boolean, revision: number, results: any[]}>}
     */
    transaction(transaction: {
        if?: object[];
        then?: object[];
        else?: object[];
    }, { signal }?: {
        signal?: AbortSignal;
    }): Promise<{
        succeeded: boolean;
        revision: number;
        results: any[];
    }>;
}
