/** Starts the service under test, and reverse proxies in front of it. */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const TARGET = process.env.CARGO_TARGET_DIR ?? new URL("../../target", import.meta.url).pathname;
const API = process.env.API ?? `${TARGET}/debug/api`;
export const TOKEN = "a-token-for-this-run-only";

/** Below the ports that connections are given, so that nobody else has it by the time it is used. */
export function freePort() {
  return new Promise((resolve) => {
    const port = 20000 + Math.floor(Math.random() * 12000);
    const probe = createSocket();
    probe.once("error", () => resolve(freePort()));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(port)));
  });
}

/** The api on SQLite in a temporary folder, with one token. */
export async function startService(settings = {}) {
  const [port, sandboxPort] = [await freePort(), await freePort()];
  const folder = await mkdtemp(join(tmpdir(), "docs."));
  const env = {
    ...process.env,
    DATABASE_URL: `sqlite://${folder}/reservations.db?mode=rwc`,
    LISTEN: `127.0.0.1:${port}`,
    SANDBOX_LISTEN: `127.0.0.1:${sandboxPort}`,
    API_TOKENS: `acme:${TOKEN}`,
    ...settings,
  };
  const child = spawn(API, { env, stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries += 1) {
    const ready = await fetch(`${url}/health/ready`).catch(() => undefined);
    if (ready?.ok) break;
    if (tries === 300 || child.exitCode !== null) throw new Error("the server did not become ready");
    await sleep(100);
  }
  const stop = async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill();
    await ended;
    await rm(folder, { recursive: true });
  };
  return { url, port, stop };
}

/** A reverse proxy that mounts `upstream` under `prefix`; `strips`: takes the prefix off before it passes a request on. */
export async function startProxy(port, upstream, prefix, strips) {
  const server = createServer((incoming, outgoing) => {
    if (incoming.url !== prefix && !incoming.url.startsWith(`${prefix}/`)) {
      outgoing.writeHead(404, { "Content-Type": "text/plain" }).end("outside of the mounted service\n");
      return;
    }
    const path = strips ? incoming.url.slice(prefix.length) || "/" : incoming.url;
    const { method, headers } = incoming;
    const passed = request({ host: "127.0.0.1", port: upstream, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    incoming.pipe(passed);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    stop: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))),
  };
}
