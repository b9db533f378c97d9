import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import type { SteadyClock } from '../../contract/clock.ts';
import { describeIssues } from '../../contract/issues.ts';
import { invalidRequest, ServiceError } from '../errors.ts';
import { parseQuery, pathOf, splitTarget } from '../request/input.ts';
import type { Handler } from '../response.ts';
import {
  createRequestDescriber,
  type DescribedRequest,
  findOriginals,
  outcomeOf,
  type RequestSummary,
} from './log-entry.ts';
import { MAX_REQUESTS, type RecordedRequest, type Recorder } from './recorder.ts';

/** The longest time that a request may wait, in seconds. Connections that are idle for longer are closed. */
const MAX_WAIT = 20;

/** How many requests may wait at a time. Each of them occupies a connection. */
export const MAX_WAITERS = 32;

/** How many requests are described without a pause. */
const SLICE = 20;

/** A query parameter that is an integer of at most nine digits. */
export const queryInteger = (min: number, max: number) =>
  z.pipe(
    z.string().check(
      z.refine((text) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max, {
        error: `must be an integer from ${min} to ${max}`,
      }),
    ),
    z.transform(Number),
  );

const Query = z.object({
  number: z.optional(queryInteger(1, 999_999_999)),
  id: z.optional(z.string()),
  status: z.optional(queryInteger(100, 599)),
  method: z.optional(z.string()),
  path: z.optional(z.string()),
  key: z.optional(z.string()),
  since: z.optional(z.string()),
  limit: z.optional(queryInteger(1, MAX_REQUESTS)),
  wait: z.optional(queryInteger(0, MAX_WAIT)),
  summary: z.optional(z.enum(['true', 'false'])),
  text: z.optional(z.string()),
});

export type RequestsOptions = {
  clock: SteadyClock;
  waiters: Pick<Waiters, 'wait'>;
  /** The log does not show these secrets, wherever they occur. */
  secrets: readonly string[];
};

/** `GET /requests` (docs/service.md 13.1). */
export function showRequests(recorder: Recorder, { clock, waiters, secrets }: RequestsOptions): Handler {
  return async ({ url = '', socket }) => {
    const query = readQuery(Query, url);
    const { since, limit = MAX_REQUESTS, wait = 0, summary, text } = query;
    const from = since === undefined ? 0 : recorder.numberAt(since);
    if (from === undefined) throw invalidRequest('since is not valid. Start again without it');
    const matches = matcherOf(query);
    const findAll = () => recorder.find(matches, from, text === undefined ? limit : MAX_REQUESTS);
    let found = findAll();
    if (found.length === 0 && wait > 0) {
      await waiters.wait(matches, wait * 1_000, socket);
      found = findAll();
    }
    // Requests that are recorded during the pauses below belong to the next response.
    const cursor = recorder.cursor();
    const isRepeated = found.some((each) => outcomeOf(each) === 'replayed');
    const originals = findOriginals(isRepeated ? recorder.find(() => true, 0, MAX_REQUESTS) : []);
    const { summarize, describe, describeRunning, redact } = createRequestDescriber(secrets, originals);
    const requests: (RequestSummary | DescribedRequest)[] = [];
    for (const [i, each] of found.entries()) {
      // Removing secrets from long bodies takes long, so let the server handle other requests in between.
      if (i % SLICE === 0) await setImmediate();
      // The text is searched without secrets, so that a search cannot guess them.
      if (text !== undefined && !contains(describe(each), text)) continue;
      requests.push(summary === 'true' ? summarize(each) : describe(each));
      if (requests.length === limit) break;
    }
    const [now, elapsed] = [clock.now(), clock.elapsed()];
    const running = recorder.running().map((each) => describeRunning(each, now, elapsed));
    const others = recorder.otherOrigins();
    const otherOrigins = others && {
      ...others,
      origin: redact(others.origin),
      time: new Date(others.time).toISOString(),
    };
    const body = JSON.stringify({ requests, running, otherOrigins, cursor });
    return { status: 200, body };
  };
}

function matcherOf({
  number,
  id,
  status,
  method,
  path,
  key,
}: z.infer<typeof Query>): (recorded: RecordedRequest) => boolean {
  return (recorded) =>
    (number === undefined || recorded.number === number) &&
    (id === undefined || recorded.id === id) &&
    (status === undefined || recorded.status === status) &&
    (method === undefined || recorded.method === method) &&
    (path === undefined || pathOfRequest(recorded) === path) &&
    (key === undefined || recorded.keyName === key);
}

/** Whether a text occurs in a request or its response, ignoring case. */
function contains(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value.toLowerCase().includes(text.toLowerCase());
  if (typeof value !== 'object' || value === null) return String(value) === text;
  return Object.values(value).some((each) => contains(each, text));
}

/** The path that a client requested, as it was sent; empty if the target was not a path. */
function pathOfRequest({ method, url }: RecordedRequest): string {
  try {
    return pathOf(splitTarget(method, url).target);
  } catch {
    return '';
  }
}

export type Matches = (recorded: RecordedRequest) => boolean;

export type Waiters = ReturnType<typeof createWaiters>;

/** Lets `GET /requests` wait until a matching request is recorded. `sleep` rejects when the signal is aborted. */
export function createWaiters(sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>) {
  const waiters = new Map<AbortController, Matches>();
  let isStopping = false;

  return {
    /**
     * Waits until a request matches. Also ends after `milliseconds`, when the client closes its side of the connection, and
     * when the server stops.
     *
     * @throws ServiceError 503 if too many requests wait
     */
    async wait(matches: Matches, milliseconds: number, socket: Socket): Promise<void> {
      if (isStopping || socket.destroyed || socket.readableEnded) return;
      if (waiters.size >= MAX_WAITERS) {
        throw new ServiceError(
          'too_many_connections',
          `${MAX_WAITERS} requests are waiting, which is the limit`,
        );
      }
      const waiter = new AbortController();
      const end = () => waiter.abort();
      waiters.set(waiter, matches);
      // A client that gives up may only have closed its sending side, as far as the server can see.
      for (const event of ['end', 'close']) socket.once(event, end);
      await sleep(milliseconds, waiter.signal).catch(() => {});
      for (const event of ['end', 'close']) socket.off(event, end);
      waiters.delete(waiter);
    },

    /** Ends the waits that match a new request. `read` returns the request, and is called only if there are waits. */
    notify(read: () => RecordedRequest | undefined): void {
      if (waiters.size === 0) return;
      const added = read();
      for (const [waiter, matches] of waiters) if (added && matches(added)) waiter.abort();
    },

    /** Ends all waits. Later waits end at once. */
    stop(): void {
      isStopping = true;
      for (const waiter of waiters.keys()) waiter.abort();
    },
  };
}

/** Reads and validates the query of a request target. @throws ServiceError 400 */
export function readQuery<Schema extends z.ZodMiniObject>(schema: Schema, target = ''): z.output<Schema> {
  const { success, data, error } = z.safeParse(schema, { ...parseQuery(target) });
  if (!success) throw invalidRequest(describeIssues(error, 'The query'));
  return data;
}
