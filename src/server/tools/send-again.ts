import { randomUUID } from 'node:crypto';
import http from 'node:http';
import * as z from 'zod/mini';
import { header } from '../../contract/headers.ts';
import { encodeIdempotencyKey } from '../../contract/idempotency-key.ts';
import { describeFirstIssue } from '../../contract/issues.ts';
import type { KeyDirectory } from '../../store/backend.ts';
import type { Limiter } from '../../store/limits/limiter.ts';
import { hashOfCredential } from '../authentication.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import { readJsonBody } from '../request/input.ts';
import type { Handler } from '../response.ts';
import { createRequestDescriber, headerOf } from './log-entry.ts';
import type { RecordedRequest, Recorder } from './recorder.ts';

/** How long the response to `POST /requests` waits for that of the request, in milliseconds. */
const MAX_WAIT = 20_000;

const Again = z.object(
  {
    number: z.int({ error: 'must be the number of a request' }),
    body: z.optional(z.string({ error: 'must be a string' })),
  },
  'must be a JSON object',
);

/** Headers that belong to one connection or one request. */
const OWN_HEADERS =
  /^(?:connection|keep-alive|proxy-connection|transfer-encoding|content-length|expect|upgrade|te|trailer|idempotency-key|x-request-id)$/i;

export type AgainOptions = {
  /** The URL of this server without a path. */
  origin: string;
  keys: Pick<KeyDirectory, 'find'>;
  limiter: Pick<Limiter, 'usage'>;
  secrets: readonly string[];
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
};

/**
 * `POST /requests` sends a recorded request again, with its own credentials, which do not leave the server
 * (docs/service.md 13.1). The server sends it to its own address, so everything is checked again that was checked before.
 */
export function createSendAgain(
  recorder: Recorder,
  { origin, keys, limiter, secrets, sleep }: AgainOptions,
): Handler {
  return async (request) => {
    const { success, data, error } = z.safeParse(Again, await readJsonBody(request));
    if (!success) throw invalidRequest(describeFirstIssue(error, 'The body'));
    const { number, body } = data;
    const recorded = recorder.read(number);
    if (!recorded) throw new ServiceError('not_found', `Request ${number} is not in the log any more`);
    const { describe } = createRequestDescriber(secrets);
    const { notAgain } = describe(recorded);
    if (notAgain !== undefined) throw forbidden(`Request ${number} cannot be sent again: ${notAgain}`);
    await checkKey(recorded);
    const sent = recorder.read(await send(recorded, body ?? recorded.body.text ?? ''));
    if (!sent) throw new ServiceError('unavailable', 'The request was sent again, but is not in the log');
    return { status: 200, body: JSON.stringify(describe(sent)) };
  };

  /** The key can have been revoked or banned since. @throws ServiceError 403 */
  async function checkKey(recorded: RecordedRequest): Promise<void> {
    const sha256 = hashOfCredential(headerOf(recorded.headers, header.authorization));
    if (sha256 === undefined) return;
    if (!(await keys.find(sha256)))
      throw forbidden(`The API key of request ${recorded.number} is not valid any more`);
    const [usage] = await limiter.usage([sha256]);
    if (usage?.bannedUntil === undefined) return;
    const until = new Date(usage.bannedUntil).toISOString();
    throw forbidden(`The API key of request ${recorded.number} is banned until ${until}`);
  }

  /** Sends a request again. Returns its number in the log when it has ended. @throws ServiceError 503 */
  async function send({ number, method, url, headers }: RecordedRequest, body: string): Promise<number> {
    const id = `again-${randomUUID()}`;
    const lines = [header.requestId, id, 'Connection', 'close'];
    for (let i = 0; i < headers.length; i += 2) {
      const [name = '', value = ''] = headers.slice(i, i + 2);
      if (!OWN_HEADERS.test(name)) lines.push(name, value);
    }
    if (headerOf(headers, header.idempotencyKey) !== undefined)
      lines.push(header.idempotencyKey, encodeIdempotencyKey(randomUUID()));
    if (body !== '') lines.push('Content-Length', String(Buffer.byteLength(body)));
    const waiting = new AbortController();
    try {
      return await new Promise<number>((resolve, reject) => {
        const forget = recorder.expectAgain(id, number, resolve);
        const fail = (reason: string) => reject(new ServiceError('unavailable', reason));
        const again = http.request(origin, { method, path: url, headers: lines, agent: false });
        again.on('error', ({ message }) => {
          forget();
          fail(`The request could not be sent again: ${message}`);
        });
        again.on('response', (response) => {
          // The request is recorded before its response can arrive, unless its headers have become too large.
          response.resume().on('close', () => {
            forget();
            fail(`The request was sent again, and refused with ${response.statusCode}`);
          });
        });
        again.end(body);
        sleep(MAX_WAIT, waiting.signal).then(
          () => fail('The request was sent again, and still runs. It will be in the log'),
          () => {},
        );
      });
    } finally {
      waiting.abort();
    }
  }
}

const forbidden = (message: string): ServiceError => new ServiceError('forbidden', message);
