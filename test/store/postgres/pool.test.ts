import { EventEmitter } from 'node:events';
import { type Client, DatabaseError } from 'pg';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { StoreError, StoreUnavailableError } from '../../../src/store/errors.ts';
import { MAX_CONNECTIONS, Pool } from '../../../src/store/postgres/pool.ts';
import { manualClock } from '../../helpers/clock.ts';

// The pool with a driver, a clock and timers that the test controls.

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const QUICK = { name: 'quick', text: 'select 2', values: [] };
const SLOW = { name: 'slow', text: 'select 3', values: [] };

type Callback = (error: Error | null, result?: unknown) => void;

const sqlError = (code: string) => Object.assign(new DatabaseError('reported', 8, 'error'), { code });

/** A client of the driver. It responds to each call at once, except to the statement `slow`. */
class FakeClient extends EventEmitter {
  connection = {
    stream: Object.assign(new EventEmitter(), {
      destroyed: false,
      destroy: () => this.#end(),
    }),
  };
  /** The calls that have no response. */
  calls: Callback[] = [];
  /** The names of all statements. */
  sent: string[] = [];
  endsAfterCall = false;
  checkError: Error | null = null;

  query({ name }: { name: string }, callback: Callback) {
    expect(this.calls).toEqual([]);
    this.sent.push(name);
    this.calls.push(callback);
    if (name !== SLOW.name) this.respond(name === 'check' ? this.checkError : null);
    if (this.endsAfterCall) this.#end();
  }

  respond(error: Error | null = null) {
    this.calls.shift()?.(error, { rows: [{ by: this }] });
  }

  async end() {
    this.#end();
  }

  #end() {
    if (this.connection.stream.destroyed) return;
    this.connection.stream.destroyed = true;
    for (const call of this.calls.splice(0)) call(new Error('Connection terminated'));
    this.emit('end');
  }
}

/** A pool for a database that accepts up to `limit` connections. */
function createPool() {
  const clock = manualClock();
  const database = {
    limit: 100,
    attempts: 0,
    clients: [] as FakeClient[],
    endsAfterCall: false,
    checkError: null as Error | null,
  };
  let opened: Promise<void> | undefined;
  const warnings: string[] = [];
  const pool = new Pool({
    place: 'postgres://db.example/pets',
    check: { name: 'check', text: 'select 1', values: [] },
    prepare: true,
    clock,
    onWarning: (message) => warnings.push(message),
    async connect() {
      database.attempts++;
      await opened;
      const open = database.clients.filter(({ connection }) => !connection.stream.destroyed);
      if (open.length >= database.limit) throw sqlError('53300');
      const client = new FakeClient();
      const { endsAfterCall, checkError } = database;
      Object.assign(client, { endsAfterCall, checkError });
      database.clients.push(client);
      return client as unknown as Client;
    },
  });
  /** Lets time pass, and runs the timers that are due. */
  async function pass(milliseconds: number) {
    clock.advance(milliseconds);
    vi.advanceTimersByTime(milliseconds);
    await settled();
  }
  /** Makes attempts to connect wait. Returns a function that lets them continue. */
  function holdConnecting(): () => Promise<void> {
    let open = () => {};
    opened = new Promise((resolve) => {
      open = resolve;
    });
    return () => {
      open();
      return settled();
    };
  }
  return { pool, database, clock, warnings, pass, holdConnecting };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** `done`, or the outcome of the error. `result` is undefined while the call has none. */
function watch(call: Promise<unknown>) {
  const watched: { result?: unknown } = {};
  call.then(
    () => {
      watched.result = 'done';
    },
    (error) => {
      watched.result = error.outcome ?? error;
    },
  );
  return watched;
}

const resultsOf = (calls: { result?: unknown }[]) => calls.map(({ result }) => result);

test('while all connections are busy, others are opened, and later calls wait in order', async () => {
  const { pool, database } = createPool();
  const calls = Array.from({ length: MAX_CONNECTIONS + 2 }, () => watch(pool.call(SLOW)));
  await settled();
  expect(database.clients.map(({ calls }) => calls.length)).toEqual(Array(MAX_CONNECTIONS).fill(1));
  expect(pool.connectionCounts).toEqual({ busy: MAX_CONNECTIONS, idle: 0, opening: 0 });
  for (const expected of [5, 6]) {
    database.clients[1]?.respond();
    await settled();
    expect(resultsOf(calls).filter(Boolean)).toHaveLength(expected - 4);
    expect(calls[expected]?.result).toBeUndefined();
  }
  for (const client of database.clients) client.respond();
  await settled();
  expect(resultsOf(calls)).toEqual(Array(MAX_CONNECTIONS + 2).fill('done'));
  expect(pool.connectionCounts).toEqual({ busy: 0, idle: MAX_CONNECTIONS, opening: 0 });
});

test('without a connection, all waiting calls fail when the attempt fails, and calls fail at once for a fifth of a second', async () => {
  const { pool, database, warnings, pass } = createPool();
  database.limit = 0;
  const fail = () => watch(pool.call(QUICK));
  const calls = [fail(), fail(), fail()];
  await settled();
  calls.push(fail());
  await pass(199);
  calls.push(fail());
  await settled();
  expect([database.attempts, resultsOf(calls)]).toEqual([1, Array(5).fill('not_done')]);
  database.limit = 1;
  await pass(1);
  expect(await pool.call(QUICK)).toHaveLength(1);
  expect(database.attempts).toBe(2);
  expect(warnings).toEqual([
    expect.stringMatching(/^cannot connect to postgres:.*: reported; raise max_connections/),
    'postgres://db.example/pets can be used again',
  ]);
});

test.each([
  ['whose check fails', { checkError: sqlError('PETS1') }],
  ['that is lost right after its check', { endsAfterCall: true }],
])('a connection %s is closed, and no call uses it', async (_, failure) => {
  const { pool, database, pass } = createPool();
  Object.assign(database, failure);
  await expect(pool.call(QUICK)).rejects.toMatchObject({ outcome: 'not_done' });
  Object.assign(database, { checkError: null, endsAfterCall: false });
  await pass(200);
  await pool.call(QUICK);
  expect(database.attempts).toBe(2);
  expect(database.clients[0]).toMatchObject({ sent: ['check'], connection: { stream: { destroyed: true } } });
});

test('one deadline of two seconds covers the wait, the connection and the call', async () => {
  const { pool, database, pass, holdConnecting } = createPool();
  const connect = holdConnecting();
  const calls = [watch(pool.call(SLOW)), watch(pool.call(QUICK))];
  await pass(900);
  await connect();
  const last = holdConnecting();
  await pass(1_099);
  expect(resultsOf(calls)).toEqual([undefined, 'done']);
  await pass(1);
  expect(resultsOf(calls)).toEqual(['unknown', 'done']);
  expect(database.clients.every(({ connection }) => connection.stream.destroyed)).toBe(true);
  await last();
});

test('a call that finds no connection in time has no effect, and takes none later', async () => {
  const { pool, database, pass } = createPool();
  database.limit = 1;
  let end = () => {};
  const first = watch(
    pool.lend(
      () =>
        new Promise<void>((resolve) => {
          end = resolve;
        }),
    ),
  );
  const waiting = watch(pool.call(QUICK));
  await settled();
  await pass(2_000);
  end();
  await settled();
  expect(first.result).toBe('done');
  expect(waiting.result).toBe('not_done');
  expect(pool.connectionCounts).toEqual({ busy: 0, idle: 1, opening: 0 });
  await pool.call(QUICK);
  expect(database.clients[0]?.sent).toEqual(['check', 'quick']);
});

test.each([
  ['53100', false],
  ['57014', false],
  ['25006', true],
  ['26000', true],
  ['42P05', true],
  ['0A000', true],
  ['PETS1', true],
])(
  'after the SQL error %s, a ping shows that the connection is open; it is replaced: %s',
  async (code, isReplaced) => {
    const { pool, database } = createPool();
    const call = watch(pool.call(SLOW));
    await settled();
    database.clients[0]?.respond(sqlError(code));
    await settled();
    expect(call.result).toEqual(code === '53100' ? expect.any(StoreError) : 'not_done');
    await pool.call(QUICK);
    expect(database.clients[0]?.sent).toEqual(['check', 'slow', 'ping', ...(isReplaced ? [] : ['quick'])]);
    expect(database.attempts).toBe(isReplaced ? 2 : 1);
  },
);

test('close completes the calls in flight, even those that wait, and rejects later ones', async () => {
  const { pool, database } = createPool();
  database.limit = 1;
  const calls = [watch(pool.call(SLOW)), watch(pool.call(QUICK))];
  await settled();
  const closed = watch(pool.close());
  await expect(pool.call(QUICK)).rejects.toThrow(StoreError);
  await settled();
  expect(closed.result).toBeUndefined();
  database.clients[0]?.respond();
  await settled();
  expect(resultsOf([...calls, closed])).toEqual(['done', 'done', 'done']);
  expect(database.clients[0]?.connection.stream.destroyed).toBe(true);
  await expect(pool.lend(async () => {})).rejects.not.toThrow(StoreUnavailableError);
});
