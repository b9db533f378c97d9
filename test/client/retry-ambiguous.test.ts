import { describe, expect, test } from 'vitest';
import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
} from '../../src/client/errors.ts';
import { add, list, PET, rejection, testClient } from '../helpers/client.ts';
import { rawServer } from '../helpers/raw-server.ts';
import { type Act, formatResponse, reset, type WireServer, wireServer } from '../helpers/wire-server.ts';

// A creation with several attempts is ambiguous from the first attempt that may have been applied until a success.

const error = (status: number, code = 'a_code') => ({ code, message: 'no', status });
const respond =
  (status: number, body: unknown = error(status), headers: Record<string, string> = {}): Act =>
  (socket) =>
    socket.write(formatResponse(status, body, { 'Idempotency-Supported': 'true', ...headers }));
const inProgress = respond(409, error(409, 'idempotency_in_flight'));
const wait = { 'Retry-After': '5' };

/** Handles the first request with the first act, the second with the second, and so on; further ones with the last. */
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
    ['a reset, then 400', [reset, respond(400)], ApiFailure, 2],
    ['a reset, then a redirect', [reset, respond(302, '', { Location: '/' })], ContractError, 2],
    ['a reset, then 503', [reset, respond(503)], ApiFailure, 3],
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
    ['a reset', [reset], [0]],
    ['500', [respond(500)], [0]],
    ['503 with Retry-After', [respond(503, error(503), wait)], [5_000]],
    ['429', [respond(429, error(429), wait)], [5_000]],
    ['in progress', [inProgress], [500]],
    ['a reset, then in progress', [reset, inProgress, inProgress], [0, 1_000, 2_000]],
  ])('%s, then a success: added, with one key', async (_name, acts, waits) => {
    const { result, server, slept } = await create(inTurn(...acts, respond(201, PET)));
    expect(await result).toMatchObject({ value: { id: 1n } });
    expect(slept).toEqual(waits);
    expect(server.requests).toHaveLength(acts.length + 1);
    expect(keysOf(server)).toHaveLength(1);
    expect(new Set(server.requests.map(({ body }) => body)).size).toBe(1);
  });

  test('a reset, then refused connections: ambiguous, although the last attempt sent nothing', async () => {
    let stop = () => {};
    const server = await rawServer((socket) => {
      socket.once('data', () => {
        stop();
        reset(socket);
      });
    });
    stop = server.stop;
    const { client, attempts } = testClient(server.url, { supportsIdempotency: true });
    const failure = (await rejection(add(client))) as OutcomeUnknownError;
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toMatchObject({ code: 'ECONNREFUSED', sent: false });
    expect(attempts).toHaveLength(3);
  });

  test('a 503 that shows the support is retried', async () => {
    const acts = inTurn(respond(503), respond(201, PET));
    const { result, server } = await create(acts, { supportsIdempotency: false });
    expect(await result).toMatchObject({ value: { id: 1n } });
    expect(server.requests).toHaveLength(2);
  });
});

test('a creation without support of Idempotency-Key is sent again after a 429, and then a reset makes it ambiguous', async () => {
  const acts = inTurn(
    respond(429, error(429), { ...wait, 'Idempotency-Supported': 'false' }),
    reset,
    respond(201, PET),
  );
  const { result, server, slept } = await create(acts, { supportsIdempotency: false });
  expect(await result).toMatchObject({ supportsIdempotency: false, cause: expect.any(NetworkError) });
  expect(slept).toEqual([5_000]);
  expect(server.requests).toHaveLength(2);
  expect(keysOf(server)).toHaveLength(1);
});

describe('an interrupt', () => {
  test.each<[string, Act, boolean, unknown]>([
    ['after a reset', reset, true, OutcomeUnknownError],
    ['after 503', respond(503, error(503), wait), true, OutcomeUnknownError],
    ['after 429', respond(429, error(429), wait), true, InterruptedError],
    ['after 429', respond(429, error(429), wait), false, InterruptedError],
  ])('in the wait %s ends a creation (%#)', async (_name, act, supportsIdempotency, kind) => {
    let interrupt = () => {};
    const tested = await create(act, { supportsIdempotency, onSleep: () => interrupt() });
    interrupt = tested.interrupt;
    const failure = (await tested.result) as Error;
    expect(failure).toBeInstanceOf(kind);
    if (kind === OutcomeUnknownError) expect(failure.cause).toBeInstanceOf(InterruptedError);
    expect([tested.server.requests.length, tested.attempts.length]).toEqual([1, 1]);
  });

  describe.each([
    ['a read', list],
    ['a creation', add],
  ])('of %s', (_name, call) => {
    test.each([
      ['before the response', ''],
      ['in the headers', 'HTTP/1.1 200 OK\r\nContent-'],
      ['in the body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[{'],
    ])('%s: a creation becomes ambiguous', async (_phase, text) => {
      let interrupt = () => {};
      const server = await wireServer((socket) => {
        socket.write(text);
        setTimeout(() => interrupt(), 10);
      });
      const tested = testClient(server.url);
      interrupt = tested.interrupt;
      const failure = (await rejection(call(tested.client))) as Error;
      const cause = call === list ? failure : failure.cause;
      expect(cause).toBeInstanceOf(InterruptedError);
      expect(cause).toMatchObject({ sent: true });
      if (call === add) expect(failure).toBeInstanceOf(OutcomeUnknownError);
      expect(server.requests).toHaveLength(1);
    });
  });
});
