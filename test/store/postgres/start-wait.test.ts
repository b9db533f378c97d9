import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { BackendOptions } from '../../../src/store/backend.ts';
import { manualClock } from '../../helpers/clock.ts';
import { databaseLocation } from '../../helpers/postgres/backends.ts';

// A server waits for a database that is being started. No PostgreSQL is needed: these tests never get a connection.

/** Opens a store. All waits only advance a manual clock; `onSleep` is called instead of waiting. */
async function open(url: string, onSleep: (waits: number) => void = () => {}) {
  const clock = manualClock();
  const interrupt = new AbortController();
  const [warnings, waits]: [string[], number[]] = [[], []];
  const opening = (await databaseLocation(url)).claim({
    clock,
    signal: interrupt.signal,
    bans: { after: 0, milliseconds: 0 },
    onWarning: (message) => warnings.push(message),
    onFailure: () => {},
    async sleep(milliseconds) {
      clock.advance(milliseconds);
      waits.push(milliseconds);
      onSleep(waits.length);
    },
  } satisfies BackendOptions);
  return { opening, interrupt, warnings, waits, clock };
}

/** Listens on a free port, and calls `onConnection` with each connection. */
async function listen(onConnection: (socket: Socket) => void): Promise<{ url: string; stop(): void }> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    onConnection(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `postgres://pets@127.0.0.1:${port}/pets?sslmode=disable`, stop: () => server.close() };
}

/** Responds to each connection with an error of PostgreSQL. */
const refusing = (code: string, message: string) =>
  listen((socket) => {
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
    const head = Buffer.from('E\0\0\0\0');
    head.writeInt32BE(fields.length + 4, 1);
    socket.once('data', () => socket.end(Buffer.concat([head, fields])));
  });

async function closedPort(): Promise<string> {
  const { url, stop } = await listen(() => {});
  stop();
  return url;
}

test.each([
  ['refuses connections', closedPort, 'connect ECONNREFUSED'],
  // No name server is asked for a name with a label of more than 63 characters.
  ['has no address yet', async () => `postgres://pets@${'x'.repeat(64)}/pets`, 'getaddrinfo ENOTFOUND'],
  [
    'has no socket yet',
    async () => 'postgres://pets@/pets?host=/nonexistent',
    'connect ENOENT /nonexistent/.s.PGSQL.5432',
  ],
  [
    'says that it starts',
    async () => (await refusing('57P03', 'the database system is starting up')).url,
    'the database system is starting up',
  ],
])('a database that %s is awaited for 30 s, with one notice', async (_about, urlOf, reason) => {
  const { opening, warnings, waits } = await open(await urlOf());
  await expect(opening).rejects.toThrow(reason);
  expect(warnings).toEqual([expect.stringContaining('waiting at most 30 s: cannot connect to postgres://')]);
  expect(warnings[0]).toContain(reason);
  expect(waits.reduce((sum, each) => sum + each)).toBe(30_000);
});

test.each([
  ['28P01', 'password authentication failed'],
  ['3D000', 'database "pets" does not exist'],
  ['53300', 'too many clients already'],
])('any other error ends the start at once: %s', async (code, message) => {
  const { opening, warnings, waits } = await open((await refusing(code, message)).url);
  await expect(opening).rejects.toThrow(message);
  expect([warnings, waits]).toEqual([[], []]);
});

test('an error after the database has started ends the start at once', async () => {
  const responses = ['57P03', '28P01'];
  const sockets: string[] = [];
  const { url } = await listen((socket) => {
    const code = responses[Math.min(sockets.length, 1)] ?? '';
    sockets.push(code);
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Merror ${code}\0\0`);
    const head = Buffer.from('E\0\0\0\0');
    head.writeInt32BE(fields.length + 4, 1);
    socket.once('data', () => socket.end(Buffer.concat([head, fields])));
  });
  const { opening, waits } = await open(url);
  await expect(opening).rejects.toThrow('error 28P01');
  expect(waits).toEqual([500]);
});

test('a signal ends the wait', async () => {
  const interrupted = open(await closedPort(), (waits) => {
    if (waits === 3) interrupted.then(({ interrupt }) => interrupt.abort('SIGTERM'));
  });
  const { opening, waits } = await interrupted;
  await expect(opening).rejects.toBe('SIGTERM');
  expect(waits.length).toBeLessThan(10);
});

test('a signal ends the start while the database does not respond', async () => {
  const connections: Socket[] = [];
  const { url } = await listen((socket) => connections.push(socket));
  const { opening, interrupt } = await open(url);
  await expect.poll(() => connections.length).toBe(1);
  interrupt.abort('SIGINT');
  await expect(opening).rejects.toBe('SIGINT');
  for (const socket of connections) socket.destroy();
});
