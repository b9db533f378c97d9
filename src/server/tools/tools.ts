import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { encodeIdempotencyKey, header } from '../../contract/headers.ts';
import { MAX_RECORDED_REQUESTS } from '../../contract/recorded-text.ts';
import { wellFormed } from '../../contract/schemas.ts';
import type { Backend } from '../../store/backend.ts';
import type { Seed } from '../../store/store.ts';
import type { SteadyClock } from '../../system/clock.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import { FaultRule, FaultRules, type Faults } from '../faults.ts';
import { createPageHandler } from '../page-files.ts';
import { integerSchema, queryInteger, readBodyAs, readQueryAs } from '../request/input.ts';
import { type Handler, json } from '../response.ts';
import { publicPath, toolPath } from '../routes.ts';
import {
  bodyText,
  createRecorder,
  createRepeatId,
  type DescribedRequest,
  type Describer,
  type Recorder,
  type RequestRecord,
  type RequestSummary,
  singleHeader,
} from './recorder.ts';

export type ResetOptions = {
  /** Whether `POST /reset` may replace the contents of the store with the seed. */
  resettable?: boolean | undefined;
  /** Reads the seed for the start, which `signal` can abort, or for a reset. If undefined, resets empty the store. */
  seed?: ((signal?: AbortSignal) => Promise<Seed>) | undefined;
  /** What `GET /reset` calls the seed, such as `the sample data` or the path of a file. */
  seedName?: string | undefined;
};

type ToolsOptions = ResetOptions & {
  origin: string;
  describer: Describer;
  backend: Backend;
  clock: SteadyClock;
  faults: Faults;
  openSession: Handler;
  /** The directory of the store, or the URL of its database without the password. */
  location: string;
  onReset(): void;
};

const FaultQuery = z.object({ rule: z.optional(queryInteger(1, Number.MAX_SAFE_INTEGER)) });
const BanQuery = z.object({ key: z.string({ error: 'must be the name of a key' }) });

const NOT_RESETTABLE = 'This store cannot be reset. Start the server with --resettable';

/** Creates the developer tools (docs/testing.md). */
export function createTools(options: ToolsOptions) {
  const { backend, describer, faults, resettable = false, seed } = options;
  const { store, keys, limiter } = backend;
  const recorder = createRecorder();

  async function describeKeys() {
    const all = await keys.list();
    const usages = await limiter.usage(all.map(({ sha256 }) => sha256));
    const described = all.map(({ name, plan, quota }, i) => {
      const usage = usages[i];
      return {
        name,
        plan,
        minute: usage && describeWindow(quota.perMinute, usage.minute),
        day: usage && describeWindow(quota.perDay, usage.day),
        bannedUntil: usage?.bannedUntil === undefined ? undefined : formatInstant(usage.bannedUntil),
      };
    });
    // The clock of a browser may be wrong, so the page needs the time of this one.
    return { keys: described, time: formatInstant(options.clock.now()) };
  }

  const liftBan: Handler = async ({ url }) => {
    const { key } = readQueryAs(BanQuery, url);
    const found = (await keys.list()).find(({ name }) => name === key);
    if (found === undefined) throw new ServiceError('not_found', `There is no key named ${key}`);
    await limiter.liftBan(found.sha256);
    return json(await describeKeys());
  };

  /** What a reset would do. `reason` says why it is not allowed, if so, and `seed` names what replaces the animals. */
  const describeReset = async () => ({
    reason: resettable ? undefined : NOT_RESETTABLE,
    animals: await store.size(),
    location: options.location,
    seed: options.seedName,
  });

  const reset: Handler = async () => {
    if (!resettable) throw new ServiceError('forbidden', NOT_RESETTABLE);
    const contents = (await seed?.()) ?? { pets: [], orders: [] };
    await backend.reset(contents);
    options.onReset();
    return json({ animals: contents.pets.length, cursor: recorder.cursor() });
  };

  const page = createPageHandler();
  const showFaults = () => json(faults.current());

  const paths = [
    ...['/', '/page/{file}'].map((path) => publicPath(path, 'page', page, '/')),
    // Browsers ask for this by themselves, and it should not fill the log.
    publicPath('/favicon.ico', 'page', () => ({ status: 204, body: '' }), '/'),
    // The page signs in here with a code instead of a token.
    toolPath('/session', 'open', { POST: options.openSession }),
    toolPath('/requests', 'token', {
      GET: createRequestsHandler(recorder, describer),
      POST: createSendAgainHandler(recorder, describer, options.origin),
      DELETE() {
        recorder.clear();
        return json({ requests: [], log: recorder.logId(), cursor: recorder.cursor() });
      },
    }),
    toolPath('/keys', 'token', { GET: async () => json(await describeKeys()) }),
    toolPath('/bans', 'token', { DELETE: liftBan }),
    toolPath('/faults', 'token', {
      GET: showFaults,
      async POST(request) {
        faults.add(await readBodyAs(FaultRule, request));
        return showFaults();
      },
      async PUT(request) {
        faults.replace((await readBodyAs(FaultRules, request)).rules);
        return showFaults();
      },
      DELETE({ url }) {
        const { rule } = readQueryAs(FaultQuery, url);
        if (rule === undefined) faults.replace([]);
        else if (!faults.remove(rule)) throw new ServiceError('not_found', `There is no rule ${rule}`);
        return showFaults();
      },
    }),
    toolPath('/reset', 'token', { GET: async () => json(await describeReset()), POST: reset }),
  ];
  return { recorder, paths, describeKeys, describeReset };
}

const describeWindow = (limit: number, { used, endsAt }: { used: number; endsAt: number }) => ({
  limit,
  used,
  left: Math.max(0, limit - used),
  endsAt: formatInstant(endsAt),
});

const formatInstant = (milliseconds: number): string => new Date(milliseconds).toISOString();

const MAX_NUMBER = 999_999_999;

/** How many requests are described without a pause. */
const SLICE = 20;

const RequestsQuery = z.object({
  number: z.optional(queryInteger(1, MAX_NUMBER)),
  since: z.optional(z.string()),
  limit: z.optional(queryInteger(1, MAX_RECORDED_REQUESTS)),
  summary: z.optional(z.enum(['true', 'false'], { error: 'must be true or false' })),
  text: z.optional(z.string()),
});

/** `GET /requests` shows the recorded requests without their secrets (docs/testing.md). */
export const createRequestsHandler =
  (recorder: Recorder, { summarize, describe }: Describer): Handler =>
  async ({ url = '' }) => {
    const { number, since, limit = MAX_RECORDED_REQUESTS, summary, text } = readQueryAs(RequestsQuery, url);
    const from = since === undefined ? 0 : recorder.numberAt(since);
    if (from === undefined)
      throw invalidRequest('The parameter since is not valid, so start again without it');
    const all = recorder.after(from).filter((each) => number === undefined || each.number === number);
    // Requests that are recorded during the pauses below belong to the next response.
    const [log, cursor] = [recorder.logId(), recorder.cursor()];
    const requests: (RequestSummary | DescribedRequest)[] = [];
    for (const [i, record] of all.entries()) {
      // Removing secrets from long bodies takes long, so let the server handle other requests in between.
      if (i % SLICE === 0) await setImmediate();
      // Search the request without its secrets, so that a search cannot guess them.
      if (text !== undefined && !contains(describe(record), text.toLowerCase())) continue;
      requests.push(summary === 'true' ? summarize(record) : describe(record));
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
  return [...Object.values(summary), ...texts].some((value) =>
    typeof value === 'string' ? value.toLowerCase().includes(text) : String(value) === text,
  );
}

const SendAgain = z.object(
  {
    number: integerSchema(1, MAX_NUMBER, 'the number of a request'),
    body: z.optional(z.string({ error: 'must be a string' }).check(wellFormed)),
  },
  'must be a JSON object',
);

/** Headers that belong to one connection or one request, and are not copied. */
const OWN_HEADERS =
  /^(?:connection|keep-alive|proxy-connection|transfer-encoding|content-length|expect|upgrade|te|trailer|idempotency-key|x-request-id)$/i;

/**
 * `POST /requests` sends a recorded request again, with the recorded credentials, which do not leave the server
 * (docs/testing.md). The request goes to the server's own address, so everything is checked again.
 */
export function createSendAgainHandler(recorder: Recorder, { describe }: Describer, origin: string): Handler {
  return async (request) => {
    const { number, body } = await readBodyAs(SendAgain, request);
    const recorded = recorder.find(number);
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
    const id = createRepeatId(number);
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
    if (!sent) throw cannotBeSent(number, `the service refuses it with status ${response.statusCode}`);
    return sent;
  }
}

const cannotBeSent = (number: number, reason: string): ServiceError =>
  new ServiceError('forbidden', `Request ${number} cannot be sent again: ${reason}`);
