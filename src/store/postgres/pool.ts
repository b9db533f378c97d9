import type { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../contract/clock.ts';
import type { DatabaseMetrics } from '../backend.ts';
import { callFailure, closedError, failureKind, isConnectionOutdated } from './failures.ts';

// The connections of a running server. Every call ends within about two seconds. PostgreSQL gives up before the driver
// does, so that the outcome is known. If a call gets no result, its change may have been stored.

/** The longest time to connect, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 1_000;

/** The longest time for one call, in milliseconds, including the time to connect. */
export const CALL_TIMEOUT_MS = 2_000;

/**
 * The largest number of connections. All creations use one, and all counts of requests another, because they wait for
 * locks. On the other connections, reads do not wait for these locks.
 */
export const MAX_CONNECTIONS = 4;

/**
 * The shortest time between two attempts to connect while there is no connection, in milliseconds. Jitter adds up to a
 * quarter. The time is short, because the service must work again within a second after an outage.
 */
const CONNECT_INTERVAL_MS = 200;

/** If an additional connection cannot be opened, there is no other attempt for this long. */
const NO_MORE_MS = 1_000;

/** An additional connection that was not used for this long is closed, because other servers may need it. */
const IDLE_MS = 10_000;

/** The shortest time between two warnings about the same thing, for example the same call, in milliseconds. */
const REPEAT_MS = 60_000;

/** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
export type StartCallTimer = (callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined;

/**
 * An SQL statement. Statements with different texts have different names. Calls of a serial statement wait for the same
 * locks, so several at a time would only occupy connections.
 */
export type Statement = { name: string; text: string; isSerial?: boolean };

const PING: Statement = { name: 'ping', text: 'select 1' };

export type PoolOptions = {
  /** Opens a connection for a server (`PrimaryConnector`), and settles within about a second. */
  connect(): Promise<Client>;
  /** The first call on each connection, with its values. A connection is used only after the call has succeeded. */
  check?: [Statement, unknown[]];
  /** The URL of the database without its password. */
  place: string;
  /** Whether statements are prepared under their names. It must be false for pgbouncer in transaction mode. */
  prepare: boolean;
  clock: SteadyClock;
  /** Called when calls fail, and when there is a connection again. */
  onWarning?(message: string): void;
  /** Called after each successful call with its name and its duration in milliseconds. */
  onCall?(name: string, milliseconds: number): void;
  /** Returns a number from 0 to 1, like `Math.random`. */
  random?: () => number;
  /** `setTimeout` by default. */
  startTimer?: StartCallTimer;
};

/**
 * The connections of a server. Any call can use them. The first call opens a connection. While all are busy, others are
 * opened if the database accepts them. If the last one is lost, it is replaced. Without a connection, calls wait for an
 * attempt to connect. If the attempt fails, calls are rejected at once until a later attempt succeeds.
 */
export class Pool {
  #options: Required<PoolOptions>;
  #connections = new Set<Connection>();
  #opening: Promise<void> | undefined;
  /** Why there is no connection. Undefined while there is one, and until an attempt to open one has failed. */
  #failure: Error | undefined;
  /** The earliest times, as `clock.elapsed()`, to try again to open the only connection, or an additional one. */
  #nextAttemptAt = Number.NEGATIVE_INFINITY;
  #nextAdditionAt = Number.NEGATIVE_INFINITY;
  /** Ends the pause before an attempt to connect. */
  #endPause = () => {};
  #calls = new Set<Promise<unknown>>();
  /** When a warning with this name was last reported. */
  #warnedAt = new Map<string, number>();
  /** How many lost connections were not replaced yet, and how many were. */
  #lost = 0;
  #reconnects = 0;
  #isClosed = false;

  constructor(options: PoolOptions) {
    const check: [Statement, unknown[]] = [PING, []];
    const defaults = { check, onWarning() {}, onCall() {}, random: Math.random };
    this.#options = { ...defaults, startTimer: setTimeout, ...options };
  }

  /** About the time of a round trip to the database, in milliseconds; 0 if it is not known yet. */
  get roundTrip(): number {
    const [connection] = this.#connections;
    return connection && Number.isFinite(connection.roundTrip) ? connection.roundTrip : 0;
  }

  get metrics(): DatabaseMetrics {
    const busy = [...this.#connections].filter(({ waiting }) => waiting.length > 0).length;
    const connections = { busy, idle: this.#connections.size - busy, opening: this.#opening ? 1 : 0 };
    return { connections, reconnects: this.#reconnects };
  }

  /**
   * Runs one statement and returns its rows within about two seconds. The statement is a transaction of its own.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the statement may have had an effect
   * @throws StoreUnwritableError if the statement had no effect
   */
  call<Row extends QueryResultRow>(statement: Statement, values: unknown[] = []): Promise<Row[]> {
    return this.#track(() => this.#call<Row>(statement, values));
  }

  /**
   * Runs a task on a connection that no other call uses until the task has settled. The task has no time limit. If it
   * is rejected, the connection is closed.
   */
  lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    return this.#track(() => this.#lend(task));
  }

  /** Completes the calls in flight, and ends the connections. Later calls are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endPause();
    await Promise.allSettled(this.#calls);
    await this.#opening?.catch(() => {});
    await Promise.all([...this.#connections].map((connection) => connection.close()));
  }

  #track<Result>(start: () => Promise<Result>): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closedError(this.#options.place));
    const call = start();
    this.#calls.add(call);
    const remove = () => this.#calls.delete(call);
    call.then(remove, remove);
    return call;
  }

  async #call<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<Row[]> {
    const { clock, place, onCall } = this.#options;
    const started = clock.elapsed();
    const timeLeft = () => started + CALL_TIMEOUT_MS - clock.elapsed();
    const connection = this.#choose(statement) ?? (await this.#open(statement));
    if (timeLeft() <= 0) throw callFailure(new Error('connecting took too long'), 'connecting', place);
    try {
      const rows = await connection.call<Row>(statement, values, timeLeft());
      onCall(statement.name, clock.elapsed() - started);
      return rows;
    } catch (error) {
      // After its gravest errors, PostgreSQL ends the connection, and the statement may have been committed.
      const isOpen =
        failureKind(error) !== 'unknown' &&
        (await connection.call(PING, [], timeLeft()).then(
          () => true,
          () => false,
        ));
      if (!isOpen) {
        connection.destroy();
        // The database server may be frozen. Then the other connections do not respond either, and a new one is needed.
        this.#openMore();
      } else if (isConnectionOutdated(error)) {
        this.#ended(connection);
        connection.retire();
      }
      const failure = callFailure(error, 'sent', place, isOpen ? failureKind(error) : 'unknown');
      this.#warn(
        statement.name,
        `${failure.message}; requests that need the function pets.${statement.name} get status 503`,
      );
      throw failure;
    }
  }

  async #lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    const connection = this.#choose() ?? (await this.#open());
    // From here on, no new call gets this connection. PostgreSQL runs the task's statements after the calls sent before.
    this.#connections.delete(connection);
    try {
      return await task(connection.client);
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      if (!connection.hasEnded) this.#add(connection);
    }
  }

  /**
   * The connection for a call; undefined if one must be opened first. Serial calls with the same name follow each other
   * on one connection. Otherwise, it is the one with the fewest calls, and if possible without serial ones, which may
   * wait for locks.
   */
  #choose(statement?: Statement): Connection | undefined {
    const all = [...this.#connections];
    if (statement?.isSerial) {
      const same = all.find(({ waiting }) => waiting.some(({ name }) => name === statement.name));
      if (same) return same;
    }
    const load = ({ waiting, isSerial }: Connection) => waiting.length + (isSerial ? 1e6 : 0);
    const [best] = all.sort((one, other) => load(one) - load(other));
    if (best?.isSerial && this.#canOpenMore) return undefined;
    if (best && best.waiting.length > 0) this.#openMore();
    return best;
  }

  /** Waits until there is a connection for a call. Opens one if needed. */
  async #open(statement?: Statement): Promise<Connection> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      await this.#connect().catch((error) => {
        if (this.#connections.size === 0) throw error;
      });
      // Another task may have borrowed the connection.
      const connection = this.#choose(statement);
      if (connection) return connection;
    }
  }

  get #canOpenMore(): boolean {
    if (this.#isClosed || this.#connections.size >= MAX_CONNECTIONS) return false;
    return this.#opening !== undefined || this.#options.clock.elapsed() >= this.#nextAdditionAt;
  }

  /** Opens an additional connection in the background, if that is possible. */
  #openMore(): void {
    if (this.#canOpenMore) this.#connect().catch(() => {});
  }

  /** Opens a connection. After a failure, if there is no other one, tries again in the background until one is open. */
  #connect(): Promise<void> {
    this.#opening ??= this.#connectOnce().finally(() => {
      this.#opening = undefined;
      if (this.#failure && !this.#isClosed) this.#connect().catch(() => {});
    });
    return this.#opening;
  }

  async #connectOnce(): Promise<void> {
    const { clock, check, connect, place, random } = this.#options;
    const wait = this.#nextAttemptAt - clock.elapsed();
    if (this.#connections.size === 0 && wait > 0) await this.#pause(wait);
    if (this.#isClosed) throw closedError(place);
    const started = clock.elapsed();
    this.#nextAttemptAt = started + CONNECT_INTERVAL_MS * (1 + random() / 4);
    let connection: Connection | undefined;
    try {
      const client = await connect();
      const opened = new Connection(client, this.#options, () => this.#ended(opened));
      connection = opened;
      // The check also shows whether the database responds: a proxy such as pgbouncer accepts connections without it.
      const timeout = Math.max(started + CONNECT_TIMEOUT_MS - clock.elapsed(), CONNECT_INTERVAL_MS);
      await opened.call(...check, timeout);
      // The server may have ended the connection together with its response.
      if (opened.hasEnded) throw new Error('the connection was lost');
      (client.connection.stream as Socket).setTimeout(IDLE_MS, () => this.#closeIdle(opened));
      this.#add(opened);
      if (this.#lost > 0) {
        this.#lost -= 1;
        this.#reconnects += 1;
      }
    } catch (error) {
      connection?.destroy();
      const failure = callFailure(error, 'connecting', place);
      if (this.#connections.size > 0) this.#nextAdditionAt = started + NO_MORE_MS;
      else {
        this.#warn('connect', `${failure.message}; requests that need the database get status 503`);
        this.#failure = failure;
      }
      throw failure;
    }
  }

  #add(connection: Connection): void {
    this.#connections.add(connection);
    if (this.#failure) this.#warn('connected', `${this.#options.place} can be used again`);
    this.#failure = undefined;
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#options.startTimer(resolve, milliseconds);
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #warn(name: string, message: string): void {
    const { clock, onWarning } = this.#options;
    const now = clock.elapsed();
    if (now - (this.#warnedAt.get(name) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#warnedAt.set(name, now);
    onWarning(message);
  }

  #closeIdle(connection: Connection): void {
    if (this.#connections.size === 1 || !this.#connections.delete(connection)) return;
    connection.close().catch(() => {});
  }

  #ended(connection: Connection): void {
    if (!this.#connections.delete(connection) || this.#isClosed) return;
    this.#lost += 1;
    if (this.#connections.size === 0) this.#connect().catch(() => {});
  }
}

/** An open connection. Calls are sent at once, and PostgreSQL processes them one after the other. */
class Connection {
  readonly client: Client;
  /** The calls without a result, in the order in which they were sent. */
  readonly waiting: Statement[] = [];
  /** The duration of the fastest call, in milliseconds: about the time of a round trip. */
  roundTrip = Number.POSITIVE_INFINITY;
  hasEnded = false;
  #options: Required<PoolOptions>;
  #onEnd: () => void;
  #isRetired = false;
  /** Whether the current call was committed although no synchronous replica has confirmed it. */
  #isUnconfirmed = false;

  /** @param onEnd called once when the connection has ended, for whatever reason */
  constructor(client: Client, options: Required<PoolOptions>, onEnd: () => void) {
    this.client = client;
    this.#options = options;
    this.#onEnd = onEnd;
    client.once('end', () => this.destroy());
    client.once('error', () => this.destroy());
    // PostgreSQL reports success if a commit that waits for a synchronous replica is cancelled.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnconfirmed = true;
    });
  }

  /** Whether a serial call has no result yet. Later calls on this connection wait for it. */
  get isSerial(): boolean {
    return this.waiting.some(({ isSerial }) => isSerial);
  }

  /**
   * Sends a call and returns the rows. Ends the connection if they do not arrive within `timeout` milliseconds, because
   * all later calls would wait too.
   *
   * @throws the error of the driver, or another one if the timeout has passed or no replica has confirmed the commit
   */
  call<Row extends QueryResultRow>(statement: Statement, values: unknown[], timeout: number): Promise<Row[]> {
    const { clock, prepare, startTimer } = this.#options;
    const { name, text } = statement;
    const sentAt = clock.elapsed();
    return new Promise((resolve, reject) => {
      let isPending = true;
      const expire = () => {
        if (!isPending) return;
        reject(new Error('no response in time'));
        this.destroy();
      };
      // After a pause of this process, timers run first. `setImmediate` lets Node first read a response that arrived.
      const timer = startTimer(() => setImmediate(expire), timeout);
      this.waiting.push(statement);
      // The driver calls the callback before it handles the next call, so `#isUnconfirmed` belongs to this call.
      this.client.query<Row>(prepare ? { name, text, values } : { text, values }, (error, result) => {
        isPending = false;
        clearTimeout(timer);
        this.waiting.shift();
        if (error) reject(error);
        else if (this.#isUnconfirmed) reject(new Error('no synchronous replica has confirmed the commit'));
        else {
          this.roundTrip = Math.min(this.roundTrip, clock.elapsed() - sentAt);
          resolve(result.rows);
        }
        this.#isUnconfirmed = false;
        if (this.#isRetired) this.retire();
      });
    });
  }

  /** Ends the connection when all calls have their results. */
  retire(): void {
    this.#isRetired = true;
    if (this.waiting.length === 0) this.destroy();
  }

  /** Ends the connection. Calls that have no result yet are rejected. */
  destroy(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.client.connection.stream.destroy();
    this.#onEnd();
  }

  /** Ends the connection as the protocol says, or by force if that takes too long. All calls must have ended. */
  async close(): Promise<void> {
    const timer = this.#options.startTimer(() => this.destroy(), CONNECT_TIMEOUT_MS);
    await this.client.end();
    clearTimeout(timer);
  }
}
