import { describe, expect, test } from 'vitest';
import {
  ApiFailure,
  ContractError,
  InterruptedError,
  NetworkError,
  OutcomeUnknownError,
  RateLimitError,
} from '../../src/client/errors.ts';
import { add, failureOf, list, PET, testClient } from '../helpers/client.ts';
import { rawServer } from '../helpers/raw-server.ts';
import { type Act, answer, reset, wireServer } from '../helpers/wire-server.ts';

// A creation of several attempts: it stays in doubt from the first that may have been carried out to one that says so.

const error = (status: number, code = 'a_code') => ({ code, message: 'no', status });
const says =
  (status: number, body: unknown = error(status), headers: Record<string, string> = {}): Act =>
  (socket) =>
    socket.write(answer(status, body, { 'Idempotency-Supported': 'true', ...headers }));
const inFlight = says(409, error(409, 'idempotency_in_flight'));
const wait = { 'Retry-After': '5' };

/** Acts in turn, the last one again and again. */
const inTurn =
  (...acts: Act[]): Act =>
  (socket, count, request) =>
    (acts[count - 1] ?? acts.at(-1))?.(socket, count, request);

async function create(act: Act, options: { onSleep?: () => void; isHonoured?: boolean } = {}) {
  const server = await wireServer(act);
  const tested = testClient(server.url, options);
  tested.service.noteIdempotency(options.isHonoured ?? true);
  const outcome = add(tested.client).then(
    () => undefined,
    (failure: unknown) => failure,
  );
  return { ...tested, server, outcome };
}

const keysOf = ({ requests }: { requests: { headers: Record<string, string> }[] }) =>
  new Set(requests.map(({ headers }) => headers['idempotency-key']));

describe('a creation that can be repeated', () => {
  test.each<[string, Act[], unknown, number]>([
    [
      'a cut, then a refused rate limit',
      [reset, says(429, error(429), { 'Retry-After': '3600' })],
      RateLimitError,
      2,
    ],
    ['a cut, then a rejected key', [reset, says(401)], ApiFailure, 2],
    ['a cut, then a refusal', [reset, says(400)], ApiFailure, 2],
    ['a cut, then a redirect', [reset, says(302, '', { Location: '/' })], ContractError, 2],
    ['a cut, then a failing service', [reset, says(503)], ApiFailure, 3],
    ['a failing service, then a mismatch', [says(500), says(422)], ApiFailure, 2],
    ['one that is still in progress at last', [reset, inFlight], ApiFailure, 10],
  ])('%s: in doubt', async (_name, acts, cause, count) => {
    const { outcome, server } = await create(inTurn(...acts));
    const failure = (await outcome) as OutcomeUnknownError;
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toBeInstanceOf(cause);
    expect(failure.honoured).toBe(true);
    expect(server.requests).toHaveLength(count);
    expect([...keysOf(server)]).toEqual([`"${failure.idempotencyKey}"`]);
  });

  test.each<[string, Act[], number[]]>([
    ['a cut', [reset], [0]],
    ['a failure', [says(500)], [0]],
    ['a failure that says when', [says(503, error(503), wait)], [5_000]],
    ['a refused rate limit', [says(429, error(429), wait)], [5_000]],
    ['one in progress', [inFlight], [500]],
    ['a cut, and then it is in progress', [reset, inFlight, inFlight], [0, 1_000, 2_000]],
  ])('%s, and then an answer: added, with one key', async (_name, acts, waits) => {
    const { outcome, server, slept } = await create(inTurn(...acts, says(201, PET)));
    expect(await outcome).toBeUndefined();
    expect(slept).toEqual(waits);
    expect(server.requests).toHaveLength(acts.length + 1);
    expect(keysOf(server).size).toBe(1);
    expect(new Set(server.requests.map(({ body }) => body)).size).toBe(1);
  });

  test('a cut, then nobody listens: in doubt, whatever the last attempt says', async () => {
    let stop = () => {};
    const server = await rawServer((socket) => {
      socket.once('data', () => {
        stop();
        reset(socket);
      });
    });
    stop = server.stop;
    const { client, service, attempts } = testClient(server.url);
    service.noteIdempotency(true);
    const failure = (await failureOf(add(client))) as OutcomeUnknownError;
    expect(failure).toBeInstanceOf(OutcomeUnknownError);
    expect(failure.cause).toMatchObject({ code: 'ECONNREFUSED', sent: false });
    expect(attempts).toHaveLength(3);
  });

  test('the answer itself may show that it can be repeated', async () => {
    const acts = inTurn(says(503), says(201, PET));
    const { outcome, server } = await create(acts, { isHonoured: false });
    expect(await outcome).toBeUndefined();
    expect(server.requests).toHaveLength(2);
  });
});

describe('a creation that cannot be repeated', () => {
  const plain = { 'Idempotency-Supported': 'false' };

  test('may be sent again behind a refusal, and is then in doubt as ever', async () => {
    const acts = inTurn(says(429, error(429), { ...wait, ...plain }), reset, says(201, PET));
    const { outcome, server, slept } = await create(acts, { isHonoured: false });
    expect(await outcome).toMatchObject({ honoured: false, cause: expect.any(NetworkError) });
    expect(slept).toEqual([5_000]);
    expect(server.requests).toHaveLength(2);
    expect(keysOf(server).size).toBe(1);
  });

  test('is not waited for while it is in progress', async () => {
    const acts = says(409, error(409, 'idempotency_in_flight'), plain);
    const { outcome, server } = await create(acts, { isHonoured: false });
    expect(await outcome).toBeInstanceOf(OutcomeUnknownError);
    expect(server.requests).toHaveLength(1);
  });
});

describe('an interrupt', () => {
  const cases: [string, Act, boolean, unknown, number][] = [
    ['in the pause behind a cut', reset, true, OutcomeUnknownError, 1],
    ['in the pause behind a failure', says(503, error(503), wait), true, OutcomeUnknownError, 1],
    ['in the pause behind a refusal', says(429, error(429), wait), true, InterruptedError, 1],
    ['in the pause behind a refusal', says(429, error(429), wait), false, InterruptedError, 1],
  ];
  test.each(cases)('%s ends a creation (%#)', async (_name, act, isHonoured, kind, count) => {
    let interrupt = () => {};
    const tested = await create(act, { isHonoured, onSleep: () => interrupt() });
    interrupt = tested.interrupt;
    const failure = (await tested.outcome) as Error;
    expect(failure).toBeInstanceOf(kind);
    if (kind === OutcomeUnknownError) expect(failure.cause).toBeInstanceOf(InterruptedError);
    expect(tested.server.requests).toHaveLength(count);
    expect(tested.attempts).toHaveLength(count);
  });

  test.each<[string, string]>([
    ['before an answer', ''],
    ['in the headers', 'HTTP/1.1 200 OK\r\nContent-'],
    ['in a body', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[{'],
  ])('%s ends a read at once, and leaves a creation in doubt', async (_name, text) => {
    for (const call of [list, add]) {
      let interrupt = () => {};
      const server = await wireServer((socket) => {
        socket.write(text);
        setTimeout(() => interrupt(), 10);
      });
      const tested = testClient(server.url);
      interrupt = tested.interrupt;
      const failure = (await failureOf(call(tested.client))) as Error;
      const interrupted = call === list ? failure : failure.cause;
      expect(interrupted).toBeInstanceOf(InterruptedError);
      expect(interrupted).toMatchObject({ sent: true });
      if (call === add) expect(failure).toBeInstanceOf(OutcomeUnknownError);
      expect(server.requests).toHaveLength(1);
    }
  });

  test('while connecting leaves nothing in doubt: nothing was sent', async () => {
    for (const call of [list, add]) {
      let interrupt = () => {};
      const server = await wireServer(
        () => {},
        () => interrupt(),
      );
      const tested = testClient(server.url.replace('http:', 'https:'));
      interrupt = tested.interrupt;
      const failure = await failureOf(call(tested.client));
      expect(failure).toBeInstanceOf(InterruptedError);
      expect(failure).toMatchObject({ sent: false });
      expect(tested.attempts).toHaveLength(1);
    }
  });

  test('before a call lets nothing be sent, nor connected', async () => {
    const server = await wireServer(says(200, [PET]));
    const { client, interrupt, attempts } = testClient(server.url);
    interrupt();
    expect(await failureOf(list(client))).toBeInstanceOf(InterruptedError);
    expect(attempts).toEqual([]);
    expect(server.connections()).toBe(0);
  });
});
