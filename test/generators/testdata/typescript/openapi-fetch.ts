// Uses a lock through openapi-fetch, with the types that openapi-typescript made
// from openapi.yaml. It prints the token of its grant.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./stout/schema.js";

const [baseUrl = ""] = process.argv.slice(2);
const cell = createClient<paths>({ baseUrl });

// The lock /jobs/nightly. The client sends its slash as %2F.
const lock = { path: { path: "jobs/nightly" } };

async function open(): Promise<string> {
  const { data, error } = await cell.POST("/v1/sessions", { body: { name: "openapi-fetch" } });
  assert.ok(data, error?.detail);
  return data.id;
}

const mine = await open();
const acquired = await cell.PUT("/v1/locks/{path}", { params: lock, body: { session: mine } });
assert.ok(acquired.data?.state === "held", acquired.error?.detail);
const { token, path, sequencer } = acquired.data;
assert.equal(path, "/jobs/nightly");

const read = await cell.GET("/v1/locks/{path}", { params: lock });
assert.ok(read.data, read.error?.detail);
assert.deepEqual(read.data.holders.map((holder) => [holder.session, holder.token]), [[mine, token]]);

// Another session is refused, with the holder in the problem document.
const other = await open();
const refused = await cell.PUT("/v1/locks/{path}", { params: lock, body: { session: other } });
assert.equal(refused.response.status, 423);
assert.equal(refused.error?.code, "lock_held");
assert.equal(refused.error?.holders?.[0]?.session, mine);

// A file that only the holder of the lock may write. By default the client would
// send the content as JSON.
const written = await cell.PUT("/v1/files/{path}", {
  params: { ...lock, query: { sequencer: [sequencer] } },
  body: "step 1",
  bodySerializer: (content) => content as string,
});
assert.ok(written.data, written.error?.detail);
assert.equal(written.data.size, 6);
const file = await cell.GET("/v1/files/{path}", { params: lock, parseAs: "text" });
assert.equal(file.data, "step 1", file.error?.detail);
const deleted = await cell.DELETE("/v1/files/{path}", {
  params: { ...lock, header: { "If-Match": `"${written.data.revision}"` } },
});
assert.equal(deleted.data?.deleted, true, deleted.error?.detail);

const kept = await cell.POST("/v1/sessions/{id}/keepalive", { params: { path: { id: mine } }, body: { wait_ms: 50 } });
assert.ok(kept.data, kept.error?.detail);
assert.equal(kept.data.ttl_ms, 12000);
assert.deepEqual(kept.data.events, []);

const released = await cell.DELETE("/v1/locks/{path}", { params: { ...lock, query: { session: mine, token } } });
assert.equal(released.data?.released, true, released.error?.detail);
for (const id of [mine, other]) {
  const closed = await cell.DELETE("/v1/sessions/{id}", { params: { path: { id } } });
  assert.equal(closed.response.status, 204);
}
console.log(token);
