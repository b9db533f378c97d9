import { header } from '../contract/headers.ts';
import { parseHttpDate } from './http-date.ts';

/** The headers of a response; names are in lower case. */
export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The value of a header; the first one if it is repeated. */
export function readHeader(headers: HttpHeaders, name: string): string | undefined {
  return readHeaders(headers, name)[0];
}

/** All values of a header that may be repeated. */
export function readHeaders(headers: HttpHeaders, name: string): readonly string[] {
  const values = headers[name.toLowerCase()] ?? [];
  return typeof values === 'string' ? [values] : values;
}

/** The target of the first link with this relation, which is given in lower case (RFC 8288). */
export function findLink(headers: HttpHeaders, relation: string): string | undefined {
  const text = readHeaders(headers, header.link).join(', ');
  for (const [, target, parameters = ''] of text.matchAll(
    /<([^>]*)>((?:\s*;\s*[^,;="\s]+\s*=\s*(?:"[^"]*"|[^",;\s]+))*)/g,
  )) {
    const rel = /;\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]+))/i.exec(parameters);
    const relations = (rel?.[1] ?? rel?.[2] ?? '').toLowerCase().split(/\s+/);
    if (relations.includes(relation)) return target;
  }
  return undefined;
}

/** The date on which an operation will be removed and the page that describes this, if the response names them. */
export type Deprecation = { sunset: Date | undefined; link: string | undefined };

/** Reads the Deprecation, Sunset and Link headers (RFC 9745, RFC 8594); undefined if the operation is not deprecated. */
export function readDeprecation(headers: HttpHeaders, now: number): Deprecation | undefined {
  const sunset = readHeader(headers, header.sunset);
  const link = findLink(headers, 'deprecation');
  if ((sunset ?? link ?? readHeader(headers, header.deprecation)) === undefined) return undefined;
  const time = parseHttpDate(sunset ?? '', now);
  return { sunset: time === undefined ? undefined : new Date(time), link };
}
