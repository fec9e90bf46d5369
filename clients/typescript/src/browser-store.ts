/** Intents in the browser's IndexedDB: they outlive a reload and a crash, and all tabs of the page's origin share them. */
import type { IntentRecord, Store } from "./store.js";

const INTENTS = "intents";

export class BrowserStore implements Store {
  readonly #name: string;
  #database: Promise<IDBDatabase> | undefined;

  /** `name`: of the database. */
  constructor(name = "reservation-client") {
    this.#name = name;
  }

  async begin(intent: string, record: IntentRecord): Promise<IntentRecord> {
    // One transaction: no other tab comes between the look and the write.
    return this.#write((intents, give) => {
      const look = intents.get(intent);
      look.onsuccess = () => {
        const found: IntentRecord | undefined = look.result;
        if (found === undefined) intents.add(record, intent);
        give(found === undefined ? record : found);
      };
    });
  }

  async save(intent: string, record: IntentRecord): Promise<void> {
    await this.#write<void>((intents, give) => {
      intents.put(record, intent);
      give();
    });
  }

  async find(intent: string): Promise<IntentRecord | undefined> {
    return this.#write((intents, give) => {
      const look = intents.get(intent);
      look.onsuccess = () => give(look.result);
    });
  }

  async #write<T>(work: (intents: IDBObjectStore, give: (result: T) => void) => void): Promise<T> {
    const database = await (this.#database ??= open(this.#name));
    return new Promise((resolve, reject) => {
      // "strict": it is complete when it is on the disk.
      const transaction = database.transaction(INTENTS, "readwrite", { durability: "strict" });
      work(transaction.objectStore(INTENTS), (result) => {
        transaction.oncomplete = () => resolve(result);
      });
      transaction.onabort = () => reject(transaction.error);
    });
  }
}

function open(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(name);
    opening.onupgradeneeded = () => opening.result.createObjectStore(INTENTS);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
