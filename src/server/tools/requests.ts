import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { encodeIdempotencyKey, header } from '../../contract/headers.ts';
import { MAX_RECORDED_REQUESTS } from '../../contract/recorded-text.ts';
import { wellFormed } from '../../contract/schemas.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import { integerSchema, queryInteger, readBodyAs, readQueryAs } from '../request/input.ts';
import type { RequestRecord } from '../request/record.ts';
import { type Handler, json } from '../response.ts';
import {
  againId,
  type DescribedRequest,
  type Describer,
  type RequestSummary,
  singleHeader,
} from './log-entry.ts';
import { bodyText, type Recorder } from './recorder.ts';

const MAX_NUMBER = 999_999_999;

/** How many requests are described without a pause. */
const SLICE = 20;

const Query = z.object({
  number: z.optional(queryInteger(1, MAX_NUMBER)),
  since: z.optional(z.string()),
  limit: z.optional(queryInteger(1, MAX_RECORDED_REQUESTS)),
  summary: z.optional(z.enum(['true', 'false'], { error: 'must be true or false' })),
  text: z.optional(z.string()),
});

export const createRequestsHandler =
  (recorder: Recorder, { summarize, describe }: Describer): Handler =>
  async ({ url = '' }) => {
    const { number, since, limit = MAX_RECORDED_REQUESTS, summary, text } = readQueryAs(Query, url);
    const from = since === undefined ? 0 : recorder.numberAt(since);
    if (from === undefined) throw invalidRequest('since is not valid. Start again without it');
    const all = recorder.after(from).filter((each) => number === undefined || each.number === number);
    // Requests that are recorded during the pauses below belong to the next response.
    const [log, cursor] = [recorder.logId(), recorder.cursor()];
    const requests: (RequestSummary | DescribedRequest)[] = [];
    for (const [i, each] of all.entries()) {
      // Removing secrets from long bodies takes long, so let the server handle other requests in between.
      if (i % SLICE === 0) await setImmediate();
      // Search the request without its secrets, so that a search cannot guess them.
      if (text !== undefined && !contains(describe(each), text.toLowerCase())) continue;
      requests.push(summary === 'true' ? summarize(each) : describe(each));
      if (requests.length === limit) break;
    }
    return json({ requests, log, cursor });
  };

/** Whether a request or its response contains `text`, which is in lower case. Ignores case. Numbers must be equal. */
function contains({ request, response, ...summary }: DescribedRequest, text: string): boolean {
  const texts = [request, response].flatMap((message) => [
    message?.body ?? '',
    ...Object.entries(message?.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
  ]);
  return [...Object.values(summary), ...texts].some((each) =>
    typeof each === 'string' ? each.toLowerCase().includes(text) : String(each) === text,
  );
}

const Again = z.object(
  {
    number: integerSchema(1, MAX_NUMBER, 'the number of a request'),
    body: z.optional(z.string({ error: 'must be a string' }).check(wellFormed)),
  },
  'must be a JSON object',
);

/** Headers that belong to one connection or one request, and are not sent again. */
const OWN_HEADERS =
  /^(?:connection|keep-alive|proxy-connection|transfer-encoding|content-length|expect|upgrade|te|trailer|idempotency-key|x-request-id)$/i;

/**
 * `POST /requests` sends a recorded request again, with the recorded credentials, which do not leave the server
 * (docs/testing.md). The request goes to the server's own address, so everything is checked again.
 */
export function createSendAgainHandler(recorder: Recorder, { describe }: Describer, origin: string): Handler {
  return async (request) => {
    const { number, body } = await readBodyAs(Again, request);
    const recorded = recorder.read(number);
    if (!recorded) throw new ServiceError('not_found', `Request ${number} is not in the log`);
    const { notAgain } = describe(recorded);
    if (notAgain !== undefined) throw cannotBeSent(number, notAgain);
    // An injected latency can be longer than the idle timeout.
    request.socket.setTimeout(0);
    const sent = await send(recorded, body ?? bodyText(recorded.body).text);
    return json(describe(sent));
  };

  async function send(
    { number, method, url, sentHeaders: headers }: RequestRecord,
    body: string,
  ): Promise<RequestRecord> {
    const id = againId(number);
    const lines = [header.requestId, id, 'Connection', 'close'];
    // With HTTP/1.0, a client may leave out Host.
    if (singleHeader(headers, 'host') === undefined) lines.push('Host', new URL(origin).host);
    for (let i = 0; i < headers.length; i += 2) {
      const [name = '', value = ''] = headers.slice(i, i + 2);
      if (!OWN_HEADERS.test(name)) lines.push(name, value);
    }
    if (singleHeader(headers, header.idempotencyKey) !== undefined)
      lines.push(header.idempotencyKey, encodeIdempotencyKey(randomUUID()));
    if (body !== '') lines.push('Content-Length', String(Buffer.byteLength(body)));
    const again = http.request(origin, { method, path: url, headers: lines, agent: false });
    again.end(body);
    const [response] = await once(again, 'response').catch(({ message }) => {
      throw cannotBeSent(number, message);
    });
    response.resume();
    const [sent] = recorder.after(0).filter((recorded) => recorded.id === id);
    // The request is in the log before its response arrives, unless the added headers made it too large.
    if (!sent) throw cannotBeSent(number, `the service now refuses it with status ${response.statusCode}`);
    return sent;
  }
}

const cannotBeSent = (number: number, reason: string): ServiceError =>
  new ServiceError('forbidden', `Request ${number} cannot be sent again: ${reason}`);
