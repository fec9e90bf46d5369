/** What is of this language alone; the rest is in ../../cases. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { FileStore } from "../src/file-store.js";
import { Client, DamagedRecord, MemoryStore, OutcomeUnknown, type IntentRecord } from "../src/index.js";

const NOBODY = "http://127.0.0.1:1";
const ROOM = { item_code: "ROOM", quantity: 1, reserved_by: "taro" };

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "store."));
});
afterEach(() => rm(folder, { recursive: true }));

test("what is no JSON is not stored", async () => {
  const client = new Client(NOBODY, new FileStore(folder));
  await assert.rejects(client.create("order", { ...ROOM, quantity: NaN }), TypeError);
  await assert.rejects(client.create("order", { ...ROOM, quantity: 1n as unknown as number }), TypeError);
  await assert.rejects(client.create("order", { ...ROOM, note: "\ud800" }), TypeError);
  await assert.rejects(client.create("order\ud800", ROOM), TypeError);
  assert.deepEqual(await readdir(folder), []);
});

test("what is no header is not stored", async () => {
  const client = new Client(NOBODY, new FileStore(folder));
  await assert.rejects(client.change("change", "1", { quantity: 2 }, '"1"\r\nX: y'), TypeError);
  assert.deepEqual(await readdir(folder), []);
  assert.throws(() => new Client(NOBODY, new FileStore(folder), { token: "秘密" }), TypeError);
});

test("absent, null and undefined are one request", async () => {
  const client = new Client(NOBODY, new MemoryStore(), { deadline: 100 });
  for (const request of [ROOM, { ...ROOM, note: null }, { ...ROOM, note: undefined as unknown as null }]) {
    await assert.rejects(client.create("order", request), OutcomeUnknown);
  }
});

test("a record that the caller's own store has damaged is named", async () => {
  for (const found of [undefined, null, {}, [], "order-1"]) {
    const record = found as unknown as IntentRecord;
    const store = { begin: async () => record, save: async () => {}, find: async () => record };
    await assert.rejects(new Client(NOBODY, store).create("order-1", ROOM), (error) => {
      return error instanceof DamagedRecord && error.message.includes('intent "order-1" in the store');
    });
  }
});

test("a setting that cannot work is named", () => {
  const wrong = {
    deadline: [NaN, -1, Infinity, "5", true],
    attemptTimeout: [NaN, -1, 0, "5"],
    pause: [NaN, -1, Infinity, 3_600_001, "5"],
    keepFor: [NaN, -1, 0, "5"],
    token: ["", "a\n", " a", 5],
    fetch: [5],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      assert.throws(
        () => new Client(NOBODY, new MemoryStore(), { [name]: value }),
        (error) => error instanceof Error && error.message.startsWith(name) && (name === "token" || error.message.includes(String(value))),
        `${name}: ${String(value)}`,
      );
    }
  }
  for (const url of ["", "127.0.0.1:8000", "ftp://127.0.0.1", 5]) {
    assert.throws(() => new Client(url as string, new MemoryStore()), { message: /^baseUrl/ });
  }
  assert.throws(() => new Client(NOBODY, {} as MemoryStore), { message: /^store/ });
});

test("times without end", async () => {
  const options = { deadline: 100, attemptTimeout: Infinity, keepFor: Infinity };
  await assert.rejects(new Client(NOBODY, new MemoryStore(), options).create("order", ROOM), OutcomeUnknown);
});

test("what a crash left half written is removed in time, in a folder that was there or not", async () => {
  const intents = join(folder, "new", "intents");
  await mkdir(intents, { recursive: true });
  for (const name of ["old.tmp", "young.tmp"]) await writeFile(join(intents, name), '{"key": "ha');
  await utimes(join(intents, "old.tmp"), 1, 1);
  for (const where of [intents, join(folder, "other", "intents")]) {
    const client = new Client(NOBODY, new FileStore(where), { deadline: 100 });
    await assert.rejects(client.create("order", ROOM), OutcomeUnknown);
  }
  assert.deepEqual((await readdir(intents)).map((name) => name.slice(-9)).sort().at(-1), "young.tmp");
  assert.equal((await readdir(intents)).length, 2);
  assert.equal((await readdir(join(folder, "other", "intents"))).length, 1);
});
