/** A reply's headers, by name in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A header's text; of a doubled header the first. */
export function readHeader(headers: ReplyHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value[0] : value;
}
