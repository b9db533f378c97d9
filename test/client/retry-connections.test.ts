import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { IDEMPOTENT_RETRY_MS } from '../../src/client/call.ts';
import { NetworkError, OutcomeUnknownError } from '../../src/client/errors.ts';
import { InterruptedError } from '../../src/system/clock.ts';
import { add, calls, list, PET, rejection, type TestClientOptions, testClient } from '../helpers/client.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { type Act, formatResponse, reset, type WireServer, wireServer } from '../helpers/wire-server.ts';

// If a connection ends or stalls, a creation is repeated only with a supported key. Its outcome is reported correctly.

const LENGTH = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n';
const CHUNKED = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
const UNFRAMED = 'Content-Type: application/json\r\n\r\n';
const success = ({ line }: Parameters<Act>[2]): string =>
  line.startsWith('GET') ? formatResponse(200, [PET]) : formatResponse(201, PET);
const succeed: Act = (socket, _count, request) => socket.write(success(request));
/** Sends the start of a response, and then calls `next`. STATUS is replaced by the status line of a success. */
const begin =
  (text: string, next: Act): Act =>
  (socket, count, request) => {
    const status = `HTTP/1.1 ${request.line.startsWith('GET') ? '200 OK' : '201 Created'}\r\n`;
    socket.write(text.replace('STATUS', status), () => next(socket, count, request));
  };
const close: Act = (socket) => socket.end();
const keysOf = ({ requests }: WireServer) =>
  new Set(requests.map(({ headers }) => headers['idempotency-key']));

/** What the server sends before the connection ends or stalls. */
const starts = {
  nothing: '',
  'an early hint': 'HTTP/1.1 103 Early Hints\r\n\r\n',
  'the headers': `STATUS${LENGTH}`,
  'a part of a body with a length': `STATUS${LENGTH}[{"id":1`,
  'a part of a chunk': `STATUS${CHUNKED}40\r\n[{"id":1`,
  'a part of a body that only the end of the connection ends': `STATUS${UNFRAMED}[{"tags":[1]`,
};

/** Responses that are not valid HTTP, or that have an interim status and no final response. */
const unexpected: [string, Act, isPermanent?: boolean][] = [
  ['text that is not HTTP', begin('SSH-2.0-OpenSSH_9.6\r\n', close), true],
  ['a 100 without a final response', begin('HTTP/1.1 100 Continue\r\n\r\n', close)],
  [
    'an unexpected 101',
    begin('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n', () => {}),
  ],
];

describe.each(calls)('$name', ({ call, supportsIdempotency, isRetried }) => {
  const start = async (act: Act) => {
    const server = await wireServer(act);
    let expire = () => {};
    const tested = testClient(server.url, {
      supportsIdempotency,
      startTimer: (callback) => {
        expire = callback;
        return undefined;
      },
    });
    return { ...tested, server, expire: () => expire() };
  };

  /** Runs the call, and checks that a creation is ambiguous. Returns the error of the last attempt. */
  async function expectError(client: Parameters<typeof call>[0]): Promise<Error> {
    const error = await rejection(call(client));
    if (call === list) return error as Error;
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(error).toMatchObject({ supportsIdempotency });
    return (error as OutcomeUnknownError).cause as Error;
  }

  describe.each(Object.entries(starts))('after the server has sent %s', (_name, text) => {
    test.each<[string, Act | 'expire' | 'interrupt', new (...args: never[]) => Error]>([
      ['a close', close, NetworkError],
      // Wait before the reset, because a reset discards what the client has not read yet.
      ['a reset', (socket) => setTimeout(reset, 10, socket), NetworkError],
      ['a stall, until the attempt expires,', 'expire', NetworkError],
      ['a stall, until the user interrupts it,', 'interrupt', InterruptedError],
    ])('%s: the request may have been applied', async (_ending, ending, kind) => {
      const act: Act = typeof ending === 'function' ? ending : () => setTimeout(() => tested[ending](), 10);
      const tested = await start(begin(text, act));
      const { client, server, attempts } = tested;
      const error = await expectError(client);
      expect(error).toBeInstanceOf(kind);
      if (ending !== 'interrupt') expect(error).toMatchObject({ sent: true });
      const retried = { expire: 3, interrupt: 1 } as const;
      const expected = typeof ending === 'string' ? retried[ending] : 6;
      expect(attempts).toHaveLength(isRetried ? expected : 1);
      expect(server.requests).toHaveLength(attempts.length);
      expect(keysOf(server).size).toBe(1);
    });
  });

  test.each(unexpected)('%s: the request may have been applied', async (_name, act, isPermanent = false) => {
    const { client, server, attempts } = await start(act);
    expect(await expectError(client)).toMatchObject({ sent: true });
    expect(attempts).toHaveLength(isRetried && !isPermanent ? 6 : 1);
    expect(server.connections()).toBe(attempts.length);
  });

  test('an idle connection that the server has closed: sent once, on a new connection', async () => {
    const closed = gate();
    const server = await wireServer(
      (socket, count, request) => {
        succeed(socket, count, request);
        setTimeout(() => socket.end(), 5);
      },
      // The server's socket emits `close` only after the client has noticed the end and closed its own side, too.
      (socket) => once(socket, 'close').then(closed.open),
    );
    const { client, attempts } = testClient(server.url);
    await list(client);
    await closed.opened;
    await call(client);
    expect([server.requests.length, server.connections(), attempts.length]).toEqual([2, 2, 2]);
  });

  test('an idle connection that is reset by the next request: the request counts as sent', async () => {
    const server = await wireServer((socket, count, request) =>
      count === 2
        ? reset(socket)
        : count === 1
          ? socket.write(formatResponse(200, [PET], { 'Idempotency-Supported': String(supportsIdempotency) }))
          : succeed(socket, count, request),
    );
    const { client } = testClient(server.url);
    await list(client);
    // Undici releases the connection after the response, in the next turn of the event loop.
    await nextTurn();
    if (isRetried) await call(client);
    else await expectError(client);
    expect(server.requests).toHaveLength(isRetried ? 3 : 2);
    expect(server.connections()).toBe(isRetried ? 2 : 1);
  });

  test.each<[string, Act]>([
    [
      'after an early hint',
      begin('HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nContent-Type: text/html\r\n\r\n', succeed),
    ],
    ['without framing', begin(`STATUS${UNFRAMED}${JSON.stringify(call === add ? PET : [PET])}`, close)],
  ])('a response %s is a success', async (_name, act) => {
    const { client, server } = await start(act);
    expect(await call(client)).toMatchObject({ headers: { 'content-type': 'application/json' } });
    expect(server.requests).toHaveLength(1);
  });
});

// A creation with several attempts stays ambiguous until a success; retry-chains.test.ts combines failures at random.

const error = (status: number, code = 'a_code') => ({ code, message: 'no', status });
const respond =
  (status: number, body: unknown = error(status), headers: Record<string, string> = {}): Act =>
  (socket) =>
    socket.write(formatResponse(status, body, { 'Idempotency-Supported': 'true', ...headers }));
const inProgress = respond(409, error(409, 'idempotency_in_flight'));

/** Adds an animal at a server that handles each request with the next act, and all further requests with the last. */
async function create(acts: Act[], options: TestClientOptions = {}) {
  const server = await wireServer((socket, count, request) =>
    (acts[count - 1] ?? acts.at(-1))?.(socket, count, request),
  );
  const tested = testClient(server.url, { supportsIdempotency: true, ...options });
  return { ...tested, server, result: add(tested.client).catch((reason: unknown) => reason) };
}

test.each<[string, Act[], number[]]>([
  ['503 with Retry-After', [respond(503, error(503), { 'Retry-After': '5' })], [5_000]],
  ['a reset, then in progress', [reset, inProgress, inProgress], [500, 1_000, 2_000]],
  ['a 503 that shows for the first time that keys are supported', [respond(503)], [500]],
])('after %s, a creation is repeated with one key and one body', async (_name, acts, waits) => {
  const supportsIdempotency = waits[0] !== 500 || acts.length > 1;
  const { result, server, slept } = await create([...acts, respond(201, PET)], { supportsIdempotency });
  expect(await result).toMatchObject({ value: { id: 1n } });
  expect([slept, server.requests.length]).toEqual([waits, acts.length + 1]);
  expect([keysOf(server).size, new Set(server.requests.map(({ body }) => body)).size]).toEqual([1, 1]);
});

test.each<[string, Act, unknown]>([
  ['503: it is ambiguous', respond(503), OutcomeUnknownError],
  ['429: it is not ambiguous', respond(429), InterruptedError],
])('an interrupt ends a creation in the wait after %s', async (_name, act, kind) => {
  const tested = await create([act], { onSleep: () => tested.interrupt() });
  const failure = await tested.result;
  expect(failure).toBeInstanceOf(kind);
  if (failure instanceof OutcomeUnknownError) expect(failure.cause).toBeInstanceOf(InterruptedError);
  expect([tested.server.requests.length, tested.attempts.length]).toEqual([1, 1]);
});

test('a creation is not repeated when the service may have forgotten its Idempotency-Key', async () => {
  const clock = manualClock();
  const server = await wireServer((socket) => {
    clock.advance(IDEMPOTENT_RETRY_MS);
    socket.destroy();
  });
  const { client } = testClient(server.url, { clock, supportsIdempotency: true });
  expect(await rejection(add(client))).toBeInstanceOf(OutcomeUnknownError);
  expect(server.requests).toHaveLength(1);
});
