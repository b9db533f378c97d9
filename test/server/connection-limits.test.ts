import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { CONNECTION_LIMITS } from '../../src/server/connection/listen.ts';
import { gate } from '../helpers/gate.ts';
import {
  AUTH,
  atLoopback,
  connectTo,
  get,
  HOST,
  JSON_TYPE,
  open,
  rich,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import { start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Tests with clients that are slow, are too many, do not read responses, or stay connected while the service stops.

/** Timeouts that are shorter than the real ones, for a fast test. */
const shortLimits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };

describe('slow clients', () => {
  test('the default limits are those of docs/service.md 8.5', () => {
    expect(CONNECTION_LIMITS).toEqual({
      headersTimeout: 5_000,
      requestTimeout: 15_000,
      idleTimeout: 30_000,
      keepAliveTimeout: 5_000,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: 8_192,
      maxConnections: 512,
    });
  });

  test.each([
    ['nothing', '', 0, '60'],
    ['half a request line', 'GET /v1/pe', 1, '60'],
    ['headers that do not end', `GET /v1/pets HTTP/1.1\r\n${HOST}${AUTH}`, 1, '60'],
    ['half a body', open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: 29\r\n\r\n{"name":`), 1, '776'],
  ])('a client that sends %s gets 408 and is disconnected', async (_about, bytes, logged, remaining) => {
    const quota = { perMinute: 777, perDay: 10_000 };
    const { statuses, responses, accessLog } = await sendToService(bytes, { limits: shortLimits, quota });
    expect([statuses, accessLog.length]).toEqual([[408], logged]);
    expect(responses[0]?.headers['x-ratelimit-remaining']).toBe(remaining);
  });

  test('the idle timeout does not apply to a delayed response, but to the connection after it', async () => {
    const { call, listening } = await start({
      ...atLoopback,
      limits: { idleTimeout: 300, keepAliveTimeout: 60_000 },
      faults: { latency: { min: 600, max: 600 }, seed: 1 },
      sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    });
    expect((await call('/v1/pets')).status).toBe(200);
    // This request is incomplete, so the idle timeout closes the connection.
    expect(await sendRaw(listening.port, open('GET', '/v1/pets', 'X: unread\r\n'))).toHaveLength(0);
  });
});

test('a connection above the limit is closed without a response, and does not disturb the others', async () => {
  const { listening, accessLog } = await start({ ...rich, limits: { maxConnections: 2 } });
  const served = [connectTo(listening.port), connectTo(listening.port)] as const;
  await Promise.all(served.map(({ socket }) => once(socket, 'connect')));
  for (let i = 0; i < 20; i++) expect(await sendRaw(listening.port, get('/v1/pets'))).toEqual([]);
  expect(accessLog).toEqual([]);
  expect((await served[0].ask(open('GET', '/v1/pets'))).status).toBe(200);
  served[1].socket.destroy();
  await expect.poll(async () => (await sendRaw(listening.port, get('/v1/pets')))[0]?.status).toBe(200);
});

/** Starts the service with a list of 8 MB, and asks for it on a connection that is not read. */
async function startUnread(limits = {}) {
  const store = await memoryStore();
  store.list = async () => ({ pets: Buffer.from(`["${'x'.repeat(8_000_000)}"]`) });
  const service = await start({ ...rich, store, limits });
  const line = connectTo(service.listening.port);
  line.socket.pause();
  await line.send(open('GET', '/v1/pets'));
  await expect.poll(() => service.accessLog.length).toBe(1);
  return { ...service, line };
}

test('a client that does not read its response is disconnected', async () => {
  const { line } = await startUnread({ idleTimeout: 100 });
  await new Promise((resolve) => setTimeout(resolve, 400));
  line.socket.resume();
  expect((await line.rest()).length).toBeLessThan(8_000_000);
});

describe('a service that is stopped', () => {
  test.each([
    ['finishes the running request and accepts no other', false],
    ['closes the connection of a request that outlasts the grace period', true],
  ])('%s', async (_about, isHeld) => {
    const store = await memoryStore();
    const [started, held] = [gate(), gate()];
    store.list = async () => {
      started.open();
      await held.opened;
      return { pets: Buffer.alloc(0) };
    };
    const { listening, call } = await start({ store });
    const running = call('/v1/pets').catch((error: unknown) => error);
    await started.opened;
    const stopped = listening.stop(isHeld ? 50 : 60_000);
    await expect(call('/v1/pets')).rejects.toThrow();
    if (!isHeld) held.open();
    await stopped;
    if (isHeld) expect(await running).toBeInstanceOf(TypeError);
    else expect(await running).toMatchObject({ status: 200 });
  });

  test('completes a response that is being sent, unless the client does not read it', async () => {
    const { listening, line } = await startUnread();
    const stopped = listening.stop(60_000);
    line.socket.resume();
    expect((await line.receive())?.status).toBe(200);
    await stopped;
    await (await startUnread()).listening.stop(100);
  });

  test('does not wait for connections on which no request has arrived, or that sent invalid bytes', async () => {
    const noLimits = { headersTimeout: 0, requestTimeout: 0, idleTimeout: 0, keepAliveTimeout: 0 };
    const { listening } = await start({ limits: noLimits });
    const all = ['', 'GET /v1/pets HTTP/1.1\r\n', 'nonsense\r\n\r\n', open('GET', '/v1/pets')];
    const lines = all.map(() => connectTo(listening.port, true));
    await Promise.all(all.map((bytes, i) => lines[i]?.send(bytes)));
    for (const line of lines.slice(2)) await line.receive();
    await listening.stop(600_000);
  });
});
