/** The types that openapi-typescript generates, used with openapi-fetch against the server; the first argument is its address, the second a token. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { argv } from "node:process";

import createClient, { type Middleware } from "openapi-fetch";
import type { paths } from "./schema.js";

/** openapi-fetch leaves an error that is not JSON as text; as a problem it would have no members. Its status stays readable here. */
const refuseText: Middleware = {
  onResponse({ response }) {
    if (response.status >= 400 && !response.headers.get("Content-Type")?.includes("json")) {
      throw new Error("not an answer of the server", { cause: response });
    }
  },
};

/** Once more where no answer came: the same request, and with it the same key. */
async function fetchAgain(request: Request) {
  const copy = request.clone();
  return fetch(request).catch(() => fetch(copy));
}

const client = createClient<paths>({ baseUrl: argv[2] ?? "", headers: { Authorization: `Bearer ${argv[3]}` }, fetch: fetchAgain });
client.use(refuseText);
const key = randomUUID();

function create(key: string, { quantity = 1, item = "ROOM", note = "", prefer = "wait=20" } = {}) {
  return client.POST("/reservations", {
    params: { header: { "Idempotency-Key": `"${key}"`, Prefer: prefer } },
    body: { item_code: item, quantity, reserved_by: "typescript", note },
  });
}

const policy = await client.GET("/idempotency-policy");
assert(policy.data && policy.data.retention_ms > 0);

const made = await create(key);
assert(made.data);
assert.equal(made.response.status, 201);
assert.equal(made.data.status, "confirmed");
assert(made.response.headers.get("Location")?.endsWith(made.data.id));
const etag = made.response.headers.get("ETag");
assert(etag);

const again = await create(key);
assert.equal(again.data?.id, made.data.id);
assert.equal(again.response.headers.get("Idempotent-Replayed"), "true");

const slow = randomUUID();
assert.equal((await create(slow, { item: "SLOW-3", prefer: "respond-async" })).response.status, 202);
const running = await create(slow, { item: "SLOW-3", prefer: "wait=0" });
assert.equal(running.response.status, 409);
assert.equal(running.error?.code, "key-in-progress");
assert.equal(running.error.retry, "same_key");
assert(Number(running.response.headers.get("Retry-After")) >= 1);

const other = await create(key, { quantity: 2 });
assert.equal(other.error?.status, 422);
assert.equal(other.error.retry, "new_key");
assert.deepEqual(other.error.mismatch, ["/quantity"]);

const invalid = await create(randomUUID(), { quantity: 0 });
assert.equal(invalid.error?.code, "request-invalid");
assert.equal(invalid.error.errors?.[0]?.pointer, "/quantity");

const later = randomUUID();
const busy = await create(later, { note: "proxy: 503 once" });
assert.equal(busy.error?.status, 503);
assert.equal(busy.response.headers.get("Retry-After"), "1");
assert.equal((await create(later, { note: "proxy: 503 once" })).response.status, 201);

// B67: its first answer is cut.
const cut = await create(randomUUID(), { note: "proxy: cut once" });
assert.equal(cut.response.status, 201);
assert.equal(cut.response.headers.get("Idempotent-Replayed"), "true");

await assert.rejects(create(randomUUID(), { note: "proxy: text 502" }), (error: Error) => {
  assert(error.cause instanceof Response);
  return error.cause.status === 502;
});

const path = { id: made.data.id };
assert.equal((await client.GET("/reservations/{id}", { params: { path } })).data?.id, path.id);
const changed = await client.PATCH("/reservations/{id}", {
  params: { path, header: { "Idempotency-Key": `"${randomUUID()}"`, "If-Match": etag } },
  body: { quantity: 3 },
});
assert.equal(changed.data?.quantity, 3);
const page = await client.GET("/reservations", { params: { query: { limit: 100 } } });
assert(page.data?.items.some(({ id }) => id === path.id));
const state = await client.GET("/idempotency-keys/{key}", { params: { path: { key } } });
assert.equal(state.data?.state, "completed");
assert.equal((await client.DELETE("/reservations/{id}", { params: { path } })).response.status, 204);
