import { describe, expect, test } from 'vitest';
import {
  ApiFailure,
  InterruptedError,
  OutcomeUnknownError,
  RateLimitError,
} from '../../src/client/errors.ts';
import { add, PET, testClient } from '../helpers/client.ts';
import { type Act, formatResponse, reset, type WireServer, wireServer } from '../helpers/wire-server.ts';

// A creation with several attempts is ambiguous from the first attempt that may have been applied until a success.

const error = (status: number, code = 'a_code') => ({ code, message: 'no', status });
const respond =
  (status: number, body: unknown = error(status), headers: Record<string, string> = {}): Act =>
  (socket) =>
    socket.write(formatResponse(status, body, { 'Idempotency-Supported': 'true', ...headers }));
const inProgress = respond(409, error(409, 'idempotency_in_flight'));
const wait = { 'Retry-After': '5' };

/** Handles each request with the next act, and all further requests with the last act. */
const inTurn =
  (...acts: Act[]): Act =>
  (socket, count, request) =>
    (acts[count - 1] ?? acts.at(-1))?.(socket, count, request);

async function create(act: Act, options: { onSleep?: () => void; supportsIdempotency?: boolean } = {}) {
  const server = await wireServer(act);
  const tested = testClient(server.url, { supportsIdempotency: true, ...options });
  const result = add(tested.client).catch((reason: unknown) => reason);
  return { ...tested, server, result };
}

const keysOf = ({ requests }: WireServer) => [
  ...new Set(requests.map(({ headers }) => headers['idempotency-key'])),
];

describe('a creation on a service that supports Idempotency-Key', () => {
  test.each<[string, Act[], unknown, number]>([
    ['a reset, then 429', [reset, respond(429, error(429), { 'Retry-After': '3600' })], RateLimitError, 2],
    ['a reset, then 401', [reset, respond(401)], ApiFailure, 2],
    ['500, then 422', [respond(500), respond(422)], ApiFailure, 2],
    ['a reset, then in progress until the end', [reset, inProgress], ApiFailure, 10],
  ])('%s: ambiguous', async (_name, acts, cause, count) => {
    const { result, server } = await create(inTurn(...acts));
    const failure = (await result) as OutcomeUnknownError;
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toBeInstanceOf(cause);
    expect(failure.supportsIdempotency).toBe(true);
    expect(server.requests).toHaveLength(count);
    expect(keysOf(server)).toEqual([`"${failure.idempotencyKey}"`]);
  });

  test.each<[string, Act[], number[]]>([
    ['503 with Retry-After', [respond(503, error(503), wait)], [5_000]],
    ['a reset, then in progress', [reset, inProgress, inProgress], [375, 1_000, 2_000]],
  ])('%s, then a success: added, with one key', async (_name, acts, waits) => {
    const { result, server, slept } = await create(inTurn(...acts, respond(201, PET)));
    expect(await result).toMatchObject({ value: { id: 1n } });
    expect(slept).toEqual(waits);
    expect(server.requests).toHaveLength(acts.length + 1);
    expect(keysOf(server)).toHaveLength(1);
    expect(new Set(server.requests.map(({ body }) => body)).size).toBe(1);
  });

  test('a 503 that shows the support is retried', async () => {
    const acts = inTurn(respond(503), respond(201, PET));
    const { result, server } = await create(acts, { supportsIdempotency: false });
    expect(await result).toMatchObject({ value: { id: 1n } });
    expect(server.requests).toHaveLength(2);
  });
});

test.each<[string, Act, unknown]>([
  ['503: it is ambiguous', respond(503, error(503), wait), OutcomeUnknownError],
  ['429: it is not ambiguous', respond(429, error(429), wait), InterruptedError],
])('an interrupt ends a creation in the wait after %s', async (_name, act, kind) => {
  let interrupt = () => {};
  const tested = await create(act, { onSleep: () => interrupt() });
  interrupt = tested.interrupt;
  const failure = (await tested.result) as Error;
  expect(failure).toBeInstanceOf(kind);
  if (kind === OutcomeUnknownError) expect(failure.cause).toBeInstanceOf(InterruptedError);
  expect([tested.server.requests.length, tested.attempts.length]).toEqual([1, 1]);
});

test('a wait that ends with a foreign reason leaves an earlier attempt ambiguous', async () => {
  const foreign = new AbortController();
  const server = await wireServer(reset);
  const { client } = testClient(server.url, {
    supportsIdempotency: true,
    signal: foreign.signal,
    onSleep: () => foreign.abort(new Error('enough')),
  });
  const failure = await add(client).catch((reason: unknown) => reason);
  expect(failure).toBeInstanceOf(OutcomeUnknownError);
  expect((failure as OutcomeUnknownError).cause).toBeInstanceOf(InterruptedError);
  expect(server.requests).toHaveLength(1);
});
