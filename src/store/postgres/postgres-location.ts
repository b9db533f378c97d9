import type { Backend, LocationContext, OpenOptions, StoreLocation } from '../backend.ts';
import { StoreUnavailableError, StoreUnwritableError } from '../errors.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { KeyManager } from '../keys/keys.ts';
import { parseDatabaseTarget } from './connect/database-url.ts';
import { PrimaryConnector } from './connect/primary-connector.ts';
import { readDatabase, validateContents, writeDatabase } from './contents.ts';
import {
  createFunctionCaller,
  type DatabaseForServer,
  type FunctionCaller,
  inTransaction,
  runTransaction,
  statementForCall,
} from './database.ts';
import { CONNECT_TIMEOUT_MS, Pool } from './pool.ts';
import { PostgresKeys, readKeys } from './postgres-keys.ts';
import { PostgresLimiter } from './postgres-limiter.ts';
import { PostgresStore } from './postgres-store.ts';
import { createStoreIfMissing, pendingSql, readIdentity } from './schema.ts';

/** A database that contains a store in the schema `pets`, or can contain one. */
export interface DatabaseLocation extends StoreLocation {
  /** Creates the schema if there is none, as `open` does. Returns whether it was created. @throws StoreError */
  migrate(): Promise<boolean>;
  /**
   * The SQL that creates what `migrate` would create, and grants the current database role the privileges that a server
   * needs. Empty if the store exists. @throws StoreError
   */
  pendingSql(): Promise<string>;
}

/** Returns the location of a store in a database. @throws StoreError if the URL cannot be used */
export function postgresLocation(url: string, context: LocationContext): DatabaseLocation {
  const connector = new PrimaryConnector(parseDatabaseTarget(url, context));
  const { place } = connector.target;
  const read: StoreLocation['read'] = (task, signal) =>
    runTransaction(
      connector,
      async (client) => task(validateContents(await readDatabase(client, place, testTimeOf(context)), place)),
      { isSnapshot: true, signal },
    );
  return {
    place,
    isShared: true,
    open: (options) => whenStarted(() => openBackend(connector, context, options), options),
    manageKeys: (task) =>
      runTransaction(
        connector,
        async (client) => {
          const { id } = await readIdentity(client, place);
          return task(new KeyManager(new PostgresKeys(client, id), context.clock), async () => id);
        },
        { timeout: KEYS_TIMEOUT_MS },
      ),
    check: () =>
      read(async ({ report, animals }) => {
        for await (const _ of animals());
        return report;
      }),
    read,
    write: (contents, accept, signal) =>
      runTransaction(connector, (client) => writeDatabase(client, place, contents, accept), { signal }),
    migrate: () => runTransaction(connector, (client) => createStoreIfMissing(client)),
    pendingSql: () => runTransaction(connector, (client) => pendingSql(client)),
  };
}

/** The time that replaces the clock of the database in tests, in milliseconds since the epoch; otherwise null. */
const testTimeOf = ({ testTime }: LocationContext): number | null => testTime?.() ?? null;

/** The longest time to read or change the API keys, in milliseconds. Locks and synchronous replicas can cause waits. */
const KEYS_TIMEOUT_MS = 10_000;

/** How long a start waits for a database that is being started, in milliseconds. */
const START_WAIT_MS = 30_000;
const RETRY_MS = 500;

/** Runs a task. If the database is being started, tries again until it has started, or `START_WAIT_MS` have passed. */
async function whenStarted(task: () => Promise<Backend>, options: OpenOptions): Promise<Backend> {
  const { clock, sleep, signal, onWarning } = options;
  const end = clock.elapsed() + START_WAIT_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await task();
    } catch (error) {
      signal?.throwIfAborted();
      const left = end - clock.elapsed();
      if (!(error instanceof StoreUnavailableError) || !isStarting(error.cause) || left <= 0) throw error;
      if (attempt === 1) onWarning(`${error.message}; trying again for up to ${START_WAIT_MS / 1_000} s`);
      await sleep(Math.min(RETRY_MS, left));
    }
  }
}

const CANNOT_CONNECT_NOW = '57P03';

/** Whether an error shows that the database refuses connections, has no address or socket yet, or is starting. */
function isStarting(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.some(isStarting)) return true;
  if (!(error instanceof Error) || !('code' in error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  // ENOENT: the database has not created its Unix socket yet.
  if (syscall === 'connect') return code === 'ECONNREFUSED' || code === 'ENOENT';
  return syscall === 'getaddrinfo' || code === CANNOT_CONNECT_NOW;
}

/** Opens the store in a database for a server, or creates it. @throws StoreError, or the reason of `signal` */
async function openBackend(
  connector: PrimaryConnector,
  context: LocationContext,
  { clock, bans, onWarning, onCall, sleep, signal }: OpenOptions,
): Promise<Backend> {
  const { place, prepare } = connector.target;
  const identity = await runTransaction(
    connector,
    async (client, warnings) => {
      await createStoreIfMissing(client);
      const opened = await readIdentity(client, place);
      for (const warning of warnings) onWarning(`${place}: ${warning}`);
      return opened;
    },
    { signal },
  );
  const check = statementForCall('check_store', identity.id, []);
  const pool = new Pool({
    connect: () => connector.connect({ timeout: CONNECT_TIMEOUT_MS, isServer: true }),
    place,
    prepare,
    random: context.random,
    clock,
    check,
    onWarning,
    ...(onCall && { onCall }),
  });
  let wasFull = false;
  const caller =
    (isSerial: boolean): FunctionCaller =>
    async (name, ...values) => {
      const [statement, all] = statementForCall(name, identity.id, values);
      try {
        return await pool.call({ ...statement, isSerial }, all);
      } catch (error) {
        wasFull ||= error instanceof StoreUnwritableError;
        throw error;
      }
    };
  const calls: DatabaseForServer = {
    place,
    roundTrip: () => pool.roundTrip,
    call: caller(false),
    callSerially: caller(true),
    transaction: (task) =>
      pool.lend((client) =>
        inTransaction(client, place, () => task(createFunctionCaller(client, identity.id))),
      ),
    testTime: () => testTimeOf(context),
  };
  async function checkWritable(): Promise<void> {
    await calls.callSerially('check_writable', wasFull);
    wasFull = false;
  }
  const limiter = new PostgresLimiter(calls, bans);
  const store = new PostgresStore(calls, { identity, clock, checkWritable });
  const keys = new KeyCache(() => readKeys(calls.call), { clock, sleep, onWarning });
  const close = async () => {
    await Promise.all([store.close(), limiter.close()]);
    await pool.close();
  };
  try {
    // Fail now, instead of at each request, if the database role lacks a privilege or pgbouncer refuses a connection.
    await store.checkWritable();
    await keys.load();
    signal?.throwIfAborted();
  } catch (error) {
    await close();
    throw error;
  }
  let active = 0;
  return {
    store,
    keys,
    limiter,
    async reset(seed) {
      await store.reset(seed);
      limiter.clear();
    },
    async banCounts() {
      // Metrics must not fail while the database is down.
      const [row] = await calls.call<{ result: string }>('count_bans', calls.testTime()).catch(() => []);
      active = row ? Number(row.result) : active;
      return { begun: limiter.begun, active };
    },
    databaseMetrics: () => pool.metrics,
    close,
  };
}
