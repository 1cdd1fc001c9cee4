/** Client of Stout, a lock service in the manner of Chubby. See README.md. */
export { Client } from "./client.js";
export { StoutError } from "./errors.js";
export { Held } from "./locks.js";
export { Session } from "./session.js";
export { Clock } from "./clock.js";
export { until } from "./until.js";
export type ClientOptions = import("./client.js").ClientOptions;
export type TLSOptions = import("./client.js").TLSOptions;
export type Code = import("./errors.js").Code;
export type Problem = import("./errors.js").Problem;
export type SessionOptions = import("./session.js").SessionOptions;
export type State = import("./session.js").State;
export type LockOptions = import("./locks.js").LockOptions;
export type Files = import("./files.js").Files;
export type ReadOptions = import("./files.js").ReadOptions;
export type WriteOptions = import("./files.js").WriteOptions;
export type DeleteOptions = import("./files.js").DeleteOptions;
export type WatchOptions = import("./watch.js").WatchOptions;
export type Stat = import("./types.js").Stat;
export type File = import("./types.js").File;
export type LockState = import("./types.js").LockState;
export type Holder = import("./types.js").Holder;
export type SessionState = import("./types.js").SessionState;
export type SessionEvent = import("./types.js").SessionEvent;
export type CellEvent = import("./types.js").CellEvent;
export type Gap = import("./types.js").Gap;
/** @typedef {import("./client.js").ClientOptions} ClientOptions */
/** @typedef {import("./client.js").TLSOptions} TLSOptions */
/** @typedef {import("./errors.js").Code} Code */
/** @typedef {import("./errors.js").Problem} Problem */
/** @typedef {import("./session.js").SessionOptions} SessionOptions */
/** @typedef {import("./session.js").State} State */
/** @typedef {import("./locks.js").LockOptions} LockOptions */
/** @typedef {import("./files.js").Files} Files */
/** @typedef {import("./files.js").ReadOptions} ReadOptions */
/** @typedef {import("./files.js").WriteOptions} WriteOptions */
/** @typedef {import("./files.js").DeleteOptions} DeleteOptions */
/** @typedef {import("./watch.js").WatchOptions} WatchOptions */
/** @typedef {import("./types.js").Stat} Stat */
/** @typedef {import("./types.js").File} File */
/** @typedef {import("./types.js").LockState} LockState */
/** @typedef {import("./types.js").Holder} Holder */
/** @typedef {import("./types.js").SessionState} SessionState */
/** @typedef {import("./types.js").SessionEvent} SessionEvent */
/** @typedef {import("./types.js").CellEvent} CellEvent */
/** @typedef {import("./types.js").Gap} Gap */
