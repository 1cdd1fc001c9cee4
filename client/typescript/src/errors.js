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
export class StoutError extends Error {
	/**
	 * @param {Code} code
	 * @param {string} detail
	 * @param {{problem?: Problem, retryAfter?: number, cause?: unknown}} [more]
	 */
	constructor(code, detail, { problem, retryAfter = 0, cause } = {}) {
		super(`${code}: ${detail}`, cause === undefined ? undefined : { cause });
		this.name = "StoutError";
		/** The stable part of the error. */
		this.code = code;
		/** The explanation for people. */
		this.detail = detail;
		/** The cell's answer; undefined if the client made the error. */
		this.problem = problem;
		/** When to retry, in seconds, by the cell's advice; 0 without advice. */
		this.retryAfter = retryAfter;
	}
}

/**
 * Reports whether an error is a StoutError with one of the codes.
 *
 * @internal
 * @param {unknown} err
 * @param {...Code} codes
 * @returns {err is StoutError}
 */
export const has = (err, ...codes) => err instanceof StoutError && codes.includes(err.code);

/**
 * An attempt without an answer of a replica. `sent` is false if the request was
 * certainly not sent.
 *
 * @internal
 */
export class NoAnswer extends Error {
	/** @param {string} base @param {unknown} cause @param {boolean} sent @param {boolean} [late] */
	constructor(base, cause, sent, late = false) {
		super(`${base}: ${messageOf(cause)}`, { cause });
		this.sent = sent;
		this.late = late;
	}
}

/** There was no token to send. @internal */
export class NoToken extends NoAnswer {}

/** An answer that no replica gives, such as a web server's page. @internal */
export class ForeignAnswer extends StoutError {}

/** Ends a call that its session has cut off; never seen by callers. @internal */
export const CUT = new Error("stout: the call was cut off");

/** The texts of the client's own codes. */
const texts = {
	session_expired: "the session has expired",
	session_closed: "the session is closed",
	jeopardy: "the session's lease has ended here",
	lock_lost: "the cell no longer counts the lock as held by this hold",
	unlocked: "the lock was released by unlock",
};

/** @internal @param {keyof typeof texts} code @param {unknown} [cause] */
export const own = (code, cause) => new StoutError(code, texts[code] + (cause === undefined ? "" : `: ${messageOf(cause)}`), { cause });

/** @internal @param {unknown} err */
export const messageOf = (err) => (err instanceof Error ? err.message || err.name : String(err));

/** @internal @param {string} field @param {string} detail */
export const invalid = (field, detail) =>
	new StoutError("invalid_argument", detail, { problem: { code: "invalid_argument", detail, field } });
