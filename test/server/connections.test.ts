import { describe, expect, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import {
  AUTH,
  atLoopback,
  CLOSE,
  chunked,
  connectTo,
  expectError,
  get,
  HOST,
  JSON_TYPE,
  open,
  parseResponses,
  post,
  REX,
  rich,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Tests of several requests on one connection, and of bodies that the service refuses or asks for (100 Continue).

const add = (body = REX) =>
  open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);

/** Starts the service, and opens a connection to it. */
async function startOpen(options = rich) {
  const service = await start(options);
  return { ...service, line: connectTo(service.listening.port) };
}

const tooLong = post('', `${JSON_TYPE}X: `)
  .toString()
  .replace('Content-Length: 0', 'Content-Length: 10000000');
test.each([
  ['by its length', tooLong],
  ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
])('a body that is too large %s is 413 before all of it has arrived', async (_about, bytes) => {
  const { line, store, accessLog } = await startOpen();
  const response = await line.ask(bytes);
  expect(response.status).toBe(413);
  expectError(response);
  expect(await store.size()).toBe(0);
  expect(accessLog.map(({ status }) => status)).toEqual([413]);
});

describe('Expect: 100-continue', () => {
  const expecting = (headers: string, length = 29) =>
    open('POST', '/v1/pets', `${headers}Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`);

  test('asks for the body when it is needed, and the animal is added', async () => {
    const { line, store } = await startOpen();
    await line.send(expecting(JSON_TYPE));
    expect((await line.receive())?.status).toBe(100);
    const { status, headers } = await line.ask(REX);
    expect([status, headers['connection'] ?? 'keep-alive']).toEqual([201, 'keep-alive']);
    expect(await store.size()).toBe(1);
  });

  test.each([
    ['the wrong type', expecting(`Content-Type: text/plain\r\n${CLOSE}`), [100, 415]],
    ['another expectation', expecting(JSON_TYPE + CLOSE).replace('100-continue', 'banana'), [417]],
    ['no key', expecting(JSON_TYPE + CLOSE).replace(AUTH, ''), [100, 401]],
    ['its body, and a creation', expecting(JSON_TYPE + CLOSE) + REX + add(), [100, 201]],
  ])('with %s, gets one response', async (_about, bytes, expected) => {
    expect((await sendToService(bytes)).statuses).toEqual(expected);
  });
});

describe('requests on one connection', () => {
  test('are handled one after the other, and a read sees the creation before it', async () => {
    const { line } = await startOpen();
    for (let i = 1; i <= 50; i++) {
      const added = await line.ask(add());
      expect(added.status).toBe(201);
      expect(await line.ask(open('GET', `/v1/pets/${i}`))).toMatchObject({ status: 200, body: added.body });
    }
  });

  test('that arrive before a response are not run, and that response closes the connection', async () => {
    const bytes = add() + add().repeat(2_000) + get('/v1/pets');
    const { statuses, responses, accessLog } = await sendToService(bytes, rich);
    expect(statuses).toEqual([201]);
    expect(responses[0]?.headers['connection']).toBe('close');
    expect(accessLog).toHaveLength(1);
  });

  test('that arrive while the store works are not run either', async () => {
    const store = await memoryStore();
    const [started, held] = [gate(), gate()];
    store.orders = async () => {
      started.open();
      await held.opened;
      return [];
    };
    const { listening, line } = await startOpen({ ...rich, store });
    await line.send(open('GET', '/v1/store/orders'));
    await started.opened;
    await new Promise<unknown>((resolve) => line.socket.write(add().repeat(3), resolve));
    // Wait until the service has read these requests.
    for (let i = 0; i < 3; i++) await sendRaw(listening.port, get('/healthz'));
    held.open();
    expect(parseResponses(await line.rest())).toMatchObject([
      { status: 200, headers: { connection: 'close' } },
    ]);
    expect(await store.size()).toBe(0);
  });

  test('that arrive while a long response is sent are not run, and the response is complete', async () => {
    const store = await memoryStore();
    const text = `"${'x'.repeat(8_000_000)}"`;
    store.orders = async () => [text];
    const { line, accessLog } = await startOpen({ ...rich, store });
    line.socket.pause();
    await line.send(open('GET', '/v1/store/orders'));
    await expect.poll(() => accessLog.length).toBe(1);
    await new Promise<unknown>((resolve) => line.socket.write(add(), resolve));
    line.socket.resume();
    const responses = parseResponses(await line.rest());
    expect(responses.map(({ status, body }) => [status, body.length])).toEqual([[200, text.length + 2]]);
    expect(await store.size()).toBe(0);
  });

  test('cannot be smuggled in as the body of another request', async () => {
    const { line, accessLog } = await startOpen();
    const inner = get('/v1/store/orders');
    await line.ask(open('GET', '/v1/pets', `Content-Length: ${inner.length}\r\n\r\n${inner}`));
    await line.ask(get('/v1/pets?limit=1'));
    expect(accessLog.map(({ url }) => url)).toEqual(['/v1/pets', '/v1/pets?limit=1']);
  });

  test('add nothing in the middle of a body if the client closes its sending side', async () => {
    const { line, store } = await startOpen();
    await line.send(add().slice(0, -5));
    line.socket.end();
    expect(parseResponses(await line.rest())).toMatchObject([{ status: 400 }]);
    expect(await store.size()).toBe(0);
  });

  test.each([
    ['bytes that are not HTTP', '\0\r\n\r\n', 400],
    ['an unknown method', `FOO /v1/pets HTTP/1.1\r\n${HOST}\r\n`, 400],
    ['headers of 9 KiB', open('GET', '/v1/pets', `X: ${'x'.repeat(9_216)}\r\n\r\n`), 431],
    ['two lengths', open('POST', '/v1/pets', 'Content-Length: 1\r\nContent-Length: 2\r\n\r\n'), 400],
  ])('after a response, %s get an error; before it, nothing', async (_about, bytes, status) => {
    const { line, store, accessLog } = await startOpen();
    expect((await line.ask(add())).status).toBe(201);
    const error = await line.ask(bytes + add());
    expect(error.status).toBe(status);
    expectError(error);
    expect(error.headers['connection']).toBe('close');
    expect(Date.parse(error.headers['date'] ?? '')).not.toBeNaN();
    expect(String(await line.rest())).toBe('');
    expect(await store.size()).toBe(1);
    // The last line is the one of the error.
    expect(accessLog.map(({ method }) => method)).toEqual(['POST', '-']);

    const { statuses, responses } = await sendToService(add() + bytes + add(), rich);
    expect(statuses).toEqual([201]);
    expect(responses[0]?.headers['connection']).toBe('close');
  });

  test('that are refused before their body get no second response if the body is broken', async () => {
    const { line, accessLog } = await startOpen();
    const { status } = await line.ask(chunked('').replace(AUTH, '').replace(CLOSE, ''));
    expect(status).toBe(401);
    await line.send('nonsense\r\n');
    expect(String(await line.rest())).toBe('');
    expect(accessLog).toHaveLength(1);
  });
});

test('a broken body ends at once, not after a timeout', async () => {
  const { listening, line, accessLog } = await startOpen();
  await line.send(chunked('5\r\n'));
  // The request is running before its body is broken.
  for (let i = 0; i < 3; i++) await sendRaw(listening.port, get('/healthz'));
  const before = performance.now();
  await line.send('nonsense\r\nnonsense\r\n');
  expect(parseResponses(await line.rest())).toMatchObject([{ status: 400 }]);
  expect(performance.now() - before).toBeLessThan(4_000);
  expect(accessLog.filter(({ url }) => url === '/v1/pets')).toMatchObject([{ method: 'POST', status: 400 }]);
});

describe('nothing is executed after', () => {
  test.each([
    ['CONNECT', `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`, []],
    ['Connection: close', open('GET', '/v1/pets', 'Connection: close\r\n\r\n'), [200]],
    ['an ignored Upgrade', open('GET', '/v1/pets', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n'), [200]],
    ['HTTP/1.0', `GET /v1/pets HTTP/1.0\r\n${HOST}${AUTH}\r\n`, [200]],
  ])('%s', async (_about, bytes, expected) => {
    for (const more of [add(), 'nonsense\r\n\r\n']) {
      const { statuses, responses } = await sendToService(bytes + more);
      expect(statuses).toEqual(expected);
      for (const { headers } of responses) expect(headers['connection']).toBe('close');
    }
  });

  test('an ignored Upgrade whose body follows later', async () => {
    const { line, store, accessLog } = await startOpen(atLoopback);
    const smuggled = add();
    await line.send(
      open('GET', '/healthz', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n') +
        open('POST', '/v1/nope', `Content-Length: ${smuggled.length}\r\n\r\n`),
    );
    await expect.poll(() => accessLog.length).toBe(1);
    await line.send(smuggled);
    await line.rest();
    expect(await store.size()).toBe(0);
    expect(accessLog.map(({ url }) => url)).toEqual(['/healthz']);
  });
});
