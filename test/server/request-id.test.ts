import { expect, test } from 'vitest';
import {
  atLoopback,
  CLOSE,
  connectTo,
  get,
  HOST,
  open,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';

const GENERATED = /^[0-9a-f]{12}-\d+$/;
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
  const { responses } = await sendToService(get('/v1/pets', `X-Request-Id: ${id}\r\n`));
  expect(responses[0]?.headers['x-request-id']).toMatch(isAccepted ? id : GENERATED);
});

const SENT = 'X-Request-Id: mine\r\n';

test.each([
  ['a missing key', `GET /v1/pets HTTP/1.1\r\n${HOST}${CLOSE}${SENT}\r\n`, 'mine'],
  ['an unknown path outside the API', get('/nothing', SENT), 'mine'],
  ['an unknown host', `GET /v1/pets HTTP/1.1\r\nHost: evil.example\r\n${CLOSE}${SENT}\r\n`, 'mine'],
  ['OPTIONS', open('OPTIONS', '/v1/pets', `${CLOSE}${SENT}\r\n`), 'mine'],
  ['a body that never ends', open('POST', '/v1/pets', `${SENT}Content-Length: 9\r\n\r\n`), 'mine'],
  ['bytes that are not HTTP', '\0\r\n\r\n', GENERATED],
  ['an unknown method', `FOO / HTTP/1.1\r\n${HOST}${SENT}\r\n`, GENERATED],
  ['headers that are too large', get('/v1/pets', `X: ${'x'.repeat(9_000)}\r\n${SENT}`), GENERATED],
  ['headers that never end', `GET /v1/pets HTTP/1.1\r\n${HOST}`, GENERATED],
])(
  'the response to %s has the request id of the log: that of the request, or a new one',
  async (_about, bytes, id) => {
    const { responses, accessLog } = await sendToService(bytes, { limits: SHORT });
    const [received = ''] = responses.map(({ headers }) => headers['x-request-id']);
    expect(received).toMatch(id);
    expect(accessLog.map((entry) => entry.id)).toEqual([received]);
  },
);

test('the requests of a connection, and those of another start, have different ids', async () => {
  const ids: (string | undefined)[] = [];
  for (let i = 0; i < 2; i++) {
    const { listening } = await start(atLoopback);
    const line = connectTo(listening.port);
    for (const bytes of [open('GET', '/healthz'), open('GET', '/healthz', `${SENT}\r\n`), '\0\r\n\r\n'])
      ids.push((await line.ask(bytes)).headers['x-request-id']);
    ids.push((await sendRaw(listening.port, get('/healthz')))[0]?.headers['x-request-id']);
  }
  expect(ids.filter((id) => id === 'mine')).toHaveLength(2);
  expect(new Set(ids).size).toBe(7);
});
