import { isUtf8 } from 'node:buffer';
import * as z from 'zod/mini';
import { tryParseJson } from '../contract/json.ts';
import { ErrorBody } from '../contract/schemas.ts';

export type HttpResponse = {
  status: number;
  headers: HttpHeaders;
  body: string;
  /** Why the body could not be received or decoded. `body` may then be empty. */
  unreadable?: string;
  /** The error code in the body of an error response; undefined if the body is not an `ErrorBody`. */
  code?: string | undefined;
};

/** The limit for a body in bytes, both as received and as decoded. A usual page of 100 animals is much smaller. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

export const TOO_LARGE = 'larger than 64 MiB';

/** A decoded body. `isCut` means that it ends early: in the middle of its compressed data or of its JSON. */
type DecodedBody = Pick<HttpResponse, 'body' | 'unreadable'> & { isCut?: boolean };

/** Decodes a body, which is UTF-8 as JSON must be (RFC 8259, 8.1). Removes a byte order mark. */
export function decodeBody(bytes: Buffer, headers: HttpHeaders): DecodedBody {
  const coding = readHeaders(headers, 'Content-Encoding').join(', ').toLowerCase();
  let plain = bytes;
  if (coding === 'gzip') {
    try {
      // No import statement, because loading zlib takes a millisecond and most services do not compress.
      const { gunzipSync } = process.getBuiltinModule('node:zlib');
      plain = gunzipSync(bytes, { maxOutputLength: MAX_RESPONSE_BYTES });
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ERR_BUFFER_TOO_LARGE') return { body: '', unreadable: TOO_LARGE };
      return { body: '', unreadable: `invalid gzip data (${message})`, isCut: code === 'Z_BUF_ERROR' };
    }
  } else if (coding !== '' && coding !== 'identity') {
    return { body: '', unreadable: `Content-Encoding ${coding} is not supported` };
  }
  const body = new TextDecoder().decode(plain);
  return {
    body,
    isCut: endsEarly(body, headers),
    ...(!isUtf8(plain) && { unreadable: 'not valid UTF-8 text' }),
  };
}

/** Whether JSON ends before its last bracket. Without a length or chunks, only parsing notices a connection that was cut. */
function endsEarly(body: string, headers: HttpHeaders): boolean {
  const text = body.trim();
  if (!/^[[{]/.test(text)) return false;
  const isFramed = readHeader(headers, 'Content-Length') ?? readHeader(headers, 'Transfer-Encoding');
  return (
    !text.endsWith(text[0] === '[' ? ']' : '}') ||
    (isFramed === undefined && tryParseJson(text) === undefined)
  );
}

/** The error code in a body; undefined if the body is not an `ErrorBody`. */
export const errorCodeIn = (body: string): string | undefined =>
  z.safeParse(ErrorBody, tryParseJson(body)).data?.code;

/** The headers of a response; names are in lower case. */
export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The value of a header; the first value if the header is repeated. */
export const readHeader = (headers: HttpHeaders, name: string): string | undefined =>
  readHeaders(headers, name)[0];

function readHeaders(headers: HttpHeaders, name: string): readonly string[] {
  const values = headers[name.toLowerCase()] ?? [];
  return typeof values === 'string' ? [values] : values;
}

// Quoted strings and URLs may contain separators. Their closing quote or bracket may be missing.
const UP_TO_COMMA = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<,]+)+/g;
const UP_TO_SEMICOLON = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<;]+)+/g;

/**
 * Reads a header whose elements have parameters, such as `</pets?page=2>; rel="next"` (Link, RFC 8288) or
 * `"minute";r=0;t=30` (RateLimit, RFC 9651). A `value` is the content of a quoted string, or any other text as it is sent.
 * Names of parameters are in lower case. If a parameter is repeated, the first one counts; without a value, it is empty.
 */
export const readHeaderList = (
  headers: HttpHeaders,
  name: string,
): { value: string; parameters: Record<string, string | undefined> }[] =>
  (readHeaders(headers, name).join().match(UP_TO_COMMA) ?? [])
    .filter((text) => text.trim() !== '')
    .map((text) => {
      const [value = '', ...parameters] = text.match(UP_TO_SEMICOLON) ?? [];
      const entries = parameters.map((parameter): [string, string] => {
        const [, key = '', content = ''] = /^\s*([^\s=]*)\s*=?(.*)$/s.exec(parameter) ?? [];
        return [key.toLowerCase(), unquote(content)];
      });
      return { value: unquote(value), parameters: Object.fromEntries(entries.reverse()) };
    });

/** Removes the spaces around a text, and the quotes and escapes of a quoted string. */
function unquote(text: string): string {
  const trimmed = text.trim();
  return /^".*"$/s.test(trimmed) ? trimmed.slice(1, -1).replace(/\\(.)/gs, '$1') : trimmed;
}

/** The target of the first link with this relation (RFC 8288), if any. `relation` must be in lower case. */
export function findLink(headers: HttpHeaders, relation: string): string | undefined {
  for (const { value, parameters } of readHeaderList(headers, 'Link')) {
    const relations = parameters['rel']?.toLowerCase().split(/\s+/) ?? [];
    if (relations.includes(relation) && /^<.*>$/s.test(value)) return value.slice(1, -1).trim();
  }
  return undefined;
}

/** Parses an HTTP-date in its preferred form (RFC 9110, 5.6.7) into milliseconds since the epoch; otherwise undefined. */
export function parseHttpDate(text: string): number | undefined {
  // Date.parse alone would accept other texts too, such as `30`.
  const time = /^[A-Z][a-z]+, \d\d [A-Z][a-z]+ \d{4} [\d:]+ GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}
