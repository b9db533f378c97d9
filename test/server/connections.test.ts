import { describe, expect, test } from 'vitest';
import { gate } from '../helpers/gate.ts';
import {
  closed,
  connectTo,
  expectError,
  nextData,
  parseResponses,
  type RawResponse,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import {
  AUTH,
  atLoopback,
  CLOSE,
  chunked,
  get,
  HOST,
  JSON_TYPE,
  open,
  post,
  REX,
  rich,
} from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Tests of several requests on one connection, and of bodies that the service refuses or asks for (100 Continue).

const add = (body = REX) =>
  open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: ${body.length}\r\n\r\n${body}`);
const CONNECT = `CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`;

const tooLong = post('', `${JSON_TYPE}X: `)
  .toString()
  .replace('Content-Length: 0', 'Content-Length: 10000000');
test.each([
  ['by its length', tooLong],
  ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
])('a body that is too large %s is 413 before all of it has arrived', async (_about, bytes) => {
  const { listening, store, accessLog } = await start(atLoopback);
  const socket = connectTo(listening.port);
  socket.write(bytes);
  const [response] = parseResponses(await nextData(socket));
  expect(response?.status).toBe(413);
  if (response) expectError(response);
  expect(await store.size()).toBe(0);
  expect(accessLog.map(({ status }) => status)).toEqual([413]);
});

describe('Expect: 100-continue', () => {
  const expecting = (headers: string, length = 29) =>
    open('POST', '/v1/pets', `${headers}Content-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`);

  test('asks for the body when it is needed, and the animal is added', async () => {
    const { listening, store } = await start(atLoopback);
    const socket = connectTo(listening.port);
    socket.write(expecting(JSON_TYPE));
    expect(String(await nextData(socket))).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(REX);
    const [response] = parseResponses(await nextData(socket));
    expect(response?.status).toBe(201);
    expect(response?.headers['connection']).not.toBe('close');
    expect(await store.size()).toBe(1);
  });

  test.each([
    ['the wrong type', expecting(`Content-Type: text/plain\r\n${CLOSE}`), [100, 415]],
    ['a length over the limit', expecting(JSON_TYPE + CLOSE, 70_000), [100, 413]],
    ['no key', expecting(JSON_TYPE + CLOSE).replace(AUTH, ''), [100, 401]],
    ['its body, and a creation', expecting(JSON_TYPE + CLOSE) + REX + add(), [100, 201]],
  ])('with %s, gets one response', async (_about, bytes, expected) => {
    expect((await sendToService(bytes)).statuses).toEqual(expected);
  });
});

describe('requests on one connection', () => {
  /** Starts the service, and returns a function that sends bytes on one connection and reads one response. */
  async function startOpen() {
    const service = await start(rich);
    const socket = connectTo(service.listening.port);
    const send = async (bytes: string) => {
      socket.write(bytes);
      return parseResponses(await nextData(socket))[0];
    };
    return { ...service, socket, send };
  }

  test('are handled one after the other, and a read sees the creation before it', async () => {
    const { send } = await startOpen();
    for (let i = 1; i <= 50; i++) {
      const added = await send(add());
      expect(added?.status).toBe(201);
      expect(await send(open('GET', `/v1/pets/${i}`))).toMatchObject({ status: 200, body: added?.body });
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
    const { listening } = await start({ ...rich, store });
    const socket = connectTo(listening.port);
    const end = closed(socket);
    socket.write(open('GET', '/v1/store/orders'));
    await started.opened;
    await new Promise<unknown>((resolve) => socket.write(add().repeat(3), resolve));
    const response = nextData(socket);
    // Wait until the service has read these requests.
    for (let i = 0; i < 3; i++) await sendRaw(listening.port, get('/healthz'));
    held.open();
    expect(String(await response)).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\nConnection: close\r\n/);
    await end;
    expect(await store.size()).toBe(0);
  });

  test('that arrive while a long response is sent are not run, and the response is complete', async () => {
    const store = await memoryStore();
    const text = `"${'x'.repeat(8_000_000)}"`;
    store.orders = async () => [text];
    const { listening, accessLog } = await start({ ...rich, store });
    const socket = connectTo(listening.port).pause();
    socket.write(open('GET', '/v1/store/orders'));
    await expect.poll(() => accessLog.length).toBe(1);
    await new Promise<unknown>((resolve) => socket.write(add(), resolve));
    const chunks: Buffer[] = [];
    const end = closed(socket);
    socket.on('data', (chunk) => chunks.push(chunk)).resume();
    await end;
    const responses = parseResponses(Buffer.concat(chunks));
    expect(responses.map(({ status, body }) => [status, body.length])).toEqual([[200, text.length + 2]]);
    expect(await store.size()).toBe(0);
  });

  test('cannot be smuggled in as the body of another request', async () => {
    const { send, accessLog } = await startOpen();
    const inner = get('/v1/store/orders');
    await send(open('GET', '/v1/pets', `Content-Length: ${inner.length}\r\n\r\n${inner}`));
    await send(get('/v1/pets?limit=1'));
    expect(accessLog.map(({ url }) => url)).toEqual(['/v1/pets', '/v1/pets?limit=1']);
  });

  test('add nothing in the middle of a body if the client closes its sending side', async () => {
    expect((await sendToService(add().slice(0, -5), { halfClose: true })).statuses).toEqual([400]);
  });

  const ERRORS: [about: string, bytes: string, status: number][] = [
    ['bytes that are not HTTP', '\0\r\n\r\n', 400],
    ['an unknown method', `FOO /v1/pets HTTP/1.1\r\n${HOST}\r\n`, 400],
    ['headers of 9 KiB', open('GET', '/v1/pets', `X: ${'x'.repeat(9_216)}\r\n\r\n`), 431],
    ['two lengths', open('POST', '/v1/pets', 'Content-Length: 1\r\nContent-Length: 2\r\n\r\n'), 400],
  ];
  test.each(ERRORS)(
    'after a response, %s get an error, after which nothing is run',
    async (_about, bytes, status) => {
      const { send, socket, store, accessLog } = await startOpen();
      const end = closed(socket);
      expect((await send(add()))?.status).toBe(201);
      const error = await send(bytes + add());
      expect(error?.status).toBe(status);
      expectError(error as RawResponse);
      expect(error?.headers['connection']).toBe('close');
      expect(Date.parse(error?.headers['date'] ?? '')).not.toBeNaN();
      await end;
      expect(await store.size()).toBe(1);
      // The last line is the one of the error.
      expect(accessLog.map(({ method }) => method)).toEqual(['POST', '-']);
    },
  );

  test.each(ERRORS)(
    'before a response, %s get no error of their own; that response closes the connection',
    async (_about, bytes) => {
      const { statuses, responses } = await sendToService(add() + bytes + add(), rich);
      expect(statuses).toEqual([201]);
      expect(responses[0]?.headers['connection']).toBe('close');
    },
  );

  test('get the error after an unread body too', async () => {
    const { send } = await startOpen();
    const unread = open('GET', '/v1/pets', `Content-Length: 65536\r\n\r\n${' '.repeat(65_536)}`);
    expect((await send(unread))?.status).toBe(200);
    expect((await send('g\r\n\r\n'))?.status).toBe(400);
  });

  test('that are refused before their body get no second response if the body is broken', async () => {
    const { listening, accessLog } = await start(atLoopback);
    const socket = connectTo(listening.port);
    const end = closed(socket);
    socket.write(chunked('').replace(AUTH, '').replace(CLOSE, ''));
    const [response] = parseResponses(await nextData(socket));
    expect(response?.status).toBe(401);
    socket.on('data', () => expect.unreachable('a second response')).write('nonsense\r\n');
    await end;
    expect(accessLog).toHaveLength(1);
  });
});

test('a broken body ends at once, not after a timeout', async () => {
  const { listening, accessLog } = await start(atLoopback);
  const socket = connectTo(listening.port);
  const end = closed(socket);
  socket.write(chunked('5\r\n'));
  // The request is running before its body is broken.
  for (let i = 0; i < 3; i++) await sendRaw(listening.port, get('/healthz'));
  const before = performance.now();
  socket.write('nonsense\r\nnonsense\r\n');
  expect(parseResponses(await nextData(socket))[0]).toMatchObject({ status: 400 });
  await end;
  expect(performance.now() - before).toBeLessThan(4_000);
  expect(accessLog.filter(({ url }) => url === '/v1/pets')).toMatchObject([{ method: 'POST', status: 400 }]);
});

test('CONNECT is closed without a response', async () => {
  expect((await sendToService(CONNECT)).statuses).toEqual([]);
});

describe('nothing after the last request of a connection is executed', () => {
  test.each([
    ['Connection: close', open('GET', '/v1/pets', 'Connection: close\r\n\r\n')],
    ['an ignored Upgrade', open('GET', '/v1/pets', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n')],
    ['HTTP/1.0', `GET /v1/pets HTTP/1.0\r\n${HOST}${AUTH}\r\n`],
  ])('%s', async (_about, bytes) => {
    for (const more of [add(), 'nonsense\r\n\r\n']) {
      const { statuses, responses } = await sendToService(bytes + more);
      expect(statuses).toEqual([200]);
      expect(responses[0]?.headers['connection']).toBe('close');
    }
  });

  test('the body that follows an ignored Upgrade later is not a request', async () => {
    const { listening, store, accessLog } = await start(atLoopback);
    const socket = connectTo(listening.port).resume();
    const end = closed(socket);
    const smuggled = add();
    socket.write(
      open('GET', '/healthz', 'Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n') +
        open('POST', '/v1/nope', `Content-Length: ${smuggled.length}\r\n\r\n`),
    );
    await expect.poll(() => accessLog.length).toBe(1);
    socket.write(smuggled);
    await end;
    expect(await store.size()).toBe(0);
    expect(accessLog.map(({ url }) => url)).toEqual(['/healthz']);
  });
});
