/** A page of another origin that uses the TypeScript helper as it is built: no bundler, an import map instead. */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, normalize } from "node:path";

const HELPER = new URL("../typescript/", import.meta.url).pathname;
const FOLDERS = { "/helper/": `${HELPER}dist/src/`, "/cockatiel/": `${HELPER}node_modules/cockatiel/dist/esm/` };

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>A shop</title>
<link rel="icon" href="data:,">
<script type="importmap">{ "imports": { "cockatiel": "/cockatiel/index.js" } }</script>
<script type="module">
import * as helper from "/helper/index.js";
import { BrowserStore } from "/helper/browser-store.js";

window.book = async (url, token, intent, reservation, options) => {
  const client = new helper.Client(url, new BrowserStore(), { token, ...options });
  try {
    return { result: "done", ...(await client.create(intent, reservation)) };
  } catch (error) {
    return { result: error.name, message: error.message, code: error.code, attempts: error.attempts };
  }
};
</script>`;

/** The page on its own port, and so of its own origin. */
export async function startShop(port) {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://shop").pathname);
    const folder = Object.keys(FOLDERS).find((prefix) => path.startsWith(prefix));
    if (!folder) return void response.writeHead(200, { "Content-Type": "text/html" }).end(PAGE);
    // cockatiel is written for bundlers, which put the endings on its imports.
    const file = FOLDERS[folder] + path.slice(folder.length) + (extname(path) ? "" : ".js");
    const code = await readFile(file).catch(() => undefined);
    response.writeHead(code ? 200 : 404, { "Content-Type": "text/javascript" }).end(code);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))),
  };
}
