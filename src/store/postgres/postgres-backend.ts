import type { Backend, BackendOptions } from '../backend.ts';
import { KeyCache } from '../keys/key-cache.ts';
import { DatabaseConnection } from './calls/connection.ts';
import { ConnectionPool } from './calls/connection-pool.ts';
import { OutageReport } from './calls/outage-report.ts';
import type { Database } from './database.ts';
import { limitCalls } from './limit-calls.ts';
import { addSeed, countAnimals, resetTo } from './long-calls.ts';
import { PostgresKeyReader } from './postgres-keys.ts';
import { PostgresLimiter } from './postgres-limiter.ts';
import { PostgresStore } from './postgres-store.ts';
import { migrate, openIdentity } from './schema/migrate.ts';

/** Opens the store in a database for a server. Creates the store, or migrates it, if needed. */
export async function openPostgresBackend(database: Database, options: BackendOptions): Promise<Backend> {
  const { clock, bans, onWarning, sleep } = options;
  const { place, testTime } = database;
  const identity = await database.run(async (client, warnings) => {
    for (const warning of warnings) onWarning(`${place}: ${warning}`);
    await migrate(client);
    return openIdentity(client);
  });
  const report = new OutageReport(place, clock.elapsed, onWarning);
  const connect = () => new DatabaseConnection({ ...database, clock, report });
  // Requests are counted and animals are added on connections of their own, where nothing else delays them. Two connections
  // share the reads, so that one slow read does not delay all others.
  const takes = connect();
  const creations = connect();
  const reads = new ConnectionPool([connect(), connect()]);
  const others = connect();
  const calls = limitCalls(takes.query, others.query, testTime);
  const limiter = new PostgresLimiter({ rule: bans, clock, place, calls });
  const store = new PostgresStore({
    identity,
    place,
    clock,
    createQuery: creations.query,
    query: reads.query,
    addSeed: (seed) => database.run((client) => addSeed(client, seed)),
    resetTo: (seed) => database.run((client) => resetTo(client, seed)),
    countAnimals: () => database.run(countAnimals),
    testTime,
  });
  const keys = new KeyCache(new PostgresKeyReader(others.query, sleep, onWarning), clock);
  const close = async () => {
    await Promise.all([store.close(), limiter.close()]);
    await Promise.all([takes, creations, reads, others].map((each) => each.close()));
  };
  try {
    // Fail now, instead of at each request, if the user lacks a privilege or pgbouncer refuses a connection.
    await Promise.all([store.checkWritable(), keys.load()]);
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
      active = await calls.countBans().catch(() => active);
      return { begun: limiter.begun, active };
    },
    // Several servers use the store, so none of them is the one that others should use.
    announce() {},
    close,
  };
}
