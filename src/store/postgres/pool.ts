import type { Socket } from 'node:net';
import type { Client, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../contract/clock.ts';
import type { DatabaseMetrics } from '../backend.ts';
import type { StoreError } from '../errors.ts';
import {
  closedError,
  type FailureKind,
  failureKind,
  isConnectionOutdated,
  toCallError,
  tooManyWaiting,
} from './failures.ts';
import {
  CALL_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  LIMIT_UNREAD,
  Session,
  type StartCallTimer,
  type Statement,
} from './session.ts';

export type PoolOptions = {
  /** Opens a connection with `driverLimits`, and settles within about a second. */
  connect(): Promise<Client>;
  /** The first call on each connection, with its values. A connection is used only after the call has succeeded. */
  check?: [Statement, unknown[]];
  /** The URL of the database without its password. */
  place: string;
  /** Whether statements are prepared under their names. It must be false for pgbouncer in transaction mode. */
  prepare: boolean;
  clock: SteadyClock;
  /** Called when calls begin to fail, and when they succeed again. */
  onWarning?(message: string): void;
  /** Called after each successful call with its name and its duration in milliseconds. */
  onCall?(name: string, milliseconds: number): void;
  /** Returns a number from 0 to 1, like `Math.random`. */
  random?: () => number;
  /** `setTimeout` by default. */
  startTimer?: StartCallTimer;
};

/**
 * The largest number of connections: one for each kind of serial call, and others for reads, which then never wait for the
 * locks of serial calls.
 */
export const MAX_CONNECTIONS = 4;

/** How many calls may be sent and not yet have a result. */
const MAX_WAITING = 1_000;

/**
 * The shortest time between two attempts to connect, in milliseconds. Jitter adds up to a quarter. After an outage, the
 * service must return within a second.
 */
const CONNECT_INTERVAL_MS = 200;

/** The shortest time from an attempt to open an additional connection that failed to the next one, in milliseconds. */
const NO_MORE_MS = 1_000;

/** An additional connection that was not used for this long is closed, because other servers may need it. */
const IDLE_MS = 10_000;

const PING: Statement = { name: 'ping', text: 'select 1' };

/**
 * The connections of a server, which any call can use. The first call opens one. Others are opened while all are busy, if
 * the database has free connections; one is enough. A lost connection is replaced. While there is none, calls wait for the
 * next attempt to connect. After a failed attempt, they are rejected at once until an attempt in the background succeeds.
 */
export class Pool {
  #options: Required<PoolOptions>;
  #sessions = new Set<Session>();
  #connecting: Promise<Session> | undefined;
  /** Why there is no connection. Undefined while there is one, and before the first attempt. */
  #failure: StoreError | undefined;
  /** Before this time, as `clock.elapsed()`, there is no other attempt to replace the last connection. */
  #nextAttemptAt = Number.NEGATIVE_INFINITY;
  /** Before this time, there is no other attempt to open an additional connection. */
  #nextAdditionAt = Number.NEGATIVE_INFINITY;
  #retryTimer: NodeJS.Timeout | undefined;
  /** Ends the pause before an attempt to connect. */
  #endPause = () => {};
  #calls = new Set<Promise<unknown>>();
  #outages: OutageReport;
  /** Lost connections that were not replaced yet, and those that were. */
  #lost = 0;
  #reconnects = 0;
  #isClosed = false;

  constructor(options: PoolOptions) {
    const check: [Statement, unknown[]] = [PING, []];
    const defaults = { check, onWarning() {}, onCall() {}, random: Math.random };
    this.#options = { ...defaults, startTimer: setTimeout, ...options };
    const { place, clock, onWarning } = this.#options;
    this.#outages = new OutageReport(place, clock.elapsed, onWarning);
  }

  /** Whether calls are rejected at once, because the last attempt to connect failed. */
  get isFailing(): boolean {
    return this.#failure !== undefined;
  }

  /** About the time of a round trip to the database, in milliseconds; 0 if it is not known yet. */
  get roundTrip(): number {
    const [session] = this.#sessions;
    return session && Number.isFinite(session.roundTrip) ? session.roundTrip : 0;
  }

  get metrics(): DatabaseMetrics {
    const busy = [...this.#sessions].filter(({ waiting }) => waiting > 0).length;
    const connections = { busy, idle: this.#sessions.size - busy, opening: this.#connecting ? 1 : 0 };
    return { connections, reconnects: this.#reconnects };
  }

  /**
   * Runs one statement and returns its rows within about two seconds. The statement is a transaction of its own.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the statement may have had an effect
   * @throws ConflictError, BadItemError, StoreUnwritableError if the statement had no effect
   */
  call<Row extends QueryResultRow>(statement: Statement, values: unknown[] = []): Promise<Row[]> {
    const { place } = this.#options;
    if (this.#isClosed) return Promise.reject(closedError(place));
    if (this.#calls.size >= MAX_WAITING) return Promise.reject(tooManyWaiting(place));
    return this.#track(this.#call<Row>(statement, values));
  }

  /**
   * Runs a task on a connection that no other call uses until the task has settled. The task has no time limit. If it is
   * rejected, the connection is closed.
   */
  lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    if (this.#isClosed) return Promise.reject(closedError(this.#options.place));
    return this.#track(this.#lend(task));
  }

  /** Completes the calls in flight, and ends the connections. Later calls are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    this.#endPause();
    await Promise.allSettled(this.#calls);
    await this.#connecting?.catch(() => {});
    await Promise.all([...this.#sessions].map((session) => session.close(CONNECT_TIMEOUT_MS)));
  }

  #track<Result>(call: Promise<Result>): Promise<Result> {
    this.#calls.add(call);
    const remove = () => this.#calls.delete(call);
    call.then(remove, remove);
    return call;
  }

  async #call<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<Row[]> {
    const { clock, place, onCall } = this.#options;
    const started = clock.elapsed();
    const timeLeft = () => started + CALL_TIMEOUT_MS - clock.elapsed();
    const session = this.#choose(statement) ?? (await this.#open(statement));
    if (timeLeft() <= 0) throw toCallError(new Error('connecting took too long'), 'connecting', place);
    try {
      const rows = await session.call<Row>(statement, values, timeLeft());
      onCall(statement.name, clock.elapsed() - started);
      this.#outages.succeeded(statement.name);
      return rows;
    } catch (error) {
      const kind = await this.#kindOf(error, session, timeLeft());
      const failure = toCallError(error, 'sent', place, kind);
      if (kind === 'unknown') {
        session.destroy();
        // The server may be frozen, and then the other connections do not respond either.
        this.#openMore();
      } else if (isConnectionOutdated(error)) {
        this.#ended(session);
        session.retire();
      }
      if (['unknown', 'not_done', 'store_full'].includes(kind)) this.#outages.failed(statement.name, failure);
      throw failure;
    }
  }

  async #lend<Result>(task: (client: Client) => Promise<Result>): Promise<Result> {
    const session = this.#choose() ?? (await this.#open());
    // From here on, no other call is sent on this connection. The task begins after those that were sent before.
    this.#sessions.delete(session);
    if (this.#sessions.size === 0) this.#openMore();
    try {
      return await task(session.client);
    } catch (error) {
      session.destroy();
      throw error;
    } finally {
      if (!session.hasEnded) this.#add(session);
    }
  }

  /** Opens the connection for a call. */
  async #open(statement?: Statement): Promise<Session> {
    for (;;) {
      if (this.#failure) throw this.#failure;
      await this.#connect().catch((error) => {
        if (this.#sessions.size === 0) throw error;
      });
      // Another task may have borrowed the connection.
      const session = this.#choose(statement);
      if (session) return session;
    }
  }

  /**
   * The connection for a call; undefined if one must be opened first. Serial calls with the same name follow each other on
   * one connection. Otherwise, it is the one with the fewest calls, and if possible without serial ones, which may wait for
   * locks.
   */
  #choose(statement?: Statement): Session | undefined {
    let best: Session | undefined;
    for (const session of this.#sessions) {
      if (statement?.isSerial && session.isSerial(statement.name)) return session;
      if (!best || loadOf(session) < loadOf(best)) best = session;
    }
    if (best?.isSerial() && this.#canOpenMore) return undefined;
    if (best && best.waiting > 0) this.#openMore();
    return best;
  }

  get #canOpenMore(): boolean {
    if (this.#isClosed || this.#sessions.size >= MAX_CONNECTIONS) return false;
    return this.#connecting !== undefined || this.#options.clock.elapsed() >= this.#nextAdditionAt;
  }

  /** Opens an additional connection in the background, if that is possible. */
  #openMore(): void {
    if (this.#canOpenMore) this.#connect().catch(() => {});
  }

  /**
   * After its gravest errors, PostgreSQL ends the connection, and the statement may have been committed. A ping shows
   * whether the connection is still open.
   */
  async #kindOf(error: unknown, session: Session, timeout: number): Promise<FailureKind> {
    const kind = failureKind(error);
    if (kind === 'unknown') return kind;
    return session.call(PING, [], timeout).then(
      () => kind,
      () => 'unknown',
    );
  }

  #connect(): Promise<Session> {
    this.#connecting ??= this.#openSession().finally(() => {
      this.#connecting = undefined;
      if (this.#failure && !this.#isClosed) this.#connect().catch(() => {});
    });
    return this.#connecting;
  }

  async #openSession(): Promise<Session> {
    const { clock, check, connect, place, prepare, random, startTimer } = this.#options;
    const wait = this.#nextAttemptAt - clock.elapsed();
    if (this.#sessions.size === 0 && wait > 0) {
      await new Promise<void>((resolve) => {
        this.#endPause = resolve;
        this.#retryTimer = startTimer(resolve, wait);
      });
      if (this.#isClosed) throw closedError(place);
    }
    const started = clock.elapsed();
    this.#nextAttemptAt = started + CONNECT_INTERVAL_MS * (1 + random() / 4);
    let session: Session | undefined;
    try {
      const client = await connect();
      const opened = new Session(client, { prepare, clock, startTimer, onEnd: () => this.#ended(opened) });
      session = opened;
      const timeout = Math.max(started + CONNECT_TIMEOUT_MS - clock.elapsed(), CONNECT_INTERVAL_MS);
      // The check also shows whether the database responds: a proxy such as pgbouncer accepts connections without it.
      await Promise.all([opened.call(...check, timeout), prepare && opened.call(LIMIT_UNREAD, [], timeout)]);
      (client.connection.stream as Socket).setTimeout(IDLE_MS, () => this.#closeIdle(opened));
      this.#add(opened);
      if (this.#lost > 0) {
        this.#lost -= 1;
        this.#reconnects += 1;
      }
      this.#outages.succeeded('connect');
      return opened;
    } catch (error) {
      session?.destroy();
      const failure = toCallError(error, 'connecting', place);
      if (this.#sessions.size > 0) {
        this.#nextAdditionAt = started + NO_MORE_MS;
        // If the server is frozen, its connections stay busy. The next attempt may find a new primary server.
        const retry = () => {
          if ([...this.#sessions].every(({ waiting }) => waiting > 0)) this.#openMore();
        };
        this.#retryTimer = startTimer(retry, Math.max(0, this.#nextAdditionAt - clock.elapsed()) + 1);
      } else {
        this.#outages.failed('connect', failure);
        this.#failure = failure;
      }
      throw failure;
    }
  }

  #add(session: Session): void {
    this.#sessions.add(session);
    this.#failure = undefined;
  }

  #closeIdle(session: Session): void {
    if (this.#sessions.size === 1 || !this.#sessions.delete(session)) return;
    session.close(CONNECT_TIMEOUT_MS).catch(() => {});
  }

  #ended(session: Session): void {
    if (!this.#sessions.delete(session) || this.#isClosed) return;
    this.#lost += 1;
    if (this.#sessions.size === 0) this.#connect().catch(() => {});
  }
}

/** Serial calls may wait for a lock, so any number of other calls is better. */
const loadOf = (session: Session): number => session.waiting + (session.isSerial() ? MAX_WAITING : 0);

/** After a failure was reported, the same failure is not reported again for this long, in milliseconds. */
const REPEAT_MS = 10_000;

/**
 * Tells the user when calls begin to fail, and when they succeed again. While creations fail because of a lock, reads
 * succeed, so that each kind of call is remembered by its name.
 */
class OutageReport {
  #place: string;
  #elapsed: () => number;
  #onWarning: (message: string) => void;
  /** When the calls failed that have not succeeded since. */
  #failing = new Map<string, number>();
  /** When each message was reported. */
  #reported = new Map<string, number>();
  #isReported = false;

  constructor(place: string, elapsed: () => number, onWarning: (message: string) => void) {
    this.#place = place;
    this.#elapsed = elapsed;
    this.#onWarning = onWarning;
  }

  failed(name: string, { message }: Error): void {
    if (this.#failing.has(name)) return;
    const now = this.#elapsed();
    this.#failing.set(name, now);
    if (now - (this.#reported.get(message) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return;
    this.#reported.set(message, now);
    this.#isReported = true;
    this.#onWarning(`${message}; requests that need this get 503`);
  }

  succeeded(name: string): void {
    if (!this.#failing.delete(name) || !this.#isReported) return;
    // A rare call may not be made again for a long time.
    const end = this.#elapsed() - REPEAT_MS;
    if ([...this.#failing.values()].some((at) => at > end)) return;
    this.#isReported = false;
    this.#onWarning(`${this.#place} can be used again`);
  }
}
