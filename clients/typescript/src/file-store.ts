/** One file per intent in a folder, for any number of processes on one machine (Node.js). */
import { createHash, randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { platform } from "node:process";

import { DamagedRecord } from "./errors.js";
import { decode, encode } from "./json.js";
import { check, type IntentRecord, type Store } from "./store.js";

const LEFTOVER_AFTER = 3_600_000;

export class FileStore implements Store {
  readonly #folder: string;
  #ready = false;

  constructor(folder: string) {
    this.#folder = resolve(folder);
  }

  async begin(intent: string, record: IntentRecord): Promise<IntentRecord> {
    const path = this.#path(intent);
    const temporary = await this.#write(path, record);
    let found = record;
    try {
      // A link, not a rename: it fails where the name is taken, and the file behind it is complete.
      await link(temporary, path);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
      found = await read(path, intent);
    } finally {
      await rm(temporary);
    }
    // For a record that was there, too: who wrote it may have been stopped before this.
    await sync(this.#folder);
    return found;
  }

  async save(intent: string, record: IntentRecord): Promise<void> {
    const path = this.#path(intent);
    await rename(await this.#write(path, record), path);
    await sync(this.#folder);
  }

  async find(intent: string): Promise<IntentRecord | undefined> {
    try {
      return await read(this.#path(intent), intent);
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** A digest: of one length, and the same on disks that do not tell `a` from `A`. The record says its intent itself. */
  #path(intent: string): string {
    return join(this.#folder, createHash("sha256").update(intent, "utf8").digest("hex") + ".json");
  }

  async #write(path: string, record: IntentRecord): Promise<string> {
    const content = encode(record);
    if (!this.#ready) {
      await make(this.#folder);
      await removeLeftovers(this.#folder);
      this.#ready = true;
    }
    const temporary = path.replace(/json$/, `${randomUUID()}.tmp`);
    try {
      const file = await open(temporary, "wx");
      try {
        await file.writeFile(content);
        await file.sync();
      } finally {
        await file.close();
      }
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    return temporary;
  }
}

async function read(path: string, intent: string): Promise<IntentRecord> {
  const content = await readFile(path);
  let value: unknown;
  try {
    value = decode(content);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `the record of intent ${JSON.stringify(intent)} in ${path} is damaged: ${reason}`;
    throw new DamagedRecord(message, undefined, 0, { cause });
  }
  return check(intent, value, path);
}

/** A new folder, and each above it that is new, is durable when the one that holds it is synced. */
async function make(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = dirname(made)) await sync(dirname(made));
}

/** Of processes that were killed while they wrote; a young one may be in use. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(".tmp")) continue;
    const written = await stat(join(folder, name)).catch(() => undefined); // another process may be faster
    if (written && Date.now() - written.mtimeMs > LEFTOVER_AFTER) await rm(join(folder, name), { force: true });
  }
}

async function sync(path: string): Promise<void> {
  if (platform === "win32") return; // a folder cannot be opened there
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
