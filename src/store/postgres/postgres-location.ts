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

/** The longest time to read or change the API keys, in milliseconds. Locks and synchronous replicas can cause waits. */
const KEYS_TIMEOUT_MS = 10_000;

/** How long a start waits for a database that is being started, in milliseconds. */
const START_WAIT_MS = 30_000;
const RETRY_MS = 500;

/** Returns the location of a store in a database. @throws StoreError if the URL cannot be used */
export function postgresLocation(url: string, context: LocationContext): DatabaseLocation {
  const connector = new PrimaryConnector(parseDatabaseTarget(url, context));
  const { place } = connector.target;
  const testTime = () => context.testTime?.() ?? null;
  const read: StoreLocation['read'] = (task, signal) =>
    runTransaction(
      connector,
      async (client) => task(validateContents(await readDatabase(client, place, testTime()), place)),
      { isSnapshot: true, signal },
    );
  return {
    place,
    isShared: true,
    open: (options) => whenStarted(() => openBackend(connector, testTime, options), options),
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
  testTime: DatabaseForServer['testTime'],
  { clock, bans, onWarning, onCall, sleep, signal }: OpenOptions,
): Promise<Backend> {
  const { place, prepare } = connector.target;
  const open = async (client: Parameters<typeof readIdentity>[0], warnings: readonly string[]) => {
    await createStoreIfMissing(client);
    for (const warning of warnings) onWarning(`${place}: ${warning}`);
    return readIdentity(client, place);
  };
  const identity = await runTransaction(connector, open, { signal });
  const pool = new Pool({
    connect: () => connector.connect({ timeout: CONNECT_TIMEOUT_MS, isServer: true }),
    place,
    prepare,
    clock,
    check: statementForCall('check_store', identity.id, []),
    onWarning,
    onCall,
  });
  let wasFull = false;
  const database: DatabaseForServer = {
    async call(name, ...values) {
      try {
        return await pool.call(statementForCall(name, identity.id, values));
      } catch (error) {
        wasFull ||= error instanceof StoreUnwritableError;
        throw error;
      }
    },
    callWithoutLimit: (...call) =>
      pool.lend((client) =>
        inTransaction(client, place, () => createFunctionCaller(client, identity.id)(...call)),
      ),
    async checkWritable() {
      await database.call('check_writable', wasFull);
      wasFull = false;
    },
    testTime,
    close: () => pool.close(),
  };
  const limiter = new PostgresLimiter(database, bans);
  const store = new PostgresStore(database, identity, clock);
  const keys = new KeyCache(() => readKeys(database.call), { clock, sleep, onWarning });
  const close = async () => {
    await limiter.close();
    await store.close();
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
      const [row] = await database.call<{ result: string }>('count_bans', testTime()).catch(() => []);
      active = row ? Number(row.result) : active;
      return { begun: limiter.begun, active };
    },
    databaseMetrics: () => pool.metrics,
    close,
  };
}
