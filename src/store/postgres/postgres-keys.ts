import * as z from 'zod/mini';
import { describeIssues } from '../../contract/issues.ts';
import type { KeyManager, KnownKey } from '../backend.ts';
import { StoreDamagedError } from '../errors.ts';
import { type KeyReader, UNKNOWN_KEY_MS } from '../keys/key-cache.ts';
import {
  type CreatedKey,
  type KeyRequest,
  keyExistsError,
  keyNotFoundError,
  makeKey,
  quotaOf,
  StoredKey,
} from '../keys/keys.ts';
import { sqlStateOf } from './calls/failures.ts';
import type { Query, Statement } from './calls/session.ts';

/** SQL for an instant as ISO 8601 text. The driver's own conversion would depend on the user's setting of DateStyle. */
export const instant = (column: string): string =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const LIST: Statement = {
  name: 'keys',
  text: `select name, plan, per_minute::text as "perMinute", per_day::text as "perDay",
  encode(sha256, 'hex') as sha256,
  ${instant('created')} as created
  from pets.keys order by name collate "C"`,
};
const ADD: Statement = {
  name: 'add_key',
  text: `insert into pets.keys (sha256, name, plan, per_minute, per_day)
  values ($1, $2, $3, $4, $5)`,
};
const REVOKE: Statement = {
  name: 'revoke_key',
  text: 'delete from pets.keys where name = $1 returning name',
};

const UNIQUE_VIOLATION = '23505';
const UNDEFINED_TABLE = '42P01';

type KeyRow = {
  name: string;
  plan: string;
  perMinute: string | null;
  perDay: string | null;
  sha256: string;
  created: string;
};

/**
 * The keys of a store.
 *
 * @throws StoreDamagedError, StoreUnavailableError
 */
export const readKeys = async (query: Query): Promise<StoredKey[]> =>
  (await query<KeyRow>(LIST, [])).map(parseKey);

/** The API keys in the table `pets.keys`. A database without a store has none. */
export class PostgresKeys implements KeyManager {
  #query: Query;
  #createStore: () => Promise<unknown>;

  /** @param createStore creates the tables if they are missing */
  constructor(query: Query, createStore: () => Promise<unknown>) {
    this.#query = query;
    this.#createStore = createStore;
  }

  async names(): Promise<string[]> {
    return (await this.#rows()).map(({ name }) => name);
  }

  async get(name: string): Promise<StoredKey | undefined> {
    const row = (await this.#rows()).find((each) => each.name === name);
    return row && parseKey(row);
  }

  async list(): Promise<StoredKey[]> {
    return (await this.#rows()).map(parseKey);
  }

  async create(request: KeyRequest): Promise<CreatedKey> {
    // The database sets the time of creation, so the time 0 is not used.
    const { created, stored } = makeKey(request, 0);
    await this.#createStore();
    const { name, plan, sha256, perMinute = null, perDay = null } = stored;
    try {
      await this.#query(ADD, [Buffer.from(sha256, 'hex'), name, plan, perMinute, perDay]);
    } catch (error) {
      throw sqlStateOf(error) === UNIQUE_VIOLATION ? keyExistsError(name) : error;
    }
    return created;
  }

  async revoke(name: string): Promise<void> {
    const names = await this.names();
    const deleted = names.includes(name) ? await this.#query(REVOKE, [name]) : [];
    if (deleted.length === 0) throw keyNotFoundError(name, names);
  }

  async #rows(): Promise<KeyRow[]> {
    try {
      return await this.#query<KeyRow>(LIST, []);
    } catch (error) {
      if (sqlStateOf(error) === UNDEFINED_TABLE) return [];
      throw error;
    }
  }
}

/** Reads the keys for a server. Leaves out keys that this version does not understand, after a warning. */
export class PostgresKeyReader implements KeyReader {
  #query: Query;
  #sleep: (milliseconds: number) => Promise<void>;
  #onWarning: (message: string) => void;
  #waiting: Promise<boolean> | undefined;
  #warned = new Set<string>();

  constructor(
    query: Query,
    sleep: (milliseconds: number) => Promise<void>,
    onWarning: (message: string) => void,
  ) {
    this.#query = query;
    this.#sleep = sleep;
    this.#onWarning = onWarning;
  }

  async read(): Promise<KnownKey[]> {
    const rows = await this.#query<KeyRow>(LIST, []);
    return rows.flatMap((row) => {
      try {
        const key = parseKey(row);
        return [{ ...key, quota: quotaOf(key) }];
      } catch (error) {
        if (!this.#warned.has(row.name)) this.#onWarning((error as Error).message);
        this.#warned.add(row.name);
        return [];
      }
    });
  }

  /** Resolves after a tenth of a second, so that all unknown keys that arrive meanwhile cause one read. */
  mayHaveChanged(): Promise<boolean> {
    this.#waiting ??= this.#sleep(UNKNOWN_KEY_MS).then(() => {
      this.#waiting = undefined;
      return true;
    });
    return this.#waiting;
  }
}

/** @throws StoreDamagedError */
function parseKey({ perMinute, perDay, ...row }: KeyRow): StoredKey {
  const parsed = z.safeParse(StoredKey, {
    ...row,
    ...(perMinute !== null && { perMinute: Number(perMinute) }),
    ...(perDay !== null && { perDay: Number(perDay) }),
  });
  if (parsed.success) return parsed.data;
  throw new StoreDamagedError(
    `the key ${JSON.stringify(row.name)} in the table pets.keys is not valid: ${describeIssues(parsed.error)}`,
    'revoke the key, then create it again',
  );
}
