export type WatchOptions = {
    /**
     * the revision after which to begin; default: now
     */
    after?: number;
    /**
     * only events of these nodes
     */
    paths?: string[];
    /**
     * only events of nodes with paths that begin so
     */
    prefixes?: string[];
    /**
     * only these types
     */
    types?: import("./types.js").EventType[];
    /**
     * with the new content of a file, while it is the present one
     */
    contents?: boolean;
    signal?: AbortSignal;
};
export type Message = {
    id: string;
    event: string;
    data: string;
};
