import type { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../system/clock.ts';
import type { DatabaseConnections } from '../backend.ts';
import { StoreError } from '../errors.ts';
import { callFailure, connectFailure, isConnectionOutdated, isRolledBack, watchCommit } from './failures.ts';

/** The time limit for connecting to a server, and for ending a connection, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 1_000;

/** The longest time for a call, in milliseconds, including the wait for a connection. */
const CALL_TIMEOUT_MS = 2_000;

/** Creations, counts and the check of readiness need one each while they wait for locks. Reads can use the others. */
export const MAX_CONNECTIONS = 5;

/** If there is no connection and none can be opened, calls fail at once for this long. */
const FAIL_FAST_MS = 200;

/** If an additional connection cannot be opened, there is no other attempt for this long. */
const NO_MORE_MS = 1_000;

/** The shortest time between two warnings about the same thing, for example the same call, in milliseconds. */
const REPEAT_MS = 60_000;

/** An SQL statement with its values. Statements with different texts have different names. */
export type Statement = { name: string; text: string; values: unknown[] };

const PING: Statement = { name: 'ping', text: 'select 1', values: [] };

type PoolOptions = {
  /** Opens a connection for a server (`PrimaryConnector`), and settles within about a second. */
  connect(): Promise<Client>;
  /** The first statement on each connection. A connection is used only after the statement has succeeded. */
  check: Statement;
  /** The URL of the database without its password. */
  place: string;
  /** Whether statements are prepared under their names. False if the URL has `prepare=off`. */
  prepare: boolean;
  clock: SteadyClock;
  /** Called when calls fail, and when there is a connection again. */
  onWarning(message: string): void;
  /** Called after each successful `call` with its name and its duration in milliseconds, including the wait. */
  onCall?: ((name: string, milliseconds: number) => void) | undefined;
};

type Waiter = { resolve(client: Client): void; reject(error: Error): void };

/**
 * The connections of a server. Each runs one call at a time. Calls that find no idle connection wait for one in order,
 * and another one is opened if the database accepts it. If there is no connection, the next call opens one.
 */
export class Pool {
  #options: PoolOptions;
  #open = new Set<Client>();
  /** The open connections that no call uses. The one that was used last is at the end. */
  #idle: Client[] = [];
  #waiting = new Set<Waiter>();
  #opening: Promise<void> | undefined;
  /** Why there is no connection. Undefined while there is one, and until an attempt to open one has failed. */
  #failure: StoreError | undefined;
  /** When calls stop failing at once with `#failure`, and when another connection may be opened beside the open ones. */
  #retryAt = Number.NEGATIVE_INFINITY;
  #nextAdditionAt = Number.NEGATIVE_INFINITY;
  #calls = new Set<Promise<unknown>>();
  #warnedAt = new Map<string, number>();
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get connectionCounts(): DatabaseConnections {
    const idle = this.#idle.length;
    return { busy: this.#open.size - idle, idle, opening: this.#opening ? 1 : 0 };
  }

  /**
   * Runs one statement and returns its rows within two seconds. The statement is a transaction of its own.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the statement may have had an effect
   * @throws StoreUnwritableError if the disk was full, and the statement had no effect
   * @throws StoreError if the pool was closed
   */
  call<Row extends QueryResultRow>(statement: Statement): Promise<Row[]> {
    return this.#use((client, end) => this.#call<Row>(client, statement, end));
  }

  /** Runs a task on a connection, without a time limit. If it fails, closes the connection. @throws as `call`, or its error */
  lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    return this.#use(async (client) => {
      try {
        return await task(client);
      } catch (error) {
        this.#destroy(client);
        throw error;
      }
    });
  }

  /** Completes the calls in flight, and ends the connections. Later calls are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#calls);
    await this.#opening;
    await Promise.all([...this.#open].map((client) => this.#close(client)));
  }

  /** Runs a task with a connection and the time, as `clock.elapsed()`, at which a call must have ended. */
  async #use<Result>(task: (client: Client, end: number) => Promise<Result>): Promise<Result> {
    const { clock, place } = this.#options;
    if (this.#isClosed) throw new StoreError(`${place} was closed`, 'start the server again');
    const end = clock.elapsed() + CALL_TIMEOUT_MS;
    const run = async () => {
      const client = await this.#take(end);
      return task(client, end).finally(() => this.#release(client));
    };
    const call = run().finally(() => this.#calls.delete(call));
    this.#calls.add(call);
    return call;
  }

  async #call<Row extends QueryResultRow>(client: Client, statement: Statement, end: number): Promise<Row[]> {
    const { clock, place, onCall } = this.#options;
    try {
      const rows = await this.#send<Row>(client, statement, end);
      onCall?.(statement.name, CALL_TIMEOUT_MS - (end - clock.elapsed()));
      return rows;
    } catch (error) {
      // After its gravest errors, PostgreSQL ends the connection, and the statement may have been committed. So send a ping.
      const hasNoEffect =
        isRolledBack(error) &&
        (await this.#send(client, PING, end)
          .then(() => true)
          .catch(() => false));
      // The database server may have failed or be frozen, so the idle connections are not used either.
      if (!hasNoEffect || isConnectionOutdated(error))
        for (const unusable of [client, ...this.#idle]) this.#destroy(unusable);
      const failure = callFailure(error, place, hasNoEffect ? 'not_done' : 'unknown');
      this.#warn(statement.name, `${failure.message} (pets.${statement.name}); ${failure.hint}`);
      throw failure;
    }
  }

  /** Takes a connection that no other call uses until `#release`. Waits for one until `end`, as `clock.elapsed()`. */
  async #take(end: number): Promise<Client> {
    const { clock, place } = this.#options;
    if (this.#failure && clock.elapsed() < this.#retryAt) throw this.#failure;
    const client = this.#idle.pop() ?? (await this.#wait(end));
    // After a pause of this process, the time of a call can be over before its timer runs.
    if (clock.elapsed() < end) return client;
    this.#release(client);
    throw connectFailure(new Error('connecting took too long'), place);
  }

  #wait(end: number): Promise<Client> {
    let cancel = () => {};
    const taken = new Promise<Client>((resolve, reject) => {
      const waiter = { resolve, reject };
      this.#waiting.add(waiter);
      cancel = this.#startDeadline(end, () => {
        const error = new Error('no connection was free in time');
        if (this.#waiting.delete(waiter)) reject(connectFailure(error, this.#options.place));
      });
    });
    this.#serveWaiting();
    return taken.finally(() => cancel());
  }

  #release(client: Client): void {
    if (this.#open.has(client)) this.#idle.push(client);
    this.#serveWaiting();
  }

  /** Gives idle connections to waiting calls, and opens another one if calls still wait. */
  #serveWaiting(): void {
    for (const waiter of this.#waiting) {
      const client = this.#idle.pop();
      if (!client) break;
      this.#waiting.delete(waiter);
      waiter.resolve(client);
    }
    const { size } = this.#open;
    const mayAdd = size < MAX_CONNECTIONS && this.#options.clock.elapsed() >= this.#nextAdditionAt;
    if (this.#waiting.size > 0 && (size === 0 || mayAdd)) this.#opening ??= this.#openOne();
  }

  async #openOne(): Promise<void> {
    const { clock, place } = this.#options;
    try {
      const client = await this.#connect();
      this.#open.add(client);
      this.#idle.push(client);
      if (this.#failure) this.#warn('connected', `${place} can be used again`);
      this.#failure = undefined;
    } catch (error) {
      const now = clock.elapsed();
      if (this.#open.size > 0) {
        // The waiting calls can get a connection that is busy now.
        this.#nextAdditionAt = now + NO_MORE_MS;
      } else {
        this.#failure = connectFailure(error, place);
        this.#warn('connect', `${this.#failure.message}; ${this.#failure.hint}`);
        this.#retryAt = now + FAIL_FAST_MS;
        for (const { reject } of this.#waiting) reject(this.#failure);
        this.#waiting.clear();
      }
    }
    this.#opening = undefined;
    this.#serveWaiting();
  }

  async #connect(): Promise<Client> {
    const { clock, check, connect } = this.#options;
    const end = clock.elapsed() + CONNECT_TIMEOUT_MS;
    const client = await connect();
    client.once('end', () => this.#remove(client));
    client.on('error', () => this.#destroy(client));
    try {
      // The check also shows whether the database responds: a proxy such as pgbouncer accepts connections without it.
      await this.#send(client, check, Math.max(end, clock.elapsed() + FAIL_FAST_MS));
      // The server may have ended the connection together with its response.
      if ((client.connection.stream as Socket).destroyed) throw new Error('the connection was lost');
      return client;
    } catch (error) {
      this.#destroy(client);
      throw error;
    }
  }

  /**
   * Sends a statement and returns the rows. Ends the connection if they do not arrive by `end`.
   *
   * @throws the error of the driver, or another one if the time is over or no replica has confirmed the commit
   */
  #send<Row extends QueryResultRow>(client: Client, statement: Statement, end: number): Promise<Row[]> {
    const { name, ...unnamed } = statement;
    return new Promise((resolve, reject) => {
      const cancel = this.#startDeadline(end, () => {
        reject(new Error('no response in time'));
        this.#destroy(client);
      });
      const endWatch = watchCommit(client);
      client.query<Row>(this.#options.prepare ? { ...statement } : unnamed, (error, result) => {
        cancel();
        const unconfirmed = endWatch();
        if (error ?? unconfirmed) reject(error ?? unconfirmed);
        else resolve(result.rows);
      });
    });
  }

  /**
   * Calls `expire` at a time of the clock, unless it is canceled. After a pause of this process, timers run first, so
   * `setImmediate` lets Node read a response that has arrived. Returns a function that cancels.
   */
  #startDeadline(end: number, expire: () => void): () => void {
    let isCanceled = false;
    const expireLater = () => setImmediate(() => isCanceled || expire());
    const timer = setTimeout(expireLater, Math.max(0, end - this.#options.clock.elapsed()));
    return () => {
      isCanceled = true;
      clearTimeout(timer);
    };
  }

  #warn(name: string, message: string): void {
    const { clock, onWarning } = this.#options;
    const now = clock.elapsed();
    if (now - (this.#warnedAt.get(name) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#warnedAt.set(name, now);
    onWarning(message);
  }

  /** Ends a connection at once. A call without a response is rejected. */
  #destroy(client: Client): void {
    client.connection.stream.destroy();
    this.#remove(client);
  }

  #remove(client: Client): void {
    this.#open.delete(client);
    this.#idle = this.#idle.filter((other) => other !== client);
    this.#serveWaiting();
  }

  /** Ends a connection as the protocol says, or by force if that takes too long. */
  async #close(client: Client): Promise<void> {
    const timer = setTimeout(() => this.#destroy(client), CONNECT_TIMEOUT_MS);
    await client.end();
    clearTimeout(timer);
  }
}
