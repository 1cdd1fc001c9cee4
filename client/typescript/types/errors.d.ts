/**
 * Codes of the contract. Programs branch on them.
 *
 * @typedef {"invalid_argument" | "session_not_found" | "not_found"
 *   | "method_not_allowed" | "conflict" | "unsafe" | "busy" | "cross_origin"
 *   | "unauthenticated" | "permission_denied" | "too_large"
 *   | "precondition_failed" | "not_held" | "compacted" | "not_master"
 *   | "lock_held" | "lock_delayed" | "too_many" | "no_master"
 *   | "outcome_unknown" | "internal"} ContractCode
 */
export type ContractCode = "invalid_argument" | "session_not_found" | "not_found" | "method_not_allowed" | "conflict" | "unsafe" | "busy" | "cross_origin" | "unauthenticated" | "permission_denied" | "too_large" | "precondition_failed" | "not_held" | "compacted" | "not_master" | "lock_held" | "lock_delayed" | "too_many" | "no_master" | "outcome_unknown" | "internal";
export type ClientCode = "session_expired" | "session_closed" | "jeopardy" | "lock_lost" | "unlocked" | "other_cell";
export type Code = ContractCode | ClientCode;
export type Problem = {
    code: ContractCode;
    detail: string;
    /**
     * the invalid field, in an invalid_argument
     */
    field?: string;
    /**
     * in a lock_held
     */
    holders?: import("./types.js").Holder[];
    /**
     * of a lock-delay
     */
    delay_remaining_ms?: number;
    /**
     * the master's URL, in a not_master
     */
    master?: string;
    /**
     * the present file, in a precondition_failed
     */
    current?: (import("./types.js").Stat & {
        content?: string;
        content_base64?: string;
    }) | null;
    /**
     * the guard that failed, in a not_held
     */
    sequencer?: string;
    /**
     * the operation that failed, in a transaction
     */
    operation?: number;
    /**
     * in a compacted
     */
    oldest?: number;
    /**
     * in a compacted
     */
    revision?: number;
    /**
     * in a permission_denied
     */
    principal?: string;
    /**
     * in a permission_denied
     */
    permission?: string;
    /**
     * in a permission_denied
     */
    path?: string;
    /**
     * in a too_many
     */
    quota?: string;
    /**
     * in a too_many
     */
    limit?: number;
    /**
     * in a too_many
     */
    used?: number;
};
/**
 * Codes of the client's own: the session is over, its lease has ended here, the
 * hold was lost or given up, or another cell answers.
 *
 * @typedef {"session_expired" | "session_closed" | "jeopardy" | "lock_lost"
 *   | "unlocked" | "other_cell"} ClientCode
 */
/** @typedef {ContractCode | ClientCode} Code */
/**
 * The problem document of a refusal (RFC 9457), with the fields of its code.
 *
 * @typedef {object} Problem
 * @property {ContractCode} code
 * @property {string} detail
 * @property {string} [field] the invalid field, in an invalid_argument
 * @property {import("./types.js").Holder[]} [holders] in a lock_held
 * @property {number} [delay_remaining_ms] of a lock-delay
 * @property {string} [master] the master's URL, in a not_master
 * @property {(import("./types.js").Stat & {content?: string, content_base64?: string}) | null} [current]
 *   the present file, in a precondition_failed
 * @property {string} [sequencer] the guard that failed, in a not_held
 * @property {number} [operation] the operation that failed, in a transaction
 * @property {number} [oldest] in a compacted
 * @property {number} [revision] in a compacted
 * @property {string} [principal] in a permission_denied
 * @property {string} [permission] in a permission_denied
 * @property {string} [path] in a permission_denied
 * @property {string} [quota] in a too_many
 * @property {number} [limit] in a too_many
 * @property {number} [used] in a too_many
 */
/** A refusal by the cell, or a failure that the client found itself. */
export declare class StoutError extends Error {
    /** The stable part of the error. */
    code: Code;
    /** The explanation for people. */
    detail: string;
    /** The cell's answer; undefined if the client made the error. */
    problem: Problem | undefined;
    /** When to retry, in seconds, by the cell's advice; 0 without advice. */
    retryAfter: number;
    /**
     * @param {Code} code
     * @param {string} detail
     * @param {{problem?: Problem, retryAfter?: number, cause?: unknown}} [more]
     */
    constructor(code: Code, detail: string, { problem, retryAfter, cause }?: {
        problem?: Problem;
        retryAfter?: number;
        cause?: unknown;
    });
}
