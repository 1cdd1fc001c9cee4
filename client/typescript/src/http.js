import http from "node:http";
import https from "node:https";
import { NoAnswer } from "./errors.js";
import { listen } from "./util.js";

const MOST_ANSWER = 64 << 20; // bytes of an answer's body
const IDLE_TIME = 60_000; // of a connection; a replica keeps it for longer

/**
 * An answer with its body, or with a stream instead.
 *
 * @typedef {object} Answer
 * @property {number} status
 * @property {http.IncomingHttpHeaders} headers
 * @property {Buffer} body
 * @property {http.IncomingMessage} [stream]
 */

/** The connections of a client. They end once they are idle for a minute. */
export class Connections {
	#plain = new http.Agent({ keepAlive: true, timeout: IDLE_TIME });
	#secure = new https.Agent({ keepAlive: true, timeout: IDLE_TIME });
	#clock;
	#used = -Infinity; // clock of the last request
	#tls;
	/** @type {object | undefined} */
	#of;

	/** @param {import("./client.js").TLSOptions | (() => import("./client.js").TLSOptions) | undefined} tls @param {import("./clock.js").Clock} clock */
	constructor(tls, clock) {
		this.#tls = tls;
		this.#clock = clock;
	}

	/**
	 * Ends the idle connections after a sleep of the machine or a long computation:
	 * their timers did not fire, and a replica may have ended them.
	 */
	#leaveOld() {
		const now = this.#clock.now();
		if (now - this.#used > IDLE_TIME)
			for (const agent of [this.#plain, this.#secure])
				for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
		this.#used = now;
	}

	/** @param {URL} url */
	#agent(url) {
		if (url.protocol === "http:") return this.#plain;
		const now = typeof this.#tls === "function" ? this.#tls() : this.#tls;
		if (now !== this.#of) {
			this.#of = now;
			this.#secure = new https.Agent({ ...now, keepAlive: true, timeout: IDLE_TIME });
		}
		return this.#secure;
	}

	close() {
		this.#plain.destroy();
		this.#secure.destroy();
	}

	/**
	 * Makes one HTTP exchange. The answer must be complete within a time; a
	 * stream must have begun. It rejects with a NoAnswer.
	 *
	 * @param {string} base for errors
	 * @param {URL} url
	 * @param {{method: string, headers: Record<string, string>, body?: Buffer, within: number, stream?: boolean, signals: (AbortSignal | undefined)[]}} q
	 * @returns {Promise<Answer>}
	 */
	send(base, url, q) {
		this.#leaveOld();
		return new Promise((resolve, reject) => {
			const secure = url.protocol === "https:";
			let sent = false;
			let late = false;
			/** @type {NodeJS.Timeout | undefined} */
			let dial;
			const req = (secure ? https : http).request(url, { agent: this.#agent(url), method: q.method, headers: q.headers });
			const settle = () => {
				over = true;
				clearTimeout(dial);
				clearTimeout(bound);
				for (const s of q.signals) s?.removeEventListener("abort", cut);
			};
			const fail = (/** @type {unknown} */ err) => {
				settle();
				reject(new NoAnswer(base, err, sent, late));
				req.destroy();
			};
			const cut = () => fail(new Error("the call was ended here"));
			// After a long computation, timers run before the answers that have come.
			let over = false;
			const bound = setTimeout(
				() =>
					setImmediate(() => {
						if (over) return;
						late = true;
						fail(new Error(`no answer within ${Math.round(q.within)} ms`));
					}),
				q.within,
			);
			const connected = () => {
				sent = true;
				clearTimeout(dial);
			};
			req.on("error", fail);
			req.on("socket", (socket) => {
				if (req.reusedSocket) return connected();
				// A dead host must not use up the time of a call that waits.
				dial = setTimeout(() => fail(new Error("no connection")), secure ? 5000 : 2000);
				socket.once(secure ? "secureConnect" : "connect", connected);
			});
			req.on("response", (res) => {
				const answer = { status: res.statusCode ?? 0, headers: res.headers, body: Buffer.alloc(0) };
				if (q.stream && res.statusCode === 200) {
					over = true; // only the signals end the stream
					clearTimeout(bound);
					res.once("close", settle);
					return resolve({ ...answer, stream: res });
				}
				/** @type {Buffer[]} */
				const parts = [];
				let size = 0;
				res.on("error", fail);
				res.on("data", (/** @type {Buffer} */ part) => {
					parts.push(part);
					if ((size += part.length) > MOST_ANSWER) fail(new Error(`an answer of more than ${MOST_ANSWER} bytes`));
				});
				res.on("end", () => {
					settle();
					resolve({ ...answer, body: Buffer.concat(parts) });
				});
			});
			for (const s of q.signals) listen(s, cut);
			if (q.signals.some((s) => s?.aborted)) return cut();
			req.end(q.body);
		});
	}
}
