import { setImmediate } from 'node:timers/promises';
import * as z from 'zod/mini';
import { invalidRequest } from '../http-errors.ts';
import { pathOf, splitTarget } from '../request/target.ts';
import type { ToolCredentials } from './credentials.ts';
import { createRequestDescriber, type DescribedRequest, type RequestSummary } from './describe-request.ts';
import { queryInteger, readQuery } from './query.ts';
import { MAX_REQUESTS, type RecordedRequest, type Recorder } from './recorder.ts';
import type { ToolMethods } from './tool-requests.ts';
import type { Waiters } from './waiters.ts';

/** The longest time that a request may wait, in seconds. Connections that are idle for longer are closed. */
const MAX_WAIT = 20;

/** How many requests are described without a pause. */
const SLICE = 20;

const Query = z.object({
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

/** `GET /requests` (docs/service.md 13.1). */
export function requestsRoute(
  recorder: Recorder,
  waiters: Pick<Waiters, 'wait'>,
  credentials: Pick<ToolCredentials, 'secrets'>,
): ToolMethods {
  return {
    async GET({ url = '', socket }) {
      const query = readQuery(Query, url);
      const { since, limit = MAX_REQUESTS, wait = 0, summary, text } = query;
      const from = since === undefined ? 0 : recorder.numberAfter(since);
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
      const { summarize, describe } = createRequestDescriber(credentials.secrets());
      const requests: (RequestSummary | DescribedRequest)[] = [];
      for (const [i, each] of found.entries()) {
        // Removing secrets from long bodies takes long, so let the server handle other requests in between.
        if (i % SLICE === 0) await setImmediate();
        // The text is searched without secrets, so that a search cannot guess them.
        if (text !== undefined && !contains(describe(each), text)) continue;
        requests.push(summary === 'true' ? summarize(each) : describe(each));
        if (requests.length === limit) break;
      }
      const body = JSON.stringify({ requests, cursor });
      return { status: 200, headers: {}, body };
    },
  };
}

function matcherOf({
  id,
  status,
  method,
  path,
  key,
}: z.infer<typeof Query>): (recorded: RecordedRequest) => boolean {
  return (recorded) =>
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
