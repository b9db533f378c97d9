/** A reply's headers, by name in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A header's text; of a doubled header the first. */
export function readHeader(headers: ReplyHeaders, name: string): string | undefined {
  return readHeaders(headers, name)[0];
}

/** Each text of a header that may come several times. */
export function readHeaders(headers: ReplyHeaders, name: string): readonly string[] {
  const texts = headers[name.toLowerCase()] ?? [];
  return typeof texts === 'string' ? [texts] : texts;
}
