import type { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../contract/clock.ts';
import type { DatabaseMetrics } from '../backend.ts';
import { callFailure, closedError, failureKind, isConnectionOutdated } from './failures.ts';

/** The longest time to open a connection, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 1_000;

/** The longest time for a call, in milliseconds, including the wait for a connection. */
const CALL_TIMEOUT_MS = 2_000;

/** Creations, counts and the check of readiness use one each, because they wait for locks. Reads use the others. */
export const MAX_CONNECTIONS = 5;

/** If there is no connection and none can be opened, calls fail at once for this long. */
const FAIL_FAST_MS = 200;

/** If an additional connection cannot be opened, there is no other attempt for this long. */
const NO_MORE_MS = 1_000;

/** An additional connection that was not used for this long is closed, because other servers may need it. */
const IDLE_MS = 10_000;

/** The shortest time between two warnings about the same thing, for example the same call, in milliseconds. */
const REPEAT_MS = 60_000;

/** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
export type StartTimer = (callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined;

/** An SQL statement. Statements with different texts have different names. */
export type Statement = { name: string; text: string };

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
  /** `setTimeout` by default. */
  startTimer?: StartTimer;
};

/** A call that waits for a connection. */
type Waiter = { resolve(connection: Connection): void; reject(error: Error): void };

/**
 * The connections of a server. Each runs one call at a time. Calls that find no idle connection wait for one in order,
 * and another one is opened if the database accepts it. If there is no connection, the next call opens one.
 */
export class Pool {
  #options: Required<PoolOptions>;
  #open = new Set<Connection>();
  /** The open connections that no call uses. The one that was used last is at the end. */
  #idle: Connection[] = [];
  #waiting = new Set<Waiter>();
  #opening: Promise<void> | undefined;
  /** Why there is no connection. Undefined while there is one, and until an attempt to open one has failed. */
  #failure: Error | undefined;
  /** When calls stop failing at once with `#failure`, and when another connection may be opened beside the open ones. */
  #retryAt = Number.NEGATIVE_INFINITY;
  #nextAdditionAt = Number.NEGATIVE_INFINITY;
  #calls = new Set<Promise<unknown>>();
  /** When a warning with this name was last reported. */
  #warnedAt = new Map<string, number>();
  /** How many lost connections were not replaced yet, and how many were. */
  #lost = 0;
  #reconnects = 0;
  #isClosed = false;

  constructor(options: PoolOptions) {
    const check: [Statement, unknown[]] = [PING, []];
    this.#options = { check, onWarning() {}, onCall() {}, startTimer: setTimeout, ...options };
  }

  get metrics(): DatabaseMetrics {
    const idle = this.#idle.length;
    const connections = { busy: this.#open.size - idle, idle, opening: this.#opening ? 1 : 0 };
    return { connections, reconnects: this.#reconnects };
  }

  /**
   * Runs one statement and returns its rows within two seconds. The statement is a transaction of its own.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the statement may have had an effect
   * @throws StoreUnwritableError if the statement had no effect
   */
  call<Row extends QueryResultRow>(statement: Statement, values: unknown[] = []): Promise<Row[]> {
    return this.#track(() => this.#call<Row>(statement, values));
  }

  /** Runs a task on a connection. The task has no time limit. If it is rejected, the connection is closed. */
  lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    return this.#track(() => this.#lend(task));
  }

  /** Completes the calls in flight, and ends the connections. Later calls are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#calls);
    await this.#opening;
    await Promise.all([...this.#open].map((connection) => connection.close()));
  }

  #track<Result>(start: () => Promise<Result>): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closedError(this.#options.place));
    const call = start().finally(() => this.#calls.delete(call));
    this.#calls.add(call);
    return call;
  }

  async #call<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<Row[]> {
    const { clock, place, onCall } = this.#options;
    const started = clock.elapsed();
    const end = started + CALL_TIMEOUT_MS;
    const connection = await this.#take(end);
    try {
      const rows = await connection.call<Row>(statement, values, end);
      onCall(statement.name, clock.elapsed() - started);
      return rows;
    } catch (error) {
      // After its gravest errors, PostgreSQL ends the connection, and the statement may have been committed.
      const isOpen = failureKind(error) !== 'unknown' && (await connection.responds(end));
      if (!isOpen || isConnectionOutdated(error)) this.#discard(connection);
      const failure = callFailure(error, 'sent', place, isOpen ? failureKind(error) : 'unknown');
      this.#warn(statement.name, `${failure.message} (pets.${statement.name})`);
      throw failure;
    } finally {
      this.#release(connection);
    }
  }

  async #lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    const connection = await this.#take(this.#options.clock.elapsed() + CALL_TIMEOUT_MS);
    try {
      return await task(connection.client);
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      this.#release(connection);
    }
  }

  /** Takes a connection that no other call uses until `#release`. Waits for one until `end`, as `clock.elapsed()`. */
  async #take(end: number): Promise<Connection> {
    const { clock, place } = this.#options;
    if (this.#failure && clock.elapsed() < this.#retryAt) throw this.#failure;
    const connection = this.#nextIdle() ?? (await this.#wait(end));
    // After a pause of this process, the time of a call can be over before its timer runs.
    if (clock.elapsed() < end) return connection;
    this.#release(connection);
    throw callFailure(new Error('connecting took too long'), 'connecting', place);
  }

  #nextIdle(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (!connection || connection.isUsable) return connection;
    }
  }

  #wait(end: number): Promise<Connection> {
    let timer: NodeJS.Timeout | undefined;
    const taken = new Promise<Connection>((resolve, reject) => {
      const waiter = { resolve, reject };
      this.#waiting.add(waiter);
      timer = startDeadline(this.#options, end, () => {
        const error = new Error('no connection was free in time');
        if (this.#waiting.delete(waiter)) reject(callFailure(error, 'connecting', this.#options.place));
      });
    });
    this.#serveWaiting();
    return taken.finally(() => clearTimeout(timer));
  }

  #release(connection: Connection): void {
    if (this.#open.has(connection)) this.#idle.push(connection);
    this.#serveWaiting();
  }

  /** Gives idle connections to waiting calls, and opens another one if calls still wait. */
  #serveWaiting(): void {
    for (const waiter of this.#waiting) {
      const connection = this.#nextIdle();
      if (!connection) break;
      this.#waiting.delete(waiter);
      waiter.resolve(connection);
    }
    const { size } = this.#open;
    const mayAdd = size < MAX_CONNECTIONS && this.#options.clock.elapsed() >= this.#nextAdditionAt;
    if (this.#waiting.size > 0 && (size === 0 || mayAdd)) this.#opening ??= this.#openOne();
  }

  /** Opens a connection. If that fails, and there is no other one, rejects the waiting calls. */
  async #openOne(): Promise<void> {
    const { clock, check, connect, place } = this.#options;
    const end = clock.elapsed() + CONNECT_TIMEOUT_MS;
    let connection: Connection | undefined;
    try {
      const client = await connect();
      const opened = new Connection(client, this.#options, () => this.#ended(opened));
      connection = opened;
      // The check also shows whether the database responds: a proxy such as pgbouncer accepts connections without it.
      await opened.call(...check, Math.max(end, clock.elapsed() + FAIL_FAST_MS));
      // The server may have ended the connection together with its response.
      if (!opened.isUsable) throw new Error('the connection was lost');
      (client.connection.stream as Socket).setTimeout(IDLE_MS).on('timeout', () => this.#closeIdle(opened));
      this.#added(opened);
    } catch (error) {
      connection?.destroy();
      this.#notAdded(callFailure(error, 'connecting', place));
    }
    this.#opening = undefined;
    this.#serveWaiting();
  }

  #added(connection: Connection): void {
    this.#open.add(connection);
    this.#idle.push(connection);
    if (this.#failure) this.#warn('connected', `${this.#options.place} can be used again`);
    this.#failure = undefined;
    if (this.#lost === 0) return;
    this.#lost -= 1;
    this.#reconnects += 1;
  }

  #notAdded(failure: Error): void {
    const now = this.#options.clock.elapsed();
    if (this.#open.size > 0) {
      this.#nextAdditionAt = now + NO_MORE_MS;
      return;
    }
    this.#warn('connect', failure.message);
    this.#failure = failure;
    this.#retryAt = now + FAIL_FAST_MS;
    for (const { reject } of this.#waiting) reject(failure);
    this.#waiting.clear();
  }

  #warn(name: string, message: string): void {
    const { clock, onWarning } = this.#options;
    const now = clock.elapsed();
    if (now - (this.#warnedAt.get(name) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#warnedAt.set(name, now);
    onWarning(message);
  }

  /** Ends a connection that cannot be used, and the idle ones, because the database server may have failed. */
  #discard(connection: Connection): void {
    for (const each of [connection, ...this.#idle]) each.destroy();
  }

  #closeIdle(connection: Connection): void {
    if (this.#open.size === 1 || !this.#idle.includes(connection)) return;
    this.#remove(connection);
    connection.close().catch(() => {});
  }

  #ended(connection: Connection): void {
    if (!this.#open.has(connection)) return;
    this.#remove(connection);
    this.#lost += 1;
    this.#serveWaiting();
  }

  #remove(connection: Connection): void {
    this.#open.delete(connection);
    this.#idle = this.#idle.filter((each) => each !== connection);
  }
}

/** An open connection, which runs one call at a time. */
class Connection {
  readonly client: Client;
  #options: Required<PoolOptions>;
  #onEnd: () => void;
  /** Whether the current call was committed although no synchronous replica has confirmed it. */
  #isUnconfirmed = false;

  /** @param onEnd called when the connection has ended, for whatever reason, perhaps more than once */
  constructor(client: Client, options: Required<PoolOptions>, onEnd: () => void) {
    this.client = client;
    this.#options = options;
    this.#onEnd = onEnd;
    client.once('end', () => this.destroy());
    client.on('error', () => this.destroy());
    // PostgreSQL reports success if a commit that waits for a synchronous replica is cancelled.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnconfirmed = true;
    });
  }

  /** Whether the connection has not ended. `PrimaryConnector` ends connections to an old primary server. */
  get isUsable(): boolean {
    return !this.client.connection.stream.destroyed;
  }

  /**
   * Makes a call and returns the rows. Ends the connection if they do not arrive until `end`, as `clock.elapsed()`.
   *
   * @throws the error of the driver, or another one if the time is over or no replica has confirmed the commit
   */
  call<Row extends QueryResultRow>(
    { name, text }: Statement,
    values: unknown[],
    end: number,
  ): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      let isPending = true;
      const timer = startDeadline(this.#options, end, () => {
        if (!isPending) return;
        reject(new Error('no response in time'));
        this.destroy();
      });
      this.#isUnconfirmed = false;
      const statement = this.#options.prepare ? { name, text, values } : { text, values };
      this.client.query<Row>(statement, (error, result) => {
        isPending = false;
        clearTimeout(timer);
        if (error) reject(error);
        else if (this.#isUnconfirmed) reject(new Error('no synchronous replica has confirmed the commit'));
        else resolve(result.rows);
      });
    });
  }

  /** Whether PostgreSQL still responds on this connection. */
  responds(end: number): Promise<boolean> {
    return this.call(PING, [], end).then(
      () => true,
      () => false,
    );
  }

  /** Ends the connection at once. */
  destroy(): void {
    this.client.connection.stream.destroy();
    this.#onEnd();
  }

  /** Ends the connection as the protocol says, or by force if that takes too long. No call must be running. */
  async close(): Promise<void> {
    const timer = this.#options.startTimer(() => this.destroy(), CONNECT_TIMEOUT_MS);
    await this.client.end();
    clearTimeout(timer);
  }
}

/**
 * Starts a timer that calls `expire` at a time of the clock. After a pause of this process, timers run first, so
 * `setImmediate` lets Node read a response that has arrived before `expire` is called.
 */
function startDeadline(
  { clock, startTimer }: Required<PoolOptions>,
  end: number,
  expire: () => void,
): NodeJS.Timeout | undefined {
  return startTimer(() => setImmediate(expire), Math.max(0, end - clock.elapsed()));
}
