/**
 * Books every row of a CSV file. May be killed at any moment and run again: each row ends as exactly one booking.
 *
 *     node book-csv.js http://127.0.0.1:8000 reservations.csv [FOLDER FOR THE INTENTS]
 */
import { readFile } from "node:fs/promises";
import { argv, env } from "node:process";

import { Client } from "../src/index.js";
import { FileStore } from "../src/file-store.js";

const [baseUrl, rows, intents = "intents"] = argv.slice(2);
if (baseUrl === undefined || rows === undefined) throw new Error("usage: book-csv URL ROWS.csv [FOLDER]");
const token = env["RESERVATION_TOKEN"];
const client = new Client(baseUrl, new FileStore(intents), token === undefined ? {} : { token });

const [, ...lines] = (await readFile(rows, "utf8")).trim().split("\n"); // a plain file: no quoted fields
for (const line of lines) {
  const [order = "", item_code = "", quantity = "", reserved_by = ""] = line.trim().split(",");
  // The order number names the intent: not the row's position, which changes when a row is added.
  const answer = await client.create(`order-${order}`, { item_code, quantity: Number(quantity), reserved_by });
  console.log(order, answer.reservation.id);
}
