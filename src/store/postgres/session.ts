import type { Client, ClientConfig, QueryResultRow } from 'pg';
import type { SteadyClock } from '../../contract/clock.ts';

/** The longest time to connect, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 1_000;

/** The longest time for one call, in milliseconds, including the time to connect. */
export const CALL_TIMEOUT_MS = 2_000;

/** PostgreSQL gives up before the client does, so that the outcome is known. */
const STATEMENT_TIMEOUT_MS = 1_500;
const LOCK_TIMEOUT_MS = 1_400;
const IDLE_TRANSACTION_TIMEOUT_MS = 5_000;

/** How long a connection is idle before TCP checks that the other side still exists. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/**
 * Settings of the driver for a connection of a running server, in addition to those of the user. pgbouncer (`prepare: false`)
 * rejects the limits of PostgreSQL. On its connections, the SQL functions limit waits for locks, and ALTER ROLE can limit
 * statements.
 */
export const driverLimits = (prepare: boolean): ClientConfig => ({
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  pipeline: true,
  ...(prepare && {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_TIMEOUT_MS,
  }),
});

/**
 * A large result holds the locks of its call until this process has read it. If this process does not read, for example
 * because it was stopped, PostgreSQL ends the connection after this time. pgbouncer would later give the changed connection to
 * other clients, so this is not sent to it.
 */
export const LIMIT_UNREAD: Statement = {
  name: 'limit_unread',
  text: `select pg_catalog.set_config('tcp_user_timeout', '${CALL_TIMEOUT_MS}', false)`,
};

/** Starts a timer and returns a handle, with which `clearTimeout` cancels the timer. */
export type StartCallTimer = (callback: () => void, milliseconds: number) => NodeJS.Timeout | undefined;

/**
 * An SQL statement. Statements with different texts have different names. Calls of a serial statement wait for the same
 * locks, so that several at a time would only occupy connections.
 */
export type Statement = { name: string; text: string; isSerial?: boolean };

export type SessionOptions = {
  /** Whether statements are prepared under their names. */
  prepare: boolean;
  clock: SteadyClock;
  startTimer: StartCallTimer;
  /** Called once when the connection has ended, for whatever reason. */
  onEnd(): void;
};

/** An open connection. Calls are sent at once, and the server processes them one after the other. */
export class Session {
  readonly client: Client;
  /** The duration of the fastest call, in milliseconds: about the time of a round trip. */
  roundTrip = Number.POSITIVE_INFINITY;
  #options: SessionOptions;
  /** The calls without a result, in the order in which they were sent. */
  #waiting: Statement[] = [];
  hasEnded = false;
  #isEnding = false;
  /** Whether the current call was committed although no synchronous replica has confirmed it. */
  #isUnconfirmed = false;

  constructor(client: Client, options: SessionOptions) {
    this.client = client;
    this.#options = options;
    client.once('end', () => this.destroy());
    client.once('error', () => this.destroy());
    // PostgreSQL reports success if a commit that waits for a synchronous replica is cancelled.
    client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isUnconfirmed = true;
    });
  }

  /** The number of calls without a result. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether a serial call has no result yet, with this name if there is one. Later calls on this connection wait for it. */
  isSerial(name?: string): boolean {
    return this.#waiting.some((call) => call.isSerial && (name === undefined || call.name === name));
  }

  /**
   * Sends a call and returns the rows. Ends the connection if they do not arrive within `timeout` milliseconds, because
   * all later calls would wait too.
   *
   * @throws the error of the driver, or another error if the connection has ended or the timeout has passed
   */
  call<Row extends QueryResultRow>(statement: Statement, values: unknown[], timeout: number): Promise<Row[]> {
    const { clock, prepare, startTimer } = this.#options;
    const { name, text } = statement;
    const sentAt = clock.elapsed();
    return new Promise((resolve, reject) => {
      let isPending = true;
      const expire = () => {
        if (!isPending) return;
        reject(new Error(`no response within ${Math.round(timeout)} ms`));
        this.destroy();
      };
      // After a pause of this process, timers run first. `setImmediate` lets Node read a response that has arrived meanwhile.
      const timer = startTimer(() => setImmediate(expire), timeout);
      this.#waiting.push(statement);
      // The driver calls the callback before it handles the next call, so that `#isUnconfirmed` belongs to this call.
      this.client.query<Row>(prepare ? { name, text, values } : { text, values }, (error, result) => {
        isPending = false;
        clearTimeout(timer);
        this.#waiting.shift();
        if (error) reject(error);
        else if (this.#isUnconfirmed) reject(new Error('no synchronous replica has confirmed the commit'));
        else {
          this.roundTrip = Math.min(this.roundTrip, clock.elapsed() - sentAt);
          resolve(result.rows);
        }
        this.#isUnconfirmed = false;
        if (this.#isEnding && this.#waiting.length === 0) this.destroy();
      });
    });
  }

  /** Ends the connection when all calls have their results. */
  retire(): void {
    this.#isEnding = true;
    if (this.#waiting.length === 0) this.destroy();
  }

  /** Ends the connection. Calls that have no result yet are rejected. */
  destroy(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.client.connection.stream.destroy();
    this.#options.onEnd();
  }

  /** Ends the connection as the protocol says, or by force after `timeout` milliseconds. All calls must have ended. */
  async close(timeout: number): Promise<void> {
    const timer = this.#options.startTimer(() => this.destroy(), timeout);
    await this.client.end();
    clearTimeout(timer);
  }
}
