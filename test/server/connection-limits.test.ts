import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { CONNECTION_LIMITS } from '../../src/server/connection/listen.ts';
import {
  closed,
  connectTo,
  nextData,
  parseResponses,
  sendRaw,
  sendToService,
} from '../helpers/raw-client.ts';
import { AUTH, atLoopback, get, HOST, JSON_TYPE, open, rich } from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';
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
      maxConnections: 512,
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
  test('is closed without a response, and does not disturb the others', async () => {
    const { listening, accessLog } = await start({ ...rich, limits: { maxConnections: 3 } });
    const served = Array.from({ length: 3 }, () => connectTo(listening.port));
    await Promise.all(served.map((socket) => once(socket, 'connect')));
    for (let i = 0; i < 20; i++) expect(await sendRaw(listening.port, get('/v1/pets'))).toEqual([]);
    expect(accessLog).toEqual([]);
    served[0]?.write(open('GET', '/v1/pets'));
    expect(String(await nextData(served[0] as Socket))).toContain('HTTP/1.1 200');
    served[1]?.destroy();
    await expect.poll(async () => (await sendRaw(listening.port, get('/v1/pets')))[0]?.status).toBe(200);
  });
});

/** Starts the service with a list of 8 MB, and asks for it on a connection that is not read. */
async function startUnread(limits = {}) {
  const store = await memoryStore();
  store.list = async () => ({ pets: Buffer.from(`["${'x'.repeat(8_000_000)}"]`) });
  const service = await start({ ...rich, store, limits });
  const socket = connectTo(service.listening.port).pause();
  socket.write(open('GET', '/v1/pets'));
  await expect.poll(() => service.accessLog.length).toBe(1);
  return { ...service, socket };
}

test('a client that does not read its response is disconnected', async () => {
  const { socket } = await startUnread({ idleTimeout: 100 });
  await new Promise((resolve) => setTimeout(resolve, 400));
  let received = 0;
  const end = closed(socket);
  socket.on('data', (chunk) => (received += chunk.length)).resume();
  await end;
  expect(received).toBeLessThan(8_000_000);
});

describe('a service that is stopped', () => {
  test('stops although a client does not read its response', async () => {
    const { listening } = await startUnread();
    await listening.stop(100);
  });

  test('completes a response that is being sent', async () => {
    const { listening, socket } = await startUnread();
    const stopped = listening.stop(60_000);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk)).resume();
    await stopped;
    await closed(socket);
    expect(parseResponses(Buffer.concat(chunks))).toMatchObject([{ status: 200 }]);
  });

  test('does not wait for connections on which no request has arrived', async () => {
    const { listening } = await start();
    const sockets = ['', 'GET /v1/pets HTTP/1.1\r\n', open('GET', '/v1/pets')].map((bytes) => {
      const socket = connectTo(listening.port).resume();
      socket.write(bytes);
      return socket;
    });
    await nextData(sockets[2] as Socket);
    await listening.stop(60_000);
  });
});
