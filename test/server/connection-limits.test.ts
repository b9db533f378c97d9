import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { CONNECTION_LIMITS, listen } from '../../src/server/connection/listen.ts';
import { heap } from '../helpers/heap.ts';
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
import { AUTH, atLoopback, get, HOST, JSON_TYPE, open, post, REX, rich } from '../helpers/raw-requests.ts';
import { KEY, start } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';

// Tests with clients that are slow, are too many, do not read responses, or stay connected while the service stops.

/** Timeouts that are shorter than the real ones, for a fast test. */
const shortLimits = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };
const halfBody = open('POST', '/v1/pets', `${JSON_TYPE}Content-Length: 29\r\n\r\n{"name":`);

describe('slow clients', () => {
  test('the default limits are those of docs/service.md 8.5', () => {
    expect(CONNECTION_LIMITS).toEqual({
      headersTimeout: 5_000,
      requestTimeout: 15_000,
      idleTimeout: 30_000,
      keepAliveTimeout: 5_000,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: 8_192,
      maxConnections: 256,
    });
  });

  test.each([
    ['half a request line', 'GET /v1/pe'],
    ['headers that do not end', `GET /v1/pets HTTP/1.1\r\n${HOST}${AUTH}`],
    ['half a body', halfBody],
  ])('a client that sends %s gets 408 and is disconnected', async (_about, bytes) => {
    expect((await sendToService(bytes, { limits: shortLimits })).statuses).toEqual([408]);
  });

  test('a connection on which nothing arrives gets 408, and is not logged as a request', async () => {
    const { listening, accessLog } = await start({ limits: shortLimits });
    const socket = connectTo(Number(new URL(listening.origin).port));
    expect(String(await nextData(socket))).toContain('HTTP/1.1 408');
    expect(accessLog).toEqual([]);
  });

  test('the 408 of an unfinished body has the rate limit of its key', async () => {
    const quota = { perMinute: 777, perDay: 10_000 };
    const { responses } = await sendToService(halfBody, { limits: shortLimits, quota });
    expect(responses[0]).toMatchObject({
      status: 408,
      headers: { 'x-ratelimit-limit': '777', 'x-ratelimit-remaining': '776' },
    });
  });

  test('the idle timeout does not apply to a delayed response, but to the connection after it', async () => {
    const { call, listening } = await start({
      ...atLoopback,
      limits: { idleTimeout: 100, keepAliveTimeout: 60_000 },
      faults: { latency: { min: 300, max: 300 }, seed: 1 },
      sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    });
    expect((await call('/v1/pets')).status).toBe(200);
    // This request is incomplete, so the idle timeout closes the connection.
    expect(await sendRaw(listening.port, open('GET', '/v1/pets', 'X: unread\r\n'))).toHaveLength(0);
  });
});

describe('a connection above the limit', () => {
  /** Starts the service with a limit of three connections, and opens three. */
  async function startFull() {
    const service = await start({ ...rich, limits: { maxConnections: 3 } });
    const served = Array.from({ length: 3 }, () => connectTo(service.listening.port));
    await Promise.all(served.map((socket) => once(socket, 'connect')));
    return { ...service, served };
  }

  test.each([
    ['a list', 'GET', get('/v1/pets')],
    ['a creation', 'POST', post(REX)],
  ])('gets 503 too_many_connections for %s, and a log line', async (_about, method, bytes) => {
    const { listening, accessLog, store } = await startFull();
    const [response, ...more] = await sendRaw(listening.port, bytes);
    expect(more).toEqual([]);
    expectError(response as RawResponse);
    expect(JSON.parse(response?.body ?? '')).toEqual({
      code: 'too_many_connections',
      message: '3 connections are open, which is the limit; the request was not carried out',
      status: 503,
    });
    expect(accessLog).toMatchObject([{ method, url: '/v1/pets', status: 503 }]);
    expect(await store.size()).toBe(0);
  });

  test('gets 503 even if the client is still sending a large body', async () => {
    const { listening } = await startFull();
    const body = Buffer.alloc(15_000_000, ' ');
    const request = { method: 'POST', body, headers: { Authorization: `Bearer ${KEY}` } };
    for (let i = 0; i < 3; i++) {
      expect((await fetch(`${listening.origin}/v1/pets`, request)).status).toBe(503);
    }
  });

  test('does not disturb the connections below the limit, and is served when one of them has closed', async () => {
    const { listening, served } = await startFull();
    const refused = Array.from({ length: 20 }, () => connectTo(listening.port));
    for (const socket of refused) socket.write(open('GET', '/v1/pets'));
    for (const data of await Promise.all(refused.map(nextData))) expect(`${data}`).toContain('HTTP/1.1 503');
    served[0]?.write(get('/v1/pets'));
    const [response] = parseResponses(await nextData(served[0] as Socket));
    expect(response?.status).toBe(200);
    for (const socket of refused) socket.destroy();
    await expect.poll(async () => (await sendRaw(listening.port, get('/v1/pets')))[0]?.status).toBe(200);
  });

  test('is closed without a response if hundreds are being refused', async () => {
    const { listening, accessLog, refusedConnections } = await startFull();
    const sockets = Array.from({ length: 300 }, () => connectTo(listening.port));
    const closes = sockets.map(closed);
    await Promise.race(closes);
    expect(accessLog).toEqual([]);
    await expect.poll(refusedConnections).toBe(300);
    for (const socket of sockets) socket.destroy();
    await Promise.all(closes);
  });

  test('does not keep the service from stopping', async () => {
    const { listening, served } = await startFull();
    const socket = connectTo(listening.port);
    socket.write(open('GET', '/v1/pets'));
    expect(String(await nextData(socket))).toContain('HTTP/1.1 503');
    for (const each of served) each.destroy();
    await listening.stop(60_000);
  });
});

describe('a client that sends requests without reading responses', () => {
  test('gets no more responses than it reads, however many requests it has sent', async () => {
    const store = await memoryStore();
    let lists = 0;
    const page = Buffer.from(`["${'x'.repeat(1_000_000)}"]`);
    store.list = async () => {
      lists++;
      return { pets: page };
    };
    const { listening } = await start({ ...rich, store });
    const socket = connectTo(listening.port).pause();
    await new Promise((resolve) => socket.write(open('GET', '/v1/pets').repeat(100), resolve));
    // Other clients still get responses.
    for (let i = 0; i < 20; i++)
      expect((await sendRaw(listening.port, get('/healthz')))[0]?.status).toBe(200);
    expect(lists).toBeLessThan(30);
    socket.resume();
    await expect.poll(() => lists).toBe(100);
  });

  test('does not block others: requests of another connection are handled in between', async () => {
    const { listening, accessLog } = await start(atLoopback);
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}\r\n`.repeat(3_000);
    const sockets = Array.from({ length: 4 }, () => connectTo(listening.port));
    for (const socket of sockets) socket.resume().write(flood);
    await expect.poll(() => accessLog.length).toBeGreaterThan(100);
    const before = accessLog.length;
    expect((await sendRaw(listening.port, get('/v1/pets?limit=7')))[0]?.status).toBe(200);
    const at = accessLog.findIndex(({ url }) => url === '/v1/pets?limit=7');
    // The response must not wait until all 12,000 requests of the other connections are handled.
    expect(at - before).toBeLessThan(4_000);
    expect(accessLog.length).toBeLessThan(11_000);
  });
});

describe('a service that is stopped', () => {
  test('stops although a CONNECT waits for responses that the client does not read', async () => {
    const store = await memoryStore();
    store.list = async () => ({ pets: Buffer.from(`["${'x'.repeat(8_000_000)}"]`) });
    const { listening, accessLog } = await start({ ...rich, store });
    const socket = connectTo(listening.port).pause();
    socket.write(`${open('GET', '/v1/pets').repeat(3)}CONNECT a:1 HTTP/1.1\r\n${HOST}\r\n`);
    await expect.poll(() => accessLog.length).toBeGreaterThan(0);
    await listening.stop(100);
  });

  test('stops although clients keep sending; requests already received are still handled', async () => {
    const { listening, accessLog } = await start(atLoopback);
    // The buffers of a connection hold few of such long requests.
    const flood = `GET /v1/pets HTTP/1.1\r\n${HOST}X: ${'x'.repeat(2_000)}\r\n\r\n`.repeat(100);
    for (let i = 0; i < 4; i++) {
      const socket = connectTo(listening.port).resume();
      let left = 200;
      const pour = () => void (socket.destroyed || left-- === 0 || socket.write(flood, pour));
      pour();
    }
    await expect.poll(() => accessLog.length).toBeGreaterThan(500);
    const before = accessLog.length;
    // `stop` must resolve long before the grace period ends, although the clients continue to send.
    await listening.stop(60_000);
    // Only requests that the service had already received are handled, not all 20,000 of each connection.
    expect(accessLog.length - before).toBeLessThan(40_000);
  });

  test('is garbage-collected', async () => {
    const runOnce = async () => {
      const app = {
        handle: async () => {},
        errorResponse: () => ({ headers: [], body: '', encoding: 'utf8' as const, bytes: 0 }),
      };
      const listening = await listen(() => app, { host: '127.0.0.1', port: 0 });
      await listening.stop(0);
      return new WeakRef(app);
    };
    const stopped: WeakRef<object>[] = [];
    for (let i = 0; i < 10; i++) stopped.push(await runOnce());
    const inMemory = () => {
      heap();
      return stopped.filter((each) => each.deref() !== undefined).length;
    };
    // V8 may still reference the most recent apps.
    await expect.poll(inMemory).toBeLessThanOrEqual(2);
  });
});
