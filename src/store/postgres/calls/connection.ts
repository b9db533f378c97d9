import type { Client, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../../contract/clock.ts';
import type { StoreError } from '../../errors.ts';
import {
  closedError,
  type FailureKind,
  failureKind,
  isConnectionOutdated,
  toCallError,
  tooManyWaiting,
} from './failures.ts';
import type { OutageReport } from './outage-report.ts';
import { Session, type StartCallTimer, type Statement } from './session.ts';
import { CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, LIMIT_UNREAD } from './time-limits.ts';

export type ConnectionOptions = {
  /** Opens a connection with `driverLimits`, and settles within about a second. */
  connect(): Promise<Client>;
  /** The URL of the database without its password. */
  place: string;
  /** Whether statements are prepared under their names. It must be false for pgbouncer in transaction mode. */
  prepare: boolean;
  clock: SteadyClock;
  /** Learns of each failure to use the database, and of each success. */
  report?: Pick<OutageReport, 'failed' | 'succeeded'>;
  /** How many calls may be sent and not yet have a result. By default 1,000. */
  maxWaiting?: number;
  /** Returns a number from 0 to 1, like `Math.random`. */
  random?: () => number;
  /** `setTimeout` by default. */
  startTimer?: StartCallTimer;
};

/**
 * The limits of the delay after a failed connect, in milliseconds. Jitter adds up to an eighth. After an outage, the
 * service must return within a second.
 */
const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 400;

/** After a connection has lasted this long, earlier failures no longer count for the delay. */
const STABLE_AFTER_MS = 1_000;

const PING: Statement = { name: 'ping', text: 'select 1' };

/**
 * A connection to the database that replaces itself when it is lost. It connects when the first call needs it. A call
 * waits for the first attempt to connect. After a failed attempt, calls are rejected at once until an attempt in the
 * background succeeds.
 */
export class DatabaseConnection {
  #options: Required<ConnectionOptions>;
  #session: Session | undefined;
  /** When the session was opened, as `clock.elapsed()`. */
  #openedAt = 0;
  #connecting: Promise<Session> | undefined;
  /** Why the last attempt to connect failed. Undefined if no attempt failed since the last success. */
  #failure: StoreError | undefined;
  /** The number of failures since a connection lasted for a while. */
  #failures = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #calls = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = {
      report: { failed() {}, succeeded() {} },
      maxWaiting: 1_000,
      random: Math.random,
      startTimer: setTimeout,
      ...options,
    };
  }

  /** The number of calls without a result. */
  get waiting(): number {
    return this.#calls.size;
  }

  /** Whether calls are rejected at once, because the last attempt to connect failed. */
  get isFailing(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Runs one statement and returns its rows within about two seconds. The statement is a transaction of its own.
   *
   * @throws StoreUnavailableError whose `outcome` says whether the statement may have had an effect
   * @throws ConflictError, BadItemError, StoreUnwritableError if the statement had no effect
   */
  query = <Row extends QueryResultRow>(statement: Statement, values: unknown[] = []): Promise<Row[]> => {
    const { place, maxWaiting } = this.#options;
    if (this.#isClosed) return Promise.reject(closedError(place));
    if (this.#calls.size >= maxWaiting) return Promise.reject(tooManyWaiting(place));
    const call = this.#call<Row>(statement, values);
    this.#calls.add(call);
    const remove = () => this.#calls.delete(call);
    call.then(remove, remove);
    return call;
  };

  /** Completes the calls in flight, and ends the connection. Later calls are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    await Promise.allSettled(this.#calls);
    await this.#connecting?.catch(() => {});
    await this.#session?.close(CONNECT_TIMEOUT_MS);
  }

  async #call<Row extends QueryResultRow>(statement: Statement, values: unknown[]): Promise<Row[]> {
    const { clock, place, report } = this.#options;
    const started = clock.elapsed();
    const timeLeft = () => started + CALL_TIMEOUT_MS - clock.elapsed();
    if (this.#failure) throw this.#failure;
    const session = this.#session ?? (await this.#connect());
    if (timeLeft() <= 0) throw toCallError(new Error('connecting took too long'), 'connecting', place);
    try {
      const rows = await session.call<Row>(statement, values, timeLeft());
      report.succeeded(this);
      return rows;
    } catch (error) {
      const kind = await this.#kindOf(error, session, timeLeft());
      if (kind === 'unknown' || isConnectionOutdated(error)) session.destroy();
      const failure = toCallError(error, 'sent', place, kind);
      if (kind === 'unknown' || kind === 'not_done') report.failed(this, failure);
      throw failure;
    }
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
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #open(): Promise<Session> {
    const { clock, connect, place, prepare, report, startTimer } = this.#options;
    const started = clock.elapsed();
    let session: Session | undefined;
    try {
      const client = await connect();
      const opened = new Session(client, { prepare, startTimer, onEnd: () => this.#lost(opened) });
      session = opened;
      // The first statement shows whether the database responds: a proxy such as pgbouncer accepts connections without it.
      // LIMIT_UNREAD is not sent to pgbouncer, which would later give the changed connection to other clients.
      const first = prepare ? LIMIT_UNREAD : PING;
      await opened.call(first, [], Math.max(started + CONNECT_TIMEOUT_MS - clock.elapsed(), FIRST_DELAY_MS));
      this.#session = opened;
      this.#openedAt = clock.elapsed();
      this.#failure = undefined;
      report.succeeded(this);
      return opened;
    } catch (error) {
      session?.destroy();
      this.#failures += 1;
      const failure = toCallError(error, 'connecting', place);
      report.failed(this, failure);
      this.#retryLater(failure, started);
      throw failure;
    }
  }

  #lost(session: Session): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    if (this.#isClosed) return;
    const { clock, place } = this.#options;
    const now = clock.elapsed();
    if (now - this.#openedAt >= STABLE_AFTER_MS) this.#failures = 0;
    this.#failures += 1;
    if (this.#failures === 1) this.#connectInBackground();
    else this.#retryLater(toCallError(new Error('the connection was lost'), 'connecting', place), now);
  }

  /** Rejects calls until an attempt to connect succeeds. Waits less before the next attempt if the last one took long. */
  #retryLater(failure: StoreError, started: number): void {
    if (this.#isClosed) return;
    this.#failure = failure;
    const { clock, random, startTimer } = this.#options;
    const delay = Math.min(FIRST_DELAY_MS * 2 ** (this.#failures - 1), LAST_DELAY_MS) * (1 + random() / 8);
    const left = Math.max(delay - (clock.elapsed() - started), FIRST_DELAY_MS);
    this.#retryTimer = startTimer(() => this.#connectInBackground(), left);
  }

  /** Connects without a caller. The result is in `#session` or `#failure`. */
  #connectInBackground(): void {
    this.#connect().catch(() => {});
  }
}
