// Uses a lock through a client that @hey-api/openapi-ts made from openapi.yaml. It
// prints the token of its grant.
import assert from "node:assert/strict";
import { createClient } from "./stout/hey-api/client/index.js";
import { acquire, closeSession, deleteFile, keepalive, openSession, putFile, readFile, readLock, release } from "./stout/hey-api/index.js";

const [baseUrl = ""] = process.argv.slice(2);
const client = createClient({ baseUrl });

// The lock /jobs/nightly. The client sends its slash as %2F.
const lock = { client, path: { path: "jobs/nightly" } };

async function open(): Promise<string> {
  const { data, error } = await openSession({ client, body: { name: "hey-api" } });
  assert.ok(data, error?.detail);
  return data.id;
}

const mine = await open();
const acquired = await acquire({ ...lock, body: { session: mine } });
assert.ok(acquired.data?.state === "held", acquired.error?.detail);
const { token, path, sequencer } = acquired.data;
assert.equal(path, "/jobs/nightly");

const read = await readLock(lock);
assert.ok(read.data, read.error?.detail);
assert.deepEqual(read.data.holders.map((holder) => [holder.session, holder.token]), [[mine, token]]);

// Another session is refused, with the holder in the problem document.
const other = await open();
const refused = await acquire({ ...lock, body: { session: other } });
assert.equal(refused.response?.status, 423);
assert.equal(refused.error?.code, "lock_held");
assert.equal(refused.error?.holders?.[0]?.session, mine);

// A file that only the holder of the lock may write.
const written = await putFile({ ...lock, query: { sequencer: [sequencer] }, body: new Blob(["step 1"]) });
assert.ok(written.data, written.error?.detail);
assert.equal(written.data.size, 6);
const file = await readFile({ ...lock, query: { as: "json" } });
assert.equal(file.data?.content, "step 1", file.error?.detail);
const deleted = await deleteFile({ ...lock, headers: { "If-Match": `"${file.data.revision}"` } });
assert.equal(deleted.data?.deleted, true, deleted.error?.detail);

const kept = await keepalive({ client, path: { id: mine }, body: { wait_ms: 50 } });
assert.ok(kept.data, kept.error?.detail);
assert.equal(kept.data.ttl_ms, 12000);
assert.deepEqual(kept.data.events, []);

const released = await release({ ...lock, query: { session: mine, token } });
assert.equal(released.data?.released, true, released.error?.detail);
for (const id of [mine, other]) {
  const closed = await closeSession({ client, path: { id } });
  assert.equal(closed.response?.status, 204);
}
console.log(token);
