import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const home = new URL("..", import.meta.url);

/** The leader example of README.md with a short ttl. It does not stop itself. */
function example() {
	const [, code] = /## A leader[^]*?```js\n([^]*?)```/.exec(readFileSync(new URL("README.md", home), "utf8")) ?? [];
	assert.ok(code, "README.md has no example of a leader");
	return code.replace("ttl: 5000", "ttl: 1000").replace(/^.*process\.kill.*$/m, "");
}

/** @typedef {import("node:child_process").ChildProcess} Process */
/** @typedef {{status: number, body: object} | undefined} Reply undefined: none */

/**
 * Runs the example beside a replica that a function plays. Another function may
 * change an answer; `kill` sends SIGTERM. Returns how the process ended.
 *
 * @param {(what: string, usual: Reply, kill: () => void) => Reply} play
 * @param {(line: string, kill: () => void) => void} [read]
 */
async function lead(play, read = () => {}) {
	const server = http.createServer(async (req, res) => {
		let text = "";
		for await (const part of req) text += part;
		const { pathname } = new URL(req.url ?? "", "http://replica");
		const reply = play(`${req.method} ${pathname}`, usual(`${req.method} ${pathname}`, text), kill);
		if (!reply) return;
		res.writeHead(reply.status, { "content-type": "application/json", "stout-cell": "cell", "stout-epoch": "1", "stout-revision": "9" });
		res.end(JSON.stringify(reply.body));
	});
	await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
	const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
	const child = spawn(process.execPath, ["--input-type=module", "-e", example()], { cwd: fileURLToPath(home), env: { ...process.env, STOUT_URL: `http://127.0.0.1:${port}` } });
	const kill = () => void child.kill("SIGTERM");
	let out = "";
	let err = "";
	child.stdout.on("data", (part) => {
		out += part;
		for (const line of String(part).split("\n")) read(line, kill);
	});
	child.stderr.on("data", (part) => (err += part));
	try {
		const [code] = await once(child, "close", { signal: AbortSignal.timeout(60_000) });
		return { code, out, err };
	} finally {
		child.kill("SIGKILL");
		server.closeAllConnections();
		server.close();
	}
}

let tokens = 0;

/** The answer of a healthy replica. @param {string} what @param {string} text @returns {Reply} */
function usual(what, text) {
	const body = text.startsWith("{") ? JSON.parse(text) : undefined;
	if (what === "POST /v1/sessions") return { status: 201, body: { id: "S", name: "", ttl_ms: body.ttl_ms, epoch: 1, meta: {} } };
	if (what.endsWith("/keepalive")) return { status: 200, body: { ttl_ms: 1000, held_ms: 0, epoch: 1, events: [] } };
	if (what === "PUT /v1/locks/shop/leader") {
		const token = ++tokens;
		return { status: 200, body: { path: "/shop/leader", state: "held", session: "S", handle: body.handle, mode: body.mode, token, sequencer: `exclusive:${token}:/shop/leader` } };
	}
	if (what.startsWith("DELETE")) return { status: 200, body: { released: true } };
	return refusal("permission_denied", 403);
}

/** @param {string} code @param {number} status @returns {Reply} */
const refusal = (code, status) => ({ status, body: { code, status, detail: "scripted" } });

/** @param {{code: number, out: string, err: string}} end @param {RegExp} out */
function stopped(end, out) {
	assert.deepEqual([end.code, end.err], [0, ""], end.out);
	assert.match(end.out, out);
}

test("the leader stops on SIGTERM while it opens its session", async () => {
	const end = await lead((what, reply, kill) => {
		if (what !== "POST /v1/sessions") return reply;
		kill();
		return undefined;
	});
	stopped(end, /^stopped\n$/);
});

test("the leader stops on SIGTERM during its write", async () => {
	const end = await lead((what, reply, kill) => {
		if (what !== "PUT /v1/files/shop/address") return reply;
		kill();
		return undefined;
	});
	stopped(end, /^stopped\n$/);
});

test("the leader stops on SIGTERM while the cell refuses its release", async () => {
	let refuses = false;
	const end = await lead((what, reply, kill) => {
		if (what === "PUT /v1/files/shop/address") {
			refuses = true;
			kill();
		}
		return refuses ? refusal("permission_denied", 403) : reply;
	});
	stopped(end, /stopped\n$/);
});

test("the leader notices that its lease ends during its write", async () => {
	let frozen = false;
	const end = await lead(
		(what, reply) => {
			if (what === "PUT /v1/files/shop/address") frozen = true;
			if (what === "DELETE /v1/locks/shop/leader") frozen = false; // the work has ended
			if (what === "DELETE /v1/sessions/S") return refusal("permission_denied", 403); // hides no other error
			return frozen ? undefined : reply;
		},
		(line, kill) => line.startsWith("not leading") && kill(),
	);
	stopped(end, /not leading: (no_master|outcome_unknown)\nstopped\n$/);
});
