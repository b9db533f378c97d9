import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import { invalidRequest } from '../http-errors.ts';
import { parseQuery, pathOf, splitTarget } from '../request/target.ts';
import type { ToolCredentials } from './credentials.ts';
import { createRequestDescriber } from './describe-request.ts';
import { MAX_REQUESTS, type RecordedRequest, type Recorder } from './recorder.ts';
import type { ToolMethods } from './tool-requests.ts';
import type { Waiters } from './waiters.ts';

/** The longest time that a request may wait, in seconds. Connections that are idle for longer are closed. */
const MAX_WAIT = 20;

const integer = (min: number, max: number) =>
  z.pipe(
    z.string().check(
      z.refine((text) => /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max, {
        error: `must be an integer from ${min} to ${max}`,
      }),
    ),
    z.transform(Number),
  );

const Query = z.object({
  status: z.optional(integer(100, 599)),
  method: z.optional(z.string()),
  path: z.optional(z.string()),
  key: z.optional(z.string()),
  since: z.optional(z.string()),
  limit: z.optional(integer(1, MAX_REQUESTS)),
  wait: z.optional(integer(0, MAX_WAIT)),
});

/** `GET /requests` (docs/service.md 13.1). */
export function requestsRoute(
  recorder: Recorder,
  waiters: Pick<Waiters, 'wait'>,
  credentials: Pick<ToolCredentials, 'secrets'>,
): ToolMethods {
  return {
    async GET({ url = '', socket }) {
      const { success, data, error } = z.safeParse(Query, { ...parseQuery(url) });
      if (!success) throw invalidRequest(describeIssues(error, 'The query'));
      const { since, limit = MAX_REQUESTS, wait = 0 } = data;
      const from = since === undefined ? 0 : recorder.numberAfter(since);
      if (from === undefined) throw invalidRequest('since is not valid. Start again without it');
      const matches = matcherOf(data);
      let found = recorder.find(matches, from, limit);
      if (found.length === 0 && wait > 0) {
        await waiters.wait(matches, wait * 1_000, socket);
        found = recorder.find(matches, from, limit);
      }
      const requests = found.map(createRequestDescriber(credentials.secrets()));
      const body = JSON.stringify({ requests, cursor: recorder.cursor() });
      return { status: 200, headers: { 'Cache-Control': 'no-store' }, body };
    },
  };
}

function matcherOf({
  status,
  method,
  path,
  key,
}: Omit<z.infer<typeof Query>, 'since' | 'limit' | 'wait'>): (recorded: RecordedRequest) => boolean {
  return (recorded) =>
    (status === undefined || recorded.status === status) &&
    (method === undefined || recorded.method === method) &&
    (path === undefined || pathOfRequest(recorded) === path) &&
    (key === undefined || recorded.keyName === key);
}

/** The path that a client requested, as it was sent; empty if the target was not a path. */
function pathOfRequest({ method, url }: RecordedRequest): string {
  try {
    return pathOf(splitTarget(method, url).target);
  } catch {
    return '';
  }
}
