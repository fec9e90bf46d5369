/** The TypeScript helper in a page of another origin: what CORS lets it send, and what it can read. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch } from "./chromium.mjs";
import { freePort, startService, TOKEN } from "./service.mjs";
import { startShop } from "./shop.mjs";

let browser, shop, service;
before(async () => {
  browser = await launch();
  shop = await startShop(await freePort());
  service = await startService({ CORS_ORIGINS: shop.url });
});
after(async () => {
  await browser?.close();
  await shop?.stop();
  await service?.stop();
});

/** The shop's page; `asked` are the requests to the service, preflights not among them. */
async function open(url = shop.url) {
  const page = await browser.newPage();
  page.setDefaultTimeout(30_000);
  const asked = [];
  page.on("request", (request) => request.url().startsWith(service.url) && asked.push(request));
  await page.goto(url);
  await page.waitForFunction("window.book");
  return { page, asked };
}

/** What the helper gives in the page, within `deadline` milliseconds. */
function book(page, intent, item, reservedBy, deadline = 20_000) {
  const reservation = { item_code: item, quantity: 1, reserved_by: reservedBy };
  const options = { deadline, attemptTimeout: 10_000, pause: 200 };
  return page.evaluate(([...order]) => window.book(...order), [service.url, TOKEN, intent, reservation, options]);
}

async function bookings(reservedBy) {
  const answer = await fetch(`${service.url}/reservations?limit=100`, { headers: { Authorization: `Bearer ${TOKEN}` } });
  return (await answer.json()).items.filter((item) => item.reserved_by === reservedBy).length;
}

const keysOf = async (asked) => new Set(await Promise.all(asked.map((request) => request.headerValue("idempotency-key"))));

// B67
test("books, with the key sent and the markers read", async () => {
  const { page, asked } = await open();
  const made = await book(page, "order-1", "ROOM-101", "first");
  assert.equal(made.result, "done", made.message);
  assert.match(made.etag, /^"[0-9a-f]+"$/); // exposed, or it would be null
  assert.equal(made.replayed, false);
  assert.equal(asked.length, 1);
  assert.match(await asked[0].headerValue("idempotency-key"), /^"[0-9a-f-]{36}"$/);

  // From the store after a reload: nothing is sent.
  await page.reload();
  await page.waitForFunction("window.book");
  const again = await book(page, "order-1", "ROOM-101", "first");
  assert.deepEqual([again.reservation.id, again.attempts], [made.reservation.id, 0]);
  assert.equal(await bookings("first"), 1);
  await page.close();
});

// B67
test("a page that is reloaded in the middle goes on under its key", async () => {
  const { page, asked } = await open();
  const sent = page.waitForRequest((request) => request.method() === "POST");
  book(page, "order-2", "SLOW-4", "reloaded").catch(() => {}); // the reload ends it
  await sent;
  await page.waitForTimeout(500);
  await page.reload();
  await page.waitForFunction("window.book");
  const began = performance.now();
  const made = await book(page, "order-2", "SLOW-4", "reloaded");
  assert.equal(made.result, "done", made.message);
  assert.equal(made.replayed, true);
  // Each 409 in between named its seconds, and they were read: without them it would have come back after 200 ms.
  assert(performance.now() - began >= (made.attempts - 1) * 1000, `${made.attempts} attempts`);
  assert.equal((await keysOf(asked)).size, 1);
  assert.equal(await bookings("reloaded"), 1);
  await page.close();
});

// B67
test("two tabs with one intent book once", async () => {
  const context = await browser.newContext();
  const tabs = [await context.newPage(), await context.newPage()];
  for (const page of tabs) {
    await page.goto(shop.url);
    await page.waitForFunction("window.book");
  }
  const made = await Promise.all(tabs.map((page) => book(page, "order-3", "SLOW-1", "two-tabs")));
  assert.deepEqual(made.map(({ result }) => result), ["done", "done"]);
  assert.equal(made[0].reservation.id, made[1].reservation.id);
  assert.equal(await bookings("two-tabs"), 1);
  await context.close();
});

// B67
test("a damaged record in the page's database is named, and nothing is sent", async () => {
  const { page, asked } = await open();
  const broken = await book(page, "order-5", "SLOW-4", "damaged", 300);
  assert.equal(broken.result, "OutcomeUnknown", broken.message);
  const sent = asked.length;
  for (const wrong of [{ key: undefined }, { intent: "order-6" }, { state: "final" }, null]) {
    await page.evaluate(async (wrong) => {
      const opening = indexedDB.open("reservation-client");
      await new Promise((resolve) => (opening.onsuccess = resolve));
      const transaction = opening.result.transaction("intents", "readwrite");
      const intents = transaction.objectStore("intents");
      const look = intents.get("order-5");
      look.onsuccess = () => {
        window.whole ??= look.result;
        intents.put(wrong && { ...window.whole, ...wrong }, "order-5");
      };
      await new Promise((resolve) => (transaction.oncomplete = resolve));
      opening.result.close();
    }, wrong);
    const refused = await book(page, "order-5", "SLOW-4", "damaged");
    assert.equal(refused.result, "DamagedRecord", refused.message);
    assert.match(refused.message, /order-5/);
  }
  assert.equal(asked.length, sent);
  await page.close();
});

// B67
test("what a page of a named origin can read, and what a page of another one cannot do", async () => {
  const { page } = await open();
  const read = await page.evaluate(
    async ([url, token]) => {
      const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", "Idempotency-Key": '"readable"' };
      const body = JSON.stringify({ item_code: "SLOW-2", quantity: 1, reserved_by: "reader" });
      const ask = (prefer) => fetch(`${url}/reservations`, { method: "POST", headers: { ...headers, Prefer: prefer }, body });
      const [accepted, busy, replay] = [await ask("respond-async"), await ask("wait=0"), await ask("wait=10")];
      const shown = (answer, ...names) => [answer.status, ...names.map((name) => answer.headers.get(name))];
      return [
        shown(accepted, "Location", "Preference-Applied", "Retry-After"),
        shown(busy, "Retry-After", "Link"),
        shown(replay, "Idempotent-Replayed", "Location", "ETag"),
      ];
    },
    [service.url, TOKEN],
  );
  assert.deepEqual(read.map(([status]) => status), [202, 409, 201]);
  assert(read.flat().every((value) => value !== null), JSON.stringify(read));
  assert.equal(read[2][1], "true");
  await page.close();

  const stranger = await startShop(await freePort());
  try {
    const { page } = await open(stranger.url);
    const refused = await book(page, "order-4", "ROOM-101", "stranger", 1500);
    assert.equal(refused.result, "OutcomeUnknown", refused.message);
    assert.equal(await bookings("stranger"), 0); // its preflight was not answered, so the POST was never sent
    await page.close();
  } finally {
    await stranger.stop();
  }
});
