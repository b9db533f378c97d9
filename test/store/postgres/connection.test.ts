import { EventEmitter } from 'node:events';
import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { StoreUnavailableError } from '../../../src/store/errors.ts';
import { Pool } from '../../../src/store/postgres/pool.ts';
import { manualClock } from '../../helpers/clock.ts';

const STATEMENT = { name: 'read', text: 'select 2' };
const SLOW = { name: 'slow', text: 'select 3' };

type Callback = (error: Error | null, result?: unknown) => void;

/** A fake client of the driver. It responds to each call at once, except to the statement `slow`. */
function fakeClient() {
  const client = new EventEmitter();
  const slow: Callback[] = [];
  return Object.assign(client, {
    connection: { stream: { destroy: () => client.emit('end'), setTimeout() {} } },
    query({ name }: { name: string }, callback: Callback) {
      if (name === SLOW.name) slow.push(callback);
      else callback(null, { rows: [{ n: 2 }] });
      client.emit('called');
    },
    endAfterCall() {
      client.once('called', () => client.emit('error', new Error('terminated')));
    },
    respond: () => slow.shift()?.(null, { rows: [{ n: 3 }] }),
    end: async () => {},
  });
}

/** A pool for a database that is up or down. `tick` runs only the latest timer, and returns its delay in ms. */
function createConnection({ random = 0 } = {}) {
  const clock = manualClock();
  const database = {
    isUp: true,
    attempts: 0,
    connectTime: 0,
    clients: [] as ReturnType<typeof fakeClient>[],
    /** Whether a connection is lost as soon as its first call has succeeded. */
    endsSessions: false,
  };
  const timers: { callback(): void; milliseconds: number }[] = [];
  const connection = new Pool({
    place: 'postgres://db.example/pets',
    prepare: true,
    clock,
    random: () => random,
    async connect() {
      database.attempts++;
      clock.advance(database.connectTime);
      if (!database.isUp) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
      const client = fakeClient();
      database.clients.push(client);
      if (database.endsSessions) client.endAfterCall();
      return client as unknown as Client;
    },
    startTimer(callback, milliseconds) {
      timers.push({ callback, milliseconds });
      return undefined;
    },
  });
  const tick = async () => {
    const timer = timers.pop();
    timers.length = 0;
    clock.advance(timer?.milliseconds ?? 0);
    timer?.callback();
    await new Promise((resolve) => setImmediate(resolve));
    return timer?.milliseconds;
  };
  return { connection, database, clock, tick };
}

test('a connection is made by the first call, and calls at the same time share it', async () => {
  const { connection, database } = createConnection();
  expect(database.attempts).toBe(0);
  await Promise.all([connection.call(STATEMENT), connection.call(STATEMENT)]);
  expect(database.attempts).toBe(1);
});

test.each([
  [0, 200],
  [1, 250],
])('attempts to connect are a fifth of a second apart, with jitter: random = %s', async (random, delay) => {
  const { connection, database, tick } = createConnection({ random });
  database.isUp = false;
  await expect(connection.call(STATEMENT)).rejects.toThrow(StoreUnavailableError);
  const seen: unknown[] = [];
  while (seen.length < 5) seen.push(await tick());
  expect(seen).toEqual(Array(5).fill(delay));
  expect(database.attempts).toBe(6);
});

test('calls between two attempts are rejected without another attempt', async () => {
  const { connection, database } = createConnection();
  database.isUp = false;
  for (let i = 0; i < 3; i++)
    await expect(connection.call(STATEMENT)).rejects.toMatchObject({ outcome: 'not_done' });
  expect(database.attempts).toBe(1);
});

test('a lost connection is replaced at once', async () => {
  const { connection, database, clock } = createConnection();
  await connection.call(STATEMENT);
  clock.advance(5_000);
  database.clients[0]?.emit('error', new Error('terminated'));
  expect(database.attempts).toBe(2);
  expect(await connection.call(STATEMENT)).toEqual([{ n: 2 }]);
});

test('a connection that is lost again and again is replaced at most five times a second', async () => {
  const { connection, database, clock, tick } = createConnection();
  await connection.call(STATEMENT);
  for (let i = 0; i < 4; i++) {
    clock.advance(10);
    database.clients.at(-1)?.emit('end');
    const call = connection.call(STATEMENT);
    expect(await tick()).toBe(190);
    expect(await call).toEqual([{ n: 2 }]);
  }
  expect(database.attempts).toBe(5);
});

test('a connection that is lost right after its first call is replaced', async () => {
  const { connection, database, tick } = createConnection();
  database.endsSessions = true;
  await expect(connection.call(STATEMENT)).rejects.toMatchObject({ outcome: 'not_done' });
  database.endsSessions = false;
  await tick();
  expect(await connection.call(STATEMENT)).toEqual([{ n: 2 }]);
  expect(database.attempts).toBe(2);
});

test('after close, a lost connection is not replaced', async () => {
  const { connection, database } = createConnection();
  await connection.call(STATEMENT);
  await connection.close();
  database.clients[0]?.emit('end');
  expect(database.attempts).toBe(1);
});

test('while connections do not respond, calls try another one every second, because a new primary server may exist', async () => {
  const { connection, database, clock, tick } = createConnection();
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const calls = [connection.call(SLOW).catch((error) => error.outcome)];
  await settled();
  clock.advance(1_000);
  await connection.call(STATEMENT);
  await settled();
  calls.push(connection.call(SLOW).catch((error) => error.outcome));
  await settled();
  expect(database.attempts).toBe(2);
  database.isUp = false;
  // `tick` ends the second connection, which has not responded. The first one still waits for its response.
  await tick();
  expect(await calls[1]).toBe('unknown');
  expect(database.attempts).toBe(3);
  const callAfter = async (milliseconds: number) => {
    clock.advance(milliseconds);
    connection.call(SLOW).catch(() => {});
    await settled();
    return database.attempts;
  };
  expect([await callAfter(999), await callAfter(1)]).toEqual([3, 4]);
  database.isUp = true;
  expect([await callAfter(999), await callAfter(1)]).toEqual([4, 5]);
  expect(await connection.call(STATEMENT)).toEqual([{ n: 2 }]);
});

test('a response counts if it arrived while the process was stopped', async () => {
  const { connection, database, tick } = createConnection();
  const call = connection.call(SLOW);
  await new Promise((resolve) => setImmediate(resolve));
  const ticked = tick();
  database.clients[0]?.respond();
  await ticked;
  expect(await call).toEqual([{ n: 3 }]);
  expect(database.attempts).toBe(1);
});

test('a call is not sent if its time is over when the connection is open', async () => {
  const { connection, database } = createConnection();
  database.connectTime = 3_000;
  await expect(connection.call(STATEMENT)).rejects.toMatchObject({ outcome: 'not_done' });
  expect(await connection.call(STATEMENT)).toEqual([{ n: 2 }]);
  expect(database.attempts).toBe(1);
});
