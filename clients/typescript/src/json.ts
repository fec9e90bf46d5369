/** JSON as every language's helper reads and writes it. */

/** Throws for what JSON does not have: NaN, bigints, half of a surrogate pair. */
export function encode(value: unknown): string {
  return JSON.stringify(value, (name, member: unknown) => {
    const unknown = typeof member === "number" ? !Number.isFinite(member) : typeof member === "string" && /\p{Surrogate}/u.test(member);
    if (unknown) throw new TypeError(`JSON does not have the value of ${name}`);
    return member;
  });
}

/** Throws for what is not JSON, or is nested too deep. */
export function decode(text: string): unknown {
  const value: unknown = JSON.parse(text);
  encode(value); // JSON.parse takes half of a surrogate pair
  return value;
}
