import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import type { OpenOptions } from '../../../src/store/backend.ts';
import { manualClock } from '../../helpers/clock.ts';
import { closedPort, listenOnLoopback } from '../../helpers/listen.ts';
import { databaseLocation } from '../../helpers/postgres/backends.ts';

// A server waits for a database that is being started. No PostgreSQL is needed: these tests never get a connection.

/** Opens a store. All waits only advance a manual clock; `onSleep` is called instead of waiting. */
async function open(url: string, onSleep: (waits: number) => void = () => {}) {
  const clock = manualClock();
  const interrupt = new AbortController();
  const [warnings, waits]: [string[], number[]] = [[], []];
  const opening = (await databaseLocation(url)).open({
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
  } satisfies OpenOptions);
  return { opening, interrupt, warnings, waits, clock };
}

const urlOf = (port: number) => `postgres://pets@127.0.0.1:${port}/pets?sslmode=disable`;
const closed = async () => urlOf(await closedPort());

/** The URL of a server that responds to connections with these errors of PostgreSQL; the last one is repeated. */
async function refusing(...codes: string[]): Promise<string> {
  const server = createServer((socket) => {
    const code = codes.length > 1 ? codes.shift() : codes[0];
    const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0Merror ${code}\0\0`);
    const head = Buffer.from('E\0\0\0\0');
    head.writeInt32BE(fields.length + 4, 1);
    socket.on('error', () => {}).once('data', () => socket.end(Buffer.concat([head, fields])));
  });
  return urlOf(await listenOnLoopback(server));
}

test.each([
  ['refuses connections', closed, 'connect ECONNREFUSED'],
  // No name server is asked for a name with a label of more than 63 characters.
  ['has no address yet', async () => `postgres://pets@${'x'.repeat(64)}/pets`, 'getaddrinfo ENOTFOUND'],
  [
    'has no socket yet',
    async () => 'postgres://pets@/pets?host=/nonexistent',
    'connect ENOENT /nonexistent/.s.PGSQL.5432',
  ],
  ['says that it starts', () => refusing('57P03'), 'error 57P03'],
])('a database that %s is awaited for 30 s, with one notice', async (_about, start, reason) => {
  const { opening, warnings, waits } = await open(await start());
  await expect(opening).rejects.toThrow(reason);
  expect(warnings).toEqual([
    expect.stringMatching(/^cannot connect to postgres:.*; trying again for up to 30 s$/),
  ]);
  expect(warnings[0]).toContain(reason);
  expect(waits.reduce((sum, each) => sum + each)).toBe(30_000);
});

test.each([
  ['an error other than that it starts', ['28P01'], []],
  ['such an error after it has started', ['57P03', '28P01'], [500]],
])('%s ends the start at once', async (_about, codes, expected) => {
  const { opening, waits } = await open(await refusing(...codes));
  await expect(opening).rejects.toThrow(`error ${codes.at(-1)}`);
  expect(waits).toEqual(expected);
});

test('a signal ends the wait', async () => {
  const interrupted = open(await closed(), (waits) => {
    if (waits === 3) interrupted.then(({ interrupt }) => interrupt.abort('SIGTERM'));
  });
  const { opening, waits } = await interrupted;
  await expect(opening).rejects.toBe('SIGTERM');
  expect(waits.length).toBeLessThan(10);
});

test('a signal ends the start while the database does not respond', async () => {
  let connections = 0;
  const port = await listenOnLoopback(createServer(() => void connections++));
  const { opening, interrupt } = await open(urlOf(port));
  await expect.poll(() => connections).toBe(1);
  interrupt.abort('SIGINT');
  await expect(opening).rejects.toBe('SIGINT');
});
