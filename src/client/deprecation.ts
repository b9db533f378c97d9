import { header } from '../contract/headers.ts';
import { type ReplyHeaders, readHeader } from './headers.ts';
import { parseHttpDate } from './http-date.ts';
import { findLink } from './links.ts';

/** `sunset` is the day of the removal and `link` the page that tells of it, where the service names them. */
export type Deprecation = { sunset: Date | undefined; link: string | undefined };

/** What a reply says about the end of its operation (RFC 8594, RFC 9745); undefined where it says nothing. */
export function readDeprecation(headers: ReplyHeaders, now: number): Deprecation | undefined {
  const sunset = readHeader(headers, header.sunset);
  const link = findLink(headers, 'deprecation');
  if ((sunset ?? link ?? readHeader(headers, header.deprecation)) === undefined) return undefined;
  const time = parseHttpDate(sunset ?? '', now);
  return { sunset: time === undefined ? undefined : new Date(time), link };
}
