import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { NetworkError, OutcomeUnknownError } from '../../src/client/errors.ts';
import { add, callers, failureOf, list, PET, testClient } from '../helpers/client.ts';
import { closedPort } from '../helpers/raw-server.ts';
import { type Act, answer, reset, wireServer } from '../helpers/wire-server.ts';

// A service whose connections are cut, below HTTP: who calls it sends no creation twice, and knows what it knows.

const LENGTH = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n';
const CHUNKED = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
const UNFRAMED = 'Content-Type: application/json\r\n\r\n';
const success: Act = (socket, _count, { line }) => {
  socket.write(line.startsWith('GET') ? answer(200, [PET]) : answer(201, PET));
};
/** Begins the answer that is expected, and ends the connection in it. */
const begins =
  (text: string, end: 'end' | 'reset' = 'end'): Act =>
  (socket, _count, { line }) => {
    const status = `HTTP/1.1 ${line.startsWith('GET') ? '200 OK' : '201 Created'}\r\n`;
    socket.write(status + text, () => (end === 'end' ? socket.end() : setTimeout(reset, 10, socket)));
  };

const cuts: [string, Act | undefined][] = [
  ['before the request is read', undefined],
  ['behind the request, by a reset', reset],
  ['behind the request, politely', (socket) => socket.end()],
  ['in the status line', (socket) => socket.end('HTTP/1.1 20')],
  ['in the headers', begins('Content-Type: appl')],
  ['in the headers, by a reset', begins('Content-Type: appl', 'reset')],
  ['in a body with a length', begins(`${LENGTH}[{"id":1`)],
  ['in a body with a length, by a reset', begins(`${LENGTH}[{"id":1`, 'reset')],
  ['before a body with a length', begins(LENGTH)],
  ['in a chunk', begins(`${CHUNKED}40\r\n[{"id":1`)],
  ['between chunks', begins(`${CHUNKED}8\r\n[{"id":1\r\n`)],
  ['in a body without any framing', begins(`${UNFRAMED}[{"id":1`)],
  ['in a body without any framing, by a reset', begins(`${UNFRAMED}[{"id":1`, 'reset')],
  ['behind no answer but an early hint', (socket) => socket.end('HTTP/1.1 103 Early Hints\r\n\r\n')],
  ['behind what is no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n')],
  ['for it sends 100, which nobody has asked for', (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n')],
  [
    'for it switches protocols',
    (socket) =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n'),
  ],
];

describe.each(callers)('$name', ({ call, isHonoured, isRepeated }) => {
  const start = async (act: Act | undefined, cutConnections = Number.POSITIVE_INFINITY) => {
    const server = await wireServer(
      (socket, count, request) =>
        (server.connections() > cutConnections ? success : (act ?? success))(socket, count, request),
      (socket, count) => {
        if (act === undefined && count <= cutConnections)
          socket.prependOnceListener('data', () => reset(socket));
      },
    );
    const tested = testClient(server.url);
    tested.service.noteIdempotency(isHonoured);
    const keys = () => new Set(server.requests.map(({ headers }) => headers['idempotency-key']));
    return { ...tested, server, keys };
  };

  test.each(cuts)('that is cut %s', async (_name, act) => {
    const { client, server, attempts, keys } = await start(act);
    const error = await failureOf(call(client));
    expect(attempts).toHaveLength(isRepeated ? 3 : 1);
    expect(server.connections()).toBe(attempts.length);
    expect(server.requests).toHaveLength(act === undefined ? 0 : attempts.length);
    const cause = call === add ? (error as Error).cause : error;
    expect(cause).toBeInstanceOf(NetworkError);
    expect(cause).toMatchObject({ sent: true });
    if (call === add) {
      expect(error).toBeInstanceOf(OutcomeUnknownError);
      const { idempotencyKey, honoured } = error as OutcomeUnknownError;
      expect(honoured).toBe(isHonoured);
      expect([...keys()]).toEqual(act === undefined ? [] : [`"${idempotencyKey}"`]);
    } else expect([...keys()]).toEqual(act === undefined ? [] : [undefined]);
  });

  if (isRepeated) {
    test.each(cuts)('that is cut %s once succeeds, with the same key', async (_name, act) => {
      const { client, attempts, keys } = await start(act, 1);
      await call(client);
      expect(attempts).toHaveLength(2);
      expect(keys().size).toBe(1);
    });
  }

  test('where nothing listens is tried three times: nothing was sent', async () => {
    const { client, attempts } = testClient(`http://127.0.0.1:${await closedPort()}/v1`);
    const error = await failureOf(call(client));
    expect(error).toBeInstanceOf(NetworkError);
    expect(error).toMatchObject({ code: 'ECONNREFUSED', sent: false });
    expect(attempts).toHaveLength(3);
  });

  test('on a connection that the service has closed since is sent once, on another', async () => {
    const server = await wireServer((socket, count, request) => {
      success(socket, count, request);
      setTimeout(() => socket.end(), 5);
    });
    const { client, attempts } = testClient(server.url);
    await list(client);
    await pause(30);
    await call(client);
    expect([server.requests.length, server.connections(), attempts.length]).toEqual([2, 2, 2]);
  });

  test('on a connection that the service cuts then was sent all the same', async () => {
    const server = await wireServer((socket, count, request) =>
      count === 2 ? reset(socket) : success(socket, count, request),
    );
    const { client, service } = testClient(server.url);
    await list(client);
    await pause(5);
    service.noteIdempotency(isHonoured);
    const outcome = call(client);
    if (isRepeated) await outcome;
    else expect(await failureOf(outcome)).toBeInstanceOf(OutcomeUnknownError);
    expect(server.requests).toHaveLength(isRepeated ? 3 : 2);
    expect(server.connections()).toBe(isRepeated ? 2 : 1);
  });

  test('behind early hints is answered', async () => {
    const server = await wireServer((socket, count, request) => {
      socket.write('HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nContent-Type: text/html\r\n\r\n');
      success(socket, count, request);
    });
    const { client } = testClient(server.url);
    expect(await call(client)).toMatchObject({ headers: { 'content-type': 'application/json' } });
    expect(server.requests).toHaveLength(1);
  });

  test('without any framing but whole is answered', async () => {
    const server = await wireServer((socket, _count, { line }) => {
      const [status, body] = line.startsWith('GET') ? [200, [PET]] : [201, PET];
      socket.end(`HTTP/1.1 ${status} OK\r\n${UNFRAMED}${JSON.stringify(body)}`);
    });
    const { client } = testClient(server.url);
    await call(client);
    expect(server.requests).toHaveLength(1);
  });
});
