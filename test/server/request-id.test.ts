import { expect, test } from 'vitest';
import { connectTo, nextData, parseResponses, sendRaw, sendToService } from '../helpers/raw-client.ts';
import { atLoopback, CLOSE, get, HOST, open, post, REX } from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';

const GENERATED = /^[0-9a-f]{12}-\d+$/;

/** The request ids of all responses to the bytes. */
const idsOf = async (bytes: string | Buffer) => {
  const { responses } = await sendToService(bytes, { limits: SHORT });
  return responses.map(({ headers }) => headers['x-request-id']);
};
const SHORT = { headersTimeout: 100, requestTimeout: 100, connectionsCheckingInterval: 20 };

test.each([
  ['a', true],
  ['.-_9Z', true],
  ['x'.repeat(64), true],
  ['', false],
  ['x'.repeat(65), false],
  ['a, b', false],
  ['ä', false],
  ['a\r\nX-Request-Id: b', false],
])('the request id %j is accepted: %s', async (id, isAccepted) => {
  const [received] = await idsOf(get('/v1/pets', `X-Request-Id: ${id}\r\n`));
  if (isAccepted) expect(received).toBe(id);
  else expect(received).toMatch(GENERATED);
});

const SENT = 'X-Request-Id: mine\r\n';

test.each([
  ['a list', get('/v1/pets', SENT)],
  ['a creation', post(REX, `Content-Type: application/json\r\n${SENT}`)],
  ['a missing key', `GET /v1/pets HTTP/1.1\r\n${HOST}${CLOSE}${SENT}\r\n`],
  ['an unknown path outside the API', get('/nothing', SENT)],
  ['an unknown host', `GET /v1/pets HTTP/1.1\r\nHost: evil.example\r\n${CLOSE}${SENT}\r\n`],
  ['OPTIONS', open('OPTIONS', '/v1/pets', `${CLOSE}${SENT}\r\n`)],
  ['a body that never ends', open('POST', '/v1/pets', `${SENT}Content-Length: 9\r\n\r\n`)],
])('the response to %s has the request id of the request', async (_about, bytes) => {
  expect(await idsOf(bytes)).toEqual(['mine']);
});

test.each([
  ['bytes that are not HTTP', '\0\r\n\r\n'],
  ['an unknown method', `FOO / HTTP/1.1\r\n${HOST}${SENT}\r\n`],
  ['headers that are too large', get('/v1/pets', `X: ${'x'.repeat(9_000)}\r\n${SENT}`)],
  ['headers that never end', `GET /v1/pets HTTP/1.1\r\n${HOST}`],
])('the error of %s has a new request id', async (_about, bytes) => {
  const { responses, accessLog } = await sendToService(bytes, { limits: SHORT });
  const [id = ''] = responses.map(({ headers }) => headers['x-request-id']);
  expect(id).toMatch(GENERATED);
  expect(accessLog.map((entry) => entry.id)).toEqual([id]);
});

test('the requests of a connection have different ids, as in the log', async () => {
  const { listening, accessLog } = await start(atLoopback);
  const socket = connectTo(listening.port);
  const ids: (string | undefined)[] = [];
  for (let i = 0; i < 4; i++) {
    socket.write(open('GET', '/healthz'));
    ids.push(parseResponses(await nextData(socket))[0]?.headers['x-request-id']);
  }
  expect(new Set(ids).size).toBe(4);
  expect(accessLog.map(({ id }) => id)).toEqual(ids);
});

test('a parser error after a complete request has another id than that request', async () => {
  const { listening } = await start(atLoopback);
  const socket = connectTo(listening.port);
  socket.write(open('GET', '/healthz', `${SENT}\r\n`));
  const [first] = parseResponses(await nextData(socket));
  socket.write('\0\r\n\r\n');
  const [second] = parseResponses(await nextData(socket));
  expect(first?.headers['x-request-id']).toBe('mine');
  expect(second?.headers['x-request-id']).toMatch(GENERATED);
});

test('a service that is started again generates other ids', async () => {
  const ids = [];
  for (let i = 0; i < 2; i++) {
    const { listening } = await start(atLoopback);
    ids.push((await sendRaw(listening.port, get('/healthz')))[0]?.headers['x-request-id']);
  }
  expect(ids[0]).not.toBe(ids[1]);
});
