/** One file per intent in a folder, for any number of processes on one machine (Node.js). */
import { randomUUID } from "node:crypto";
import { link, mkdir, open, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { platform } from "node:process";

import type { IntentRecord, Store } from "./store.js";

export class FileStore implements Store {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async begin(intent: string, record: IntentRecord): Promise<IntentRecord> {
    const path = this.#path(intent);
    const temporary = await this.#write(record);
    try {
      // A link, not a rename: it fails where the name is taken, and the file behind it is complete.
      await link(temporary, path);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
      const found: IntentRecord = JSON.parse(await readFile(path, "utf8"));
      return found;
    } finally {
      await unlink(temporary);
    }
    await this.#syncFolder();
    return record;
  }

  async save(intent: string, record: IntentRecord): Promise<void> {
    await rename(await this.#write(record), this.#path(intent));
    await this.#syncFolder();
  }

  #path(intent: string): string {
    const escape = (byte: number) => "%" + byte.toString(16).toUpperCase().padStart(2, "0");
    const name = Array.from(new TextEncoder().encode(intent), (byte) =>
      /[A-Za-z0-9_-]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : escape(byte),
    );
    return join(this.#folder, name.join("") + ".json");
  }

  async #write(record: IntentRecord): Promise<string> {
    await mkdir(this.#folder, { recursive: true });
    const temporary = join(this.#folder, randomUUID() + ".tmp");
    const file = await open(temporary, "wx");
    try {
      await file.writeFile(JSON.stringify(record));
      await file.sync();
    } finally {
      await file.close();
    }
    return temporary;
  }

  async #syncFolder(): Promise<void> {
    if (platform === "win32") return; // a folder cannot be opened there
    const folder = await open(this.#folder);
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}
