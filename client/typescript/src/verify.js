import { createHash } from "node:crypto";
import { invalid } from "./errors.js";
import { clip, MOST, show } from "./util.js";

// Checks of answers: each returns what is wrong, or undefined. A proxy may mix
// up answers, and a program may answer that is not a replica of this cell. An
// answer that fails a check makes no hold and extends no lease.

/** @param {any} n @param {number} [least] */
export const isNumber = (n, least = 0) => Number.isSafeInteger(n) && n >= least;

/** @param {string} path */
export function checkPath(path) {
	if (typeof path !== "string") throw invalid("path", `path is ${show(path)}; it must be a string`);
	const bytes = Buffer.byteLength(path);
	const segments = path.split("/").slice(1);
	const bad = segments.find((s) => s === "" || s === "." || s === ".." || Buffer.byteLength(s) > 255 || /\p{Cc}/u.test(s));
	if (!path.startsWith("/")) throw invalid("path", `path ${clip(path)} does not start with "/"`);
	if (bytes > 1024 || segments.length > 32)
		throw invalid("path", `the path has ${bytes} bytes and ${segments.length} segments; at most 1024 and 32 are allowed`);
	if (bad !== undefined)
		throw invalid("path", `segment ${clip(bad)} of path ${clip(path)} is empty, ".", "..", too long or has a control character`);
	if (!path.isWellFormed()) throw invalid("path", `path ${clip(path)} is not valid Unicode`);
}

/** @param {any} id */
const isSessionID = (id) => typeof id === "string" && /^[!-.0-~]{1,128}$/.test(id) && id !== "." && id !== "..";

/** @param {any} got @param {number} least */
const wrongEpoch = (got, least) => (isNumber(got, least) ? undefined : `epoch ${got}; it was ${least} before, and only grows`);

/** @param {number} ttl */
export const opened = (ttl) => (/** @type {any} */ s) => {
	if (!isSessionID(s.id)) return `a session with the id ${clip(s.id)}`;
	if (s.ttl_ms !== ttl) return `a session with a ttl of ${s.ttl_ms} ms; the call requested ${ttl} ms`;
	return wrongEpoch(s.epoch, 1);
};

/** @param {number} epoch the last one */
export const keepalive = (epoch) => (/** @type {any} */ k) => {
	if (!isNumber(k.ttl_ms, 1) || !isNumber(k.held_ms)) return `a lease of ${k.ttl_ms} ms, held for ${k.held_ms} ms`;
	if (!Array.isArray(k.events)) return "no list of events";
	return wrongEpoch(k.epoch, Math.max(epoch, 1));
};

/** @param {string} id */
export const sessionState = (id) => (/** @type {any} */ s) =>
	s.id === id && Array.isArray(s.holds) && Array.isArray(s.waits) ? undefined : `the state of session ${clip(s.id)}`;

/**
 * @param {{session: string, handle: string, mode: string, queue: boolean}} req
 * @param {string[]} paths
 * @param {number} above tokens up to this one were granted before the call
 */
export const grant = (req, paths, above) => (/** @type {any} */ g) => {
	if (g.path !== paths[0]) return `a grant for ${clip(g.path)}`;
	if (g.session !== req.session) return `a grant for session ${clip(g.session)}`;
	if (g.handle !== req.handle) return `a grant for handle ${clip(g.handle)}; the handle was ${clip(req.handle)}`;
	if (g.mode !== req.mode) return `a grant with mode ${clip(g.mode)}; the call requested ${clip(req.mode)}`;
	if (g.state === "queued" && req.queue) return undefined;
	if (g.state !== "held") return `the state ${clip(g.state)}`;
	const parts = [g, ...(g.with ?? [])];
	if (parts.length !== paths.length) return `grants of ${parts.length} locks; the call requested ${paths.length}`;
	for (const [i, { path, token, sequencer }] of parts.entries()) {
		if (path !== paths[i]) return `a grant for ${clip(path)}`;
		if (!isNumber(token, 1)) return `token ${token}; it is within 1..${MOST}`;
		if (token <= above)
			return `token ${token}, though ${above} was granted before; tokens only grow, so the state of the cell has gone back, or this is another cell`;
		if (sequencer !== `${g.mode}:${token}:${path}`) return `sequencer ${clip(sequencer)} with token ${token}`;
	}
	return undefined;
};

/** @param {string} path */
export const lockState = (path) => (/** @type {any} */ l) => {
	if (l.path !== path) return `the state of ${clip(l.path)}`;
	if (!["free", "held", "delayed"].includes(l.state) || !Array.isArray(l.holders)) return `the state ${clip(l.state)}`;
	return undefined;
};

/** @param {any} s a stat */
export function stat(s) {
	if (!isNumber(s.revision, 1) || !isNumber(s.instance, 1) || s.instance > s.revision)
		return `a file of instance ${s.instance} at revision ${s.revision}`;
	if (!isNumber(s.generation, 1) || (s.generation === 1) !== (s.instance === s.revision))
		return `generation ${s.generation} of instance ${s.instance} at revision ${s.revision}`;
	return undefined;
}

/** @param {any} s a stat @param {Buffer} content */
export function content(s, content) {
	if (s.size !== content.length) return `a size of ${s.size} bytes; there are ${content.length}`;
	const sum = createHash("sha256").update(content).digest("hex");
	return s.sha256 === sum ? undefined : `the SHA-256 ${clip(s.sha256)}, which is not that of the content`;
}

/** @param {number} asOf @param {number} since the revision that was seen before */
export const date = (asOf, since) =>
	asOf >= since ? undefined : `what was so at revision ${asOf}, though revision ${since} was seen before; they only grow, so the state of the cell has gone back, or this is another cell`;
