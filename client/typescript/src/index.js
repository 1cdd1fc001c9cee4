/** Client of Stout, a lock service in the manner of Chubby. See README.md. */
export { Client } from "./client.js";
export { StoutError } from "./errors.js";
export { Held } from "./locks.js";
export { Session } from "./session.js";
export { Clock } from "./clock.js";
export { until } from "./until.js";

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
