import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  type ClientError,
  NetworkError,
  OutcomeUnknownError,
  TimeoutError,
} from '../../src/client/errors.ts';
import { add, calls, list, PET, rejection, testClient } from '../helpers/client.ts';
import { gate } from '../helpers/gate.ts';
import { closedPort } from '../helpers/listen.ts';
import { type Act, formatResponse, reset, type WireServer, wireServer } from '../helpers/wire-server.ts';

// Connections that are closed or stall: a creation is not sent twice, and its outcome is reported correctly.

const LENGTH = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n';
const CHUNKED = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
const UNFRAMED = 'Content-Type: application/json\r\n\r\n';
const succeed: Act = (socket, _count, { line }) => {
  socket.write(line.startsWith('GET') ? formatResponse(200, [PET]) : formatResponse(201, PET));
};
/** Sends the start of a successful response; STATUS is replaced by its status line. */
const begin =
  (text: string, end?: 'end' | 'reset'): Act =>
  (socket, _count, { line }) => {
    const status = `HTTP/1.1 ${line.startsWith('GET') ? '200 OK' : '201 Created'}\r\n`;
    socket.write(text.replace('STATUS', status), () => {
      if (end === 'end') socket.end();
      // A reset discards what the peer has not read yet.
      if (end === 'reset') setTimeout(reset, 10, socket);
    });
  };
const keysOf = ({ requests }: WireServer) =>
  new Set(requests.map(({ headers }) => headers['idempotency-key']));

const closings: [string, Act | undefined][] = [
  ['before the request is read', undefined],
  ['after the request, with a reset', reset],
  ['after the request', (socket) => socket.end()],
  ['in the status line', begin('HTTP/1.1 20', 'end')],
  ['in the headers', begin('STATUSContent-Type: appl', 'end')],
  ['in the headers, with a reset', begin('STATUSContent-Type: appl', 'reset')],
  ['in a body with a length', begin(`STATUS${LENGTH}[{"id":1`, 'end')],
  ['in a body with a length, with a reset', begin(`STATUS${LENGTH}[{"id":1`, 'reset')],
  ['before a body with a length', begin(`STATUS${LENGTH}`, 'end')],
  ['in a chunk', begin(`STATUS${CHUNKED}40\r\n[{"id":1`, 'end')],
  ['between chunks', begin(`STATUS${CHUNKED}8\r\n[{"id":1\r\n`, 'end')],
  ['in a body without a length or chunks', begin(`STATUS${UNFRAMED}[{"id":1`, 'end')],
  ['in a body without a length or chunks, with a reset', begin(`STATUS${UNFRAMED}[{"id":1`, 'reset')],
  ['after an early hint', begin('HTTP/1.1 103 Early Hints\r\n\r\n', 'end')],
  ['after text that is not HTTP', begin('SSH-2.0-OpenSSH_9.6\r\n', 'end')],
  ['by the client, because of an unexpected 100', begin('HTTP/1.1 100 Continue\r\n\r\n')],
  [
    'by the client, because of an unexpected 101',
    begin('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n'),
  ],
];

describe.each(calls)('$name', ({ call, supportsIdempotency, isRetried }) => {
  /** Runs the call; checks that the error is ambiguous if it must be. Returns the error of the last attempt. */
  async function expectError(client: Parameters<typeof call>[0], wasSent: boolean): Promise<ClientError> {
    const error = await rejection(call(client));
    if (call === list || !wasSent) return error as ClientError;
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(error).toMatchObject({ supportsIdempotency });
    return (error as OutcomeUnknownError).cause as ClientError;
  }

  describe('with a connection that is closed', () => {
    const start = async (act: Act | undefined, times = Number.POSITIVE_INFINITY) => {
      const server = await wireServer(
        (socket, count, request) =>
          (server.connections() > times ? succeed : (act ?? succeed))(socket, count, request),
        (socket, count) => {
          if (act === undefined && count <= times) socket.prependOnceListener('data', () => reset(socket));
        },
      );
      return { ...testClient(server.url, { supportsIdempotency }), server };
    };

    test.each(closings)('%s', async (_name, act) => {
      const { client, server, attempts } = await start(act);
      const error = await expectError(client, true);
      expect(error).toBeInstanceOf(NetworkError);
      expect(error).toMatchObject({ sent: true });
      expect(attempts).toHaveLength(isRetried ? 3 : 1);
      expect(server.connections()).toBe(attempts.length);
      expect(server.requests).toHaveLength(act === undefined ? 0 : attempts.length);
      expect(keysOf(server).size).toBe(act === undefined ? 0 : 1);
    });

    if (isRetried) {
      test.each(closings)('%s: the retry succeeds, with the same key', async (_name, act) => {
        const { client, attempts, server } = await start(act, 1);
        await call(client);
        expect(attempts).toHaveLength(2);
        expect(keysOf(server).size).toBe(1);
      });
    }
  });

  test.each<[string, { protocol?: string; text?: string; isSent: boolean }]>([
    ['in the TLS handshake', { protocol: 'https', isSent: false }],
    ['before the response', { text: '', isSent: true }],
    ['in the status line', { text: 'HTTP/1.1 20', isSent: true }],
    ['after an early hint', { text: 'HTTP/1.1 103 Early Hints\r\n\r\n', isSent: true }],
    ['in the headers', { text: 'STATUSContent-Type: appl', isSent: true }],
    ['after the headers', { text: 'STATUSContent-Length: 9\r\n\r\n', isSent: true }],
    ['in a body', { text: 'STATUSContent-Length: 9\r\n\r\n[{', isSent: true }],
    ['in a chunk', { text: 'STATUSTransfer-Encoding: chunked\r\n\r\n8\r\n[{', isSent: true }],
    ['in a body without a length or chunks', { text: 'STATUS\r\n[{', isSent: true }],
  ])(
    'a server that stalls %s: the attempt expires',
    async (_name, { protocol = 'http', text = '', isSent }) => {
      let expire = () => {};
      const server = await wireServer(
        (socket, count, request) => {
          begin(text)(socket, count, request);
          setImmediate(() => expire());
        },
        () => {
          if (!isSent) setImmediate(() => expire());
        },
      );
      const { client, attempts } = testClient(server.url.replace('http:', `${protocol}:`), {
        supportsIdempotency,
        startTimer: (callback) => {
          expire = callback;
          return undefined;
        },
      });
      const error = await expectError(client, isSent);
      expect(error).toBeInstanceOf(TimeoutError);
      expect(error).toMatchObject({ sent: isSent, message: 'no response within 15 s' });
      // A request that was not sent is safe to retry.
      expect(attempts).toHaveLength(isRetried || !isSent ? 3 : 1);
      expect(server.requests).toHaveLength(isSent ? attempts.length : 0);
      expect(keysOf(server).size).toBe(isSent ? 1 : 0);
    },
  );

  test('a port on which nothing listens: three attempts, nothing sent', async () => {
    const { client, attempts } = testClient(`http://127.0.0.1:${await closedPort()}/v1`);
    const error = await expectError(client, false);
    expect(error).toBeInstanceOf(NetworkError);
    expect(error).toMatchObject({ code: 'ECONNREFUSED', sent: false });
    expect(attempts).toHaveLength(3);
  });

  test('an idle connection that the server has closed: sent once, on a new connection', async () => {
    const closed = gate();
    const server = await wireServer(
      (socket, count, request) => {
        succeed(socket, count, request);
        setTimeout(() => socket.end(), 5);
      },
      // `close` means that the client has noticed the server's FIN and closed its own side too.
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
      count === 2 ? reset(socket) : succeed(socket, count, request),
    );
    const { client, service } = testClient(server.url);
    await list(client);
    // Undici releases the connection after the response, in the next turn of the event loop.
    await nextTurn();
    service.recordIdempotencySupport(supportsIdempotency);
    if (isRetried) await call(client);
    else await expectError(client, true);
    expect(server.requests).toHaveLength(isRetried ? 3 : 2);
    expect(server.connections()).toBe(isRetried ? 2 : 1);
  });

  test('a response after early hints, or without a length or chunks, is a success', async () => {
    const { client } = await testWith((socket, count, request) => {
      socket.write('HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nContent-Type: text/html\r\n\r\n');
      succeed(socket, count, request);
    });
    expect(await call(client)).toMatchObject({ headers: { 'content-type': 'application/json' } });
    const unframed = await testWith(
      begin(`STATUS${UNFRAMED}${JSON.stringify(call === add ? PET : [PET])}`, 'end'),
    );
    await call(unframed.client);
    expect(unframed.server.requests).toHaveLength(1);
  });
});

async function testWith(act: Act) {
  const server = await wireServer(act);
  return { server, ...testClient(server.url) };
}
