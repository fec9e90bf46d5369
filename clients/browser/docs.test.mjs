/** Swagger UI in a real browser: directly, and under a sub-path behind reverse proxies. SCREENSHOTS=folder keeps pictures. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch } from "./chromium.mjs";
import { freePort, startProxy, startService, TOKEN } from "./service.mjs";

const CREATE = "#operations-Reservations-createReservation";
const PICTURES = process.env.SCREENSHOTS;

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Opens the page and notes what a user would not see: other origins, failed loads, errors in the console. */
async function open(address, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1000, height: 990 }, ...options });
  page.setDefaultTimeout(20_000);
  const faults = [];
  const { origin } = new URL(address);
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:")) faults.push(`asked ${url}`);
  });
  page.on("requestfailed", (request) => faults.push(`failed ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 400 && response.request().method() === "GET") faults.push(`${response.status()} ${response.url()}`);
  });
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(address);
  await page.waitForSelector(CREATE);
  return { page, faults };
}

async function authorize(page) {
  await page.click(".auth-wrapper .authorize");
  await page.fill(".modal-ux input", TOKEN);
  await page.click(".modal-ux .auth-btn-wrapper .authorize");
  await page.click(".modal-ux .btn-done");
}

async function tryItOut(page) {
  await page.click(`${CREATE} .opblock-summary-control`);
  await page.click(`${CREATE} .try-out__btn`);
}

const keyInput = (page) => page.locator(`${CREATE} input[placeholder="Idempotency-Key"]`);

async function setBody(page, change) {
  const text = page.locator(`${CREATE} textarea.body-param__text`);
  await text.fill(JSON.stringify({ ...JSON.parse(await text.inputValue()), ...change }, null, 2));
}

/** Presses Execute; gives the request as it was sent, and the answer as the page shows it. */
async function execute(page) {
  const clear = page.locator(`${CREATE} .btn-clear`);
  if (await clear.isVisible()) await clear.click(); // else the answer before would be taken for this one
  const answered = page.waitForResponse((response) => response.request().method() === "POST");
  await page.click(`${CREATE} .btn.execute`);
  const response = await answered;
  const shown = page.locator(`${CREATE} .live-responses-table`);
  await shown.waitFor();
  return {
    request: response.request(),
    status: Number(/^\d+/.exec(await shown.locator("tbody .response-col_status").innerText())?.[0]),
    text: await shown.innerText(),
    headers: response.headers(),
  };
}

async function picture(page, name) {
  if (PICTURES) await page.screenshot({ path: `${PICTURES}/${name}.png` });
}

/** The answer alone, from its status down. */
async function pictureOfAnswer(page, name) {
  if (!PICTURES) return;
  const clip = await page.locator(`${CREATE} .live-responses-table`).evaluate((shown) => {
    const { x, y, width, height } = shown.getBoundingClientRect();
    return { x: x - 20, y: y + scrollY, width: width + 40, height };
  });
  await page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage: true, clip });
}

// B60
test("what the page tells a newcomer to try", async () => {
  const service = await startService();
  try {
    const { page, faults } = await open(`${service.url}/docs`);
    await picture(page, "docs-light");
    await authorize(page);
    await tryItOut(page);

    const key = await keyInput(page).inputValue();
    assert.match(key, /^"[0-9a-f-]{36}"$/);
    const first = await execute(page);
    assert.equal(first.status, 201);
    assert.equal(await first.request.headerValue("authorization"), `Bearer ${TOKEN}`);
    assert.equal(await first.request.headerValue("idempotency-key"), key);
    assert.doesNotMatch(first.text, /idempotent-replayed/);

    const again = await execute(page);
    assert.equal(again.status, 201);
    assert.match(again.text, /idempotent-replayed: true/);
    assert.equal(again.headers["location"], first.headers["location"]);
    await pictureOfAnswer(page, "docs-replayed-light");

    await setBody(page, { quantity: 2 });
    const other = await execute(page);
    assert.equal(other.status, 422);
    assert.match(other.text, /key-reused/);
    assert.match(other.text, /\/quantity/);

    await page.click("#new-key");
    assert.notEqual(await keyInput(page).inputValue(), key);
    await setBody(page, { item_code: "SLOW-8" });
    const prefer = page.locator(`${CREATE} input[placeholder="Prefer"]`);
    await prefer.fill("respond-async");
    assert.equal((await execute(page)).status, 202);
    await prefer.fill("");
    const busy = await execute(page);
    assert.equal(busy.status, 409);
    assert.match(busy.text, /key-in-progress/);
    assert.match(busy.text, /retry-after: \d/);
    await prefer.fill("wait=20");
    const settled = await execute(page);
    assert.equal(settled.status, 201);
    assert.match(settled.text, /idempotent-replayed: true/);

    assert.deepEqual(faults, []);
    await page.close();
  } finally {
    await service.stop();
  }
});

test("dark, where the user's system is", async () => {
  const service = await startService();
  try {
    const { page, faults } = await open(`${service.url}/docs/`, { colorScheme: "dark" });
    await picture(page, "docs-dark");
    await authorize(page);
    await tryItOut(page);
    await execute(page);
    await execute(page);
    await pictureOfAnswer(page, "docs-replayed-dark");
    assert.deepEqual(faults, []);
    await page.close();
  } finally {
    await service.stop();
  }
});

test("SLOW-5 twice, in two tabs with one key", async () => {
  const service = await startService();
  try {
    const tabs = [await open(`${service.url}/docs`), await open(`${service.url}/docs`)];
    for (const { page } of tabs) {
      await authorize(page);
      await tryItOut(page);
      await setBody(page, { item_code: "SLOW-5" });
    }
    const [{ page: first }, { page: second }] = tabs;
    await keyInput(second).fill(await keyInput(first).inputValue());
    const sent = first.waitForRequest((request) => request.method() === "POST");
    const running = execute(first);
    await sent;
    assert.equal((await execute(second)).status, 409);
    assert.equal((await running).status, 201);
    assert.match((await execute(second)).text, /idempotent-replayed: true/);
    for (const { page } of tabs) await page.close();
  } finally {
    await service.stop();
  }
});

test("without a token the page shows why", async () => {
  const service = await startService();
  try {
    const { page } = await open(`${service.url}/docs`);
    await tryItOut(page);
    const refused = await execute(page);
    assert.equal(refused.status, 401);
    assert.match(refused.text, /unauthenticated/);
    await page.close();
  } finally {
    await service.stop();
  }
});

// B59
for (const strips of [true, false]) {
  test(`under a sub-path, behind a proxy that ${strips ? "strips it" : "passes it on"}`, async (t) => {
    const port = await freePort();
    const service = await startService({ PUBLIC_URL: `http://127.0.0.1:${port}/booking` });
    const proxy = await startProxy(port, service.port, "/booking", strips);
    try {
      for (const path of ["/docs", "/docs/", "/", ""]) {
        await t.test(`opened as /booking${path}`, async () => {
          const { page, faults } = await open(proxy.url + path);
          await authorize(page);
          await tryItOut(page);
          const made = await execute(page);
          assert.equal(made.status, 201);
          assert.equal(made.request.url(), `${proxy.url}/reservations`);
          // The browser can follow the Location as it stands.
          const read = await page.evaluate(
            async ([location, token]) => (await fetch(location, { headers: { Authorization: `Bearer ${token}` } })).status,
            [made.headers["location"], TOKEN],
          );
          assert.equal(read, 200);
          assert.deepEqual(faults, []);
          await page.close();
        });
      }
    } finally {
      await proxy.stop();
      await service.stop();
    }
  });
}
