import type { IncomingMessage } from 'node:http';
import * as z from 'zod/mini';
import { API_PREFIX } from '../../contract/api.ts';
import { describeIssues, findJsonError, NestingError, parseJson } from '../../contract/json.ts';
import { invalidRequest, ServiceError } from '../errors.ts';

const ABSOLUTE = /^https?:\/\/([^/?]*)(.*)$/i;

/**
 * Splits an absolute target, as clients of proxies send it (RFC 9112, 3.2.2), into its host and the target without it:
 * `http://shop.example/v1/pets` becomes `shop.example` and `/v1/pets`. Other targets have no host and stay as they are.
 */
export function splitTarget(method: string, target: string): { targetHost?: string; target: string } {
  const [, targetHost, rest = ''] = ABSOLUTE.exec(target) ?? [];
  if (targetHost === undefined) return { target };
  // Without a path, OPTIONS asks about the whole server (RFC 9112, 3.2.4).
  if (rest === '') return { targetHost, target: method === 'OPTIONS' ? '*' : '/' };
  return { targetHost, target: rest.startsWith('/') ? rest : `/${rest}` };
}

const UNDER_API = new RegExp(`^${API_PREFIX}(?:[/?]|$)`);

/** Whether a target, such as `/v1/pets?limit=5`, is under the prefix of the API. The path need not exist. */
export const isUnderApi = (target: string): boolean => UNDER_API.test(target);

/** The path of a request target as it was sent, not decoded: `/v1/pets` of `/v1/pets?limit=5`. */
export function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark === -1 ? target : target.slice(0, mark);
}

export type Query = ReadonlyMap<string, string>;

/** The query of a request target, decoded. @throws ServiceError 400 for malformed encoding or a repeated parameter */
export function parseQuery(target: string): Query {
  const query = new Map<string, string>();
  const mark = target.indexOf('?');
  if (mark === -1) return query;
  for (const pair of target.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    if (query.has(name)) throw invalidRequest(`The query parameter ${name} is given more than once`);
    query.set(name, equals === -1 ? '' : decode(pair.slice(equals + 1)));
  }
  return query;
}

/** Decodes a part of a query, in which `+` is a space. */
function decode(text: string): string {
  try {
    // Most parts need no decoding, so save its time.
    return /[%+]/.test(text) ? decodeURIComponent(text.replaceAll('+', ' ')) : text;
  } catch {
    throw invalidRequest('The query has malformed percent-encoding');
  }
}

/** Validates a value. `whole` is its name in error messages. @throws ServiceError 400 */
export function validate<Schema extends z.ZodMiniType>(
  schema: Schema,
  value: unknown,
  whole: string,
): z.output<Schema> {
  const { success, data, error } = z.safeParse(schema, value);
  if (!success) throw invalidRequest(describeIssues(error, whole));
  return data;
}

/** The schema of an integer. `what` describes it in error messages. */
export const integerSchema = (min: number, max: number, what = 'an integer') => {
  const error = `must be ${what} from ${min} to ${max}`;
  return z.int({ error }).check(z.gte(min, { error }), z.lte(max, { error }));
};

export const queryInteger = (min: number, max: number) =>
  z.pipe(z.transform(Number), integerSchema(min, max));

export const MAX_BODY_BYTES = 64 * 1024;
const MAX_DEPTH = 32;
/** The longest number in a body, in characters. Longer ones take long to convert, and no field of the API needs them. */
const MAX_NUMBER = 400;
const UTF8 = new TextDecoder('utf-8', { fatal: true });

const JSON_TYPE = /^application\/json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i;

/** Reads a JSON body. @throws ServiceError 400, 413, 415, or the error of `interruptBody`, such as 408 */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  checkContentType(request);
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw payloadTooLarge();
  return parseBody(await readBytes(request));
}

/** Reads and validates a JSON body. @throws ServiceError as `readJsonBody` */
export const readBodyAs = async <Schema extends z.ZodMiniType>(
  schema: Schema,
  request: IncomingMessage,
): Promise<z.output<Schema>> => validate(schema, await readJsonBody(request), 'The body');

/** Reads and validates the query of a request target. @throws ServiceError 400 */
export const readQueryAs = <Schema extends z.ZodMiniObject>(schema: Schema, target = ''): z.output<Schema> =>
  validate(schema, Object.fromEntries(parseQuery(target)), 'The query');

function checkContentType({ headers }: IncomingMessage): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  const charset = CHARSET.exec(type)?.[1] ?? 'utf-8';
  if (JSON_TYPE.test(type) && /^utf-?8$/i.test(charset) && encoding.toLowerCase() === 'identity') return;
  throw new ServiceError(
    'unsupported_media_type',
    'The body must be sent as Content-Type: application/json, in UTF-8 and without a Content-Encoding',
  );
}

const INTERRUPTION = Symbol('interruption');
type Interruptible = IncomingMessage & { [INTERRUPTION]?: ServiceError };

/** Ends the reading of a body with an error, even if the reading has not begun. */
export function interruptBody(request: Interruptible, error: ServiceError): void {
  request[INTERRUPTION] = error;
  request.emit('interrupted', error);
}

/**
 * Reads a body. Counts the bytes that arrive, because Content-Length may be missing. Does not use `for await`: leaving such
 * a loop early would destroy the socket, and the client would not receive the 413.
 */
function readBytes(request: Interruptible): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const onClose = () => {
      // `close` also fires after a complete body; do not create an error then.
      if (!request.readableEnded)
        reject(invalidRequest('The connection closed before the body was complete'));
    };
    // If the body was interrupted while the API key was looked up, `interrupted` and `close` do not fire again.
    if (request[INTERRUPTION]) reject(request[INTERRUPTION]);
    if (request.destroyed) onClose();
    request.on('interrupted', reject);
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MAX_BODY_BYTES) chunks.push(chunk);
      else {
        chunks.length = 0;
        reject(payloadTooLarge());
      }
    });
    request.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    request.on('close', onClose);
  });
}

const payloadTooLarge = () =>
  new ServiceError('payload_too_large', `The body is larger than ${MAX_BODY_BYTES} bytes`);

function parseBody(bytes: Buffer): unknown {
  let text: string;
  try {
    text = UTF8.decode(bytes);
  } catch {
    throw invalidRequest('The body is not valid UTF-8');
  }
  if (text.trim() === '') throw invalidRequest('The body is empty');
  if (hasLongNumber(text)) {
    throw invalidRequest(`The body has a number of more than ${MAX_NUMBER} characters`);
  }
  try {
    return parseJson(text, MAX_DEPTH);
  } catch (error) {
    // The message of JSON.parse quotes the text, which can be a secret, so report only the position.
    const { line, column } = findJsonError(text) ?? {};
    const place = line === undefined ? '' : `: error in line ${line}, column ${column}`;
    throw invalidRequest(
      `The body is ${error instanceof NestingError ? error.message : `not valid JSON${place}`}`,
    );
  }
}

/** A JSON string or a number. The closing quote is optional, so that a string without one is scanned only once. */
const STRING_OR_NUMBER = /"(?:[^"\\]+|\\.)*"?|[-+.\deE]+/gs;

function hasLongNumber(text: string): boolean {
  if (text.length <= MAX_NUMBER) return false;
  for (const [token] of text.matchAll(STRING_OR_NUMBER)) {
    if (token.length > MAX_NUMBER && !token.startsWith('"')) return true;
  }
  return false;
}
