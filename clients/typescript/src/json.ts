/** JSON as every language's helper reads and writes it. */

/** Throws for what JSON does not have: NaN, bigints, half of a surrogate pair. */
export function encode(value: unknown): string {
  return JSON.stringify(value, (name, member: unknown) => {
    const unknown = typeof member === "number" ? !Number.isFinite(member) : typeof member === "string" && /\p{Surrogate}/u.test(member);
    if (unknown) throw new TypeError(`JSON does not have the value of ${name}`);
    return member;
  });
}

/** Throws for what is not JSON in UTF-8, or is nested too deep. */
export function decode(content: Uint8Array): unknown {
  const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content));
  encode(value); // JSON.parse takes half of a surrogate pair
  return value;
}
