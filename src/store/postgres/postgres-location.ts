import type { Client } from 'pg';
import type { Backend, LocationContext, OpenOptions, StoreLocation } from '../backend.ts';
import { KeyCache, KeyManager } from '../keys.ts';
import { PrimaryConnector, parseDatabaseTarget } from './connector.ts';
import { postgresKeys, readDatabase, readKeys, writeDatabase } from './contents.ts';
import {
  createFunctionCaller,
  createStoreIfMissing,
  type DatabaseForServer,
  inTransaction,
  pendingSql,
  readIdentity,
  runTransaction,
  statementForCall,
} from './database.ts';
import { CONNECT_TIMEOUT_MS, Pool } from './pool.ts';
import { PostgresLimiter, PostgresStore } from './postgres-store.ts';

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

/** Returns the location of a store in a database. @throws StoreError if the URL cannot be used */
export function postgresLocation(url: string, context: LocationContext): DatabaseLocation {
  const connector = new PrimaryConnector(parseDatabaseTarget(url, context));
  const { place } = connector.target;
  const testTime = () => context.testTime?.() ?? null;
  const read: StoreLocation['read'] = (task, signal) =>
    runTransaction(connector, async (client) => task(await readDatabase(client, place, testTime())), {
      isolation: 'repeatable read read only',
      signal,
    });
  return {
    place,
    isShared: true,
    open: (options) => openBackend(connector, testTime, options),
    manageKeys: (task) =>
      runTransaction(
        connector,
        async (client) => {
          const { id } = await readIdentity(client, place);
          return task(new KeyManager(postgresKeys(client, id), context.clock), async () => id);
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

/** Opens the store in a database for a server, or creates it. @throws StoreError, or the reason of `signal` */
async function openBackend(
  connector: PrimaryConnector,
  testTime: DatabaseForServer['testTime'],
  { clock, bans, onWarning, onCall, sleep, signal }: OpenOptions,
): Promise<Backend> {
  const { place, prepare } = connector.target;
  const open = async (client: Client) => {
    await createStoreIfMissing(client);
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
  const database: DatabaseForServer = {
    call: (name, ...values) => pool.call(statementForCall(name, identity.id, values)),
    callWithoutLimit: (...call) =>
      pool.lend((client) =>
        inTransaction(client, place, () => createFunctionCaller(client, identity.id)(...call)),
      ),
    testTime,
    close: () => pool.close(),
  };
  const limiter = new PostgresLimiter(database, bans);
  const store = new PostgresStore(database, identity);
  const keys = new KeyCache(() => readKeys(database.call), { clock, sleep, onWarning });
  const close = async () => {
    await limiter.close();
    await store.close();
  };
  try {
    // Fail now, instead of at each request, if the database role lacks a privilege or pgbouncer refuses a connection.
    await store.checkWritable();
    await keys.list();
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
    reset: (seed) => store.reset(seed),
    async banCounts() {
      // Metrics must not fail while the database is down.
      const [row] = await database.call<{ result: string }>('count_bans', testTime()).catch(() => []);
      active = row ? Number(row.result) : active;
      return { begun: limiter.begun, active };
    },
    databaseConnections: () => pool.connectionCounts,
    close,
  };
}
