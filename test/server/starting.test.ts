import { once } from 'node:events';
import { readdir, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type ServiceOptions, startService } from '../../src/server/service.ts';
import type { OpenOptions } from '../../src/store/backend.ts';
import { StoreError } from '../../src/store/errors.ts';
import { journalLocation } from '../../src/store/journal/journal-location.ts';
import { manualClock } from '../helpers/clock.ts';
import { gate } from '../helpers/gate.ts';
import { expectCommonHeaders, sendRaw } from '../helpers/raw-client.ts';
import { start as startApp } from '../helpers/service.ts';
import { memoryStore } from '../helpers/store-fixtures.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// A service accepts connections before its store is open.

/** Starts a service. Its store is opened only after `open()`. */
async function start(changes: Partial<ServiceOptions> = {}) {
  const clock = manualClock();
  const directory = join(await temporaryDirectory(), 'store');
  const location = journalLocation(directory, clock);
  const [bound, held] = [gate(), gate()];
  const interrupt = new AbortController();
  const log: object[] = [];
  const urls: (string | undefined)[] = [];
  const starting = startService({
    location: {
      place: directory,
      async open(options) {
        urls.push(options.url);
        bound.open();
        await held.opened;
        return location.open(options);
      },
    },
    ...{ host: '127.0.0.1', port: 0, allowHosts: [], cors: [] },
    ...openOptions(clock),
    signal: interrupt.signal,
    onError: (error) => expect.unreachable(String(error)),
    onAccess: (record) => log.push(record),
    ...changes,
  });
  starting.then(
    (service) => onTestFinished(() => service.stop(0)),
    () => {},
  );
  return { starting, bound: bound.opened, open: held.open, urls, interrupt, log, location, directory };
}

const openOptions = (clock = manualClock()): OpenOptions => ({
  clock,
  bans: { after: 0, milliseconds: 0 },
  sleep: async () => {},
  onWarning: () => {},
  onFailure: () => {},
});

test('until the store is open, every request gets 503 starting with the headers of every response; other bytes get 400', async () => {
  const { bound, urls, log } = await start();
  await bound;
  const paths = '/v1/pets /v1/unknown /healthz /readyz /metrics /openapi.json /requests /'.split(' ');
  for (const [method, path] of [
    ...paths.map((each) => ['GET', each] as const),
    ...['POST', 'DELETE', 'OPTIONS'].map((each) => [each, '/v1/pets'] as const),
  ]) {
    const headers = { Authorization: 'Bearer any', 'X-Request-Id': 'mine' };
    const response = await fetch(new URL(path, urls[0]), { method, headers });
    expect(response.status, `${method} ${path}`).toBe(503);
    expect(await response.json()).toEqual({
      code: 'starting',
      message: 'The service is starting; the request was not carried out. Retry in 1 s',
      status: 503,
    });
    const common = { 'retry-after': '1', 'x-ratelimit-remaining': '60', 'x-request-id': 'mine' };
    expectCommonHeaders(Object.fromEntries(response.headers), common);
    expect(log.splice(0)).toMatchObject([{ id: 'mine', method, status: 503, code: 'starting' }]);
  }
  const [invalid] = await sendRaw(Number(new URL(urls[0] ?? '').port), 'not HTTP\r\n\r\n');
  expect(invalid?.status).toBe(400);
});

test('a page of an allowed origin can read 503 starting, because its preflight request gets 204', async () => {
  const { bound, urls } = await start({ cors: ['http://localhost:5173'] });
  await bound;
  const headers = { Origin: 'http://localhost:5173', 'Access-Control-Request-Method': 'POST' };
  const preflight = await fetch(`${urls[0]}/pets`, { method: 'OPTIONS', headers });
  const response = await fetch(`${urls[0]}/pets`, { method: 'POST', headers });
  for (const each of [preflight, response])
    expect(each.headers.get('access-control-allow-origin')).toBe('http://localhost:5173');
  expect([preflight.status, response.status]).toEqual([204, 503]);
  expect(response.headers.get('access-control-expose-headers')).toContain('Retry-After');
});

test('however often /readyz is requested, the store is checked at most once a second', async () => {
  const store = await memoryStore();
  let checks = 0;
  store.checkWritable = async () => void checks++;
  const { clock, call } = await startApp({ store });
  for (const [milliseconds, expected] of [
    [0, 1],
    [999, 1],
    [1, 2],
  ] as const) {
    clock.advance(milliseconds);
    expect((await call('/readyz')).status).toBe(200);
    expect(checks).toBe(expected);
  }
});

test('requests get 503 starting, and count against no limit, until what they need is prepared; then none fails', async () => {
  const [preparing, prepared] = [gate(), gate()];
  const { open, urls, starting } = await start({
    async prepare({ keys, url }) {
      expect(url).toBe(urls[0]);
      preparing.open();
      await prepared.opened;
      keys.addTemporary('(fixed)', 'pro', 'my-own-key');
    },
  });
  open();
  await preparing.opened;
  const list = async (key: string) => {
    const { status, headers } = await fetch(`${urls[0]}/pets`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    return [status, headers.get('x-ratelimit-remaining')];
  };
  for (const key of ['my-own-key', 'wrong']) expect(await list(key)).toEqual([503, '60']);
  expect((await fetch(new URL('/readyz', urls[0]))).status).toBe(503);
  prepared.open();
  await starting;
  expect(await list('my-own-key')).toEqual([200, '299']);
  expect(await list('wrong')).toEqual([401, '59']);
  expect((await fetch(new URL('/readyz', urls[0]))).status).toBe(200);
});

test('a port that is in use, and a seed that cannot be read, leave nothing on the disk', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const busy = await start({ port, seed: () => expect.unreachable('the seed is not read yet') });
  await expect(busy.starting).rejects.toMatchObject({ code: 'EADDRINUSE' });
  const unreadable = await start({ seed: () => Promise.reject(new Error('line 7')) });
  await expect(unreadable.starting).rejects.toThrow('line 7');
  for (const { directory } of [busy, unreadable]) await expect(readdir(directory)).rejects.toThrow('ENOENT');
});

test('a store in use is refused, to every user, with the address of its server, and can be opened after that has stopped', async () => {
  const first = await start();
  first.open();
  const service = await first.starting;
  const open = () => first.location.open(openOptions());
  const refusal = await open().catch((error) => error);
  expect(refusal).toBeInstanceOf(StoreError);
  expect(refusal.message).toContain(`(pid ${process.pid} at ${service.url})`);
  // Other users may ask whether the process of a lock has ended.
  const [lock = ''] = (await readdir(first.directory)).filter((name) => name.startsWith('lock-'));
  expect((await stat(join(first.directory, lock))).mode & 0o777).toBe(0o666);
  await service.stop(0);
  await (await open()).close();
});

test.each([
  'a signal while the seed is read',
  'a signal while the store is opened',
  'a signal while the store is seeded',
  'a signal while a key is prepared',
  'an error while a key is prepared',
])('%s ends the start, closes the port and unlocks the store', async (when) => {
  const { starting, bound, open, interrupt, urls, location } = await start({
    async prepare() {
      if (when.startsWith('an error')) throw 'no key';
      if (when.endsWith('prepared')) interrupt.abort('SIGTERM');
    },
    seed: async () => {
      if (when.endsWith('read')) interrupt.abort('SIGTERM');
      return {
        get pets() {
          if (when.endsWith('seeded')) interrupt.abort('SIGTERM');
          return [];
        },
        orders: [],
      };
    },
  });
  if (!when.endsWith('read')) await bound;
  if (when.endsWith('opened')) interrupt.abort('SIGTERM');
  open();
  await expect(starting).rejects.toBe(when.startsWith('an error') ? 'no key' : 'SIGTERM');
  if (urls[0]) await expect(fetch(`${urls[0]}/pets`)).rejects.toThrow('fetch failed');
  await (await location.open(openOptions())).close();
});
